"""Objects of a VM's start: a VMI with references, its launcher at the gate, machines, volumes.

Over the makers of `tests/builders.py`, with the same rules; `raw_...` is as stored.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gpu import keys
from gpu.objects import kubevirt, nodes, pods, volumes
from gpu.objects.kubevirt import VMI
from gpu.objects.nodes import Node
from gpu.objects.pods import CREATED_BY_LABEL, LAUNCHER_LABEL, LAUNCHER_VALUE, Pod
from gpu.objects.volumes import Claim, Volume
from gpu.units import ClaimName, ClassName, Units
from tests import builders
from tests.builders import H100, Raw

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def raw_starting_vmi(
    name: str = "vm",
    *,
    gpus: Iterable[str] = (),
    host_devices: Iterable[str] = (),
    listed: Iterable[str] = (),
    held: Mapping[str, str] | None = None,
    template: Mapping[str, int] | None = None,
    resolved: bool = True,
    volume_claims: Iterable[str] = (),
    data_volumes: Iterable[str] = (),
    vm_uid: str = "",
    provisioning: bool = False,
    **more: Any,
) -> Raw:
    """A VMI whose launcher is not there yet or waits; `gpus` are device names, in order.

    `listed` claims are named by annotation. `held` (claim to admission id) and `template` (units of
    classes) are what the webhook resolved; it has not seen the VMI where `resolved` is False.
    """
    made = builders.raw_vmi(name, **({"phase": "Scheduling"} | more))
    notes: dict[str, str] = {}
    if resolved:
        held = {ClaimName(claim): admission for claim, admission in (held or {}).items()}
        units = {ClassName(one): Units(amount) for one, amount in (template or {}).items()}
        notes[keys.RESOLVED_CLAIMS_ANNOTATION] = kubevirt.format_resolved(held, units)
    if names := ",".join(listed):
        notes[keys.CLAIMS_ANNOTATION] = names
    if notes:
        made["metadata"]["annotations"] = notes
    if vm_uid:
        owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": name}
        made["metadata"]["ownerReferences"] = [{**owner, "uid": vm_uid, "controller": True}]
    devices = {
        part: [{"name": f"gpu{at}", "deviceName": device} for at, device in enumerate(found)]
        for part, found in (("gpus", list(gpus)), ("hostDevices", list(host_devices)))
        if found
    }
    disks: list[Raw] = [{"persistentVolumeClaim": {"claimName": one}} for one in volume_claims]
    disks += [{"dataVolume": {"name": one}} for one in data_volumes]
    made["spec"] = {
        "domain": {"devices": devices},
        "volumes": [{"name": f"disk{at}", **disk} for at, disk in enumerate(disks)],
    }
    if provisioning:
        made["status"]["conditions"] = [{"type": "Provisioning", "status": "True"}]
    return made


def a_starting_vmi(name: str = "vm", **more: Any) -> VMI:
    return kubevirt.decode_vmi(raw_starting_vmi(name, **more))


def raw_launcher(
    name: str = "launcher",
    *,
    vmi_uid: str = "vmi-tenant-a-vm",
    units: int = 1,
    resource: str = H100,
    requests: Mapping[str, str] | None = None,
    gates: Iterable[str] = (keys.PLACEMENT_GATE,),
    labels: Mapping[str, str] | None = None,
    selector: Mapping[str, str] | None = None,
    node_terms: Iterable[Raw] = (),
    near: Iterable[Raw] = (),
    apart: Iterable[Raw] = (),
    tolerations: Iterable[Raw] = (),
    volume_claims: Iterable[str] = (),
    ports: Iterable[Raw] = (),
    term: int | None = None,
    reason: str = "",
    unscheduled: str = "",
    at: float = 0,
    **more: Any,
) -> Raw:
    """A launcher of KubeVirt as it waits at our gate; `near` and `apart` are pod affinity terms.

    `ports` are those of its container.
    `requests` are beside the GPU units; `unscheduled` is why it has no node (reason), since `at`.
    """
    made = builders.raw_pod(
        name, units=units, resource=resource, gates=gates, **({"phase": "Pending"} | more)
    )
    meta, spec, status = made["metadata"], made["spec"], made["status"]
    meta["labels"] = {LAUNCHER_LABEL: LAUNCHER_VALUE, CREATED_BY_LABEL: vmi_uid, **(labels or {})}
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm"}
    meta["ownerReferences"] = [{**owner, "uid": vmi_uid, "controller": True}]
    if term is not None:
        meta["annotations"] = {keys.TERM_ANNOTATION: str(term)}
    asked = spec["containers"][0]["resources"]["requests"] | dict(requests or {})
    spec["containers"][0]["resources"] = {"requests": asked}
    if listed := list(ports):
        spec["containers"][0]["ports"] = listed
    spec |= {"nodeSelector": dict(selector or {}), "tolerations": list(tolerations)}
    spec["volumes"] = [
        {"name": f"disk{index}", "persistentVolumeClaim": {"claimName": one}}
        for index, one in enumerate(volume_claims)
    ]
    affinity = spec.setdefault("affinity", {})
    if found := list(node_terms):
        affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": found}}
    affinity |= {
        part: {REQUIRED: terms}
        for part, terms in (("podAffinity", list(near)), ("podAntiAffinity", list(apart)))
        if terms
    }
    if reason:
        status["reason"] = reason
    if unscheduled:
        since = builders.instant(at)
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": unscheduled,
                "lastTransitionTime": since,
            }
        ]
    return made


def a_launcher(name: str = "launcher", **more: Any) -> Pod:
    return pods.decode(raw_launcher(name, **more))


def raw_machine(
    name: str = "n1",
    *,
    labels: Mapping[str, str] | None = None,
    amounts: Mapping[str, str] | None = None,
    **more: Any,
) -> Raw:
    """A node with labels (its hostname always) and amounts beside those of `raw_node`."""
    made = builders.raw_node(name, **more)
    made["metadata"]["labels"] = {"kubernetes.io/hostname": name, **(labels or {})}
    made["status"]["allocatable"] |= dict(amounts or {})
    return made


def a_machine(name: str = "n1", **more: Any) -> Node:
    return nodes.decode(raw_machine(name, **more))


def pod_term(topology: str = "kubernetes.io/hostname", **labels: str) -> Raw:
    """A term of a pod affinity: pods with these labels, in the pod's own namespace."""
    return {"topologyKey": topology, "labelSelector": {"matchLabels": labels}}


