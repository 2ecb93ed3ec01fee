"""Objects of a VM's start: a VMI with references, its launcher at the gate, machines, volumes.

Over the makers of `tests/builders.py`, with the same rules; `raw_...` is as stored.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gpu import keys
from gpu.model import storage as seen
from gpu.model.storage import Storage
from gpu.objects import kubevirt, nodes, pods, storage, volumes
from gpu.objects.kubevirt import VMI
from gpu.objects.nodes import Node
from gpu.objects.pods import CREATED_BY_LABEL, LAUNCHER_LABEL, LAUNCHER_VALUE, Pod
from gpu.objects.storage import CSINode, StorageClass
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
    name: str = "disk",
    *,
    tenant: str = "tenant-a",
    volume: str = "",
    bound: bool = True,
    storage_class: str = "",
    modes: Iterable[str] = (),
    chosen: str = "",
    deleting: bool = False,
    labels: Mapping[str, str] | None = None,
) -> Raw:
    """A PersistentVolumeClaim, bound to `volume` if it is named; `chosen` is the node it is made for."""
    meta: Raw = {"name": name, "namespace": tenant, "uid": f"pvc-{tenant}-{name}"}
    if labels:
        meta["labels"] = dict(labels)
    notes = {"volume.kubernetes.io/selected-node": chosen} if chosen else {}
    if volume and bound:
        notes["pv.kubernetes.io/bind-completed"] = "yes"
    if notes:
        meta["annotations"] = notes
    spec: Raw = {"volumeName": volume} if volume else {}
    if storage_class:
        spec["storageClassName"] = storage_class
    if asked := list(modes):
        spec["accessModes"] = asked
    if deleting:
        meta["deletionTimestamp"] = builders.instant()
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta,
        "spec": spec,
        "status": {"phase": "Bound" if volume else "Pending"},
    }


def a_volume_claim(name: str = "disk", **more: Any) -> Claim:
    return volumes.decode(raw_volume_claim(name, **more))


def raw_volume(
    name: str = "pv",
    *,
    node_terms: Iterable[Raw] = (),
    labels: Mapping[str, str] | None = None,
    source: Raw | None = None,
) -> Raw:
    """A PersistentVolume that can be reached from nodes that match a term, or from any."""
    spec: Raw = dict(source or {})
    if terms := list(node_terms):
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": f"pv-{name}", "labels": dict(labels or {})},
        "spec": spec,
    }


def raw_storage_class(
    name: str = "late", *, late: bool = True, driver: str = "disks.example.com", **more: Any
) -> Raw:
    """A StorageClass; claims of a `late` one are bound where their first pod goes."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "uid": f"class-{name}"},
        "provisioner": driver,
        "volumeBindingMode": "WaitForFirstConsumer" if late else "Immediate",
        **more,
    }


def a_storage_class(name: str = "late", **more: Any) -> StorageClass:
    return storage.decode_class(raw_storage_class(name, **more))


def raw_csi_node(name: str = "n1", **limits: int | None) -> Raw:
    """The drivers of a node, by name with `_` for `.`: each with its most volumes, or any number."""
    drivers = [
        {"name": driver.replace("_", "."), "nodeID": name}
        | ({} if most is None else {"allocatable": {"count": most}})
        for driver, most in limits.items()
    ]
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name, "uid": f"csi-{name}"},
        "spec": {"drivers": drivers},
    }


def a_csi_node(name: str = "n1", **limits: int | None) -> CSINode:
    return storage.decode_csi_node(raw_csi_node(name, **limits))


def storage_of(
    claims: Iterable[Raw], found: Iterable[Raw], classes: Iterable[Raw], csi_nodes: Iterable[Raw]
) -> Storage:
    """What a pass knows of claims, volumes and the rest, of them as stored."""
    return seen.of(
        map(volumes.decode, claims),
        map(volumes.decode_volume, found),
        map(storage.decode_class, classes),
        map(storage.decode_csi_node, csi_nodes),
    )


def a_volume(name: str = "pv", **more: Any) -> Volume:
    return volumes.decode_volume(raw_volume(name, **more))
