"""What-ifs beside the binder: the change is made, and what was told happens."""

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpu import keys
from gpu.config import RunningGuests
from gpu.model import settling, what_if, what_if_budgets
from gpu.model.draft import Draft
from gpu.model.drain_plan import Circumstances
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from gpu.units import NodeName, QuotaKey, TenantName, Units
from tests import sampling
from tests.binder import drains, raws
from tests.binder.rig import Rig

pytestmark = pytest.mark.long  # whole passes over random clusters

quick = sampling.examples(25)
TOTAL = QuotaKey(keys.QUOTA_TOTAL)
AN_ORDER_THAT_COMES_BEFORE_A_START_ENDS = drains.Cluster(
    spare=(2, 1, 1),
    cordoned=(False, False, True),
    sets=(
        ("n1", "off", 1, 1, "h100"),
        ("n1", "off", 1, 1, "h100"),
        ("n3", "starting", 1, 2, "h100"),
        ("n3", "starting", 1, 2, "h100"),
    ),
    orders=(2,),
)
"""It is bound while the starts on n3 are ended; these choose their nodes beside it."""


async def at_rest(cluster, **config):
    """A leader with nothing left to do, the stored world, and what plans rest on."""
    rig = drains.rig_of(cluster)
    if config:
        rig = rig.next_leader(config=replace(rig.config, **config))
    await rig.until_still()
    world = drains.world(rig)
    about = Circumstances(
        guard=rig.config.guard, running=rig.config.running_guests, binders=world.binders
    )
    return rig, world, about


def phase(rig: Rig, fate) -> str:
    stored = rig.claim(fate.claim.meta.name, fate.claim.meta.namespace)
    return stored["status"].get("phase", "Pending")


@quick
@given(drains.clusters(st.just(1000)), st.sampled_from(RunningGuests))
async def test_a_lost_node_comes_to_what_was_told(cluster, running):
    rig, world, about = await at_rest(cluster, running_guests=running)
    told = what_if.lose_node(world.snapshot, about, NodeName("n1"))
    del rig.cluster._objects[kinds.NODES][ObjectKey("", "n1")]
    await rig.until_still()
    placed = rig.placed()
    assert {str(one.claim.key): placed.get(str(one.claim.key)) for one in told.movable} == {
        str(one.claim.key): one.to for one in told.movable
    }
    assert {phase(rig, one) for one in told.lost} <= {"Lost"}
    on_it = {key for key, claim in world.snapshot.claims.items() if claim.node == "n1"}
    assert {one.claim.key for one in (*told.lost, *told.movable, *told.stuck)} == on_it


@quick
@given(drains.clusters(st.just(1000)), st.integers(1, 2))
@example(AN_ORDER_THAT_COMES_BEFORE_A_START_ENDS, 1)
async def test_nodes_that_are_added_let_in_what_was_told(cluster, count):
    rig, world, about = await at_rest(cluster)
    before = rig.placed()
    told = what_if.add_nodes(world.snapshot, about, NodeName("n1"), count)
    for number in range(1, count + 1):
        fresh = drains.a_node(cluster, "n1", cordoned=False)
        fresh["metadata"]["name"] = f"added-{number}"
        rig.cluster.put(kinds.NODES, fresh)
    await rig.until_still()
    await drains.end(rig, *drains.ending(cluster))
    left = settling.settle(Draft.of(world.snapshot), about).left.values()
    anyway = {str(c.key) for one in left if one.why in settling.GOES for c in one.claims}
    placed = rig.placed().items()
    new = {key: node for key, node in placed if before.get(key) != node and key not in anyway}
    assert new == {str(one.claim.key): one.to for one in (*told.let_in, *told.movable)}


@quick
@given(drains.clusters(st.just(1000)), st.integers(0, 6), st.integers(0, 20))
async def test_a_raised_budget_lets_in_what_was_told_and_a_lowered_one_takes_nothing(
    cluster, low, high
):
    rig = drains.rig_of(cluster)
    rig.store(releases=[raws.a_release(total=low)])
    await rig.until_still()
    world, before = drains.world(rig), rig.placed()
    about = Circumstances(guard=rig.config.guard, binders=world.binders)
    _, told = what_if_budgets.set_budget(
        world.snapshot, about, TenantName("tenant-a"), TOTAL, Units(high)
    )
    rig.cluster.put(kinds.HELM_RELEASES, raws.a_release(total=high))
    await rig.until_still()
    new = {key: node for key, node in rig.placed().items() if key not in before}
    assert new == {str(one.claim.key): one.to for one in told.let_in}
    assert before.items() <= rig.placed().items()
