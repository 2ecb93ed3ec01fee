"""Architecture section 6, against oracles that share no arithmetic with the model."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.model import budgets, capacity, mates, offers, orders
from gpu.model.draft import Draft
from gpu.model.orders import Accepted, Order, Refused
from gpu.objects.claims import Phase
from tests import sampling, strategies
from tests.builders import H100, a_claim, a_class, a_node, a_snapshot
from tests.model import oracles
from tests.strategies import CLASSES, KEYS, RESOURCES, TENANTS

pytestmark = pytest.mark.long  # properties over whole clusters

quick = sampling.examples(25)


def work(draft, among=None):
    """What the binder does: orders oldest first, each that is accepted is bound, beside its VM's claims."""
    bound = {}
    for claim in orders.waiting(draft) if among is None else among:
        verdict = orders.check(draft, orders.of(claim, mates.of(draft, claim)))
        if isinstance(verdict, Accepted):
            for one in (*verdict.gathered, claim):
                draft.bind(one, verdict.node)
            bound[claim.key] = verdict.node
    return bound


@quick
@given(strategies.clusters())
def test_free_units_are_what_a_sum_over_all_objects_gives(objects):
    snapshot = a_snapshot(**objects)
    for node in objects["nodes"]:
        for resource in oracles.gpu_names(objects):
            expected = oracles.serves(objects, node, resource) - oracles.in_use(
                objects, objects["claims"], node.name, resource
            )
            assert capacity.free(snapshot, node.name, resource) == expected


@quick
@given(strategies.clusters())
def test_usage_is_what_a_recursion_over_all_tenants_gives(objects):
    book = a_snapshot(**objects).counted()
    for tenant in TENANTS:
        for key in KEYS:
            expected = oracles.used(objects, objects["claims"], tenant, key, TENANTS)
            assert (tenant, key, book.used(tenant, key)) == (tenant, key, expected)


@quick
@given(strategies.clusters(), st.integers(0, 3))
def test_what_is_left_of_a_budget_fits_and_one_more_does_not(objects, extra):
    book = a_snapshot(**objects).counted()
    for tenant in TENANTS[1:]:
        left = budgets.left(book, tenant, oracles.keys_of(objects, "h100"))
        if left is None:
            continue
        for count in {1, left, left + 1, left + 1 + extra} - {0}:
            order = a_claim("new", tenant=tenant, count=count)
            broken = oracles.breaks_budget(objects, objects["claims"], order, TENANTS)
            assert broken is (count > left)


@quick
@given(strategies.clusters())
def test_every_verdict_of_a_pass_is_the_naive_one(objects):
    """Without Lost claims, whose units are set aside: those have their own tests."""
    objects = dict(objects) | {
        "claims": [claim for claim in objects["claims"] if claim.phase is not Phase.LOST]
    }
    draft = Draft.of(a_snapshot(**objects))
    for claim in orders.waiting(draft):
        counted = [
            item
            for item in draft.claims()
            if item.phase is not Phase.PENDING or item.meta.deleting or item.age < claim.age
        ]
        verdict = orders.check(draft, orders.of(claim))
        node = verdict.node if isinstance(verdict, Accepted) else None
        assert node == oracles.verdict(objects, counted, claim, TENANTS)
        if node is not None:
            draft.bind(claim, node)


@quick
@given(strategies.clusters())
def test_a_pass_never_books_past_what_a_node_serves_or_a_budget_allows(objects):
    draft = Draft.of(a_snapshot(**objects))
    bound = work(draft)
    settled = [item for item in draft.claims() if item.phase is not Phase.PENDING]
    for key, node in bound.items():
        claim = draft.claim(key)
        resource = RESOURCES[claim.class_name]
        where = next(item for item in objects["nodes"] if item.name == node)
        use = oracles.in_use(objects, settled, node, resource)
        assert use <= oracles.serves(objects, where, resource)
        others = [item for item in settled if item.key != key]
        assert not oracles.breaks_budget(objects, others, claim, TENANTS)


@quick
@given(strategies.clusters())
def test_a_second_pass_binds_nothing_more(objects):
    draft = Draft.of(a_snapshot(**objects))
    work(draft)
    again = Draft.of(a_snapshot(**(dict(objects) | {"claims": list(draft.claims())})))
    assert work(again) == {}


@quick
@given(strategies.clusters(), st.randoms(use_true_random=False))
def test_the_order_of_listed_objects_changes_nothing(objects, random):
    shuffled = {
        name: random.sample(items, len(items)) if isinstance(items, list) else items
        for name, items in objects.items()
    }
    first, second = a_snapshot(**objects), a_snapshot(**shuffled)
    assert work(Draft.of(first)) == work(Draft.of(second))
    for tenant in TENANTS:
        assert offers.offers(first, tenant) == offers.offers(second, tenant)
        assert budgets.gates(first, tenant) == budgets.gates(second, tenant)


