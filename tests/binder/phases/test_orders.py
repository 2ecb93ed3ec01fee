"""Phase orders: World in, changes out."""

from dataclasses import replace

import pytest

from gpu.binder import conditions
from gpu.binder.changes import Explain, How, Place
from gpu.binder.phases import orders
from gpu.model import lasting, refusals
from gpu.objects.claims import Cause, Displaced, GPUClaim
from gpu.objects.meta import ObjectKey
from gpu.units import ClassName, NodeName, QuotaKey, ResourceName, TenantName, Units
from tests.binder import raws
from tests.binder.scenes import NOW, a_scene, only, scene_of

CLAIM = {"finalizers": ["gpu.cozystack.io/claim"]}
TENANTS = [raws.a_tenant("tenant-root"), raws.a_tenant("tenant-a"), raws.a_tenant("tenant-b")]


def an_order(name: str = "x", **more):
    return raws.a_claim(name, meta=CLAIM | more.pop("meta", {}), **more)


def scene(*claims, nodes=None, **more):
    return a_scene(
        claims=claims,
        classes=more.pop("classes", [raws.a_class()]),
        nodes=nodes or [raws.a_node("n1", units=8)],
        namespaces=TENANTS,
        **more,
    )


def claim_of(found, name: str = "x") -> GPUClaim:
    return only(claim for claim in found.world.claims if claim.meta.name == name)


def place(found, name: str, node: str) -> Place:
    claim = claim_of(found, name)
    return Place(claim=claim, node=NodeName(node), at=NOW, set_id=str(claim.key))


def explain(found, *reasons: refusals.Refusal, name: str = "x") -> Explain:
    claim = claim_of(found, name)
    return Explain(claim=claim, refusals=reasons, at=NOW, set_id=str(claim.key))


def test_an_order_goes_to_the_fullest_node_with_room():
    found = scene(
        an_order(count=3),
        nodes=[raws.a_node("a", units=8), raws.a_node("b", units=3), raws.a_node("c", units=2)],
    )
    assert tuple(orders.changes_of(found)) == (place(found, "x", "b"),)


def test_orders_are_served_oldest_first_and_see_what_the_older_ones_took():
    found = scene(an_order("young", count=5, at=2), an_order("old", count=5, at=1))
    assert tuple(orders.changes_of(found)) == (
        place(found, "old", "n1"),
        explain(found, refusals.NoFreeUnits(ClassName("h100"), Units(5), Units(3)), name="young"),
    )


def test_a_waiting_order_that_fits_nowhere_does_not_block_a_younger_one():
    found = scene(an_order("large", count=9, at=1), an_order("small", count=1, at=2))
    small, large = orders.changes_of(found)
    assert isinstance(large, Explain)
    assert small == place(found, "small", "n1")


def test_an_order_refused_for_good_is_told_what_the_younger_ones_left():
    """Told at its own turn, it would say something else in the next pass, which changes nothing."""
    found = scene(
        an_order("old", count=5, at=1, class_name="retired"),
        an_order("young", count=5, at=2),
        classes=[raws.a_class(), raws.a_class("retired", retired=True)],
    )
    _, old = orders.changes_of(found)
    assert isinstance(old, Explain)
    assert old.refusals[1:] == (refusals.NoFreeUnits(ClassName("retired"), Units(5), Units(3)),)


def test_a_budget_takes_the_oldest_orders_and_no_more():
    names = [f"x{n}" for n in range(5)]
    found = scene(
        *(an_order(name, at=n) for n, name in enumerate(names)),
        releases=[raws.a_release("tenant-a", total=2)],
    )
    placed = [change for change in orders.changes_of(found) if isinstance(change, Place)]
    assert placed == [place(found, "x0", "n1"), place(found, "x1", "n1")]


REFUSED = {
    "an unknown class": (
        scene(an_order(class_name="nope")),
        refusals.NoSuchClass(ClassName("nope")),
    ),
    "a retired class": (
        scene(an_order(), classes=[raws.a_class(retired=True)]),
        refusals.ClassRetired(ClassName("h100")),
    ),
    "a deleting class": (
        scene(
            an_order(),
            classes=[raws.a_class(meta={"deletionTimestamp": "2026-01-01T01:00:00Z"})],
        ),
        refusals.ClassDeleting(ClassName("h100")),
    ),
    "too many in one claim": (
        scene(an_order(count=3), classes=[raws.a_class(maxCount=2)]),
        refusals.OverMaxCount(ClassName("h100"), Units(3), Units(2)),
    ),
    "no node serves it": (
        scene(an_order(), nodes=[raws.a_node(resource="nvidia.com/OTHER")]),
        refusals.NoNodeServes(ClassName("h100"), ResourceName(raws.RESOURCE)),
    ),
    "every node is cordoned": (
        scene(an_order(), nodes=[raws.a_node(unschedulable=True)]),
        refusals.NoNodeEligible(ClassName("h100")),
    ),
    "no node has so many": (
        scene(an_order(count=5), nodes=[raws.a_node("n1", units=4), raws.a_node("n2", units=4)]),
        refusals.NoNodeAccepts(ClassName("h100"), Units(5), Units(8), Units(4)),
    ),
    "a vGPU class without entitlement": (
        scene(an_order(), classes=[raws.a_class(mode="vgpu")]),
        refusals.NotEntitled(ClassName("h100"), TenantName("tenant-a")),
    ),
    "a namespace that is no tenant": (
        scene(an_order(tenant="default")),
        refusals.NoTenant("default"),
    ),
    "a budget": (
        scene(an_order(count=3), releases=[raws.a_release("tenant-a", h100=2)]),
        refusals.OverBudget(
            key=QuotaKey("gpu.cozystack.io/h100"),
            wanted=Units(3),
            hard=Units(2),
            used=Units(0),
            tenant=TenantName("tenant-a"),
            own=True,
            left=Units(2),
        ),
    ),
}


