"""What becomes of a launcher that was let through: refused by its node, not bound, up, or down."""

from typing import Any

from gpu import keys
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from tests.binder import raws
from tests.binder.rig import Rig

OUT_OF = f"OutOf{raws.RESOURCE}"
TENANT = "tenant-a"


def pod(rig: Rig, name: str = "pod-vm") -> dict[str, Any] | None:
    """The launcher as stored."""
    return rig.cluster._objects[kinds.PODS].get(ObjectKey(TENANT, name))


def refuse(rig: Rig, name: str = "pod-vm", *, reason: str = OUT_OF, vm: str = "vm") -> str:
    """Bind a pinned launcher and have its node refuse it; its VMI is Failed then. Returns the node."""
    node = _pinned(rig, name)
    _put(rig, name, spec={"nodeName": node}, status={"phase": "Failed", "reason": reason})
    report(rig, "Failed", vm)
    return node


def not_bound(rig: Rig, name: str = "pod-vm") -> None:
    """Have the scheduler say that it finds no room for a pinned launcher."""
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    _put(rig, name, spec={}, status={"conditions": [told]})


def bind(rig: Rig, name: str = "pod-vm") -> None:
    """Have the scheduler bind a pinned launcher after all."""
    _put(rig, name, spec={"nodeName": _pinned(rig, name)}, status={"conditions": []})


def report(rig: Rig, phase: str, vm: str = "vm") -> None:
    """Have the VMI say its phase."""
    raw = rig.cluster._objects[kinds.VMIS][ObjectKey(TENANT, vm)]
    rig.cluster.put(kinds.VMIS, {**raw, "status": {**raw["status"], "phase": phase}})


def gone(rig: Rig, name: str = "pod-vm", vm: str = "vm") -> None:
    """Take away launcher and VMI, as KubeVirt does once the VMI is Failed. A finished pod lingers."""
    key = ObjectKey(TENANT, name)
    raw = rig.cluster._objects[kinds.PODS].pop(key, None)
    if raw is not None and raw["status"]["phase"] in {"Failed", "Succeeded"}:
        meta = {**raw["metadata"], "deletionTimestamp": "2026-01-02T03:04:05Z"}
        meta["resourceVersion"] = f"{rig.cluster.version}"
        rig.window.lingering.setdefault(kinds.PODS, {})[key] = {**raw, "metadata": meta}
    rig.cluster._objects[kinds.VMIS].pop(ObjectKey(TENANT, vm), None)


def rejected(rig: Rig, name: str) -> list[str]:
    """Nodes that a claim notes to have refused its launcher."""
    raw = rig.claim(name)
    assert raw is not None
    return [item["node"] for item in raw["status"].get("rejectedNodes") or []]


def _pinned(rig: Rig, name: str) -> str:
    raw = pod(rig, name)
    assert raw is not None
    assert keys.TERM_ANNOTATION in raw["metadata"]["annotations"], "it was not let through"
    required = raw["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    return str(required["nodeSelectorTerms"][0]["matchFields"][-1]["values"][0])


def _put(rig: Rig, name: str, *, spec: dict[str, Any], status: dict[str, Any]) -> None:
    raw = pod(rig, name)
    assert raw is not None
    changed = {**raw, "spec": {**raw["spec"], **spec}, "status": {**raw["status"], **status}}
    rig.cluster.put(kinds.PODS, changed)
