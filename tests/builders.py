"""Objects for tests: keyword arguments over good defaults; typed ones, and `raw_...` as stored.

Typed objects are decoded from the raw ones, so a builder cannot make what no cluster could hold.
Ages are whole seconds after START (`at=`); uids follow from names.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from gpu import keys
from gpu.model import snapshot
from gpu.model.snapshot import Snapshot
from gpu.objects import claims, classes, kubevirt, nodes, pods, tenants
from gpu.objects.claims import GPUClaim
from gpu.objects.classes import GPUClass
from gpu.objects.kubevirt import VM, VMI, KubeVirt
from gpu.objects.nodes import GPUNode, Node
from gpu.objects.pods import Pod
from gpu.objects.tenants import Namespace, TenantQuota, TenantRelease
from gpu.settings import RawNames, Settings
from gpu.units import ClaimName, ResourceName, TenantName
from gpu.world import World

Raw = dict[str, Any]

START = datetime(2026, 1, 1, tzinfo=UTC)
H100 = "nvidia.com/GH100_H100"
L40 = "nvidia.com/AD102GL_L40S"


def instant(at: float = 0) -> str:
    """RFC 3339, seconds after START."""
    return (START + timedelta(seconds=at)).isoformat().replace("+00:00", "Z")


def _meta(kind: str, name: str, namespace: str = "", *, at: float = 0, **more: Any) -> Raw:
    meta: Raw = {
        "name": name,
        "uid": f"{kind}-{namespace}-{name}",
        "resourceVersion": "1",
        "creationTimestamp": instant(at),
    }
    if namespace:
        meta["namespace"] = namespace
    if more.pop("deleting", False):
        meta["deletionTimestamp"] = instant(at + 1)
    return meta | {key: value for key, value in more.items() if value}


def raw_class(
    name: str = "h100",
    *,
    resource: str = H100,
    mode: str = "passthrough",
    deleting: bool = False,
    labels: Mapping[str, str] | None = None,
    finalizers: Iterable[str] = (keys.CLASS_FINALIZER,),
    status: Raw | None = None,
    **spec: Any,
) -> Raw:
    """`spec` is as stored: maxCount, onCordon, tolerations, displayName, description, retired."""
    return {
        "apiVersion": "gpu.cozystack.io/v1alpha1",
        "kind": "GPUClass",
        "metadata": _meta(
            "class", name, deleting=deleting, labels=labels, finalizers=list(finalizers)
        ),
        "spec": {"mode": mode, "source": {"devicePlugin": {"resourceName": resource}}, **spec},
        **({"status": status} if status is not None else {}),
    }


def a_class(name: str = "h100", **more: Any) -> GPUClass:
    return classes.decode(raw_class(name, **more))


def raw_claim(
    name: str = "c",
    *,
    tenant: str = "tenant-a",
    class_name: str = "h100",
    count: int = 1,
    at: float = 0,
    on: str | None = None,
    lost: str | None = None,
    vm: str | None = None,
    attached: Raw | None = None,
    pod_uids: Iterable[str] = (),
    template: bool = False,
    deleting: bool = False,
    finalizers: Iterable[str] = (keys.CLAIM_FINALIZER,),
    status: Raw | None = None,
) -> Raw:
    """Bound on node `on`, Lost from node `lost`, else Pending; attached to `vm` if it is named.

    `attached` is the attachment in full, as `attachment()` makes it.
    """
    state: Raw = {}
    if on or lost:
        state = {"phase": "Bound" if on else "Lost", "nodeName": on or lost, "term": 1}
        state["boundAt"] = instant(at + 1)
    if vm:
        recorded = [{"uid": uid, "node": on or lost or ""} for uid in pod_uids]
        state["attachedTo"] = {"name": vm, "admission": f"adm-{vm}", "pods": recorded}
    if attached is not None:
        state["attachedTo"] = attached
    state |= status or {}
    labels = {keys.TEMPLATE_CLAIM_LABEL: "true"} if template else {}
    return {
        "apiVersion": "gpu.cozystack.io/v1alpha1",
        "kind": "GPUClaim",
        "metadata": _meta(
            "claim",
            name,
            tenant,
            at=at,
            deleting=deleting,
            labels=labels,
            finalizers=list(finalizers),
        ),
        "spec": {"className": class_name, "count": count},
        **({"status": state} if state else {}),
    }


def a_claim(name: str = "c", **more: Any) -> GPUClaim:
    return claims.decode(raw_claim(name, **more))


def attachment(
    vm: str = "vm",
    *,
    admission: str = "",
    uid: str = "",
    since: float | None = None,
    pods: Mapping[str, str] | None = None,
    ended: Iterable[str] = (),
    launched: bool = False,
) -> Raw:
    """`status.attachedTo`: pods by uid with their node ("" is none yet), `ended` those that are."""
    over = frozenset(ended)
    recorded = [
        {"uid": pod, **({"node": node} if node else {}), **({"ended": True} if pod in over else {})}
        for pod, node in (pods or {}).items()
    ]
    found: Raw = {"name": vm, "admission": admission or f"adm-{vm}", "pods": recorded}
    if since is not None:
        found["since"] = instant(since)
    found |= {"launched": True} if launched else {}
    return found | ({"uid": uid} if uid else {})


def raw_node(
    name: str = "n1",
    *,
    units: int | None = 8,
    resource: str = H100,
    also: Mapping[str, int] | None = None,
    ready: bool = True,
    ready_since: float = 0,
    cordoned: bool = False,
    taints: Iterable[Raw] = (),
    deleting: bool = False,
) -> Raw:
    allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    if units is not None:
        allocatable[resource] = str(units)
    allocatable |= {key: str(value) for key, value in (also or {}).items()}
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": instant(ready_since)}
    spec: Raw = {"unschedulable": True} if cordoned else {}
    if found := list(taints):
        spec["taints"] = found
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _meta("node", name, deleting=deleting),
        "spec": spec,
        "status": {"allocatable": allocatable, "conditions": [condition]},
    }


def a_node(name: str = "n1", **more: Any) -> Node:
    return nodes.decode(raw_node(name, **more))


def a_taint(key: str = "dedicated", value: str = "gpu", effect: str = "NoSchedule") -> Raw:
    return {"key": key, "value": value, "effect": effect}


def raw_inventory(
    name: str = "n1",
    *,
    healthy: int = 8,
    sick: int = 0,
    units: int = 1,
    resource: str = H100,
    observed: float = 0,
    held_by: Iterable[str] = (),
) -> Raw:
    """`held_by`: uids of the pods that have units of the first device."""
    devices: list[Raw] = [
        {"id": f"0000:{i:02x}:00.0", "resourceName": resource, "healthy": i < healthy}
        | ({"units": units} if units != 1 else {})
        for i in range(healthy + sick)
    ]
    if holders := list(held_by):
        devices[0]["heldBy"] = holders
    return {
        "apiVersion": "gpu.cozystack.io/v1alpha1",
        "kind": "GPUNode",
        "metadata": _meta("inventory", name),
        "status": {"devices": devices, "observedAt": instant(observed)},
    }


def an_inventory(name: str = "n1", **more: Any) -> GPUNode:
    return nodes.decode_inventory(raw_inventory(name, **more))


def raw_pod(
    name: str = "launcher",
    *,
    tenant: str = "tenant-a",
    on: str | None = None,
    units: int = 1,
    resource: str = H100,
    phase: str = "Running",
    uid: str = "",
    gates: Iterable[str] = (),
    pinned: str = "",
) -> Raw:
    """`pinned` is the node its affinity names, as the leader's pin does; `on` where it is bound."""
    amount = {resource: str(units)}
    spec: Raw = {
        "containers": [{"name": "compute", "resources": {"requests": amount, "limits": amount}}]
    }
    if on:
        spec["nodeName"] = on
    if found := [{"name": gate} for gate in gates]:
        spec["schedulingGates"] = found
    if pinned:
        field = {"key": "metadata.name", "operator": "In", "values": [pinned]}
        terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        spec["affinity"] = {"nodeAffinity": {required: terms}}
    meta = _meta("pod", name, tenant)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta | ({"uid": uid} if uid else {}),
        "spec": spec,
        "status": {"phase": phase},
    }


