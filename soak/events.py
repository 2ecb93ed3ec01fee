"""What happens to a site: one function per step, chosen by weight; each takes its own dice."""

import re
from collections.abc import Callable
from typing import Any, Final

from gpu import keys
from gpu.objects import kinds, kubevirt
from gpu.objects.meta import ObjectKey
from soak import kubevirt as virt
from soak import machines, migrations, strangers, vms
from soak.site import Raw, Site
from tests.binder import raws
from tests.fakes import rules

Event = Callable[[Site], None]
OUT_OF_SERVICE: Final = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
DEDICATED: Final = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}


def order(site: Site) -> None:
    """A tenant orders."""
    if len(site.claims()) >= site.most_claims:
        delete_claim(site)
        return
    offer = site.pick(it["metadata"]["name"] for it in site.api.all(kinds.GPU_CLASSES))
    if offer is None:
        return
    raw = raws.a_claim(
        site.name("g"),
        tenant=site.pick(site.tenants),
        class_name=offer,
        count=site.rng.choice((1, 1, 1, 1, 2, 2, 3, 4, 9)),
    )
    raw["metadata"]["creationTimestamp"] = site.now()
    site.api.put(kinds.GPU_CLAIMS, raw)


def delete_claim(site: Site) -> None:
    """A tenant gives one back, in use or not."""
    claim = site.pick(it for it in site.claims() if "deletionTimestamp" not in it["metadata"])
    if claim is not None:
        site.api.remove(kinds.GPU_CLAIMS, claim, site.now())


def change_budget(site: Site) -> None:
    site.set_budget(site.pick(site.tenants), site.draw_budget(site.rng))


def delete_vm(site: Site) -> None:
    vm = site.pick(site.api.all(kinds.VMS))
    if vm is not None:
        site.api.erase(kinds.VMS, vm)
        vmi = site.api.find(
            kinds.VMIS, ObjectKey(vm["metadata"]["namespace"], vm["metadata"]["name"])
        )
        if vmi is not None:
            site.api.remove(kinds.VMIS, vmi, site.now())


def stop_vm(site: Site) -> None:
    vmi = site.pick(site.api.all(kinds.VMIS))
    if vmi is not None:
        site.api.remove(kinds.VMIS, vmi, site.now())


def guest_ends(site: Site) -> None:
    """A guest shuts itself down, where somebody sees it or not."""
    guest = site.pick(site.guests)
    if guest is not None:
        site.end_guest(guest)


def vmi_called_failed(site: Site) -> None:
    """virt-controller gives up on a VMI whose node is silent; the guest may run on."""
    cut = {name for name, machine in site.machines.items() if not machine.works}
    vmi = site.pick(it for it in site.api.all(kinds.VMIS) if it["status"].get("nodeName") in cut)
    if vmi is not None:
        site.api.edit(kinds.VMIS, vmi, lambda it: it["status"].update({"phase": "Failed"}))


def controllers(site: Site) -> None:
    """KubeVirt, scheduler and kubelets get on with their work."""
    virt.tidy_pods(site)
    for vmi in site.api.all(kinds.VMIS):
        for turn in range(4):
            if not site.chance(0.7, f"{turn} {vmi['metadata']['name']}"):
                break
            fresh = site.api.find(kinds.VMIS, rules.key_of(vmi))
            if fresh is not None:
                virt.move_on(site, fresh)


def force_delete(site: Site) -> None:
    """Somebody deletes a pod with grace period 0: the object is gone, the process may run on."""
    pods = site.api.all(kinds.PODS)
    cut = {name for name, machine in site.machines.items() if not machine.works}
    unseen = [pod for pod in pods if pod["spec"].get("nodeName") in cut]
    pod = site.pick(unseen or pods)
    if pod is not None:
        site.api.erase(kinds.PODS, pod)
        site.tally["pods force deleted"] += 1


def evict(site: Site) -> None:
    """A node silent for long: its pods are told to go, and nobody there hears it."""
    now = site.clock.monotonic()
    silent = {
        name
        for name, machine in site.machines.items()
        if not machine.works and now - machine.since > machines.EVICTS
    }
    for pod in site.api.all(kinds.PODS):
        if pod["spec"].get("nodeName") in silent and "deletionTimestamp" not in pod["metadata"]:
            site.api.remove(kinds.PODS, virt.with_finalizer(site, pod), site.now())


def cut_off(site: Site) -> None:
    _switch(site, connected=False)


def reconnect(site: Site) -> None:
    machine = site.pick(it for it in site.machines.values() if it.on and not it.connected)
    if machine is not None:
        machine.connected, machine.since = True, site.clock.monotonic()
        machines.report_node(site.api, site.clock, machine)


