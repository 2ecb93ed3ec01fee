"""VMs as tenants write them, and what the VMI webhook leaves behind when one is started."""

from typing import Any

from gpu import keys
from gpu.config import Binding
from gpu.objects import kinds, kubevirt
from gpu.objects.meta import ObjectKey
from soak import asking
from soak import kubevirt as virt
from soak.site import Raw, Site

MOST_VMS = 8
KEEPS = "foregroundDeleteVirtualMachine"


def make_vm(site: Site) -> None:
    """A tenant writes a VM that names some of its claims, units of classes, a resource, or several of these."""
    tenant = site.pick(site.tenants)
    kinds_of = ("claims", "claims", "units", "both", *(("raw",) if site.raw else ()))
    kind = site.rng.choice(kinds_of)
    gpus: list[Raw] = []
    if kind == "raw" or (site.raw and site.rng.random() < 0.1):
        gpus += [_gpu(site.rng.choice(site.resources))] * site.rng.choice((1, 1, 2, 3))
    if kind in {"claims", "both"}:
        gpus += [_gpu(f"{keys.CLAIM_DEVICE_PREFIX}{name}") for name in _chosen(site, tenant)]
    if kind in {"units", "both"}:
        names = [it["metadata"]["name"] for it in site.api.all(kinds.GPU_CLASSES)]
        for name in sorted(names, key=lambda name: site.chance(0.5, name))[: _few(site)]:
            count = site.rng.choice((1, 1, 1, 2, 3))
            gpus += [_gpu(f"{keys.CLASS_DEVICE_PREFIX}{name}")] * count
    if gpus and len(site.api.all(kinds.VMS)) < MOST_VMS:
        spec = {"template": {"spec": {"domain": {"devices": {"gpus": gpus}}}}}
        meta = {"name": site.name("vm"), "namespace": tenant}
        site.api.put(kinds.VMS, {"metadata": meta, "spec": spec})


def start(site: Site) -> None:
    """A VM is started: the webhook attaches its claims, and mostly the VMI comes."""
    vm = site.pick(it for it in site.api.all(kinds.VMS) if _may_start(site, it))
    if vm is None:
        return
    if site.config.binding is Binding.REQUEST:
        asking.begin(site, vm)
        return
    tenant, name = vm["metadata"]["namespace"], vm["metadata"]["name"]
    admissions = {}
    fate = site.rng.random()
    for one in _named(vm, tenant):
        claim = site.claim(tenant, one)
        assert claim is not None
        admission = f"adm-{one}-{site.api.version}"
        admissions[one] = admission
        _attach(site, claim, name, admission)
        if fate < 0.04:
            return  # the webhook died after the first
    if fate < 0.1:
        return  # admitted, and then refused by somebody else
    units = units_of(vm)
    text = kubevirt.format_resolved(admissions, units)  # type: ignore[arg-type]  # names are NewTypes
    owner = {"apiVersion": kinds.VMS.api_version, "kind": kinds.VMS.kind, "controller": True}
    site.api.put(
        kinds.VMIS,
        {
            "metadata": {
                "name": name,
                "namespace": tenant,
                "creationTimestamp": site.now(),
                "finalizers": [KEEPS],
                "annotations": {keys.RESOLVED_CLAIMS_ANNOTATION: text},
                "ownerReferences": [owner | {"name": name, "uid": vm["metadata"]["uid"]}],
            },
            "spec": {"domain": {"devices": {"gpus": _resolved(site, vm)}}},
            "status": {"phase": "Pending"},
        },
    )


def units_of(vm: Raw) -> dict[str, int]:
    """Units of each class that the VM's template asks for."""
    units: dict[str, int] = {}
    for device in _devices(vm):
        if device.startswith(keys.CLASS_DEVICE_PREFIX):
            name = device.removeprefix(keys.CLASS_DEVICE_PREFIX)
            units[name] = units.get(name, 0) + 1
    return units


def _gpu(device: str) -> Raw:
    return {"name": device.rpartition("/")[2], "deviceName": device}


def _few(site: Site) -> int:
    return int(site.rng.choice((1, 1, 2)))


