"""Phase moves on any cluster: whole sets, no more than its share, the same whoever lists the objects."""

import random
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.binder.changes import Change, EndGuest, Lose, Place
from gpu.binder.phase import Scene
from gpu.binder.phases import moves
from gpu.config import Guard, RunningGuests
from gpu.model import guard, keeping
from gpu.objects.claims import Cause
from gpu.world import World
from tests import sampling
from tests.binder import raws
from tests.binder.phases.node_stories import CONFIG, a_hold, a_scene, degraded, guest, node_with
from tests.binder.scenes import NOW, scene_of

pytestmark = pytest.mark.long  # whole passes over random clusters

quick = sampling.examples(25)

NODES = ("n1", "n2", "n3", "n4")
CAUSES = (None, *keeping.CAUSES)
STATES = ("off", "gated", "starting", "running", "ending", "ended")


@dataclass(frozen=True)
class Cluster:
    """Nodes by what ails them, and sets by node, guest, members and units each."""

    troubles: tuple[Cause | None, ...]
    sets: tuple[tuple[str, str, int, int], ...]
    limit: int
    running: RunningGuests
    said: bool
    """Claims have said UnitsMissing and the like long enough."""


CLUSTERS = st.builds(
    Cluster,
    troubles=st.tuples(*[st.sampled_from(CAUSES)] * len(NODES)),
    sets=st.lists(
        st.tuples(
            st.sampled_from(NODES), st.sampled_from(STATES), st.integers(1, 2), st.integers(1, 2)
        ),
        max_size=7,
    ).map(tuple),
    limit=st.integers(0, 8),
    running=st.sampled_from(RunningGuests),
    said=st.booleans(),
)


def objects_of(cluster: Cluster) -> dict[str, list[raws.Raw]]:
    found: dict[str, list[raws.Raw]] = {"claims": [], "vmis": [], "pods": [], "vms": []}
    troubles = dict(zip(NODES, cluster.troubles, strict=True))
    for number, (node, state, members, units) in enumerate(cluster.sets):
        vm = f"vm{number}"
        made = guest(state, vm, node)
        names = [f"c{number}-{member}" for member in range(members)]
        cause = troubles[node]
        said = degraded(cause) if cluster.said and cause not in {None, Cause.NODE_CORDONED} else {}
        found["claims"] += [
            a_hold(name, node, at=number, count=units, **said, **made["attached"]) for name in names
        ]
        found["vms"].append(raws.a_vm(vm, claims=names))
        found["vmis"] += made["vmis"]
        found["pods"] += made["pods"]
    found["nodes"] = [
        node for name, cause in troubles.items() for node in node_with(cause, name, units=4)
    ]
    return found


def scene_for(cluster: Cluster, objects: dict[str, list[raws.Raw]]) -> Scene:
    config = replace(
        CONFIG,
        guard=Guard(share=0.0, at_least=cluster.limit),
        running_guests=cluster.running,
    )
    claims = objects["claims"]
    rest: dict[str, Any] = {name: found for name, found in objects.items() if name != "claims"}
    return a_scene(*claims, config=config, **rest)


def at(scene: Scene) -> dict[str, set[tuple[str, str | None]]]:
    """Phase and node of the members of each set, by set id."""
    return {
        item.id: {(claim.phase.value, claim.node) for claim in item.claims}
        for item in scene.draft.sets
    }


def displaced(changes: list[Change]) -> dict[str, tuple[str, str]]:
    """Where from and why each set goes that is moved, lost or has its guest ended."""
    found = {}
    for change in changes:
        if isinstance(change, Place | Lose):
            assert change.displaced is not None
            found[change.set_id] = (change.displaced.node, change.displaced.cause)
        elif isinstance(change, EndGuest):
            found[change.set_id] = (change.node, change.cause)
    return found