def power_off(site: Site) -> None:
    machine = site.pick(it for it in site.machines.values() if it.on)
    if machine is None or sum(not it.on for it in site.machines.values()) >= 2:
        return
    machine.on, machine.since = False, site.clock.monotonic()
    site.guests[:] = [guest for guest in site.guests if guest.node != machine.name]
    site.tally["nodes lost"] += 1


def power_on(site: Site) -> None:
    machine = site.pick(it for it in site.machines.values() if not it.on)
    if machine is None:
        return
    machine.on, machine.connected, machine.since = True, True, site.clock.monotonic()
    node = machines.node_of(site.api, machine.name)
    if node is None:
        site.add_node(machine)
    else:
        site.api.edit(kinds.NODES, node, _without(OUT_OF_SERVICE))
    _restarted(site, machine.name)
    machines.report_node(site.api, site.clock, machine)


def delete_node(site: Site) -> None:
    """The Node of a machine that is off is deleted, and its pods go with it."""
    machine = site.pick(it for it in site.machines.values() if not it.on)
    node = machines.node_of(site.api, machine.name) if machine else None
    if node is None:
        return
    site.api.erase(kinds.NODES, node)
    for pod in site.api.all(kinds.PODS):
        if pod["spec"].get("nodeName") == node["metadata"]["name"]:
            site.api.erase(kinds.PODS, pod)


def out_of_service(site: Site) -> None:
    """A person vouches that a machine is off."""
    machine = site.pick(it for it in site.machines.values() if not it.on)
    node = machines.node_of(site.api, machine.name) if machine else None
    if node is not None:
        site.api.edit(kinds.NODES, node, _with(OUT_OF_SERVICE))


def cordon(site: Site) -> None:
    node = site.pick(site.api.all(kinds.NODES))
    if node is not None:
        site.api.edit(kinds.NODES, node, lambda it: it["spec"].update({"unschedulable": True}))


def uncordon(site: Site) -> None:
    node = site.pick(it for it in site.api.all(kinds.NODES) if it["spec"].get("unschedulable"))
    if node is not None:
        site.api.edit(kinds.NODES, node, lambda it: it["spec"].pop("unschedulable"))


def taint(site: Site) -> None:
    node = site.pick(site.api.all(kinds.NODES))
    if node is not None:
        site.api.edit(kinds.NODES, node, _with(DEDICATED))


def untaint(site: Site) -> None:
    node = site.pick(it for it in site.api.all(kinds.NODES) if it["spec"].get("taints"))
    if node is not None:
        site.api.edit(kinds.NODES, node, _without(DEDICATED))


def plugin_away(site: Site) -> None:
    """A device plugin restarts: its resource is not allocatable for a while, guests run on."""
    machine = site.pick(site.machines.values())
    resource = site.pick(sorted(machine.units))
    machine.down.add(resource)
    machines.report_node(site.api, site.clock, machine)


def plugin_back(site: Site) -> None:
    machine = site.pick(it for it in site.machines.values() if it.down)
    if machine is not None:
        machine.down.clear()
        machines.report_node(site.api, site.clock, machine)


def kubelet_refuses(site: Site) -> None:
    """A kubelet takes no launcher any more, whatever its node says; or it does again."""
    machine = site.pick(it for it in site.machines.values() if it.refuses)
    if machine is None:
        machine = site.pick(site.machines.values())
    machine.refuses = not machine.refuses


def agent_changes(site: Site) -> None:
    machine = site.pick(site.machines.values())
    machine.agent = site.pick(("honest", "honest", "silent", "empty", "small", "strange"))
    site.tally[f"agent {machine.agent}"] += 1
    machines.report_inventory(site.api, site.clock, machine, site.guests)


def retire(site: Site) -> None:
    offer = site.pick(site.api.all(kinds.GPU_CLASSES))
    if offer is not None:
        is_retired = not offer["spec"].get("retired", False)
        site.api.edit(
            kinds.GPU_CLASSES, offer, lambda it: it["spec"].update({"retired": is_retired})
        )


def delete_class(site: Site) -> None:
    """A class is deleted; when it is gone one of its name is made again."""
    offers = site.api.all(kinds.GPU_CLASSES)
    there = {it["metadata"]["name"] for it in offers}
    for index, resource in enumerate(site.resources):
        if f"c{index}" not in there:
            site.add_class(f"c{index}", resource)
            return
    offer = site.pick(it for it in offers if "deletionTimestamp" not in it["metadata"])
    if offer is not None:
        site.api.remove(kinds.GPU_CLASSES, offer, site.now())