def node_term(key: str, *values: str, operator: str = "In") -> Raw:
    """A term of a node affinity with one expression."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def raw_volume_claim(
    name: str = "disk", *, tenant: str = "tenant-a", volume: str = "", deleting: bool = False
) -> Raw:
    """A PersistentVolumeClaim, bound to `volume` if it is named."""
    meta: Raw = {"name": name, "namespace": tenant, "uid": f"pvc-{tenant}-{name}"}
    if deleting:
        meta["deletionTimestamp"] = builders.instant()
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta,
        "spec": {"volumeName": volume} if volume else {},
        "status": {"phase": "Bound" if volume else "Pending"},
    }


def a_volume_claim(name: str = "disk", **more: Any) -> Claim:
    return volumes.decode(raw_volume_claim(name, **more))


def raw_volume(
    name: str = "pv",
    *,
    node_terms: Iterable[Raw] = (),
    labels: Mapping[str, str] | None = None,
) -> Raw:
    """A PersistentVolume that can be reached from nodes that match a term, or from any."""
    spec: Raw = {}
    if terms := list(node_terms):
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": f"pv-{name}", "labels": dict(labels or {})},
        "spec": spec,
    }


def a_volume(name: str = "pv", **more: Any) -> Volume:
    return volumes.decode_volume(raw_volume(name, **more))