def _chosen(site: Site, tenant: str) -> list[str]:
    """Some claims of a tenant that no VM names yet, and now and then one that another does."""
    names = [
        it["metadata"]["name"]
        for it in site.claims()
        if it["metadata"]["namespace"] == tenant
        and keys.TEMPLATE_CLAIM_LABEL not in it["metadata"].get("labels", {})
        and (_is_free(site, it, "") or site.chance(0.1, it))
    ]
    taken = {name for vm in site.api.all(kinds.VMS) for name in _named(vm, tenant)}
    free = [name for name in names if name not in taken or site.chance(0.05, name)]
    chosen = sorted(free, key=lambda name: site.chance(0.5, name))
    return chosen[: site.rng.choice((1, 1, 2, 2, 3))]


def _devices(vm: Raw) -> list[str]:
    gpus = vm["spec"]["template"]["spec"]["domain"]["devices"]["gpus"]
    return [gpu["deviceName"] for gpu in gpus]


def _named(vm: Raw, tenant: str) -> list[str]:
    if vm["metadata"]["namespace"] != tenant:
        return []
    prefix = keys.CLAIM_DEVICE_PREFIX
    return [it.removeprefix(prefix) for it in _devices(vm) if it.startswith(prefix)]


def _resolved(site: Site, vm: Raw) -> list[Raw]:
    """The entries that the webhook writes, one a unit: what the launcher asks for rests on them."""
    tenant = vm["metadata"]["namespace"]
    claims = [site.claim(tenant, name) for name in _named(vm, tenant)]
    wanted = [(it["spec"]["className"], it["spec"]["count"]) for it in claims if it is not None]
    found = [it for it in _devices(vm) if keys.DOMAIN not in it]
    for name, count in (*wanted, *units_of(vm).items()):
        found += [site.resource_of(name) or name] * count
    return [
        {"name": f"{keys.UNIT_NAME_PREFIX}{index}", "deviceName": name}
        for index, name in enumerate(found)
    ]


def _may_start(site: Site, vm: Raw) -> bool:
    """Say whether the webhook lets it start: its claims and classes are there and nobody's."""
    if site.config.binding is Binding.REQUEST:
        return asking.may_start(site, vm)
    tenant, name = vm["metadata"]["namespace"], vm["metadata"]["name"]
    claims = [site.claim(tenant, one) for one in _named(vm, tenant)]
    offers = {it["metadata"]["name"]: it for it in site.api.all(kinds.GPU_CLASSES)}
    asked = [offers.get(one) for one in units_of(vm)]
    return (
        site.api.find(kinds.VMIS, ObjectKey(tenant, name)) is None
        and all(claim is not None and _is_free(site, claim, name) for claim in claims)
        and all(it is not None and not it["spec"].get("retired") for it in asked)
    )


def _is_free(site: Site, claim: Raw, vm: str) -> bool:
    """Say whether a claim is nobody else's; one that is Pending is waited for at the gate."""
    status: dict[str, Any] = claim.get("status") or {}
    attached = status.get("attachedTo")
    return (
        "deletionTimestamp" not in claim["metadata"]
        and (status.get("phase") in {"Bound", "Lost"} or (bool(status) and site.chance(0.1, claim)))
        and (attached is None or attached["name"] == vm)
    )


def _attach(site: Site, claim: Raw, vm: str, admission: str) -> None:
    """The webhook records the attachment; pods of the VMI before stay until they are known to end."""
    old = (claim.get("status") or {}).get("attachedTo") or {}
    pods = [*old.get("pods", []), *_targets(site, old)]
    fresh = {"name": vm, "admission": admission, "since": site.now(), "pods": pods}

    def change(it: Raw) -> None:
        it["status"]["attachedTo"] = fresh

    site.api.edit(kinds.GPU_CLAIMS, claim, change)


def _targets(site: Site, old: Raw) -> list[Raw]:
    """Targets of migrations of the VMI before that live and that no leader has noted."""
    noted = {pod["uid"] for pod in old.get("pods", [])}
    return [
        {"uid": pod["metadata"]["uid"], "node": pod["spec"]["nodeName"]}
        for pod in site.api.all(kinds.PODS)
        if virt.MIGRATION in (pod["metadata"].get("labels") or {})
        and old.get("uid") == virt.owner_of(pod)
        and pod["metadata"]["uid"] not in noted
        and pod["status"]["phase"] not in kubevirt.ENDED
    ]