@quick
@given(strategies.clusters())
def test_what_is_offered_is_accepted_and_one_more_is_refused(objects):
    snapshot = a_snapshot(**objects)
    for tenant in TENANTS:
        for offer in offers.offers(snapshot, tenant):
            order = Order(tenant=tenant, class_name=offer.class_name, count=offer.orderable)
            more = orders.check(snapshot, replace(order, count=order.count + 1))
            assert isinstance(more, Refused)
            assert more.would_fit == offer.orderable
            assert more.refusals == offer.refusals
            if offer.orderable:
                assert isinstance(orders.check(snapshot, order), Accepted)


@quick
@given(strategies.clusters())
def test_a_new_order_accepted_on_the_snapshot_is_bound_by_the_next_pass(objects):
    snapshot = a_snapshot(**objects)
    for tenant, name in zip(TENANTS, CLASSES, strict=False):
        order = a_claim("new", tenant=tenant, class_name=name, count=2, at=99)
        verdict = orders.check(snapshot, replace(orders.of(order), age=None))
        stored = a_snapshot(**(dict(objects) | {"claims": [*objects["claims"], order]}))
        node = verdict.node if isinstance(verdict, Accepted) else None
        assert work(Draft.of(stored)).get(order.key) == node


@quick
@given(strategies.clusters())
def test_lost_claims_count_for_budgets_and_not_for_capacity(objects):
    """As Pending ones do: which of the two a claim is changes neither."""
    waiting = [
        replace(item, phase=Phase.PENDING, node=None) if item.phase is Phase.LOST else item
        for item in objects["claims"]
    ]
    lost, pending = a_snapshot(**objects), a_snapshot(**(dict(objects) | {"claims": waiting}))
    assert lost.ledger.free_units == pending.ledger.free_units
    assert lost.counted().used_units == pending.counted().used_units


@quick
@given(strategies.clusters(), st.data())
def test_undoing_leaves_a_draft_as_it_was_whatever_was_done(objects, data):
    draft = Draft.of(a_snapshot(**objects))
    waiting = orders.waiting(draft)
    if waiting:
        work(draft, data.draw(st.lists(st.sampled_from(waiting), max_size=2)))
    before = _state(draft)
    with draft.savepoint():
        work(draft)
        for claim in data.draw(st.permutations(list(draft.claims()))):
            draft.unbind(claim)
        draft.count_older(None)
    assert _state(draft) == before


@quick
@given(strategies.clusters(), st.data())
def test_what_was_unbound_leaves_the_rest_as_if_it_had_never_been_bound(objects, data):
    draft = Draft.of(a_snapshot(**objects))
    bound = [draft.claim(key) for key in work(draft)]
    undone = data.draw(st.sets(st.sampled_from([claim.key for claim in bound]))) if bound else set()
    for claim in bound:
        if claim.key in undone:
            draft.unbind(claim)
    fresh = Draft.of(draft.snapshot)
    for claim in bound:
        if claim.key not in undone:
            fresh.bind(claim, claim.node)
    draft.count_older(None)
    fresh.count_older(None)
    assert _amounts(draft) == _amounts(fresh)


def _state(draft):
    claims = {claim.key: claim for claim in draft.claims()}
    verdicts = [
        orders.most(draft, tenant, name)
        for tenant in TENANTS
        for name in CLASSES
        if name in draft.snapshot.classes
    ]
    return claims, _amounts(draft), verdicts


def _amounts(draft):
    book = draft.ledger
    return (
        {
            (name, node): units
            for name, room in book.free_units.items()
            for node, units in room.items()
            if units
        },
        {
            (name, node): units
            for name, room in book.held.items()
            for node, units in room.items()
            if units
        },
        {key: units for key, units in book.used_units.items() if units},
    )


def test_the_oracle_can_tell_a_wrong_ledger_from_a_right_one():
    objects = {
        "classes": [a_class()],
        "nodes": [a_node()],
        "claims": [a_claim(on="n1", count=3)],
        **{name: [] for name in ("pods", "vmis", "releases", "inventory", "namespaces")},
    }
    draft = Draft.of(a_snapshot(**objects))
    (node,) = objects["nodes"]
    right = oracles.serves(objects, node, H100) - oracles.in_use(
        objects, objects["claims"], "n1", H100
    )
    assert (right, capacity.free(draft, "n1", H100)) == (5, 5)
    draft.ledger.hold("n1", H100, -3)
    assert capacity.free(draft, "n1", H100) != right