@pytest.mark.parametrize(("found", "refusal"), REFUSED.values(), ids=REFUSED)
def test_an_order_that_cannot_be_met_says_why(found, refusal):
    assert tuple(orders.changes_of(found)) == (explain(found, refusal),)


def told(refusal: refusals.Refusal, **status: object) -> dict[str, object]:
    story = conditions.waiting(claim_of(scene(an_order())), (refusal,), NOW)
    return {
        "phase": "Pending",
        "term": 1,
        "reasons": list(story.reasons),
        "conditions": [
            {
                "type": item.type,
                "status": item.status,
                "reason": item.reason,
                "message": item.message,
                "lastTransitionTime": "2020-01-01T00:00:00Z",
            }
            for item in story.conditions
        ],
        **status,
    }


def test_what_is_told_already_is_not_told_again():
    status = told(refusals.NoSuchClass(ClassName("nope")))
    assert tuple(orders.changes_of(scene(an_order(class_name="nope", status=status)))) == ()


def test_a_change_of_what_others_hold_is_no_reason_to_write():
    reason = refusals.NoFreeUnits(ClassName("h100"), Units(9), Units(8))
    status = told(reason)
    holder = raws.a_claim("held", count=3, meta=CLAIM, status=raws.bound("n1"))
    assert tuple(orders.changes_of(scene(holder, an_order(count=9, status=status)))) == ()


def test_another_reason_is_told():
    status = told(refusals.NoSuchClass(ClassName("h100")))
    found = scene(an_order(count=9, status=status))
    assert tuple(orders.changes_of(found)) == (
        explain(found, refusals.NoFreeUnits(ClassName("h100"), Units(9), Units(8))),
    )


@pytest.mark.parametrize(
    "claim",
    [
        an_order(meta={"labels": {"gpu.cozystack.io/template-claim": "true"}}),
        an_order(meta={"deletionTimestamp": "2026-01-01T01:00:00Z"}),
        an_order(status=raws.bound()),
        an_order(status=raws.bound() | {"phase": "Lost"}),
    ],
    ids=["template", "deleting", "Bound", "Lost"],
)
def test_what_is_no_new_order_is_left_alone(claim):
    assert tuple(orders.changes_of(scene(claim))) == ()


def test_an_order_that_a_vm_was_started_with_is_bound_in_its_turn():
    """The VM waits at the gate for it."""
    found = scene(an_order(status={"phase": "Pending", "term": 1, "attachedTo": {"name": "vm"}}))
    assert [change.node for change in orders.changes_of(found)] == ["n1"]


def test_a_set_in_quarantine_takes_nothing_from_others():
    found = scene(an_order("x", count=8, at=1), an_order("y", count=8, at=2), skip={"tenant-a/x"})
    assert tuple(orders.changes_of(found)) == (place(found, "y", "n1"),)


def test_an_order_whose_write_failed_in_this_pass_keeps_its_turn():
    found = scene(an_order("x", count=5, at=1), an_order("y", count=5, at=2))
    found = replace(found, later=frozenset({"tenant-a/x"}))
    assert tuple(orders.changes_of(found)) == (
        explain(found, refusals.NoFreeUnits(ClassName("h100"), Units(5), Units(3)), name="y"),
    )


def test_nothing_is_placed_while_a_claim_cannot_be_read():
    world = replace(
        scene(an_order()).world, unreadable_claims=frozenset({ObjectKey("tenant-a", "odd")})
    )
    assert tuple(orders.changes_of(scene_of(world))) == ()


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (
            refusals.NoFreeUnits(ClassName("h100"), Units(5), Units(3)),
            "5 units of class h100 asked, fewer are free to order",
        ),
        (
            refusals.NoNodeAccepts(ClassName("h100"), Units(5), Units(8), Units(4)),
            "5 units of class h100 asked on one node, no node has that many free",
        ),
    ],
    ids=["NoFreeUnits", "NoNodeAccepts"],
)
def test_stored_words_hold_no_number_that_others_change(refusal, words):
    other = replace(refusal, free=Units(refusal.free + 1))
    assert lasting.words(refusal) == lasting.words(other)
    assert lasting.words(refusal).startswith(words)


def named(*names):
    return [raws.a_vm(claims=names)]


def test_an_order_that_a_vm_names_takes_the_others_along_where_they_have_no_room():
    found = scene(
        raws.a_claim("held", count=7, meta=CLAIM, status=raws.bound("n1"), at=1),
        an_order(count=2, at=2),
        nodes=[raws.a_node("n1"), raws.a_node("n2", units=9)],
        vms=named("held", "x"),
    )
    left = Displaced(at=NOW, node=NodeName("n1"), cause=Cause.SET_TORN)
    moved = replace(place(found, "held", "n2"), how=How.GATHERED, displaced=left)
    placed = replace(place(found, "x", "n2"), set_id="tenant-a/held")
    assert list(orders.changes_of(found)) == [moved, placed]


def test_orders_of_one_vm_end_on_one_node_or_wait():
    found = scene(
        *(an_order(f"x{n}", count=3, at=n) for n in range(4)),
        nodes=[raws.a_node("n1", units=4), raws.a_node("n2", units=9)],
        vms=named(*(f"x{n}" for n in range(4))),
    )
    told = list(orders.changes_of(found))
    assert {change.set_id for change in told} == {"tenant-a/x0"}
    assert [claim.node for claim in found.draft.claims()] == ["n2", "n2", "n2", None]
    assert isinstance(told[-1], Explain)