@quick
@given(CLUSTERS)
def test_only_whole_sets_change_and_never_while_a_pod_may_run(cluster):
    scene = scene_for(cluster, objects_of(cluster))
    changes = list(moves.changes_of(scene))
    assert all(len(places) == 1 for places in at(scene).values())
    placed = {change.set_id for change in changes if isinstance(change, Place)}
    for set_id in placed:
        node, state, *_ = cluster.sets[int(set_id.split("/c")[1].split("-")[0])]
        gone = scene.draft.snapshot.nodes.get(node) is None
        assert state in {"off", "gated", "ended"} or (state == "ending" and gone)


@quick
@given(CLUSTERS)
def test_no_node_is_given_more_than_it_has(cluster):
    scene = scene_for(cluster, objects_of(cluster))
    before = {n: scene.draft.ledger.free(n, raws.RESOURCE) for n in NODES}
    for change in list(moves.changes_of(scene)):
        if isinstance(change, Place):
            after = scene.draft.ledger.room(change.node, raws.RESOURCE)
            assert 0 <= after <= before[change.node]


@quick
@given(CLUSTERS)
def test_no_more_goes_than_the_guard_lets_go_but_of_the_first_lost_node(cluster):
    scene = scene_for(cluster, objects_of(cluster))
    goes = displaced(list(moves.changes_of(scene)))
    lost = {node for node, cause in goes.values() if cause in guard.LOSSES}
    counted = [set_id for set_id, (node, cause) in goes.items() if cause not in guard.LOSSES]
    of_nodes = {
        node: sum(where == (node, cause) for where in goes.values() for cause in guard.LOSSES)
        for node in lost
    }
    spared = max(of_nodes.values(), default=0)
    assert len(counted) + sum(of_nodes.values()) - spared <= cluster.limit


@quick
@given(CLUSTERS, st.integers())
def test_the_order_of_objects_does_not_matter(cluster, seed):
    objects = objects_of(cluster)
    scene = scene_for(cluster, objects)
    first = list(moves.changes_of(scene))
    dice = random.Random(seed)
    world = scene.world
    shuffled = {
        name: tuple(dice.sample(getattr(world, name), len(getattr(world, name))))
        for name in ("claims", "nodes", "pods", "vmis", "vms")
    }
    again = scene_of(replace(world, **shuffled), config=scene.config)
    assert list(moves.changes_of(again)) == first


def after(scene: Scene, changes: list[Change]) -> World:
    """The cluster once the changes are written: claims as planned, VMIs of ended guests going."""
    ended = {change.vmi for change in changes if isinstance(change, EndGuest)}
    vmis = tuple(
        replace(vmi, meta=replace(vmi.meta, deleting=True)) if vmi.meta.key in ended else vmi
        for vmi in scene.world.vmis
    )
    return replace(scene.world, claims=tuple(scene.draft.claims()), vmis=vmis)


@quick
@given(CLUSTERS)
def test_a_second_pass_changes_nothing(cluster):
    """Once the guard has no say: what it lets go in the next pass is another matter."""
    cluster = replace(cluster, limit=1000)
    scene = scene_for(cluster, objects_of(cluster))
    world = after(scene, list(moves.changes_of(scene)))
    again = scene_of(world, config=scene.config)
    second = list(moves.changes_of(again))
    assert [change for change in second if isinstance(change, EndGuest)] == []
    world = after(again, second)
    assert list(moves.changes_of(scene_of(world, config=scene.config))) == []


@quick
@given(CLUSTERS)
def test_nothing_happens_where_every_node_is_well_again(cluster):
    """A cordon lifted, a node that came back: what has not happened yet does not happen."""
    objects = objects_of(cluster)
    objects["nodes"] = [node for name in NODES for node in node_with(None, name, units=32)]
    scene = scene_for(cluster, objects)
    changes = list(moves.changes_of(scene))
    assert displaced(changes) == {}
    assert all(claim.conditions == () for claim in scene.draft.claims())
    assert scene.now == NOW
