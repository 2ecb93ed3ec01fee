"""Stored objects as JSON, for FakeCluster and for Worlds; keyword arguments over good defaults."""

from collections.abc import Iterable, Mapping
from typing import Any

from gpu import keys, reading
from gpu.objects import kubevirt
from gpu.objects.kinds import Kind
from gpu.units import ClaimName
from tests.binder.window import DECODERS

RESOURCE = "nvidia.com/H100"
Raw = dict[str, Any]


def a_class(
    name: str = "h100",
    *,
    resource: str = RESOURCE,
    mode: str = "passthrough",
    meta: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Raw:
    return {
        "metadata": {"name": name, "finalizers": [keys.CLASS_FINALIZER], **(meta or {})},
        "spec": {"mode": mode, "source": {"devicePlugin": {"resourceName": resource}}, **spec},
        **({"status": dict(status)} if status is not None else {}),
    }


def a_claim(
    name: str = "x",
    *,
    tenant: str = "tenant-a",
    class_name: str = "h100",
    count: int = 1,
    at: int = 0,
    meta: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Raw:
    """`at` is the second of its creation: what orders are served by."""
    return {
        "metadata": {
            "name": name,
            "namespace": tenant,
            "creationTimestamp": f"2026-01-01T00:{at // 60:02d}:{at % 60:02d}Z",
            **(meta or {}),
        },
        "spec": {"className": class_name, "count": count},
        **({"status": dict(status)} if status is not None else {}),
    }


def bound(node: str = "n1", *, term: int = 1, **more: Any) -> Raw:
    """The status of a Bound claim."""
    return {
        "phase": "Bound",
        "nodeName": node,
        "boundAt": "2026-01-01T00:00:00Z",
        "term": term,
        **more,
    }


DELETED: Raw = {
    "deletionTimestamp": "2026-01-01T01:00:00Z",
    "finalizers": [keys.CLAIM_FINALIZER],
}
"""Metadata of an object somebody deleted and a finalizer of ours keeps."""


def attached(
    vm: str = "vm",
    *,
    uid: str = "",
    admission: str = "",
    since: str = "",
    pods: Mapping[str, str] | None = None,
    ended: Iterable[str] = (),
    launched: bool = False,
) -> Raw:
    """The status of an attached claim, beside its phase: `bound() | attached("vm", uid="vmi-1")`.

    `pods` are uids with their node, "" for none yet; `ended` are those of them seen to have ended.
    """
    over = frozenset(ended)
    recorded = [
        {"uid": pod, **({"node": node} if node else {}), **({"ended": True} if pod in over else {})}
        for pod, node in (pods or {}).items()
    ]
    found: Raw = {"name": vm, "admission": admission or f"adm-{vm}", "pods": recorded}
    found |= {"uid": uid} if uid else {}
    found |= {"launched": True} if launched else {}
    return {"attachedTo": found | ({"since": since} if since else {})}


def a_vmi(
    name: str = "vm",
    *,
    tenant: str = "tenant-a",
    uid: str = "vmi-1",
    phase: str = "Running",
    node: str = "",
    pods: Mapping[str, str] | None = None,
    admissions: Mapping[str, str] | None = None,
    migration: Mapping[str, Any] | None = None,
    deleting: bool = False,
) -> Raw:
    """`pods` is status.activePods; `admissions` is claim to id; `migration` is migrationState."""
    meta: Raw = {"name": name, "namespace": tenant, "uid": uid}
    if admissions:
        resolved = {ClaimName(claim): admission for claim, admission in admissions.items()}
        text = kubevirt.format_resolved(resolved)
        meta["annotations"] = {keys.RESOLVED_CLAIMS_ANNOTATION: text}
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T01:00:00Z"
        meta["finalizers"] = ["kubevirt.io/foregroundDeleteVirtualMachine"]
    return {
        "metadata": meta,
        "status": {
            "phase": phase,
            "activePods": dict(pods or {}),
            **({"nodeName": node} if node else {}),
            **({"migrationState": dict(migration)} if migration else {}),
        },
    }


def a_vm(name: str = "vm", *, tenant: str = "tenant-a", claims: Iterable[str] = ()) -> Raw:
    """A VirtualMachine whose template names held claims."""
    gpus = [{"name": one, "deviceName": f"{keys.CLAIM_DEVICE_PREFIX}{one}"} for one in claims]
    return {
        "metadata": {"name": name, "namespace": tenant},
        "spec": {"template": {"spec": {"domain": {"devices": {"gpus": gpus}}}}},
    }


def a_pod(
    uid: str = "pod-1",
    *,
    tenant: str = "tenant-a",
    node: str = "n1",
    phase: str = "Running",
    units: int = 1,
    resource: str = RESOURCE,
    gated: bool = False,
    deleting: bool = False,
) -> Raw:
    """A launcher pod by its uid, which is its name too; node "" is not bound yet."""
    amount = {resource: str(units)}
    spec: Raw = {"containers": [{"name": "compute", "resources": {"requests": amount}}]}
    spec |= {"nodeName": node} if node else {}
    spec |= {"schedulingGates": [{"name": keys.PLACEMENT_GATE}]} if gated else {}
    meta: Raw = {"name": uid, "namespace": tenant, "uid": uid}
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T01:00:00Z"
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def a_node(
    name: str = "n1",
    *,
    units: int = 8,
    resource: str = RESOURCE,
    ready: str = "True",
    since: str = "2026-01-01T00:00:00Z",
    **spec: Any,
) -> Raw:
    """`ready` is the status of condition Ready, as it is `since` then."""
    return {
        "metadata": {"name": name},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "64", "pods": "110", resource: str(units)},
            "conditions": [
                {
                    "type": "Ready",
                    "status": ready,
                    "reason": "KubeletReady",
                    "lastTransitionTime": since,
                }
            ],
        },
    }


