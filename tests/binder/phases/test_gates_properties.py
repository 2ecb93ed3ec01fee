"""Phase gates over random clusters: no unit twice, whole or nothing, oldest first; the checker agrees."""

from collections import Counter

from hypothesis import assume, given
from hypothesis import strategies as st

from gpu.binder.changes import Place
from gpu.binder.checking import Checker
from gpu.binder.phases import gates
from gpu.binder.start_changes import CreateClaim, Pin
from tests import sampling
from tests.binder import gated, interrupting, raws
from tests.binder.scenes import a_scene


@st.composite
def worlds(draw):
    """Nodes by units, idle holds by node, starts by units (0: one held claim of its own), a budget."""
    nodes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))
    holds = draw(st.lists(st.tuples(st.integers(0, len(nodes) - 1), st.integers(1, 3)), max_size=3))
    wanted = draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    budget = draw(st.one_of(st.none(), st.integers(0, 12)))
    # What is held fits: an overdrawn node is emptied over several passes.
    in_use = Counter({0: sum(not units for units in wanted)})
    for node, count in holds:
        in_use[node] += count
    assume(all(in_use[node] <= units for node, units in enumerate(nodes)))
    return nodes, holds, wanted, budget


def scene_of(nodes, holds, wanted, budget):
    claims = [
        interrupting.held(f"hold{n}", f"n{node}", count=count, at=n)
        for n, (node, count) in enumerate(holds)
    ]
    vmis, pods = [], []
    for n, units in enumerate(wanted):
        held = () if units else (f"own{n}",)
        if held:
            status = raws.attached(f"vm{n}", uid=f"vmi-vm{n}", admission=f"adm-own{n}")
            claims.append(interrupting.held(f"own{n}", "n0", at=30 + n, **status))
        start = gated.a_start(
            f"vm{n}",
            held=held,
            units={"h100": units} if units else None,
            asks=units or 1,
            at=n,
        )
        vmis += start["vmis"]
        pods += start["pods"]
    quotas = {} if budget is None else {"total": budget}
    return a_scene(
        classes=[raws.a_class()],
        nodes=[raws.a_node(f"n{n}", units=units) for n, units in enumerate(nodes)],
        claims=claims,
        vmis=vmis,
        pods=pods,
        namespaces=[raws.a_tenant(it) for it in ("tenant-root", "tenant-a")],
        releases=[raws.a_release(**quotas)] if quotas else [],
    )


def expected(nodes, holds, wanted, budget):
    """Go through the starts, oldest first, and try every node."""
    free = dict(enumerate(nodes))
    for node, count in holds:
        free[node] -= count
    owners = [n for n, units in enumerate(wanted) if not units]
    free[0] -= len(owners)
    used = sum(count for _, count in holds) + len(owners)
    at = {}
    for n, units in enumerate(wanted):
        if units and budget is not None and used + units > budget:
            continue
        amount = units or 1
        rooms = {node: left + (node == 0 and not units) for node, left in free.items()}
        fits = [node for node, left in rooms.items() if left >= amount and nodes[node]]
        if not fits:
            continue
        node = min(fits, key=lambda it: (it != 0 or units > 0, rooms[it] - amount, f"n{it}"))
        at[f"vm{n}"] = f"n{node}"
        free[0] += not units
        free[node] -= amount
        used += units
    return at


@sampling.examples(60)
@given(worlds())
def test_starts_are_placed_as_one_who_tries_every_node_would(world):
    scene = scene_of(*world)
    wanted = tuple(gates.changes_of(scene))
    assert {pin.vmi.name: pin.node for pin in wanted if isinstance(pin, Pin)} == expected(*world)
    assert Checker(world=scene.world).judge(wanted) == ()


@sampling.examples(60)
@given(worlds())
def test_a_start_is_whole_and_what_waits_makes_nothing(world):
    scene = scene_of(*world)
    wanted = tuple(gates.changes_of(scene))
    pins = {pin.vmi.name: pin.node for pin in wanted if isinstance(pin, Pin)}
    made = Counter(change.set_id for change in wanted if isinstance(change, CreateClaim))
    assert set(made.values()) <= {1}
    places = [change for change in wanted if isinstance(change, Place)]
    for change in places:
        noted = change.attachment
        assert noted is not None
        assert pins[noted.vmi] == change.node
    assert len(scene.findings.waiting or {}) == len(world[2]) - len(pins)
    before = {name: dict(room) for name, room in scene.world.snapshot.ledger.reserved.items()}
    after = {name: dict(room) for name, room in scene.draft.ledger.reserved.items()}
    kept = {(node, name) for node, name, _ in scene.draft.ledger.withheld}
    for name, room in after.items():
        for node, units in room.items():
            if (node, name) not in kept:
                assert units == before.get(name, {}).get(node, 0)
