"""Drain plans beside the binder: the node is cordoned, guests end, and what was told happens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.model import drain_plan
from gpu.model.drain_plan import Circumstances, Outcome, Plan
from gpu.model.guests import Guest
from gpu.objects import kinds
from tests import sampling
from tests.binder import drains
from tests.binder.drains import Cluster
from tests.binder.rig import Rig

pytestmark = pytest.mark.long  # whole passes over random clusters

quick = sampling.examples(25)
ENDS = {Guest.ENDING, Guest.STARTING}


def told(rig: Rig) -> Plan:
    """The plan of n1, as it is told before anything happens."""
    world = drains.world(rig)
    about = Circumstances(guard=rig.config.guard, binders=world.binders)
    found = {plan.node.name: plan for plan in drain_plan.plans(world.snapshot, about)}
    return found["n1"]


async def cordon(rig: Rig, cluster: Cluster) -> None:
    rig.cluster.put(kinds.NODES, drains.a_node(cluster, "n1", cordoned=True))
    await rig.until_still()


def where(rig: Rig, found) -> set[str | None]:
    placed = rig.placed()
    return {placed.get(str(claim.key)) for claim in found.claims}


@quick
@given(drains.clusters(st.just(1000)))
async def test_what_is_told_is_what_happens_once_the_node_is_cordoned(cluster):
    rig = drains.rig_of(cluster)
    await rig.until_still()
    plan = told(rig)
    await cordon(rig, cluster)
    for found in plan.sets:
        assert where(rig, found) == {found.to if found.at_once else "n1"}, found
    await drains.end(rig, *(one.vm.name for one in plan.sets if one.guest in ENDS))
    for found in plan.sets:
        if found.outcome is not Outcome.MOVE_WHEN_STOPPED:
            assert where(rig, found) == {found.to or "n1"}, found
    await drains.end(rig, *(one.vm.name for one in plan.sets if one.guest is Guest.RUNNING))
    for found in plan.sets:
        assert where(rig, found) == {found.to or "n1"}, found


@quick
@given(drains.clusters(st.integers(0, 4)))
async def test_what_the_guard_will_hold_back_is_told(cluster):
    rig = drains.rig_of(cluster)
    await rig.until_still()
    plan = told(rig)
    await cordon(rig, cluster)
    for found in plan.sets:
        assert where(rig, found) == {found.to if found.at_once else "n1"}, found
        assert not (found.at_once and found.held_back)


@quick
@given(drains.clusters(st.just(1000)))
async def test_every_set_on_the_node_is_told_once_and_nothing_is_changed_by_telling(cluster):
    rig = drains.rig_of(cluster)
    await rig.until_still()
    world = drains.world(rig)
    about = Circumstances(guard=rig.config.guard)
    before = list(drain_plan.plans(world.snapshot, about))
    again = list(drain_plan.plans(world.snapshot, about))
    assert before == again
    for plan in before:
        on_it = {
            str(key) for key, claim in world.snapshot.claims.items() if claim.node == plan.node.name
        }
        assert sorted(str(claim.key) for found in plan.sets for claim in found.claims) == sorted(
            on_it
        )