def a_pod(name: str = "launcher", **more: Any) -> Pod:
    return pods.decode(raw_pod(name, **more))


def raw_vmi(
    name: str = "vm",
    *,
    tenant: str = "tenant-a",
    uid: str = "",
    phase: str = "Running",
    node: str = "",
    active: Mapping[str, str] | None = None,
    admissions: Mapping[str, str] | None = None,
    migrated_to: str = "",
    deleting: bool = False,
) -> Raw:
    """`active` is status.activePods: pod uid to node; `admissions` claim to id, as the webhook left it."""
    resolved = {ClaimName(claim): admission for claim, admission in (admissions or {}).items()}
    marks = {keys.RESOLVED_CLAIMS_ANNOTATION: kubevirt.format_resolved(resolved)}
    meta = _meta("vmi", name, tenant, deleting=deleting, annotations=marks if resolved else {})
    moved = {"migrationState": {"completed": True, "targetNode": migrated_to}}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": meta | ({"uid": uid} if uid else {}),
        "status": {
            "phase": phase,
            "activePods": dict(active or {}),
            **({"nodeName": node} if node else {}),
            **(moved if migrated_to else {}),
        },
    }


def a_vmi(name: str = "vm", **more: Any) -> VMI:
    return kubevirt.decode_vmi(raw_vmi(name, **more))


