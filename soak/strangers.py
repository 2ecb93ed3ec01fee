"""Pods that ask for a resource by its name and pass no gate of ours: the scheduler places them as it likes.

Nobody can hold units against them; they count where they are, as soon as they are seen.
"""

from collections import Counter

from gpu.objects import kinds, kubevirt
from soak import kubevirt as virt
from soak.machines import Guest
from soak.site import Site

MOST = 3


def come(site: Site) -> None:
    """A tenant makes such a pod, and it runs where it fits."""
    pods = [it for it in site.api.all(kinds.PODS) if not it["metadata"].get("ownerReferences")]
    if not site.raw or len(pods) >= MOST:
        return
    limits = {site.rng.choice(site.resources): str(site.rng.choice((1, 1, 2)))}
    pod = site.api.put(
        kinds.PODS,
        {
            "metadata": {"name": site.name("p"), "namespace": site.pick(site.tenants)},
            "spec": {"containers": [{"name": "it", "resources": {"limits": limits}}]},
            "status": {"phase": "Pending"},
        },
    )
    node = site.pick(it for it in site.api.all(kinds.NODES) if virt.fits(site, pod, it))
    if node is None:
        site.api.erase(kinds.PODS, pod)
        return
    name = node["metadata"]["name"]
    site.api.edit(kinds.PODS, pod, lambda it: it["spec"].update({"nodeName": name}))
    machine, units = site.machines[name], virt.wants(pod)
    runs = machine.works and not machine.refuses and virt.has_devices(site, machine, units)
    phase = "Running" if runs else "Failed"
    site.api.edit(kinds.PODS, pod, lambda it: it["status"].update({"phase": phase}))
    if runs:
        site.guests.append(Guest(pod["metadata"]["uid"], "", name, units, {}))
        site.tally["raw pods"] += 1


def go(site: Site) -> None:
    """One of them is deleted."""
    pods = site.api.all(kinds.PODS)
    pod = site.pick(it for it in pods if not it["metadata"].get("ownerReferences"))
    if pod is not None and "deletionTimestamp" not in pod["metadata"]:
        site.api.remove(kinds.PODS, virt.with_finalizer(site, pod), site.now())


def raw_units(site: Site) -> Counter[tuple[str, str]]:
    """Units by tenant and resource that live pods past the gate ask for and no attached claim covers."""
    covered: Counter[tuple[str, str]] = Counter()
    owners: dict[str, str] = {}
    for claim in site.claims():
        attached = (claim.get("status") or {}).get("attachedTo")
        if not attached:
            continue
        vm = f"{claim['metadata']['namespace']}/{attached['name']}"
        resource = site.resource_of(claim["spec"]["className"])
        covered[vm, resource or ""] += claim["spec"]["count"]
        owners |= {pod["uid"]: vm for pod in attached.get("pods") or []}
    for vmi in site.api.all(kinds.VMIS):
        vm = f"{vmi['metadata']['namespace']}/{vmi['metadata']['name']}"
        owners |= dict.fromkeys(vmi["status"].get("activePods") or {}, vm)
    found: Counter[tuple[str, str]] = Counter()
    offered = offered_by(site)
    for pod in site.api.all(kinds.PODS):
        if pod["spec"].get("schedulingGates") or pod["status"]["phase"] in kubevirt.ENDED:
            continue
        vm = owners.get(pod["metadata"]["uid"], "")
        for resource, units in virt.wants(pod).items():
            bare = max(0, units - (covered[vm, resource] if vm else 0))
            if resource in offered:
                found[pod["metadata"]["namespace"], resource] += bare
    return found


def offered_by(site: Site) -> set[str]:
    """Names of the resources that classes offer."""
    sources = [it["spec"]["source"] for it in site.api.all(kinds.GPU_CLASSES)]
    return {source["devicePlugin"]["resourceName"] for source in sources}
