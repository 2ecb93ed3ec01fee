"""KubeVirt, its webhooks and our gate, as they would leave VMIs and launcher pods behind.

Each function does one small thing to one VM; what is not possible now is not done.
"""

from typing import Any

from gpu import keys
from gpu.objects import kinds, kubevirt
from gpu.objects.meta import ObjectKey
from soak.machines import Guest
from soak.site import Raw, Site

LAUNCHER = {"kubevirt.io": "virt-launcher"}
MOST_VMS = 8
KEEPS = "foregroundDeleteVirtualMachine"


def make_vm(site: Site) -> None:
    """A tenant writes a VM that names some of its claims."""
    tenant = site.pick(site.tenants)
    names = [
        it["metadata"]["name"]
        for it in site.claims()
        if it["metadata"]["namespace"] == tenant and (_is_free(it, "") or site.chance(0.1, it))
    ]
    taken = {name for vm in site.api.all(kinds.VMS) for name in _named(vm, tenant)}
    free = [name for name in names if name not in taken or site.chance(0.05, name)]
    if not free:
        return
    chosen = sorted(free, key=lambda name: site.chance(0.5, name))
    chosen = chosen[: site.rng.choice((1, 1, 2, 2, 3))]
    gpus = [{"name": n, "deviceName": f"{keys.CLAIM_DEVICE_PREFIX}{n}"} for n in chosen]
    spec = {"template": {"spec": {"domain": {"devices": {"gpus": gpus}}}}}
    meta = {"name": site.name("vm"), "namespace": tenant}
    if len(site.api.all(kinds.VMS)) < MOST_VMS:
        site.api.put(kinds.VMS, {"metadata": meta, "spec": spec})


def start(site: Site) -> None:
    """A VM is started: the webhook attaches its claims, and mostly the VMI comes."""
    vm = site.pick(it for it in site.api.all(kinds.VMS) if _may_start(site, it))
    if vm is None:
        return
    tenant, name = vm["metadata"]["namespace"], vm["metadata"]["name"]
    claims = [site.claim(tenant, one) for one in _named(vm, tenant)]
    admissions = {}
    fate = site.rng.random()
    for claim in claims:
        assert claim is not None
        admission = f"adm-{claim['metadata']['name']}-{site.api.version}"
        admissions[claim["metadata"]["name"]] = admission
        _attach(site, claim, name, admission)
        if fate < 0.04:
            return  # the webhook died after the first
    if fate < 0.1:
        return  # admitted, and then refused by somebody else
    text = kubevirt.format_resolved(admissions)  # type: ignore[arg-type]  # names are NewTypes
    site.api.put(
        kinds.VMIS,
        {
            "metadata": {
                "name": name,
                "namespace": tenant,
                "finalizers": [KEEPS],
                "annotations": {keys.RESOLVED_CLAIMS_ANNOTATION: text},
            },
            "status": {"phase": "Pending"},
        },
    )


def move_on(site: Site, vmi: Raw) -> None:
    """One thing that controllers do next for a VMI."""
    if "deletionTimestamp" in vmi["metadata"] or vmi["status"]["phase"] in kubevirt.ENDED:
        _finish(site, vmi)
        return
    pod = next(iter(pods_of(site, vmi)), None)
    if pod is None:
        if vmi["status"]["phase"] == "Pending":
            _make_pod(site, vmi)
        elif vmi["status"]["phase"] != "Running":
            _set_phase(site, vmi, "Failed")
    elif pod["spec"].get("schedulingGates"):
        _open_gate(site, vmi, pod)
    elif not pod["spec"].get("nodeName"):
        _schedule(site, vmi, pod)
    elif pod["status"]["phase"] == "Pending":
        _run(site, vmi, pod)
    elif pod["status"]["phase"] == "Running" and vmi["status"]["phase"] != "Running":
        _set_phase(site, vmi, "Running", nodeName=pod["spec"]["nodeName"])
    elif pod["status"]["phase"] in kubevirt.ENDED:
        _set_phase(site, vmi, pod["status"]["phase"])