def raw_vm(name: str = "vm", *, tenant: str = "tenant-a", claims: Iterable[str] = ()) -> Raw:
    """A VirtualMachine whose template names held claims."""
    gpus = [{"name": one, "deviceName": f"{keys.CLAIM_DEVICE_PREFIX}{one}"} for one in claims]
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": _meta("vm", name, tenant),
        "spec": {"template": {"spec": {"domain": {"devices": {"gpus": gpus}}}}},
    }


def a_vm(name: str = "vm", **more: Any) -> VM:
    return kubevirt.decode_vm(raw_vm(name, **more))


def a_kubevirt(*permitted: str, table: bool = True, vendor: str = "10DE") -> KubeVirt:
    selector = f"{vendor}:2330"
    devices = [{"pciVendorSelector": selector, "resourceName": name} for name in permitted]
    configuration: Raw = {"permittedHostDevices": {"pciHostDevices": devices}} if table else {}
    return kubevirt.decode_kubevirt(
        {
            "metadata": _meta("kubevirt", "kubevirt", "cozy-kubevirt"),
            "spec": {"configuration": configuration},
        }
    )


def raw_namespace(name: str = "tenant-a", *, entitled: bool = False) -> Raw:
    labels = {keys.VGPU_ENTITLED_LABEL: "true"} if entitled else {}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": _meta("namespace", name, labels=labels),
    }


def a_namespace(name: str = "tenant-a", **more: Any) -> Namespace:
    return tenants.decode_namespace(raw_namespace(name, **more))


def raw_release(tenant: str = "tenant-a", quotas: Mapping[str, Any] | None = None) -> Raw:
    """A tenant's HelmRelease, in its parent's namespace; quotas by key, as in a Tenant's spec."""
    above = tenants.parent_of(TenantName(tenant)) or keys.TENANT_ROOT
    name = tenant if above == keys.TENANT_ROOT else f"tenant-{tenant.removeprefix(above + '-')}"
    return {
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "metadata": _meta(
            "release",
            name,
            above,
            labels={
                keys.APPLICATION_KIND_LABEL: "Tenant",
                keys.APPLICATION_GROUP_LABEL: "apps.cozystack.io",
            },
        ),
        "spec": {"values": {"resourceQuotas": dict(quotas or {})}},
    }


def a_release(tenant: str = "tenant-a", quotas: Mapping[str, Any] | None = None) -> TenantRelease:
    return tenants.decode_release(raw_release(tenant, quotas))


def a_quota(
    tenant: str = "tenant-a", *, name: str = keys.TENANT_QUOTA_NAME, **hard: Any
) -> TenantQuota:
    """The ResourceQuota of a tenant's namespace; `hard` as stored, with `of=` for odd key names."""
    return tenants.decode_quota(
        {"metadata": _meta("quota", name, tenant), "spec": {"hard": hard.pop("of", {}) | hard}}
    )


def budget(**units: int) -> dict[str, int]:
    """Quotas by class name or `total`, as `budget(h100=4, total=8)`."""
    return {keys.quota_key_of_class(name): amount for name, amount in units.items()}


def a_settings(*names: str, raw: bool = False) -> Settings:
    return Settings.of(
        (ResourceName(name) for name in names), RawNames.ALLOWED if raw else RawNames.DENIED
    )


def a_snapshot(**objects: Any) -> Snapshot:
    """A Snapshot of one h100 class and one node n1 with 8 units, unless told otherwise."""
    good: dict[str, Any] = {"classes": [a_class()], "nodes": [a_node()], "settings": Settings()}
    return snapshot.build(**{**good, **objects})


def a_world(**objects: Any) -> World:
    """A World of one h100 class, one node n1 and tenant-a, unless told otherwise."""
    good: dict[str, Any] = {
        "classes": [a_class()],
        "nodes": [a_node()],
        "namespaces": [a_namespace()],
    }
    given = {**good, **objects}
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in given.items()
    }
    return World(**fields)
