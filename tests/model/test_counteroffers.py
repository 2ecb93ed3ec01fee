"""What is said of a new order, and what would be accepted in its place."""

from dataclasses import replace

import pytest

from gpu.model import counteroffers, mates, orders
from gpu.model.counteroffers import Judgement
from gpu.model.orders import Order
from gpu.model.refusals import NoFreeUnits, NoNodeForSet, NoSuchClass, NotEntitled, OverBudget
from tests.builders import (
    L40,
    a_claim,
    a_class,
    a_namespace,
    a_node,
    a_release,
    a_snapshot,
    a_vm,
    budget,
)

GRID = "nvidia.com/GRID"
CLASSES = [
    a_class("h100"),
    a_class("l40", resource=L40),
    a_class("b-vgpu", resource=GRID, mode="vgpu", maxCount=16),
]
NODES = [a_node("n1", units=4, also={L40: 8, GRID: 16})]
ENTITLED = [a_namespace(entitled=True)]


def an_order(count=1, class_name="h100", tenant="tenant-a"):
    return Order(tenant=tenant, class_name=class_name, count=count)


def said(snapshot, order):
    return counteroffers.words(order, counteroffers.judge(snapshot, order))


def test_an_order_that_can_be_met_needs_no_other_and_is_told_how_much_would_do():
    judged = counteroffers.judge(a_snapshot(nodes=NODES), an_order(3))
    assert judged == Judgement(most=4)
    assert judged.is_accepted


@pytest.mark.parametrize(
    ("objects", "order", "wanted"),
    [
        pytest.param(
            {"namespaces": ENTITLED},
            an_order(6),
            Judgement(
                refusals=(NoFreeUnits("h100", 6, 4),), most=4, alternatives=("l40", "b-vgpu")
            ),
            id="those-of-the-same-mode-come-first",
        ),
        pytest.param(
            {},
            an_order(6),
            Judgement(refusals=(NoFreeUnits("h100", 6, 4),), most=4, alternatives=("l40",)),
            id="what-the-tenant-may-not-order-is-no-alternative",
        ),
        pytest.param(
            {},
            an_order(9),
            Judgement(refusals=(NoFreeUnits("h100", 9, 4),), most=4),
            id="what-takes-only-some-is-no-alternative",
        ),
        pytest.param(
            {"releases": [a_release(quotas=budget(total=2))]},
            an_order(3),
            Judgement(
                refusals=(
                    OverBudget("gpu.cozystack.io/total", 3, 2, 0, "tenant-a", own=True, left=2),
                ),
                most=2,
            ),
            id="a-budget-of-all-classes-leaves-none",
        ),
        pytest.param(
            {},
            an_order(1, "nope"),
            Judgement(refusals=(NoSuchClass("nope"),), alternatives=("h100", "l40")),
            id="of-a-class-that-does-not-exist-by-name-alone",
        ),
        pytest.param(
            {},
            an_order(1, "b-vgpu"),
            Judgement(refusals=(NotEntitled("b-vgpu", "tenant-a"),), alternatives=("h100", "l40")),
            id="of-another-mode-where-that-mode-is-barred",
        ),
    ],
)
def test_a_refused_order_is_told_what_would_be_accepted(objects, order, wanted):
    snapshot = a_snapshot(classes=CLASSES, nodes=NODES, **objects)
    assert counteroffers.judge(snapshot, order) == wanted


@pytest.mark.parametrize(
    ("order", "end"),
    [
        pytest.param(
            an_order(6),
            "; at most 4 would be accepted now; class l40 would take all 6",
            id="less-or-another",
        ),
        pytest.param(an_order(9), "; at most 4 would be accepted now", id="less"),
        pytest.param(
            an_order(8, "b-vgpu"),
            "; no order of class b-vgpu would be accepted now; class l40 would take all 8",
            id="another",
        ),
        pytest.param(an_order(9, "b-vgpu"), "; nothing would be accepted now", id="nothing"),
    ],
)
def test_words_end_with_what_would_be_accepted(order, end):
    assert said(a_snapshot(classes=CLASSES, nodes=NODES), order).endswith(end)


def test_words_give_every_reason():
    snapshot = a_snapshot(
        classes=[a_class(maxCount=2)], nodes=NODES, releases=[a_release(quotas=budget(total=1))]
    )
    assert said(snapshot, an_order(5)) == (
        "5 units asked, one claim of class h100 may have at most 2: order several claims; "
        "5 units of class h100 asked, 4 free to order: order at most 4 or wait until units are "
        "given back; 5 units asked, budget gpu.cozystack.io/total of tenant-a is 1 and 0 are used "
        "or promised, 1 left: delete a claim or ask for a larger budget; "
        "at most 1 would be accepted now"
    )


def of_a_vm(*held, count, nodes=(("n1", 8), ("n2", 8))):
    """A snapshot with the claims of a VM that also names the claim `order`, and that claim."""
    new = a_claim("order", count=count, at=99)
    names = [claim.meta.name for claim in (*held, new)]
    snapshot = a_snapshot(
        nodes=[a_node(name, units=units) for name, units in nodes],
        claims=held,
        vms=[a_vm(claims=names)],
    )
    return snapshot, new


@pytest.mark.parametrize(
    ("held", "count", "wanted"),
    [
        pytest.param(
            (a_claim("a", on="n1", count=6),),
            3,
            Judgement(refusals=(NoNodeForSet(2, (("h100", 9),)),), most=2),
            id="beside-one",
        ),
        pytest.param(
            (a_claim("a", on="n1", count=2), a_claim("b", on="n1", count=2)),
            5,
            Judgement(refusals=(NoNodeForSet(3, (("h100", 9),)),), most=4),
            id="beside-two",
        ),
        pytest.param(
            (a_claim("a", lost="n1", count=2),),
            1,
            Judgement(refusals=(NoNodeForSet(2, (("h100", 3),)),), most=0),
            id="beside-a-lost-one",
        ),
        pytest.param((a_claim("a", on="n1", count=6),), 2, Judgement(most=2), id="it-fits"),
        pytest.param(
            (a_claim("a", on="n1", count=6, deleting=True),),
            8,
            Judgement(most=8),
            id="one-that-goes",
        ),
    ],
)
def test_an_order_that_a_vm_names_is_judged_beside_the_vms_other_claims(held, count, wanted):
    snapshot, new = of_a_vm(*held, count=count)
    assert counteroffers.judge(snapshot, counteroffers.of_claim(snapshot, new)) == wanted


def test_an_order_has_the_mates_that_it_has_once_it_is_stored():
    held = (a_claim("a", on="n1", at=2), a_claim("b", on="n1", at=1), a_claim("c", count=2, at=3))
    before, new = of_a_vm(*held, count=1)
    after = a_snapshot(
        nodes=[a_node("n1"), a_node("n2")],
        claims=[*held, new],
        vms=[a_vm(claims=["a", "b", "c", "order"])],
    )
    draft = orders.queued(after, new.age)
    stored = replace(orders.of(new, mates.of(draft, new)), age=None)
    assert [one.meta.name for one in stored.mates] == ["b", "a", "c"]
    assert counteroffers.of_claim(before, new) == stored


def test_a_vm_without_other_claims_makes_no_mates():
    snapshot, new = of_a_vm(count=1)
    assert counteroffers.of_claim(snapshot, new).mates == ()