def tidy_pods(site: Site) -> None:
    """Pods that ended go after a while; those that wait to go and run nowhere go at once."""
    running = {guest.pod for guest in site.guests}
    for pod in site.api.all(kinds.PODS):
        going = "deletionTimestamp" in pod["metadata"]
        over = pod["status"]["phase"] in kubevirt.ENDED
        machine = site.machines.get(pod["spec"].get("nodeName", ""))
        kubelet = machine is None or machine.works
        unbound = not pod["spec"].get("nodeName")
        idle = pod["metadata"]["uid"] not in running and (kubelet or unbound)
        if (going and idle) or (over and site.chance(0.4, pod)):
            site.api.erase(kinds.PODS, pod)


def pods_of(site: Site, vmi: Raw) -> list[Raw]:
    """The VMI's pods that are there."""
    listed = vmi["status"].get("activePods") or {}
    return [pod for pod in site.api.all(kinds.PODS) if pod["metadata"]["uid"] in listed]


def _named(vm: Raw, tenant: str) -> list[str]:
    if vm["metadata"]["namespace"] != tenant:
        return []
    gpus = vm["spec"]["template"]["spec"]["domain"]["devices"]["gpus"]
    return [it["deviceName"].removeprefix(keys.CLAIM_DEVICE_PREFIX) for it in gpus]


def _vmi(site: Site, vm: Raw) -> Raw | None:
    meta = vm["metadata"]
    return site.api.find(kinds.VMIS, ObjectKey(meta["namespace"], meta["name"]))


def _may_start(site: Site, vm: Raw) -> bool:
    tenant, name = vm["metadata"]["namespace"], vm["metadata"]["name"]
    claims = [site.claim(tenant, one) for one in _named(vm, tenant)]
    return (
        _vmi(site, vm) is None
        and bool(claims)
        and all(claim is not None and _is_free(claim, name) for claim in claims)
    )


def _is_free(claim: Raw, vm: str) -> bool:
    status = claim.get("status") or {}
    attached = status.get("attachedTo")
    return (
        "deletionTimestamp" not in claim["metadata"]
        and status.get("phase") in {"Bound", "Lost"}
        and (attached is None or attached["name"] == vm)
    )


def _attach(site: Site, claim: Raw, vm: str, admission: str) -> None:
    """The webhook records the attachment; pods of the VMI before stay until they are known to end."""
    old = (claim.get("status") or {}).get("attachedTo") or {}
    fresh = {"name": vm, "admission": admission, "since": site.now(), "pods": old.get("pods", [])}

    def change(it: Raw) -> None:
        it["status"]["attachedTo"] = fresh

    site.api.edit(kinds.GPU_CLAIMS, claim, change)


def _claims_of(site: Site, vmi: Raw) -> list[Raw | None]:
    """The claims the webhook resolved for it, as they are now; None for one that is not its own."""
    text = vmi["metadata"]["annotations"][keys.RESOLVED_CLAIMS_ANNOTATION]
    found: list[Raw | None] = []
    held, _ = kubevirt.parse_resolved(text) or ({}, {})
    for name, admission in held.items():
        claim = site.claim(vmi["metadata"]["namespace"], name)
        attached = ((claim or {}).get("status") or {}).get("attachedTo") or {}
        found.append(claim if attached.get("admission") == admission else None)
    return found


def _make_pod(site: Site, vmi: Raw) -> None:
    units: dict[str, int] = {}
    for claim in _claims_of(site, vmi):
        resource = site.resource_of(claim["spec"]["className"]) if claim else None
        if claim is None or resource is None:
            return
        units[resource] = units.get(resource, 0) + claim["spec"]["count"]
    meta = vmi["metadata"]
    limits = {name: str(amount) for name, amount in units.items()}
    pod = site.api.put(
        kinds.PODS,
        {
            "metadata": {
                "name": f"launcher-{meta['name']}-{meta['uid']}",
                "namespace": meta["namespace"],
                "labels": LAUNCHER | {"kubevirt.io/created-by": meta["uid"]},
            },
            "spec": {
                "schedulingGates": [{"name": keys.PLACEMENT_GATE}],
                "containers": [{"name": "compute", "resources": {"limits": limits}}],
            },
            "status": {"phase": "Pending"},
        },
    )
    _set_phase(site, vmi, "Scheduling", activePods={pod["metadata"]["uid"]: ""})


