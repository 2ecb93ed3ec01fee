"""May a tenant be granted these quotas: each rule just inside and just outside."""

import pytest

from gpu.model import grant_words, grants
from gpu.model.grants import BadKey, BadValue, BelowHeld, Change, TooMuch
from gpu.model.quota_keys import Unknown
from gpu.units import TenantName
from tests.builders import H100, a_claim, a_class, a_release, a_settings, a_snapshot, budget

GPU = "gpu.cozystack.io"
KEY = f"{GPU}/h100"
CHILD = "tenant-a-b"
NOTHING = {}


def a_tree(*claims, **declared):
    """Tenants by the rest of their name (`a`, `a_b`) with units of h100; None declares nothing."""
    names = {f"tenant-{name.replace('_', '-')}": units for name, units in declared.items()}
    return a_snapshot(
        classes=[a_class(), a_class("gold", resource="nvidia.com/GOLD")],
        claims=claims,
        releases=[
            a_release(name, {} if units is None else budget(h100=units))
            for name, units in names.items()
        ],
        settings=a_settings(H100),
    )


def judged(snapshot, new, *, child=CHILD, old=NOTHING, reserved=None):
    change = Change(tenant=TenantName(child), old=old, new=new)
    return grants.judge(snapshot, change, reserved)


def lefts(ruling):
    return {one.tenant: one.left for one in ruling.objections if isinstance(one, TooMuch)}


def using(count, tenant="tenant-a", name="c"):
    return a_claim(name, tenant=tenant, count=count, on="n1")


@pytest.mark.parametrize("units", [0, 1, 4])
def test_a_child_may_have_all_that_its_parent_has_left(units):
    found = judged(a_tree(a=4), budget(h100=units))
    assert not found.objections
    assert found.bounding == {"tenant-a": budget(h100=units)}


def test_one_more_than_is_left_is_too_much():
    (found,) = judged(a_tree(a=4), budget(h100=5)).objections
    assert found == TooMuch(
        key=KEY,
        wanted=5,
        left=4,
        tenant="tenant-a",
        own=True,
        hard=4,
        promised=0,
        used=0,
        reserved=False,
    )


@pytest.mark.parametrize(
    ("tree", "left"),
    [
        pytest.param(a_tree(a=6, a_c=2), 4, id="a sibling's promise"),
        pytest.param(
            a_tree(using(3, "tenant-a-c"), a=6, a_c=2), 3, id="a sibling over its promise"
        ),
        pytest.param(a_tree(using(3, "tenant-a-c"), a=6), 3, id="a sibling that declares nothing"),
        pytest.param(a_tree(using(3), a=6), 3, id="the parent's own use"),
        pytest.param(a_tree(using(3, CHILD), a=6), 6, id="the child's own use is taken out"),
        pytest.param(a_tree(a=6, a_b=5), 6, id="the child's own promise is taken out"),
        pytest.param(a_tree(a=6, a_b_x=5), 6, id="what is below the child is its own"),
        pytest.param(a_tree(a=6, a_c=2, a_c_x=9), -3, id="a sibling that promised too much"),
    ],
)
def test_what_is_left_is_what_others_neither_use_nor_were_promised(tree, left):
    assert lefts(judged(tree, budget(h100=7))) == {"tenant-a": left}
    assert not judged(tree, budget(h100=max(left, 0))).objections


def test_an_unbounded_parent_hides_no_bounded_grandparent():
    tree = a_tree(a=4, a_m=None)
    child = "tenant-a-m-n"
    assert lefts(judged(tree, budget(h100=5), child=child)) == {"tenant-a": 4}
    found = judged(tree, budget(h100=4), child=child)
    assert found.bounding == dict.fromkeys(("tenant-a", "tenant-a-m"), budget(h100=4))


def test_every_tenant_above_is_asked_and_the_tightest_told():
    tree = a_tree(using(1, "tenant-b"), root=6, a=None, a_m=9)
    found = judged(tree, budget(h100=9), child="tenant-a-m-n")
    assert found.bounding.keys() == {"tenant-root", "tenant-a", "tenant-a-m"}
    # 9 promised to tenant-a-m of 6: overdrawn, so nothing more is promised below it.
    assert lefts(found) == {"tenant-root": 0}