def a_tenant(name: str = "tenant-a", **labels: str) -> Raw:
    return {"metadata": {"name": name, "labels": labels}}


def a_release(tenant: str = "tenant-a", **quotas: Any) -> Raw:
    """The HelmRelease of a tenant under tenant-root; quotas by class, or `total`."""
    return {
        "metadata": {
            "name": tenant,
            "namespace": keys.TENANT_ROOT,
            "labels": {keys.APPLICATION_KIND_LABEL: "Tenant"},
        },
        "spec": {
            "values": {
                "resourceQuotas": {
                    keys.quota_key_of_class(name): str(units) for name, units in quotas.items()
                }
            }
        },
    }


def an_inventory(name: str = "n1", *, status: Mapping[str, Any] | None = None) -> Raw:
    return {"metadata": {"name": name}, "status": dict(status or {})}


def seen_devices(
    *, units: int = 8, held_by: Iterable[str] = (), at: str, resource: str = RESOURCE
) -> Raw:
    """Status of an inventory: what the agent saw at an instant; `held_by` pods on the first device."""
    devices: list[Raw] = [
        {"id": f"0000:{i:02x}:00.0", "resourceName": resource, "healthy": True}
        for i in range(units)
    ]
    if holders := list(held_by):
        devices[0]["heldBy"] = holders
    return {"devices": devices, "observedAt": at}


def a_world(**objects: Iterable[Raw]) -> "reading.World":
    """A World of raw objects, by field name, as `claims=[a_claim()]`; uids and versions are given."""
    found: dict[str, Any] = {}
    number = 0
    for field, raws in objects.items():
        items = []
        for raw in raws:
            number += 1
            meta = {"uid": f"uid-{number}", "resourceVersion": str(number), "generation": 1}
            whole = {**raw, "metadata": meta | raw["metadata"]}
            items.append(DECODERS[reading.VIEWS[field]][1](whole))
        found[field] = tuple(sorted(items, key=lambda item: item.meta.key))
    return reading.World(**found)


def kind_of(field: str) -> Kind:
    """The kind stored behind a field of World."""
    return DECODERS[reading.VIEWS[field]][0]


def a_record(
    claim: str = "x",
    *,
    tenant: str = "tenant-a",
    owner: str = "uid-x",
    units: int = 1,
    operational: bool = True,
    monitor: str = "",
    owner_kind: str = "GPUClaim",
) -> Raw:
    """The usage record of a claim of class h100, as the leader stores it."""
    labels = {keys.CLASS_LABEL: "h100"}
    if monitor:
        labels[keys.WORKLOAD_MONITOR_LABEL] = monitor
    ref = {"apiVersion": "gpu.cozystack.io/v1alpha1", "kind": owner_kind, "name": claim}
    return {
        "metadata": {
            "name": f"gpuclaim-{claim}",
            "namespace": tenant,
            "labels": labels,
            "ownerReferences": [ref | {"uid": owner}],
        },
        "status": {
            "kind": "gpuclaim",
            "type": "h100",
            "operational": operational,
            "resources": {"gpu.cozystack.io/h100": str(units)},
        },
    }


def a_monitor(tenant: str = "tenant-a", *, selector: Mapping[str, str] | None = None) -> Raw:
    """The monitor of a namespace's usage records; its selector is the right one unless told."""
    right = {keys.USAGE_MONITOR_SELECTOR_LABEL: "true"}
    return {
        "metadata": {"name": keys.USAGE_MONITOR_NAME, "namespace": tenant},
        "spec": {"selector": right if selector is None else dict(selector)},
    }
