import pytest

from gpu.model import placement, turns
from gpu.model.draft import Draft
from tests.builders import L40, a_claim, a_class, a_node, a_snapshot


def nodes(**units):
    return [a_node(name, units=amount) for name, amount in units.items()]


@pytest.mark.parametrize(
    ("served", "wanted", "chosen"),
    [
        pytest.param({"a": 8, "b": 4, "c": 2}, 2, "c", id="the fullest with room"),
        pytest.param({"a": 8, "b": 4, "c": 2}, 3, "b", id="not one too small"),
        pytest.param({"b": 4, "a": 4}, 1, "a", id="of equals the first by name"),
        pytest.param({"a": 8, "b": 8}, 9, None, id="no one node has enough"),
        pytest.param({"a": 8}, 8, "a", id="just enough"),
        pytest.param({}, 1, None, id="no node"),
    ],
)
def test_the_fullest_node_with_room_is_chosen(served, wanted, chosen):
    draft = Draft.of(a_snapshot(nodes=nodes(**served)))
    assert placement.choose(draft, {"h100": wanted}) == chosen


def test_nodes_that_take_no_sets_are_passed_over():
    served = [a_node("a", units=2, cordoned=True), a_node("b", units=8)]
    assert placement.choose(Draft.of(a_snapshot(nodes=served)), {"h100": 2}) == "b"


def test_an_unknown_class_is_placed_nowhere():
    assert placement.choose(Draft.of(a_snapshot()), {"nope": 1}) is None


def test_what_was_bound_since_is_seen_and_what_was_undone_is_not():
    one, two = a_claim("one", count=3), a_claim("two", count=2)
    draft = Draft.of(a_snapshot(nodes=nodes(a=4, b=8), claims=[one, two]))
    assert placement.choose(draft, {"h100": 3}) == "a"
    with draft.savepoint():
        draft.bind(one, "a")
        assert placement.choose(draft, {"h100": 3}) == "b"
        assert placement.largest(draft, "h100") == 8
        assert placement.free(draft, "h100") == 9
    assert placement.choose(draft, {"h100": 3}) == "a"
    draft.bind(two, "b")
    assert placement.free(draft, "h100") == 10
    draft.unbind(two)
    assert placement.free(draft, "h100") == 12


def test_a_set_needs_one_node_for_all_its_classes_with_the_fewest_units_left_over_all():
    classes = [a_class(), a_class("l40", resource=L40)]
    served = [
        a_node("a", units=8, also={L40: 1}),
        a_node("b", units=4, also={L40: 8}),
        a_node("c", units=6, also={L40: 4}),
        a_node("d", units=2),
    ]
    draft = Draft.of(a_snapshot(classes=classes, nodes=served))
    assert placement.choose(draft, {"h100": 2, "l40": 1}) == "a"
    assert placement.choose(draft, {"h100": 2, "l40": 2}) == "c"
    assert placement.choose(draft, {"h100": 7, "l40": 2}) is None


def test_two_classes_of_one_resource_share_its_units_and_count_it_once():
    tolerant = a_class("other", tolerations=[{"operator": "Exists"}])
    draft = Draft.of(a_snapshot(classes=[a_class(), tolerant], nodes=nodes(a=3, b=5)))
    assert placement.choose(draft, {"h100": 2, "other": 1}) == "a"
    assert placement.choose(draft, {"h100": 2, "other": 2}) == "b"
    assert placement.choose(draft, {"h100": 3, "other": 3}) is None


def test_units_a_lost_set_could_take_are_reserved_for_it():
    lost = a_claim("lost", lost="gone", count=3)
    draft = Draft.of(a_snapshot(nodes=nodes(a=3, b=2), claims=[lost]))
    turns.serve_lost(draft)
    turns.serve_lost(draft)
    assert (placement.free(draft, "h100"), placement.largest(draft, "h100")) == (2, 2)
    assert draft.ledger.free("a", lost_resource(draft)) == 3


def lost_resource(draft):
    return draft.snapshot.classes["h100"].resource


def test_the_oldest_lost_set_that_fits_nowhere_keeps_the_nearest_node():
    claims = [
        a_claim("old", lost="gone", count=6, at=1),
        a_claim("young", lost="gone", count=5, at=2),
        a_claim("holder", on="b", count=3),
        a_claim("holder2", on="a", count=4),
    ]
    draft = Draft.of(a_snapshot(nodes=nodes(a=8, b=8, c=4), claims=claims))
    turns.serve_lost(draft)
    assert draft.earmarks == {lost_resource(draft): "b"}
    assert placement.choose(draft, {"h100": 5}) is None
    assert placement.choose(draft, {"h100": 4}) == "a"
    assert (placement.free(draft, "h100"), placement.largest(draft, "h100")) == (8, 4)


def test_a_lost_set_no_node_is_large_enough_for_keeps_none():
    draft = Draft.of(a_snapshot(nodes=nodes(a=8), claims=[a_claim(lost="gone", count=9)]))
    turns.serve_lost(draft)
    assert draft.earmarks == {}
    assert placement.free(draft, "h100") == 8


def test_a_kept_node_is_kept_from_its_own_resource_only():
    classes = [a_class(), a_class("l40", resource=L40)]
    served = [a_node("a", units=4, also={L40: 4})]
    claims = [a_claim("lost", lost="gone", count=4), a_claim("holder", on="a", count=1)]
    draft = Draft.of(a_snapshot(classes=classes, nodes=served, claims=claims))
    turns.serve_lost(draft)
    assert placement.choose(draft, {"h100": 1}) is None
    assert placement.choose(draft, {"l40": 1}) == "a"


def test_a_kept_node_is_kept_from_sets_of_several_classes_too():
    classes = [a_class(), a_class("l40", resource=L40)]
    served = [a_node("a", units=4, also={L40: 4}), a_node("b", units=2, also={L40: 4})]
    claims = [a_claim("lost", lost="gone", count=4), a_claim("holder", on="a", count=2)]
    draft = Draft.of(a_snapshot(classes=classes, nodes=served, claims=claims))
    assert placement.choose(draft, {"h100": 1, "l40": 1}) == "a"
    turns.serve_lost(draft)
    assert placement.choose(draft, {"h100": 1, "l40": 1}) == "b"


def test_a_deleted_lost_claim_reserves_nothing():
    claims = [a_claim(lost="gone", count=3, deleting=True)]
    draft = Draft.of(a_snapshot(claims=claims))
    turns.serve_lost(draft)
    assert placement.free(draft, "h100") == 8
