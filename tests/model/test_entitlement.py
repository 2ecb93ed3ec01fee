"""vGPU entitlement: own, inherited, withdrawn; what the order, the gate, the offer and waiters say."""

import pytest

from gpu.model import budgets, offers, orders
from gpu.model.budgets import GateState
from gpu.model.orders import Accepted, Order, Refused
from gpu.model.refusals import NotEntitled
from gpu.objects.claims import Phase
from tests.binder import raws
from tests.binder.rig import Rig
from tests.builders import a_claim, a_class, a_namespace, a_release, a_snapshot, budget

KEY = "gpu.cozystack.io/h100"
ENTITLED = {"gpu.cozystack.io/vgpu-entitled": "true"}
WORDS = (
    "class h100 is a vGPU class and tenant-a-b is not entitled to those: ask the hoster for the "
    "entitlement"
)


def a_site(*labelled, **objects):
    names = ("tenant-root", "tenant-a", "tenant-a-b", "tenant-a-b-c")
    return a_snapshot(
        classes=[a_class(mode="vgpu")],
        namespaces=[a_namespace(name, entitled=name in labelled) for name in names],
        **objects,
    )


@pytest.mark.parametrize(
    ("labelled", "entitled"),
    [
        pytest.param((), False, id="nobody"),
        pytest.param(("tenant-a-b",), True, id="own label"),
        pytest.param(("tenant-a",), True, id="from the parent"),
        pytest.param(("tenant-root",), True, id="from the root"),
        pytest.param(("tenant-a-b-c",), False, id="not from a child"),
    ],
)
def test_order_gate_and_offer_agree_on_who_is_entitled(labelled, entitled):
    snapshot = a_site(*labelled)
    verdict = orders.check(snapshot, Order(tenant="tenant-a-b", class_name="h100", count=1))
    gate = {one.key: one for one in budgets.gates(snapshot, "tenant-a-b")}[KEY]
    (offer,) = offers.offers(snapshot, "tenant-a-b")
    if entitled:
        assert isinstance(verdict, Accepted)
        assert (gate.state, offer.orderable) == (GateState.OPEN, 1)
    else:
        assert verdict == Refused((NotEntitled("h100", "tenant-a-b"),), 0)
        assert (gate.state, gate.reason, gate.message) == (GateState.CLOSED, "NotEntitled", WORDS)
        assert (offer.orderable, offer.reason) == (0, "NotEntitled")


def test_a_gate_without_entitlement_shows_what_is_still_held_and_declared():
    held = a_claim(tenant="tenant-a-b", on="n1")
    snapshot = a_site(claims=[held], releases=[a_release("tenant-a-b", budget(h100=3))])
    gate = {one.key: one for one in budgets.gates(snapshot, "tenant-a-b")}[KEY]
    assert (gate.hard, gate.used, gate.remaining) == (3, 1, 0)
    assert (gate.state, gate.reason) == (GateState.CLOSED, "NotEntitled")


def test_total_stays_open_for_classes_that_need_no_entitlement():
    gate = {one.key: one for one in budgets.gates(a_site(), "tenant-a-b")}
    assert gate["gpu.cozystack.io/total"].state is GateState.OPEN


def test_every_other_reason_is_told_beside_a_missing_entitlement():
    snapshot = a_site(releases=[a_release("tenant-a-b", budget(total=0))])
    verdict = orders.check(snapshot, Order(tenant="tenant-a-b", class_name="h100", count=2))
    assert [one.reason for one in verdict.refusals] == ["OverMaxCount", "OverBudget", "NotEntitled"]


async def test_where_it_is_withdrawn_holders_keep_and_orders_wait_until_it_is_back():
    rig = Rig()
    rig.store(
        classes=[raws.a_class(mode="vgpu")],
        nodes=[raws.a_node(units=4), raws.a_node("n2", units=4)],
        namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant("tenant-a", **ENTITLED)],
        claims=[raws.a_claim("held", count=1)],
    )
    await rig.until_still()
    assert rig.placed() == {"tenant-a/held": "n1"}

    rig.store(
        namespaces=[raws.a_tenant("tenant-a")], claims=[raws.a_claim("late", count=1, at=100)]
    )
    await rig.until_still()
    assert rig.placed() == {"tenant-a/held": "n1"}
    late = rig.claim("late")["status"]
    assert (late.get("phase", "Pending"), late["reasons"]) == ("Pending", ["NotEntitled"])

    # What is held keeps its right to a node: it moves off one that is cordoned, as any other.
    rig.store(nodes=[raws.a_node(units=4, unschedulable=True)])
    await rig.until_still()
    assert rig.placed() == {"tenant-a/held": "n2"}

    rig.store(namespaces=[raws.a_tenant("tenant-root", **ENTITLED)])
    await rig.until_still()
    assert rig.placed() == {"tenant-a/held": "n2", "tenant-a/late": "n2"}
    assert rig.claim("held")["status"]["phase"] == Phase.BOUND.value
