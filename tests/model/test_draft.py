import pytest

from gpu.model.draft import Draft
from tests.builders import H100, a_claim, a_release, a_snapshot, budget

TOTAL = "gpu.cozystack.io/total"


def state(draft):
    rooms = {name: dict(room) for name, room in draft.ledger.free_units.items()}
    used = {key: units for key, units in draft.ledger.used_units.items() if units}
    return rooms, used, {claim.key: claim for claim in draft.claims()}


def test_a_bound_claim_is_on_its_node_in_the_draft_and_not_in_the_snapshot():
    claim = a_claim(count=3)
    snapshot = a_snapshot(claims=[claim])
    draft = Draft.of(snapshot)
    bound = draft.bind(claim, "n1")
    assert (bound.phase, bound.node) == ("Bound", "n1")
    assert draft.claim(claim.key) == bound
    assert snapshot.claim(claim.key) == claim
    assert (draft.ledger.free("n1", H100), snapshot.ledger.free("n1", H100)) == (5, 8)


def test_a_claim_nobody_knows_is_not_found():
    assert Draft.of(a_snapshot()).claim(("tenant-a", "nope")) is None


def test_an_unbound_claim_is_as_the_snapshot_has_it_and_what_came_after_stands():
    one, two = a_claim("one", count=3, at=1), a_claim("two", count=2, at=2)
    draft = Draft.of(a_snapshot(claims=[one, two]))
    draft.bind(one, "n1")
    draft.bind(two, "n1")
    draft.unbind(one)
    assert draft.claim(one.key) == one
    assert draft.ledger.free("n1", H100) == 6
    assert draft.ledger.used("tenant-a", TOTAL) == 2


def test_a_rebound_lost_claim_that_is_unbound_is_lost_again_and_charged_once():
    lost = a_claim(lost="gone", count=3)
    draft = Draft.of(a_snapshot(claims=[lost]))
    draft.bind(lost, "n1")
    assert (draft.ledger.free("n1", H100), draft.ledger.used("tenant-a", TOTAL)) == (5, 3)
    draft.unbind(lost)
    assert (draft.ledger.free("n1", H100), draft.ledger.used("tenant-a", TOTAL)) == (8, 3)


def test_unbinding_what_was_never_bound_changes_nothing():
    claim = a_claim(on="n1")
    draft = Draft.of(a_snapshot(claims=[claim]))
    before = state(draft)
    draft.unbind(claim)
    assert state(draft) == before


def test_what_is_done_under_a_savepoint_is_undone_unless_kept():
    one, two = a_claim("one", at=1), a_claim("two", at=2)
    draft = Draft.of(a_snapshot(claims=[one, two], releases=[a_release(quotas=budget(h100=4))]))
    draft.count_older(None)
    before = state(draft)
    with draft.savepoint():
        draft.bind(one, "n1")
        draft.count_older(one.age)
    assert state(draft) == before
    with draft.savepoint() as point:
        draft.bind(one, "n1")
        point.keep()
    assert draft.ledger.free("n1", H100) == 7


def test_an_error_undoes_a_savepoint_even_when_kept_before():
    claim = a_claim()
    draft = Draft.of(a_snapshot(claims=[claim]))
    before = state(draft)

    def broken():
        with draft.savepoint() as point:
            draft.bind(claim, "n1")
            point.keep()
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert state(draft) == before


def test_budgets_count_settled_claims_always_and_waiting_ones_up_to_an_age():
    claims = [
        a_claim("bound", on="n1", at=9),
        a_claim("lost", lost="n1", at=9),
        a_claim("going", deleting=True, at=9),
        *(a_claim(f"p{at}", count=10, at=at) for at in (1, 2, 3)),
    ]
    draft = Draft.of(a_snapshot(claims=claims))

    def used(than):
        draft.count_older(than)
        return draft.ledger.used("tenant-a", TOTAL)

    ages = [claim.age for claim in draft.snapshot.pending]
    assert used(ages[0]) == 3
    assert used(ages[2]) == 23
    assert used(ages[1]) == 13
    assert used(None) == 33
    assert used(ages[0]) == 3


def test_a_bound_order_stays_charged_whatever_age_is_asked_for():
    claim = a_claim(at=5, count=2)
    draft = Draft.of(a_snapshot(claims=[claim]))
    draft.bind(claim, "n1")
    draft.count_older(a_claim("older", at=1).age)
    assert draft.ledger.used("tenant-a", TOTAL) == 2


def a_template(name="tpl-1", count=2):
    return a_claim(name, count=count)


def test_an_added_claim_is_shown_and_bound_like_any_other_and_dropped_without_a_trace():
    taken = a_snapshot(claims=[a_claim("x")])
    draft = Draft.of(taken)
    before = state(draft)
    made = a_template()
    draft.add(made)
    assert [claim.key.name for claim in draft.claims()] == ["x", "tpl-1"]
    bound = draft.bind(made, "n1")
    assert draft.on_node("n1") == (bound,)
    assert draft.ledger.free("n1", H100) == 6
    assert draft.ledger.used("tenant-a", "gpu.cozystack.io/total") == 2
    draft.put(made)
    draft.drop(made)
    assert state(draft) == before
    assert draft.claim(made.key) is None
    assert [item.id for item in draft.sets] == ["tenant-a/x"]


def test_a_savepoint_takes_back_an_added_claim():
    draft = Draft.of(a_snapshot())
    before = state(draft)
    with draft.savepoint():
        draft.add(a_template())
        draft.bind(a_template(), "n1")
    assert state(draft) == before
    assert draft.sets == ()
