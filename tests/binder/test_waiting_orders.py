"""However many orders wait, what a pass makes of them is what judging each by itself would give."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.binder import phases, results
from gpu.binder.changes import ClaimStatus, Place
from gpu.binder.phase import Scene
from gpu.config import Config
from gpu.model import mates, orders, turns
from gpu.model.draft import Draft
from gpu.model.orders import Accepted
from gpu.objects.claims import Phase
from tests import sampling, strategies
from tests.binder import naive_orders
from tests.binder.scenes import NOW
from tests.builders import a_claim, a_vm, a_world

pytestmark = pytest.mark.long  # whole passes beside the naive walk

quick = sampling.examples(40)
BEFORE = [phase.name for phase in phases.PASS].index("orders")


KINDS = st.tuples(
    st.sampled_from(strategies.TENANTS), st.sampled_from(strategies.CLASSES), st.integers(1, 3)
)


@st.composite
def crowds(draw):
    """Many orders of few kinds, some of VMs that are off, beside a cluster in which anything goes."""
    objects = dict(draw(strategies.clusters()))
    few = draw(st.lists(KINDS, min_size=1, max_size=3))
    objects["claims"] = [
        *objects["claims"],
        *(
            a_claim(
                f"w{n}", tenant=tenant, class_name=name, count=count, at=draw(st.integers(0, 5))
            )
            for n, (tenant, name, count) in enumerate(
                draw(st.lists(st.sampled_from(few), max_size=14))
            )
        ),
    ]
    everyone = [claim.key for claim in objects["claims"]]
    named = draw(st.sets(st.sampled_from(everyone), max_size=4)) if everyone else set()
    objects["vms"] = [
        a_vm("off", tenant=tenant, claims=sorted(k.name for k in named if k.namespace == tenant))
        for tenant in sorted({key.namespace for key in named})
    ]
    return a_world(**objects)


def scenes(world, now=NOW, **more):
    """Two of one world, each at the turn of its orders."""
    for _ in range(2):
        draft = Draft.of(world.snapshot)
        scene = Scene(world=world, draft=draft, config=Config(), now=now, **more)
        for phase in phases.PASS[:BEFORE]:
            list(phase.changes(scene))
            scene.draft.ledger.hand_out()
        yield scene


def amounts(draft):
    """Everything in the books but what comes to nothing."""
    draft.count_older(None)
    book = draft.ledger
    return [
        {
            (name, node): units
            for name, room in part.items()
            for node, units in room.items()
            if units
        }
        for part in (book.free_units, book.held, book.reserved)
    ] + [{place: units for place, units in book.used_units.items() if units}]


@quick
@given(crowds(), st.data())
def test_a_pass_makes_of_waiting_orders_what_judging_each_by_itself_makes(world, data):
    ids = st.sets(st.sampled_from(sorted(str(claim.key) for claim in world.claims)), max_size=2)
    left = {}
    if world.claims and data.draw(st.booleans(), label="some sets are left alone"):
        left = {"skip": frozenset(data.draw(ids)), "later": frozenset(data.draw(ids))}
    for second in range(3):
        ours, naive = scenes(world, NOW + timedelta(seconds=second), **left)
        wanted = list(phases.PASS[BEFORE].changes(ours))
        assert wanted == list(naive_orders.changes_of(naive))
        assert amounts(ours.draft) == amounts(naive.draft)
        world = after(world, wanted, data)


def after(world, wanted, data):
    """The world once these are stored, and something has changed perhaps."""
    stored = {claim.key: claim for claim in world.claims}
    stored.update(
        (change.claim.key, results.after(change))
        for change in wanted
        if isinstance(change, ClaimStatus)
    )
    holders = sorted(key for key, claim in stored.items() if claim.phase is Phase.BOUND)
    if holders and data.draw(st.booleans(), label="a hold is given back"):
        del stored[data.draw(st.sampled_from(holders))]
    return replace(world, claims=tuple(stored.values()))


@quick
@given(crowds(), st.data())
def test_what_a_new_order_is_told_is_what_judging_each_before_it_gives(world, data):
    snapshot = world.snapshot
    slow = Draft.of(snapshot)
    turns.serve_lost(slow)
    for claim in orders.waiting(slow):
        spot, why = naive_orders.judge(slow, orders.of(claim, mates.of(slow, claim)))
        for one in () if why else (*spot.gathered, claim):
            slow.bind(one, spot.node)
    assert amounts(orders.queued(snapshot)) == amounts(slow)
    for count in data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=4)):
        order = orders.Order(
            tenant=data.draw(st.sampled_from(strategies.TENANTS)),
            class_name=data.draw(st.sampled_from(strategies.CLASSES)),
            count=count,
        )
        spot, why = naive_orders.judge(slow, order)
        verdict = orders.check(snapshot, order)
        if isinstance(verdict, Accepted):
            assert (why, verdict.node) == ((), spot.node)
        else:
            assert verdict.refusals == why


def test_the_naive_way_finds_places_too():
    world = a_world(claims=[a_claim("x")])
    _, naive = scenes(world)
    assert [type(change) for change in naive_orders.changes_of(naive)] == [Place]
