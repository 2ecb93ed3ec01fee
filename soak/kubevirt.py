"""What becomes of a VMI and its launcher: made with our gate, scheduled, refused, run, and ended.

The gate is on it as our pod webhook would have it; the leader alone takes it off. Each function does
one small thing to one VM; what is not possible now is not done.
"""

import json
from typing import Any

from gpu import keys
from gpu.config import Binding
from gpu.objects import kinds, kubevirt
from gpu.objects.meta import ObjectKey
from soak.machines import Guest, Machine
from soak.site import Raw, Site

MIGRATION = "kubevirt.io/migrationJobUID"
LAUNCHER = {"kubevirt.io": "virt-launcher"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def move_on(site: Site, vmi: Raw) -> None:
    """One thing that controllers do next for a VMI."""
    if "deletionTimestamp" in vmi["metadata"] or vmi["status"]["phase"] in kubevirt.ENDED:
        _finish(site, vmi)
        return
    pod = main_pod(site, vmi)
    if pod is None:
        if vmi["status"]["phase"] == "Pending":
            _make_pod(site, vmi)
        elif vmi["status"]["phase"] != "Running":
            _end(site, vmi, "Failed")
    elif pod["spec"].get("schedulingGates"):
        pass  # it waits for the leader
    elif not pod["spec"].get("nodeName"):
        _schedule(site, vmi, pod)
    elif pod["status"]["phase"] == "Pending":
        _run(site, vmi, pod)
    elif pod["status"]["phase"] == "Running" and vmi["status"]["phase"] != "Running":
        _set_phase(site, vmi, "Running", nodeName=pod["spec"]["nodeName"])
        _count_failures(site, vmi, None)
    elif pod["status"]["phase"] in kubevirt.ENDED:
        _end(site, vmi, pod["status"]["phase"])


def tidy_pods(site: Site) -> None:
    """Pods that ended go after a while; those that wait to go and run nowhere go at once."""
    running = {guest.pod for guest in site.guests}
    alive = {vmi["metadata"]["uid"] for vmi in site.api.all(kinds.VMIS)}
    for pod in site.api.all(kinds.PODS):
        going = "deletionTimestamp" in pod["metadata"]
        over = pod["status"]["phase"] in kubevirt.ENDED
        machine = site.machines.get(pod["spec"].get("nodeName", ""))
        kubelet = machine is None or machine.works
        unbound = not pod["spec"].get("nodeName")
        idle = pod["metadata"]["uid"] not in running and (kubelet or unbound)
        if (going and idle) or (over and site.chance(0.4, pod)):
            site.api.erase(kinds.PODS, pod)
        elif not going and owner_of(pod) and owner_of(pod) not in alive:
            site.api.remove(kinds.PODS, with_finalizer(site, pod), site.now())


def owner_of(pod: Raw) -> str:
    """Uid of the VMI a launcher was made for; empty when the pod is none."""
    owners = pod["metadata"].get("ownerReferences") or [{"uid": ""}]
    return str(owners[0]["uid"])


def pinned_to(pod: Raw) -> str:
    """The node that a launcher is pinned to; empty when it is to none, or to several."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    named = {tuple(one["matchFields"][-1]["values"]) for one in terms if one.get("matchFields")}
    return str(next(iter(named))[0]) if len(named) == 1 and terms else ""


def start_of(item: Raw) -> str:
    """Return what tells a start, of VMI or launcher: the ids of its held claims; empty where it has none."""
    annotations = item["metadata"].get("annotations") or {}
    if keys.RESOLVED_CLAIMS_ANNOTATION not in annotations:
        return ""
    held, _ = resolved(item)
    return json.dumps(held, sort_keys=True) if held else ""


def resolved(vmi: Raw) -> tuple[dict[str, str], dict[str, int]]:
    """What the webhook resolved for a VMI: held claims with their ids, units of classes."""
    items = json.loads(vmi["metadata"]["annotations"][keys.RESOLVED_CLAIMS_ANNOTATION])
    held = {it["claim"]: it["admission"] for it in items if "claim" in it}
    return held, {it["class"]: it["units"] for it in items if "class" in it}


def pods_of(site: Site, vmi: Raw) -> list[Raw]:
    """The VMI's pods that are there."""
    listed = vmi["status"].get("activePods") or {}
    return [pod for pod in site.api.all(kinds.PODS) if pod["metadata"]["uid"] in listed]


def main_pod(site: Site, vmi: Raw) -> Raw | None:
    """The VMI's launcher, if it is there: the target of a migration once that is done, its source until then.

    Those that it had before are listed as well, ended.
    """
    state = vmi["status"].get("migrationState") or {}
    is_done = bool(state.get("completed")) and not state.get("failed")
    name = state.get("targetPod" if is_done else "sourcePod")
    pods = pods_of(site, vmi)
    return next((pod for pod in pods if not state or pod["metadata"]["name"] == name), None)


def is_migrating(vmi: Raw) -> bool:
    """Say whether a migration of it is under way."""
    state = vmi["status"].get("migrationState") or {}
    return bool(state) and not state.get("completed")


def claims_of(site: Site, vmi: Raw) -> list[Raw]:
    """The claims that are a VMI's own now: those it was started with, and those made for it."""
    held, _ = resolved(vmi)
    meta = vmi["metadata"]
    found: list[Raw] = []
    for claim in site.claims():
        if claim["metadata"]["namespace"] != meta["namespace"]:
            continue
        attached = (claim.get("status") or {}).get("attachedTo") or {}
        admission = held.get(claim["metadata"]["name"])
        owners = claim["metadata"].get("ownerReferences") or []
        if (admission and attached.get("admission") == admission) or any(
            owner["uid"] == meta["uid"] for owner in owners
        ):
            found.append(claim)
    return found


def _make_pod(site: Site, vmi: Raw) -> None:
    units: dict[str, int] = {}
    for gpu in vmi["spec"]["domain"]["devices"]["gpus"]:
        units[gpu["deviceName"]] = units.get(gpu["deviceName"], 0) + 1
    meta = vmi["metadata"]
    limits = {name: str(amount) for name, amount in units.items()}
    owner = {"apiVersion": kinds.VMIS.api_version, "kind": kinds.VMIS.kind, "controller": True}
    body = {
        "metadata": {
            "name": f"launcher-{meta['name']}-{meta['uid']}",
            "namespace": meta["namespace"],
            "labels": LAUNCHER | {"kubevirt.io/created-by": meta["uid"]},
            "annotations": dict(meta["annotations"]),
            "ownerReferences": [owner | {"name": meta["name"], "uid": meta["uid"]}],
        },
        "spec": {"containers": [{"name": "compute", "resources": {"limits": limits}}]},
        "status": {"phase": "Pending"},
    }
    if site.config.binding is Binding.REQUEST:
        # KubeVirt has a VMI follow the affinity of its VM: our pin may be off again by now.
        if "affinity" in vmi["spec"] and site.chance(0.5, f"pin {meta['name']}"):
            body["spec"]["affinity"] = vmi["spec"]["affinity"]
        body = site.webhooks.launcher(body)
    else:
        body["spec"]["schedulingGates"] = [{"name": keys.PLACEMENT_GATE}]
        body["spec"]["tolerations"] = _tolerations(site, vmi)
    pod = site.api.put(kinds.PODS, body)
    site.tally["launchers made"] += 1
    _set_phase(site, vmi, "Scheduling", activePods={pod["metadata"]["uid"]: ""})


def _tolerations(site: Site, vmi: Raw) -> list[Raw]:
    """Those of the set's classes, as the pod webhook adds them."""
    held, units = resolved(vmi)
    claims = [site.claim(vmi["metadata"]["namespace"], name) for name in held]
    names = {claim["spec"]["className"] for claim in claims if claim} | units.keys()
    found: list[Raw] = []
    for name in sorted(names):
        offer = site.api.find(kinds.GPU_CLASSES, ObjectKey("", name))
        for one in offer["spec"].get("tolerations", []) if offer else []:
            found += [] if one in found else [one]
    return found


def _schedule(site: Site, vmi: Raw, pod: Raw) -> None:
    """The scheduler binds it to the node it is pinned to, or says that it does not fit there."""
    if "deletionTimestamp" in pod["metadata"]:
        return
    pin = pinned_to(pod)
    nodes = [it for it in site.api.all(kinds.NODES) if pin in {"", it["metadata"]["name"]}]
    node = site.pick(it for it in nodes if fits(site, pod, it))
    told = {"type": "PodScheduled", "status": "True" if node else "False"}
    told |= {} if node else {"reason": "Unschedulable"}
    before: Raw = next(iter(pod["status"].get("conditions") or []), {})
    if before.get("status") != told["status"]:
        told["lastTransitionTime"] = site.now()
        site.api.edit(kinds.PODS, pod, lambda it: it["status"].update({"conditions": [told]}))
    if node is None:
        return
    name = node["metadata"]["name"]
    site.api.edit(kinds.PODS, pod, lambda it: it["spec"].update({"nodeName": name}))
    active = dict(vmi["status"]["activePods"]) | {pod["metadata"]["uid"]: name}
    _set_phase(site, vmi, "Scheduled", activePods=active)


def fits(site: Site, pod: Raw, node: Raw) -> bool:
    """Say whether the scheduler would put a pod on a node: it knows of pods, and of no claim."""
    tainted = node["spec"].get("taints") and not pod["spec"].get("tolerations")
    if node["spec"].get("unschedulable") or tainted:
        return False
    if node["status"]["conditions"][0]["status"] != "True":
        return False
    for resource, units in wants(pod).items():
        taken = sum(
            wants(other).get(resource, 0)
            for other in site.api.all(kinds.PODS)
            if other["spec"].get("nodeName") == node["metadata"]["name"]
            and other["status"]["phase"] not in kubevirt.ENDED
        )
        if int(node["status"]["allocatable"].get(resource, "0")) < taken + units:
            return False
    return True


def _run(site: Site, vmi: Raw, pod: Raw) -> None:
    """Kubelet starts it, where devices are really free."""
    machine = site.machines[pod["spec"]["nodeName"]]
    if not machine.works or "deletionTimestamp" in pod["metadata"]:
        return
    units = wants(pod)
    if not has_devices(site, machine, units):
        _refuse(site, vmi, pod, "UnexpectedAdmissionError")
        return
    meta = vmi["metadata"]
    if machine.refuses or site.chance(0.08, f"refused {meta['name']}"):
        lacks = ("UnexpectedAdmissionError", "OutOfcpu", *(f"OutOf{name}" for name in units))
        _refuse(site, vmi, pod, site.rng.choice(lacks))
        return
    site.guests.append(
        Guest(
            pod=pod["metadata"]["uid"],
            vm=f"{meta['namespace']}/{meta['name']}",
            node=machine.name,
            units=units,
            claims={
                claim["metadata"]["uid"]: f"{meta['namespace']}/{claim['metadata']['name']}"
                for claim in claims_of(site, vmi)
            },
            start=start_of(vmi),
        )
    )
    site.tally["guests started"] += 1
    site.api.edit(kinds.PODS, pod, lambda it: it["status"].update({"phase": "Running"}))


def has_devices(site: Site, machine: Machine, units: dict[str, int]) -> bool:
    """Say whether so many devices are really free."""
    for resource, amount in units.items():
        taken = sum(
            guest.units.get(resource, 0) for guest in site.guests if guest.node == machine.name
        )
        if resource in machine.down or machine.units.get(resource, 0) < taken + amount:
            return False
    return True


def _refuse(site: Site, vmi: Raw, pod: Raw, reason: str) -> None:
    """Kubelet does not take it; KubeVirt may take pod and VMI away before anybody has looked."""
    site.tally["launchers refused"] += 1
    told = {"phase": "Failed", "reason": reason}
    site.api.edit(kinds.PODS, pod, lambda it: it["status"].update(told))
    site.refused[pod["metadata"]["uid"]] = (site.api.version, site.clock.monotonic())
    if site.chance(0.3, f"at once {pod['metadata']['name']}"):
        _end(site, vmi, "Failed")
        site.api.erase(kinds.PODS, pod)
        site.api.erase(kinds.VMIS, vmi)
        site.tally["refused and gone at once"] += 1


def _end(site: Site, vmi: Raw, phase: str) -> None:
    """The VMI is over; one that never ran is counted on its VM."""
    if phase == "Failed" and vmi["status"]["phase"] != "Running":
        _count_failures(site, vmi, vmi["metadata"]["uid"])
    _set_phase(site, vmi, phase)


def _count_failures(site: Site, vmi: Raw, failed: str | None) -> None:
    """KubeVirt counts starts that fail on the VM, and forgets them when one is up."""
    meta = vmi["metadata"]
    vm = site.api.find(kinds.VMS, ObjectKey(meta["namespace"], meta["name"]))
    if vm is None:
        return
    known = (vm.get("status") or {}).get("startFailure") or {}
    if failed is None:
        if known:
            site.api.edit(kinds.VMS, vm, lambda it: it["status"].pop("startFailure"))
    elif known.get("lastFailedVMIUID") != failed:
        count = known.get("consecutiveFailCount", 0) + 1
        fresh = {"lastFailedVMIUID": failed, "consecutiveFailCount": count}
        site.api.edit(
            kinds.VMS, vm, lambda it: it.setdefault("status", {}).update({"startFailure": fresh})
        )


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
