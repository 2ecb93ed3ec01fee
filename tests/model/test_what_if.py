"""What-ifs: sums nobody else made, and a snapshot that is left as it was."""

from hypothesis import given
from hypothesis import strategies as st

from gpu.config import Guard
from gpu.model import settling, what_if, what_if_budgets
from gpu.model.draft import Draft
from gpu.model.drain_plan import Circumstances
from gpu.model.settling import Why
from gpu.units import QuotaKey, TenantName, Units
from tests import sampling, strategies
from tests.builders import a_claim, a_class, a_node, a_release, a_snapshot
from tests.model import oracles

WIDE = Circumstances(guard=Guard(share=1.0, at_least=1000))
few = sampling.examples(60)


def shape(snapshot):
    """Everything of a snapshot that an answer could have changed by mistake."""
    book = snapshot.ledger
    return (
        {name: dict(room) for name, room in book.free_units.items()},
        {name: dict(room) for name, room in book.reserved.items() if any(room.values())},
        dict(book.used_units),
        dict(snapshot.claims),
        snapshot.tree,
        [node.name for node in snapshot.given.nodes],
    )


@few
@given(strategies.clusters(), st.sampled_from(strategies.KEYS), st.integers(0, 9))
def test_a_snapshot_that_is_asked_is_left_as_it_was(objects, key, to):
    snapshot = a_snapshot(**objects)
    before = shape(snapshot)
    for node in snapshot.nodes:
        what_if.lose_node(snapshot, WIDE, node)
        what_if.add_nodes(snapshot, WIDE, node, 2)
    for node in what_if.nodes(snapshot):
        what_if.cordon_node(snapshot, WIDE, node)
    what_if_budgets.set_budget(snapshot, WIDE, TenantName("tenant-a"), QuotaKey(key), Units(to))
    assert shape(snapshot) == before


@few
@given(
    strategies.clusters(),
    st.sampled_from(strategies.TENANTS),
    st.sampled_from(strategies.KEYS),
    st.integers(0, 9),
)
def test_another_budget_gives_what_a_cluster_that_declares_it_has(objects, tenant, key, to):
    snapshot = a_snapshot(**objects)
    budget, _ = what_if_budgets.set_budget(
        snapshot, WIDE, TenantName(tenant), QuotaKey(key), Units(to)
    )
    declared = {one.tenant: dict(one.declared.units) for one in objects["releases"]}
    declared.setdefault(tenant, {})[key] = to
    changed = {
        **objects,
        "releases": [a_release(name, units) for name, units in declared.items()],
    }
    known = oracles.used(changed, objects["claims"], tenant, key, strategies.TENANTS)
    assert budget.used == known
    whole = a_snapshot(**changed)
    made = what_if_budgets.with_tree(snapshot, whole.tree)
    used = {charge: units for charge, units in whole.ledger.used_units.items() if units}
    assert {charge: units for charge, units in made.ledger.used_units.items() if units} == used
    assert settling.settle(Draft.of(made), WIDE) == settling.settle(Draft.of(whole), WIDE)


@few
@given(strategies.clusters(), st.sampled_from(strategies.KEYS), st.integers(0, 6))
def test_without_the_claims_that_are_over_the_budget_is_kept_and_not_without_fewer(
    objects, key, to
):
    tenant = "tenant-a"
    snapshot = a_snapshot(**objects)
    budget, found = what_if_budgets.set_budget(
        snapshot, WIDE, TenantName(tenant), QuotaKey(key), Units(to)
    )
    releases = [one for one in objects["releases"] if one.tenant != tenant]
    changed = {**objects, "releases": releases}
    over = [fate.claim.key for fate in (*found.over, *found.stuck)]
    kept = [claim for claim in objects["claims"] if claim.key not in over]

    def used(claims):
        return oracles.used(changed, claims, tenant, key, strategies.TENANTS)

    if not budget.excess:
        assert found.over == ()
        return
    bare = [claim for claim in objects["claims"] if not claim.tenant.startswith(tenant)]
    assert used(kept) <= to or used(kept) == used(bare)
    if found.over and not found.stuck:
        last = found.over[-1].claim
        assert used([*kept, last]) > to


def test_a_lost_node_and_a_cordon_say_why_for_each_claim():
    objects = {
        "classes": [a_class(), a_class("stays", onCordon="Stay")],
        "nodes": [a_node("n1"), a_node("n2", units=1)],
        "claims": [
            a_claim("a", at=0, on="n1"),
            a_claim("b", at=1, on="n1", class_name="stays"),
            a_claim("c", at=2, on="n1", count=2),
        ],
    }
    snapshot = a_snapshot(**objects)

    def told(fates):
        return {fate.claim.meta.name: (fate.why, fate.to) for fate in fates}

    cordoned = what_if.cordon_node(snapshot, WIDE, "n1")
    assert told(cordoned.movable) == {"a": (Why.AT_ONCE, "n2")}
    assert told(cordoned.stuck) == {"b": (Why.CLASS_STAYS, None), "c": (Why.NO_ROOM, None)}
    lost = what_if.lose_node(snapshot, WIDE, "n1")
    assert told(lost.movable) == {"a": (Why.AT_ONCE, "n2")}
    assert told(lost.lost) == {"b": (Why.NO_ROOM, None), "c": (Why.NO_ROOM, None)}


def test_the_guard_asks_about_a_second_node_that_is_lost():
    gone = {"displaced": {"at": "2026-01-01T00:10:00Z", "node": "n0", "cause": "NodeGone"}}
    snapshot = a_snapshot(
        nodes=[a_node("n1"), a_node("n2")],
        claims=[
            a_claim("away", at=0, on="n2", status=gone),
            *(a_claim(f"c{age}", at=age, on="n1") for age in range(1, 4)),
        ],
    )
    strict = Circumstances(guard=Guard(share=0.0, at_least=1))
    found = what_if.lose_node(snapshot, strict, "n1")
    assert (len(found.movable), len(found.stuck), found.held_back) == (1, 2, 2)
    assert what_if.lose_node(snapshot, WIDE, "n1").held_back == 0


def test_a_key_that_nobody_declares_is_bounded_from_then_on():
    snapshot = a_snapshot(claims=[a_claim("a", on="n1", count=2)])
    budget, found = what_if_budgets.set_budget(
        snapshot, WIDE, TenantName("tenant-a"), QuotaKey("gpu.cozystack.io/total"), Units(1)
    )
    assert (budget.was, budget.used, budget.excess) == (None, 2, 1)
    assert [fate.claim.meta.name for fate in found.over] == ["a"]
