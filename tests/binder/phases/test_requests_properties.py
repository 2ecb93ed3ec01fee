"""Phase requests over random clusters, beside one who tries every node; the checker agrees with the plan."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from gpu.binder.answer_changes import Answer
from gpu.binder.checking import Checker
from gpu.binder.phases import requests
from tests import sampling
from tests.binder import asking, raws
from tests.binder.scenes import a_scene

CLASSES = [raws.a_class("moves"), raws.a_class("stays", onCordon="Stay")]


@dataclass
class Node:
    units: int
    cordoned: bool
    ready: bool

    @property
    def takes(self):
        return self.units > 0 and self.ready and not self.cordoned


@dataclass
class Claim:
    name: str
    at: int
    stays: bool
    count: int
    phase: str
    node: int | None

    @property
    def held(self):
        return self.node if self.phase == "Bound" else None


@dataclass
class World:
    nodes: list[Node]
    starts: list[list[Claim]]
    budget: int | None
    kept: dict[int, int] = field(default_factory=dict)
    """Units by node that moves free, which nobody gets before they are stored."""


@st.composite
def worlds(draw):
    nodes = draw(
        st.lists(
            st.builds(Node, st.integers(0, 6), st.booleans(), st.sampled_from([True, True, False])),
            min_size=1,
            max_size=3,
        )
    )
    places = st.one_of(
        st.tuples(st.just("Pending"), st.none()),
        st.tuples(st.sampled_from(["Bound", "Bound", "Lost"]), st.integers(0, len(nodes) - 1)),
    )
    parts = st.tuples(st.booleans(), st.integers(1, 3), places, st.integers(0, 59))
    starts = draw(st.lists(st.lists(parts, min_size=1, max_size=3), min_size=1, max_size=4))
    budget = draw(st.one_of(st.none(), st.none(), st.integers(0, 14)))
    made = [
        [
            Claim(f"c{n}{i}", at, stays, count, phase, node)
            for i, (stays, count, (phase, node), at) in enumerate(one)
        ]
        for n, one in enumerate(starts)
    ]
    return World(nodes, made, budget)


def stored(n, one, names):
    return asking.claim(
        one.name,
        f"n{one.node}" if one.phase == "Bound" else None,
        lost=f"n{one.node}" if one.phase == "Lost" else None,
        asks=names,
        vm=f"vm{n}",
        id_=f"r{n}",
        count=one.count,
        at=one.at,
        class_name="stays" if one.stays else "moves",
        template=one.phase == "Pending",
        meta={"uid": one.name},
    )


def scene_of(world):
    claims = [
        stored(n, one, [it.name for it in start])
        for n, start in enumerate(world.starts)
        for one in start
    ]
    return a_scene(
        classes=CLASSES,
        nodes=[
            raws.a_node(
                f"n{n}",
                units=node.units,
                ready=str(node.ready),
                **({"unschedulable": True} if node.cordoned else {}),
            )
            for n, node in enumerate(world.nodes)
        ],
        claims=claims,
        namespaces=[raws.a_tenant(it) for it in ("tenant-root", "tenant-a")],
        releases=[raws.a_release(total=world.budget)] if world.budget is not None else [],
        config=asking.CONFIG,
    )


def expected(world):
    """Answer one start after the other: its node, or None."""
    found = {}
    for n, start in sorted(enumerate(world.starts), key=lambda it: turn(*it)):
        node = answer(world, start, turn(n, start)[1])
        found[f"vm{n}"] = None if node is None else f"n{node}"
        for one in start if node is not None else ():
            if one.held is not None and one.held != node:
                world.kept[one.held] = world.kept.get(one.held, 0) + one.count
            one.phase, one.node = "Bound", node
    return found


def turn(n, start):
    orders = [(0, one.at, one.name) for one in start if one.phase == "Pending"]
    return (not any(one.phase == "Lost" for one in start), min(orders, default=(1, n, "")))


def answer(world, start, age):
    new = sum(one.count for one in start if one.phase == "Pending")
    if new and world.budget is not None and new + used(world, age) > world.budget:
        return None
    wants = sum(one.count for one in start)
    homes = {one.held for one in start}
    home = homes.pop() if len(homes) == 1 else None
    is_whole = home is not None and free(world, home) >= 0 and world.nodes[home].units > 0
    at_home = world.nodes[home] if home is not None else None
    if is_whole and at_home.cordoned and any(one.stays for one in start):
        return home
    if is_whole and at_home.takes:
        return home
    rooms = {}
    for n, node in enumerate(world.nodes):
        mine = sum(one.count for one in start if one.held == n)
        left = free(world, n) - world.kept.get(n, 0) + mine - wants
        if node.takes and left >= 0:
            rooms[n] = (-mine, left if not mine else 0, n)
    if rooms:
        return min(rooms, key=rooms.__getitem__)
    return home if is_whole and at_home.cordoned and at_home.ready else None


def free(world, n):
    claims = [one for start in world.starts for one in start]
    return world.nodes[n].units - sum(one.count for one in claims if one.held == n)


def used(world, age):
    claims = [one for start in world.starts for one in start]
    older = [one for one in claims if one.phase != "Pending" or (0, one.at, one.name) < age]
    return sum(one.count for one in older)


@sampling.examples(250)
@given(worlds())
def test_starts_are_answered_as_one_who_tries_every_node_would(world):
    scene = scene_of(world)
    wanted = tuple(requests.changes_of(scene))
    assert Checker(world=scene.world).judge(wanted) == ()
    found = {}
    for change in wanted:
        told = change.request if isinstance(change, Answer) else change.answer
        node = change.claim.node if isinstance(change, Answer) else change.node
        found.setdefault(told.vmi, set()).add(node if told.result == "Succeeded" else None)
    assert found == {vm: {node} for vm, node in expected(world).items()}


@sampling.examples(60)
@given(worlds())
def test_an_answer_is_whole_and_leaves_nothing_reserved(world):
    scene = scene_of(world)
    wanted = tuple(requests.changes_of(scene))
    told = [change.request if isinstance(change, Answer) else change.answer for change in wanted]
    for n, start in enumerate(world.starts):
        mine = [one for one in told if one.vmi == f"vm{n}"]
        assert len(mine) == len(start)
        assert len(set(mine)) == 1
    scene.draft.ledger.hand_out()
    assert not any(
        units for room in scene.draft.ledger.reserved.values() for units in room.values()
    )
    assert tuple(requests.changes_of(scene)) == ()