def _open_gate(site: Site, vmi: Raw, pod: Raw) -> None:
    """Our gate, when the whole set is Bound on one node: record the pod, then pin and ungate."""
    claims = _claims_of(site, vmi)
    states = {
        (it["status"].get("phase"), it["status"].get("nodeName")) if it else None for it in claims
    }
    if len(states) != 1 or None in states:
        return
    ((phase, node),) = states  # type: ignore[misc]  # None is not among them
    if phase != "Bound":
        return
    for claim in claims:
        assert claim is not None
        _record(site, claim, vmi, pod["metadata"]["uid"], node)
    if site.chance(0.1, vmi):
        return  # the leader died between record and pin
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}

    def change(it: Raw) -> None:
        it["spec"].pop("schedulingGates", None)
        it["spec"]["affinity"] = {"nodeAffinity": required}

    site.api.edit(kinds.PODS, pod, change)


def _record(site: Site, claim: Raw, vmi: Raw, pod: str, node: str) -> None:
    def change(it: Raw) -> None:
        attached = it["status"]["attachedTo"]
        attached["uid"] = vmi["metadata"]["uid"]
        others = [one for one in attached.get("pods") or [] if one["uid"] != pod]
        attached["pods"] = [*others, {"uid": pod, "node": node}]

    site.api.edit(kinds.GPU_CLAIMS, claim, change)


def _schedule(site: Site, vmi: Raw, pod: Raw) -> None:
    terms = pod["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    node = site.api.find(kinds.NODES, ObjectKey("", terms[0]["matchFields"][0]["values"][0]))
    if node is None or node["spec"].get("unschedulable") or node["spec"].get("taints"):
        return
    if node["status"]["conditions"][0]["status"] != "True":
        return
    for resource, units in wants(pod).items():
        taken = sum(
            wants(other).get(resource, 0)
            for other in site.api.all(kinds.PODS)
            if other["spec"].get("nodeName") == node["metadata"]["name"]
            and other["status"]["phase"] not in kubevirt.ENDED
        )
        if int(node["status"]["allocatable"].get(resource, "0")) < taken + units:
            return
    name = node["metadata"]["name"]
    site.api.edit(kinds.PODS, pod, lambda it: it["spec"].update({"nodeName": name}))
    active = dict(vmi["status"]["activePods"]) | {pod["metadata"]["uid"]: name}
    _set_phase(site, vmi, "Scheduled", activePods=active)


def _run(site: Site, vmi: Raw, pod: Raw) -> None:
    """Kubelet starts it, where devices are really free."""
    machine = site.machines[pod["spec"]["nodeName"]]
    if not machine.works or "deletionTimestamp" in pod["metadata"]:
        return
    units = wants(pod)
    for resource, amount in units.items():
        taken = sum(
            guest.units.get(resource, 0) for guest in site.guests if guest.node == machine.name
        )
        if resource in machine.down or machine.units.get(resource, 0) < taken + amount:
            site.api.edit(
                kinds.PODS,
                pod,
                lambda it: it["status"].update(
                    {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
                ),
            )
            return
    meta = vmi["metadata"]
    site.guests.append(
        Guest(
            pod=pod["metadata"]["uid"],
            vm=f"{meta['namespace']}/{meta['name']}",
            node=machine.name,
            units=units,
            claims={
                claim["metadata"]["uid"]: f"{meta['namespace']}/{claim['metadata']['name']}"
                for claim in _claims_of(site, vmi)
                if claim is not None
            },
        )
    )
    site.tally["guests started"] += 1
    site.api.edit(kinds.PODS, pod, lambda it: it["status"].update({"phase": "Running"}))


def _finish(site: Site, vmi: Raw) -> None:
    """The VMI is over: its pods are told to go; it goes with them, or now and then before them."""
    pods = pods_of(site, vmi)
    for pod in pods:
        if "deletionTimestamp" not in pod["metadata"]:
            site.api.remove(kinds.PODS, with_finalizer(site, pod), site.now())
    if not pods or site.chance(0.2, vmi):
        site.api.erase(kinds.VMIS, vmi)


def with_finalizer(site: Site, pod: Raw) -> Raw:
    """Have a pod wait for its kubelet when it is deleted: a grace period, as a finalizer."""
    made = site.api.edit(
        kinds.PODS, pod, lambda it: it["metadata"].update({"finalizers": ["soak/grace"]})
    )
    return made or pod


def wants(pod: Raw) -> dict[str, int]:
    """The units a pod asks for."""
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    return {name: int(amount) for name, amount in limits.items()}


def _set_phase(site: Site, vmi: Raw, phase: str, **more: Any) -> None:
    site.api.edit(kinds.VMIS, vmi, lambda it: it["status"].update({"phase": phase, **more}))
