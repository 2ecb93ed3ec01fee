"""What-ifs where VMs wait at the gate: the change is made, and the leader lets through what was told."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpu import keys
from gpu.config import Config, Guard
from gpu.model import what_if, what_if_budgets
from gpu.model.drain_plan import Circumstances
from gpu.model.settling import Why
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from gpu.units import NodeName, QuotaKey, TenantName, Units
from tests import sampling
from tests.binder import drains, gated, raws
from tests.binder.rig import Rig

pytestmark = pytest.mark.long  # whole passes over random clusters

quick = sampling.examples(25)
HOSTNAME = "kubernetes.io/hostname"
TOTAL = QuotaKey(keys.QUOTA_TOTAL)


@dataclass(frozen=True)
class Queue:
    """What waits for units of one class: (is a start, units), oldest first; nodes as units, and Lost claims."""

    nodes: tuple[int, ...]
    waits: tuple[tuple[bool, int], ...]
    lost: tuple[int, ...] = ()
    budget: int = 100
    room: int = 0
    """Units free on the last node."""


queues = st.builds(
    Queue,
    nodes=st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple),
    waits=st.lists(st.tuples(st.booleans(), st.integers(1, 4)), min_size=1, max_size=5).map(tuple),
    lost=st.lists(st.integers(1, 4), max_size=1).map(tuple),
    budget=st.integers(0, 12),
)
A_START_BEFORE_AN_ORDER = Queue(nodes=(1,), waits=((True, 1), (False, 1)))
AN_ORDER_BEFORE_A_START = Queue(nodes=(1,), waits=((False, 1), (True, 1)))


def rooms(queue):
    return (*queue.nodes[:-1], queue.nodes[-1] + queue.room)


async def at_rest(queue):
    """A leader with nothing left to do, and what is told by; the nodes are full of another tenant's."""
    found = {"claims": [], "vmis": [], "pods": []}
    for number, units in enumerate(queue.nodes):
        if units:
            claim = raws.a_claim(
                f"full-{number}",
                tenant="tenant-b",
                count=units,
                meta=gated.OURS,
                status=raws.bound(f"n{number}"),
            )
            found["claims"].append(claim)
    for number, units in enumerate(queue.lost):
        status = {"phase": "Lost", "nodeName": "gone"}
        found["claims"].append(
            raws.a_claim(f"lost-{number}", count=units, meta=gated.OURS, status=status)
        )
    for number, (is_start, units) in enumerate(queue.waits):
        if is_start:
            start = gated.a_start(f"vm{number}", units={"h100": units}, at=10 + number)
            found["vmis"] += start["vmis"]
            found["pods"] += start["pods"]
        else:
            found["claims"].append(raws.a_claim(f"order-{number}", count=units, at=10 + number))
    rig = Rig(config=Config(guard=Guard(share=1.0, at_least=1000)))
    rig.store(
        classes=[raws.a_class()],
        namespaces=[raws.a_tenant(one) for one in ("tenant-root", "tenant-a", "tenant-b")],
        releases=[raws.a_release(total=queue.budget)],
        nodes=[raws.a_node(f"n{n}", units=units) for n, units in enumerate(rooms(queue))],
        **found,
    )
    await rig.until_still()
    world = drains.world(rig)
    about = Circumstances(guard=rig.config.guard, binders=world.binders, facts=world.fit_facts)
    return rig, world.snapshot, about


def let_through(rig):
    """The VMs whose launcher is past the gate, and the node it is pinned to."""
    return {
        key.name.removeprefix("pod-"): raws_pin(raw)
        for key, raw in rig.cluster._objects.get(kinds.PODS, {}).items()
        if not raw["spec"].get("schedulingGates")
    }


def raws_pin(raw):
    (term,) = raw["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    (field,) = term["matchFields"]
    (node,) = field["values"]
    return node


def told_of(fates):
    return {one.start.key.name: one.to for one in fates}


def of_claims(fates):
    return {str(one.claim.key): one.to for one in fates}


async def comes_to(rig, told, change):
    """Make the change; who is let through and bound by it is who was told."""
    before, through = rig.placed(), let_through(rig)
    change()
    await rig.until_still()
    vms = {name: node for name, node in let_through(rig).items() if name not in through}
    new = {key: node for key, node in rig.placed().items() if key not in before}
    own = {str(ObjectKey("tenant-a", gated.template(name))) for name in vms}
    assert vms == told_of(told.starts_let_in)
    assert {key: node for key, node in new.items() if key not in own} == of_claims(told.let_in)


@quick
@given(queues, st.integers(1, 2))
@example(A_START_BEFORE_AN_ORDER, 1)
@example(AN_ORDER_BEFORE_A_START, 1)
async def test_nodes_that_are_added_let_in_the_vms_that_were_told(queue, count):
    rig, snapshot, about = await at_rest(queue)
    told = what_if.add_nodes(snapshot, about, NodeName("n0"), count)

    def change():
        for number in range(1, count + 1):
            fresh = raws.a_node(f"added-{number}", units=queue.nodes[0])
            rig.cluster.put(kinds.NODES, fresh)

    await comes_to(rig, told, change)


@quick
@given(queues, st.integers(0, 20))
async def test_another_budget_lets_in_the_vms_that_were_told(queue, high):
    spare = replace(queue, nodes=(*queue.nodes, 0), room=4)
    rig, snapshot, about = await at_rest(spare)
    _, told = what_if_budgets.set_budget(
        snapshot, about, TenantName("tenant-a"), TOTAL, Units(high)
    )
    assert (told.stuck, told.starts_stuck) == ((), ())

    def change():
        rig.cluster.put(kinds.HELM_RELEASES, raws.a_release(total=high))

    await comes_to(rig, told, change)


async def test_an_added_node_has_a_name_of_its_own_and_not_that_of_the_node_it_is_like():
    """Pods that go by the hostname label, which says which node it is, not what it is like."""
    start = gated.a_start(units={"h100": 1})
    start["pods"][0]["spec"]["nodeSelector"] = {HOSTNAME: "n1"}
    node = raws.a_node("n1", units=1)
    node["metadata"]["labels"] = {HOSTNAME: "n1"}
    rig = Rig()
    rig.store(
        classes=[raws.a_class()],
        namespaces=[raws.a_tenant(one) for one in ("tenant-root", "tenant-a")],
        nodes=[node],
        claims=[raws.a_claim("full", meta=gated.OURS, status=raws.bound("n1"))],
        **start,
    )
    await rig.until_still()
    world = drains.world(rig)
    about = Circumstances(guard=rig.config.guard, facts=world.fit_facts)
    told = what_if.add_nodes(world.snapshot, about, NodeName("n1"), 1)
    assert told.starts_let_in == ()


async def test_a_class_that_is_retired_lets_no_vm_in_that_asks_for_its_units():
    start = gated.a_start(units={"h100": 1})
    world = raws.a_world(
        classes=[raws.a_class(), raws.a_class("b200", resource="nvidia.com/B200")],
        nodes=[raws.a_node(units=0)],
        **start,
    )
    (stuck,) = what_if.retire_class(world.snapshot, "h100").starts_stuck
    assert (stuck.start.key.name, stuck.why) == ("vm", Why.CLASS_RETIRED)
    assert what_if.retire_class(world.snapshot, "b200").starts_stuck == ()