def test_a_promise_within_the_parents_own_promise_takes_nothing_from_above():
    tree = a_tree(root=6, a=4, c=2)
    assert not judged(tree, budget(h100=4)).objections
    assert judged(tree, budget(h100=4)).bounding.keys() == {"tenant-root", "tenant-a"}


def test_only_what_is_left_is_told_of_a_tenant_above_the_parent():
    tree = a_tree(using(1, "tenant-c"), root=6, a=None)
    (found,) = judged(tree, budget(h100=9)).objections
    words = grant_words.words(found)
    assert f'exceeds the remaining "{KEY}" quota of 5 that tenant-root leaves' in words
    assert "6" not in words


def test_nobody_is_above_the_root_and_it_is_nobodys_sibling():
    tree = a_tree(root=6, a=6)
    assert not judged(tree, budget(h100=99), child="tenant-root", old=budget(h100=6)).objections
    assert not judged(tree, budget(h100=6), child="tenant-a", old=budget(h100=5)).objections


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param({KEY: 7}, {KEY: 7, "cpu": 9}, id="unchanged"),
        pytest.param({KEY: "7"}, {KEY: 7}, id="spelled otherwise"),
        pytest.param({KEY: 7}, {KEY: 6}, id="lowered and still too much"),
        pytest.param({KEY: 7}, {}, id="removed"),
        pytest.param({KEY: "junk"}, {KEY: "junk"}, id="unreadable and unchanged"),
        pytest.param({f"{GPU}/gone": 2}, {f"{GPU}/gone": 2}, id="unknown and unchanged"),
        pytest.param({f"{GPU}/gone": 2}, {f"{GPU}/gone": 1}, id="unknown and lowered"),
        pytest.param({H100: 2}, {H100: 1}, id="a raw name, denied by now, lowered"),
    ],
)
def test_what_stays_or_is_lowered_passes_and_needs_no_reservation(old, new):
    found = judged(a_tree(a=4, a_b=7), new, old=old)
    assert (found.objections, found.bounding) == ((), {})


@pytest.mark.parametrize(
    "old", [{}, {KEY: 4}, {KEY: "junk"}, {KEY: None}], ids=["absent", "less", "junk", "null"]
)
def test_what_is_raised_or_new_is_judged(old):
    assert lefts(judged(a_tree(a=4), {KEY: 5}, old=old)) == {"tenant-a": 4}


@pytest.mark.parametrize(
    "value", ["1.5", 1.5, "500m", -1, "-1", "", "x", "4GB", None, True, {}, []], ids=repr
)
def test_what_is_no_whole_number_is_refused_by_key(value):
    (found,) = judged(a_tree(a=4), {KEY: value}).objections
    assert isinstance(found, BadValue)
    assert found.key == KEY
    assert "write a whole number of units" in grant_words.words(found)


@pytest.mark.parametrize("value", [4, "4", "4000m", "4e0", "0.4e1", "+4", 4.0, "4."], ids=repr)
def test_every_form_of_a_whole_number_is_read(value):
    assert judged(a_tree(a=4), {KEY: value}).bounding == {"tenant-a": {KEY: 4}}


def test_objections_are_one_a_key_and_sorted():
    new = {KEY: 9, f"{GPU}/gold": "x", f"{GPU}/h10": 1, "cpu": -1, "a.io/b": "junk"}
    found = judged(a_tree(a=4), new).objections
    assert [(type(one), one.key) for one in found] == [
        (BadValue, f"{GPU}/gold"),
        (BadKey, f"{GPU}/h10"),
        (TooMuch, KEY),
    ]


def test_an_unknown_key_names_the_near_one_and_lists_the_valid_ones():
    (found,) = judged(a_tree(a=4), {f"{GPU}/h10": 1}).objections
    assert found == BadKey(f"{GPU}/h10", Unknown(KEY), (f"{GPU}/total", f"{GPU}/gold", KEY))
    assert grant_words.words(found) == (
        f"{GPU}/h10 is no GPU quota key, did you mean {KEY}?; "
        f"valid keys: {GPU}/total, {GPU}/gold, {KEY}"
    )


