"""A VM with one claim whose guest runs, and what becomes of it when KubeVirt migrates it."""

from gpu.objects import kinds
from soak import migrations
from soak.site import Site
from tests.soak.started import TENANT, VM, a_held, a_start, noted, pin

RESOURCE = "nvidia.com/A"


def a_roomy_site():
    """Return a cluster where every node serves eight units of everything."""
    found = Site("judge")
    for machine in found.machines.values():
        machine.units = dict.fromkeys(found.resources, 8)
    found.tick()
    served = dict.fromkeys(found.resources, "8")
    for node in found.api.all(kinds.NODES):
        found.api.edit(kinds.NODES, node, lambda it: it["status"]["allocatable"].update(served))
    found.begin("judge/1")
    return found


def sorts(wrong):
    """What kinds of things are wrong."""
    return [words.partition(":")[0] for words in wrong]


def running(site, judge, node="n0"):
    """A VM whose guest runs on a node with the claim x; returns its VMI."""
    vmi, pod = a_start(site, held=("x",))
    labels = {"kubevirt.io": "virt-launcher"}
    site.api.edit(kinds.PODS, pod, lambda it: it["metadata"].update(labels=labels))
    claim = a_held(site, noted(pod, node, admission="adm-x"))
    pod = pin(site, pod, node)
    pod = site.api.edit(kinds.PODS, pod, lambda it: it["spec"].update(nodeName=node))
    site.api.edit(kinds.PODS, pod, lambda it: it["status"].update(phase="Running"))
    told = {"phase": "Running", "nodeName": node, "activePods": {pod["metadata"]["uid"]: node}}
    vmi = site.api.edit(kinds.VMIS, vmi, lambda it: it["status"].update(told))
    uid = claim["metadata"]["uid"]
    guest = migrations.Guest(
        pod["metadata"]["uid"], f"{TENANT}/{VM}", node, {RESOURCE: 1}, {uid: f"{TENANT}/x"}
    )
    site.guests.append(guest)
    assert judge.look() == []
    return vmi


def hold(site, node):
    claim = site.claim(TENANT, "x")
    site.api.edit(kinds.GPU_CLAIMS, claim, lambda it: it["status"].update(nodeName=node))


def vmi_now(site):
    return next(iter(site.api.all(kinds.VMIS)))


def tell(site, **told):
    return site.api.edit(kinds.VMIS, vmi_now(site), lambda it: it["status"].update(told))


def migrate(site, *, until):
    """Begin a migration and, if told, have it succeed; returns its target."""
    migrations.migrate(site)
    target = site.guests[-1].node
    if until == "done":
        succeed(site)
    return target


def succeed(site):
    """Have the migration that is under way succeed."""
    for number in range(2, 30):
        if not migrations.virt.is_migrating(vmi_now(site)):
            break
        site.begin(f"judge/{number}")
        if site.chance(0.7, vmi_now(site)):
            migrations.get_on(site, vmi_now(site))