def short_wait(site: Site) -> None:
    site.pass_time(site.rng.choice((1, 5, 15, 30)))


def long_wait(site: Site) -> None:
    site.pass_time(site.rng.choice((60, 120, 200, 320, 700)))


def record_deleted(site: Site) -> None:
    record = site.pick(site.api.all(kinds.WORKLOADS))
    if record is not None:
        site.api.erase(kinds.WORKLOADS, record)


def settings_spoilt(site: Site) -> None:
    found = site.pick(site.api.all(kinds.CONFIG_MAPS))
    if found is not None:
        site.api.edit(kinds.CONFIG_MAPS, found, lambda it: it.update({"data": {}}))


def acknowledge(site: Site) -> None:
    """A person acknowledges what GPUBinder says is held back, on the nodes it names."""
    for binder in site.api.all(kinds.GPU_BINDERS):
        for condition in (binder.get("status") or {}).get("conditions") or []:
            if condition["type"] == "LossesHeldBack" and condition["status"] == "True":
                _acknowledge(site, condition["message"])


def _acknowledge(site: Site, message: str) -> None:
    ids = re.findall(rf"{re.escape(keys.ACKNOWLEDGE_LOST_ANNOTATION)}=([0-9a-f,]+)", message)
    mark = {keys.ACKNOWLEDGE_LOST_ANNOTATION: ",".join(ids)}
    for node in site.api.all(kinds.GPU_NODES):
        if ids and node["metadata"]["name"] in message:
            site.api.edit(kinds.GPU_NODES, node, lambda it: it["metadata"].update(annotations=mark))
            site.tally["losses acknowledged"] += 1
            site.acknowledged = site.clock.monotonic()


EVENTS: Final[dict[str, tuple[Event, float]]] = {
    "order": (order, 13),
    "delete claim": (delete_claim, 5),
    "change budget": (change_budget, 1),
    "make VM": (vms.make_vm, 8),
    "start VM": (vms.start, 13),
    "delete VM": (delete_vm, 0.7),
    "stop VM": (stop_vm, 1.5),
    "migrate": (migrations.migrate, 2.5),
    "raw pod": (strangers.come, 1.5),
    "raw pod goes": (strangers.go, 1),
    "guest ends": (guest_ends, 1),
    "VMI called failed": (vmi_called_failed, 0.7),
    "controllers": (controllers, 22),
    "force delete": (force_delete, 0.8),
    "evict": (evict, 0.7),
    "cut off": (cut_off, 0.8),
    "reconnect": (reconnect, 1.6),
    "power off": (power_off, 0.5),
    "power on": (power_on, 1.2),
    "delete node": (delete_node, 0.5),
    "out of service": (out_of_service, 0.3),
    "cordon": (cordon, 0.8),
    "uncordon": (uncordon, 1.6),
    "taint": (taint, 0.4),
    "untaint": (untaint, 1.2),
    "plugin away": (plugin_away, 0.6),
    "plugin back": (plugin_back, 1),
    "kubelet refuses": (kubelet_refuses, 1),
    "agent changes": (agent_changes, 1.2),
    "retire": (retire, 0.2),
    "delete class": (delete_class, 0.3),
    "short wait": (short_wait, 6),
    "long wait": (long_wait, 1.5),
    "record deleted": (record_deleted, 0.4),
    "settings spoilt": (settings_spoilt, 0.2),
    "acknowledge": (acknowledge, 0.4),
}


def _switch(site: Site, *, connected: bool) -> None:
    now = site.clock.monotonic()
    machine = site.pick(
        it for it in site.machines.values() if it.works and now - it.since >= machines.KILLS * 2
    )
    if machine is not None:
        machine.connected, machine.since = connected, now
        site.tally["nodes cut off"] += 1


def _restarted(site: Site, name: str) -> None:
    """A machine that comes up again runs nothing: its pods are told to have failed."""
    for pod in site.api.all(kinds.PODS):
        if pod["spec"].get("nodeName") == name and pod["status"]["phase"] not in kubevirt.ENDED:
            site.api.edit(kinds.PODS, pod, lambda it: it["status"].update({"phase": "Failed"}))


def _with(one: dict[str, str]) -> Callable[[Raw], Any]:
    def change(it: Raw) -> None:
        others = [old for old in it["spec"].get("taints", []) if old["key"] != one["key"]]
        it["spec"]["taints"] = [*others, dict(one)]

    return change


def _without(one: dict[str, str]) -> Callable[[Raw], Any]:
    def change(it: Raw) -> None:
        it["spec"]["taints"] = [o for o in it["spec"].get("taints", []) if o["key"] != one["key"]]

    return change