def test_a_long_list_of_valid_keys_is_cut():
    snapshot = a_snapshot(classes=[a_class(f"c{n}") for n in range(40)])
    (found,) = judged(snapshot, {f"{GPU}/none-such": 1}).objections
    assert grant_words.words(found).endswith("and 21 more")


def test_a_thousand_strange_keys_are_not_all_compared_with_ours():
    strange = {f"nvidia.com/GH100_H10x{number}": 1 for number in range(1000)}
    found = judged(a_tree(a=4), strange).objections
    assert 1 <= len(found) <= grants.MOST_FOREIGN


@pytest.mark.parametrize(
    ("tree", "old", "new", "below"),
    [
        pytest.param(a_tree(a_b=5, a_b_x=3), 5, 3, None, id="just what is promised below"),
        pytest.param(a_tree(a_b=5, a_b_x=3), 5, 2, 3, id="below what is promised"),
        pytest.param(a_tree(using(4, CHILD), a_b=5), 5, 2, 4, id="below its own use"),
        pytest.param(a_tree(using(4, CHILD)), None, 2, 4, id="first declared below its use"),
        pytest.param(a_tree(using(4, CHILD), a_b=2), 2, 3, 4, id="raised and still below"),
        pytest.param(a_tree(using(4, CHILD), a_b=2), 2, 2, None, id="unchanged"),
    ],
)
def test_less_than_is_held_passes_with_a_warning(tree, old, new, below):
    old = {} if old is None else {KEY: old}
    found = judged(tree, {KEY: new}, old=old)
    assert not found.objections
    assert found.below == (() if below is None else (BelowHeld(KEY, new, below),))


def test_a_warning_has_the_numbers_and_what_comes_of_it():
    assert grant_words.warning(BelowHeld(KEY, 2, 5)) == (
        f"{KEY}: 2 granted, 5 in use or promised to tenants below. Nothing is taken away; "
        "nothing new is ordered or promised before 3 are given back"
    )


@pytest.mark.parametrize(
    ("tree", "reserved", "left"),
    [
        pytest.param(a_tree(a=6), {"tenant-a-c": 2}, 4, id="a sibling not seen yet"),
        pytest.param(a_tree(a=6, a_c=1), {"tenant-a-c": 2}, 4, id="a sibling being raised"),
        pytest.param(a_tree(a=6, a_c=3), {"tenant-a-c": 2}, 3, id="a sibling that has more"),
        pytest.param(a_tree(a=6), {CHILD: 5}, 6, id="its own"),
        pytest.param(a_tree(a=6), {"tenant-a-c-x": 2}, 4, id="below an undeclared sibling"),
        pytest.param(a_tree(a=6, a_c=3), {"tenant-a-c-x": 2}, 3, id="within a sibling's promise"),
        pytest.param(a_tree(a=6), {"tenant-a": 9}, 6, id="the parent being raised"),
        pytest.param(a_tree(root=9), {"tenant-a": 5}, 5, id="the parent not seen yet"),
    ],
)
def test_what_is_reserved_for_others_counts_as_promised(tree, reserved, left):
    amounts = {tenant: budget(h100=units) for tenant, units in reserved.items()}
    assert list(lefts(judged(tree, budget(h100=9), reserved=amounts)).values()) == [left]
    assert not judged(tree, budget(h100=left), reserved=amounts).objections


def test_a_parent_that_is_reserved_alone_bounds_too():
    found = judged(a_tree(root=9), budget(h100=2), reserved={"tenant-a": budget(h100=5)})
    assert found.bounding.keys() == {"tenant-root", "tenant-a"}


def test_a_refusal_that_may_pass_by_itself_says_so():
    reserved = {"tenant-a-c": budget(h100=2)}
    (found,) = judged(a_tree(a=6), budget(h100=5), reserved=reserved).objections
    assert found.reserved
    assert "reserved for a change of the last half minute" in grant_words.words(found)
    (certain,) = judged(a_tree(a=6), budget(h100=7), reserved=reserved).objections
    assert not certain.reserved


def test_a_key_that_nobody_above_declares_is_unlimited_and_reserved_with_whoever_may_come_to():
    found = judged(a_tree(a=None), budget(h100=10**6), child="tenant-a-m-n")
    assert not found.objections
    assert found.bounding.keys() == {"tenant-a", "tenant-a-m"}
