"""Live migration as KubeVirt does it: a second launcher beside the first, past our gate, and one of them stays.

The scheduler places the target as it likes: it knows of pods, and of no claim. While both are there
the guest holds units on both nodes.
"""

from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from soak import kubevirt as virt
from soak.machines import Guest
from soak.site import Raw, Site


def migrate(site: Site) -> None:
    """One migration gets on, or another begins."""
    vmis = [it for it in site.api.all(kinds.VMIS) if _runs(it)]
    vmi = site.pick(it for it in vmis if virt.is_migrating(it))
    if vmi is not None:
        get_on(site, vmi)
    elif (vmi := site.pick(vmis)) is not None:
        _begin(site, vmi)


def get_on(site: Site, vmi: Raw) -> None:
    """A migration that is under way comes to its end, one or the other."""
    state = vmi["status"]["migrationState"]
    target = site.api.find(kinds.PODS, ObjectKey(vmi["metadata"]["namespace"], state["targetPod"]))
    uid = target["metadata"]["uid"] if target else ""
    arrived = next((guest for guest in site.guests if guest.pod == uid), None)
    came_from = arrived.source if arrived else ""
    source = next((it for it in site.guests if it.pod == came_from), None)
    both = [guest for guest in (arrived, source) if guest is not None]
    can = len(both) > 1 and all(site.machines[guest.node].works for guest in both)
    if arrived and source and can and site.chance(0.7, vmi):
        told, node = {"completed": True, "failed": False}, arrived.node
        site.end_guest(source)
        _leave_behind(site, arrived)
        site.tally["migrations"] += 1
    else:
        told, node = {"completed": True, "failed": True}, vmi["status"].get("nodeName", "")
        if arrived is not None and site.machines[arrived.node].works:
            site.end_guest(arrived)
        elif target is not None and "deletionTimestamp" not in target["metadata"]:
            site.api.remove(kinds.PODS, virt.with_finalizer(site, target), site.now())
        site.tally["migrations failed"] += 1

    def change(it: Raw) -> None:
        it["status"]["migrationState"] = state | told
        it["status"]["nodeName"] = node

    site.api.edit(kinds.VMIS, vmi, change)


def _leave_behind(site: Site, arrived: Guest) -> None:
    """Targets of earlier migrations, which failed, may run on: the claims have gone elsewhere for good."""
    for guest in site.guests:
        if guest is not arrived and guest.came and guest.claims.keys() & arrived.claims.keys():
            guest.went = (*guest.went, arrived.node)


def arrived(site: Site) -> set[tuple[str, str]]:
    """Return uid and node of claims whose VMI says that it has migrated there, unless it is known to have ended."""
    return {
        (claim["metadata"]["uid"], vmi["status"]["nodeName"])
        for vmi in site.api.all(kinds.VMIS)
        if _has_succeeded(vmi)
        for claim in virt.claims_of(site, vmi)
        if not _has_ended_on(claim, vmi["status"]["nodeName"])
    }


def is_target(vmi: Raw, guest: Guest) -> bool:
    """Say whether a guest is where the last migration of its VMI went, which is over."""
    its = vmi["status"].get("activePods") or {}
    return _has_succeeded(vmi) and guest.pod in its and vmi["status"].get("nodeName") == guest.node


def _has_succeeded(vmi: Raw) -> bool:
    state = vmi["status"].get("migrationState") or {}
    return (state.get("completed"), state.get("failed")) == (True, False)


def _has_ended_on(claim: Raw, node: str) -> bool:
    """Say whether all that a claim notes of a node has ended: there is nothing to follow any more."""
    noted = ((claim.get("status") or {}).get("attachedTo") or {}).get("pods") or []
    there = [pod for pod in noted if pod.get("node") == node]
    return bool(there) and all(pod.get("ended") for pod in there)


def _begin(site: Site, vmi: Raw) -> None:
    first = virt.main_pod(site, vmi)
    if first is None or first["status"]["phase"] != "Running":
        return
    here = first["spec"]["nodeName"]
    guest = next((it for it in site.guests if it.pod == first["metadata"]["uid"]), None)
    # Of a guest that went down with its machine, where it came from is where its claims are held still.
    came = (*(guest.came if guest else _held_on(site, vmi)), here)
    meta = first["metadata"]
    pod = {
        "metadata": {
            "name": site.name(f"target-{vmi['metadata']['name']}-"),
            "namespace": meta["namespace"],
            "labels": meta["labels"] | {virt.MIGRATION: site.name("job")},
            "annotations": {k: v for k, v in meta["annotations"].items() if "resolved" in k},
            "ownerReferences": meta["ownerReferences"],
        },
        "spec": {
            "containers": first["spec"]["containers"],
            "tolerations": first["spec"].get("tolerations", []),
        },
        "status": {"phase": "Pending"},
    }
    nodes = [it for it in site.api.all(kinds.NODES) if it["metadata"]["name"] != here]
    node = site.pick(it for it in nodes if virt.fits(site, pod, it))
    if node is None:
        return
    name = node["metadata"]["name"]
    pod["spec"]["nodeName"] = name
    made = site.api.put(kinds.PODS, pod)
    machine, units = site.machines[name], virt.wants(made)
    runs = machine.works and not machine.refuses and virt.has_devices(site, machine, units)
    phase = "Running" if runs else "Failed"
    site.api.edit(kinds.PODS, made, lambda it: it["status"].update({"phase": phase}))
    if runs:
        claims = {
            claim["metadata"]["uid"]: f"{meta['namespace']}/{claim['metadata']['name']}"
            for claim in virt.claims_of(site, vmi)
        }
        uid = made["metadata"]["uid"]
        source = first["metadata"]["uid"]
        site.guests.append(Guest(uid, _vm(vmi), name, units, claims, came, source=source))
    state = {
        "sourcePod": meta["name"],
        "sourceNode": here,
        "targetPod": made["metadata"]["name"],
        "targetNode": name,
    }
    active = vmi["status"]["activePods"] | {made["metadata"]["uid"]: name}
    fresh = {"migrationState": state, "activePods": active}
    site.api.edit(kinds.VMIS, vmi, lambda it: it["status"].update(fresh))
    site.tally["migrations begun"] += 1


def _held_on(site: Site, vmi: Raw) -> list[str]:
    stands = [claim.get("status") or {} for claim in virt.claims_of(site, vmi)]
    return [status["nodeName"] for status in stands if status.get("nodeName")]


def _runs(vmi: Raw) -> bool:
    return vmi["status"]["phase"] == "Running" and "deletionTimestamp" not in vmi["metadata"]


def _vm(vmi: Raw) -> str:
    return f"{vmi['metadata']['namespace']}/{vmi['metadata']['name']}"
