"""Clusters with a node that is drained: nodes, sets with their guests, and their ends."""

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from gpu import reading
from gpu.config import Config, Guard
from gpu.objects import kinds
from gpu.world import World
from tests.binder import raws
from tests.binder.phases import node_stories
from tests.binder.rig import Rig

NODES = ("n1", "n2", "n3")
STATES = ("off", "gated", "starting", "running", "ending", "ended")


@dataclass(frozen=True)
class Cluster:
    """Units to spare and cordons by node; sets by node, guest, members, units of each, and class."""

    spare: tuple[int, ...]
    cordoned: tuple[bool, ...]
    sets: tuple[tuple[str, str, int, int, str], ...]
    orders: tuple[int, ...] = ()
    limit: int = 1000


def clusters(limits: st.SearchStrategy[int]) -> st.SearchStrategy[Cluster]:
    """Three nodes, up to seven sets, most of them on the first."""
    return st.builds(
        Cluster,
        spare=st.tuples(*[st.integers(1, 5)] * len(NODES)),
        cordoned=st.tuples(st.just(value=False), *[st.sampled_from([False, False, True])] * 2),
        sets=st.lists(
            st.tuples(
                st.sampled_from(("n1", "n1", *NODES)),
                st.sampled_from(STATES),
                st.integers(1, 2),
                st.integers(1, 2),
                st.sampled_from(("h100", "h100", "stays")),
            ),
            max_size=7,
        ).map(tuple),
        orders=st.lists(st.integers(1, 4), max_size=2).map(tuple),
        limit=limits,
    )


def rig_of(cluster: Cluster) -> Rig:
    """A leader over the cluster."""
    found: dict[str, list[raws.Raw]] = {"claims": [], "vmis": [], "pods": [], "vms": []}
    for number, (node, state, members, units, offer) in enumerate(cluster.sets):
        vm = f"vm{number}"
        made = node_stories.guest(state, vm, node)
        names = [f"c{number}-{member}" for member in range(members)]
        for name in names:
            hold = node_stories.a_hold(name, node, at=number, count=units, **made["attached"])
            hold["spec"]["className"] = offer
            found["claims"].append(hold)
        found["vms"].append(raws.a_vm(vm, claims=names))
        found["vmis"] += made["vmis"]
        found["pods"] += made["pods"]
    found["claims"] += [
        raws.a_claim(f"order-{number}", at=100 + number, count=units)
        for number, units in enumerate(cluster.orders)
    ]
    rig = Rig(config=replace(Config(), guard=Guard(share=0.0, at_least=cluster.limit)))
    rig.store(
        classes=[raws.a_class(), raws.a_class("stays", onCordon="Stay")],
        namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant()],
        nodes=[
            a_node(cluster, name, cordoned=cordoned)
            for name, cordoned in zip(NODES, cluster.cordoned, strict=True)
        ],
        **found,
    )
    return rig


def a_node(cluster: Cluster, name: str, *, cordoned: bool) -> raws.Raw:
    """One of its nodes: with room for what is held there, and some to spare."""
    held = sum(members * units for node, _, members, units, _ in cluster.sets if node == name)
    units = held + cluster.spare[NODES.index(name)]
    return raws.a_node(name, units=units, **({"unschedulable": True} if cordoned else {}))


def world(rig: Rig) -> World:
    """The cluster as it is stored now."""
    rig.window.show()
    return reading.read(rig.window)


async def end(rig: Rig, *vms: str) -> None:
    """Have VMs be stopped and their pods end, all at once."""
    stored = rig.cluster._objects.get(kinds.VMIS, {})
    for key in [key for key in stored if key.name in vms]:
        del stored[key]
    for vm in vms:
        rig.cluster.put(kinds.PODS, raws.a_pod(f"{vm}-pod", phase="Succeeded"))
    await rig.until_still()


def ending(cluster: Cluster) -> list[str]:
    """The VMs whose guest ends, or is ended as its start goes on elsewhere."""
    return [
        f"vm{number}"
        for number, (_, state, *_) in enumerate(cluster.sets)
        if state in {"starting", "ending"}
    ]
