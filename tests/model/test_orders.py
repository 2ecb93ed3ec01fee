import gc

import pytest

from gpu.model import cases, orders
from gpu.model.draft import Draft
from gpu.model.orders import Accepted, Order, Refused
from gpu.model.refusals import (
    BadCount,
    ClassDeleting,
    ClassRetired,
    NoFreeUnits,
    NoNodeAccepts,
    NoNodeEligible,
    NoNodeServes,
    NoSuchClass,
    NoTenant,
    NotEntitled,
    NotPermitted,
    OverBudget,
    OverMaxCount,
)
from gpu.model.snapshot import Snapshot
from tests.builders import (
    H100,
    L40,
    a_claim,
    a_class,
    a_kubevirt,
    a_namespace,
    a_node,
    a_release,
    a_snapshot,
    budget,
)

KEY = "gpu.cozystack.io/h100"


def an_order(count=1, *, tenant="tenant-a", class_name="h100"):
    return Order(tenant=tenant, class_name=class_name, count=count)


def test_an_order_that_fits_is_accepted_with_its_node():
    assert orders.check(a_snapshot(), an_order(8)) == Accepted("n1")


@pytest.mark.parametrize(
    ("objects", "order", "verdict"),
    [
        pytest.param(
            {}, an_order(tenant="default"), Refused((NoTenant("default"),), 0), id="no tenant"
        ),
        pytest.param(
            {}, an_order(class_name="nope"), Refused((NoSuchClass("nope"),), 0), id="unknown class"
        ),
        pytest.param(
            {"classes": [a_class(retired=True)]},
            an_order(),
            Refused((ClassRetired("h100"),), 0),
            id="retired",
        ),
        pytest.param(
            {"classes": [a_class(deleting=True)]},
            an_order(),
            Refused((ClassDeleting("h100"),), 0),
            id="deleting",
        ),
        pytest.param(
            {"kubevirts": [a_kubevirt(L40)]},
            an_order(),
            Refused((NotPermitted("h100", H100),), 0),
            id="KubeVirt does not permit it",
        ),
        pytest.param({}, an_order(0), Refused((BadCount(0, 2**31 - 1),), 8), id="count of 0"),
        pytest.param({}, an_order(-3), Refused((BadCount(-3, 2**31 - 1),), 8), id="below 0"),
        pytest.param(
            {},
            an_order(2**31),
            Refused((BadCount(2**31, 2**31 - 1), NoFreeUnits("h100", 2**31, 8)), 8),
            id="count of 2^31",
        ),
        pytest.param(
            {"classes": [a_class(maxCount=2)]},
            an_order(3),
            Refused((OverMaxCount("h100", 3, 2),), 2),
            id="over maxCount",
        ),
        pytest.param(
            {"classes": [a_class(mode="vgpu")], "namespaces": [a_namespace(entitled=True)]},
            an_order(2),
            Refused((OverMaxCount("h100", 2, 1),), 1),
            id="vGPU without maxCount is one",
        ),
        pytest.param(
            {"nodes": [a_node(resource=L40)]},
            an_order(),
            Refused((NoNodeServes("h100", H100),), 0),
            id="no node serves it",
        ),
        pytest.param(
            {"nodes": [a_node(cordoned=True)]},
            an_order(),
            Refused((NoNodeEligible("h100"),), 0),
            id="no node takes it now",
        ),
        pytest.param(
            {"claims": [a_claim(on="n1", count=6)]},
            an_order(3),
            Refused((NoFreeUnits("h100", 3, 2),), 2),
            id="too few are free",
        ),
        pytest.param(
            {"nodes": [a_node("n1", units=4), a_node("n2", units=3)]},
            an_order(5),
            Refused((NoNodeAccepts("h100", 5, 7, 4),), 4),
            id="enough in total, not on one node",
        ),
        pytest.param(
            {"releases": [a_release(quotas=budget(h100=2))], "claims": [a_claim(on="n1")]},
            an_order(2),
            Refused((OverBudget(KEY, 2, 2, 1, "tenant-a", own=True, left=1),), 1),
            id="over budget",
        ),
        pytest.param(
            {"classes": [a_class(mode="vgpu")]},
            an_order(),
            Refused((NotEntitled("h100", "tenant-a"),), 0),
            id="not entitled",
        ),
    ],
)
def test_an_order_is_refused_for_its_reason_with_what_would_fit(objects, order, verdict):
    assert orders.check(a_snapshot(**objects), order) == verdict


def test_all_reasons_are_told_at_once_in_their_order():
    snapshot = a_snapshot(
        classes=[a_class(mode="vgpu", retired=True, maxCount=3)],
        releases=[a_release(quotas={KEY: 1, H100: 2})],
    )
    verdict = orders.check(snapshot, an_order(9))
    assert verdict == Refused(
        (
            ClassRetired("h100"),
            OverMaxCount("h100", 9, 3),
            NoFreeUnits("h100", 9, 8),
            OverBudget(KEY, 9, 1, 0, "tenant-a", own=True, left=1),
            OverBudget(H100, 9, 2, 0, "tenant-a", own=True, left=2),
            NotEntitled("h100", "tenant-a"),
        ),
        0,
    )


@pytest.mark.parametrize(
    ("mode", "written", "resolved"),
    [("vgpu", None, 1), ("vgpu", 4, 4), ("passthrough", None, None), ("passthrough", 2, 2)],
)
def test_max_count_absent_is_one_for_vgpu_and_unlimited_for_passthrough(mode, written, resolved):
    spec = {} if written is None else {"maxCount": written}
    assert cases.max_count(a_class(mode=mode, **spec)) == resolved


def test_waiting_orders_are_pending_no_templates_and_oldest_first():
    claims = [
        a_claim("young", at=2),
        a_claim("old", at=1),
        a_claim("bound", on="n1"),
        a_claim("lost", lost="n1"),
        a_claim("going", deleting=True),
        a_claim("template", template=True),
        a_claim("attached", vm="vm"),
    ]
    draft = Draft.of(a_snapshot(claims=claims))
    assert [claim.meta.name for claim in orders.waiting(draft)] == [
        "attached",
        "old",
        "young",
    ]
    draft.bind(claims[1], "n1")
    assert [claim.meta.name for claim in orders.waiting(draft)] == ["attached", "young"]


def test_a_new_order_is_judged_behind_those_that_could_be_placed_now():
    snapshot = a_snapshot(
        nodes=[a_node(units=8)],
        claims=[a_claim("fits", count=3, at=1), a_claim("fits not", count=6, at=2)],
    )
    assert orders.check(snapshot, an_order(5)) == Accepted("n1")
    assert orders.check(snapshot, an_order(6)) == Refused((NoFreeUnits("h100", 6, 5),), 5)


def test_a_new_order_is_judged_behind_lost_sets():
    claims = [a_claim("a", lost="gone", count=3, vm="vm"), a_claim("b", lost="gone", vm="vm")]
    snapshot = a_snapshot(claims=claims)
    assert orders.check(snapshot, an_order(5)) == Refused((NoFreeUnits("h100", 5, 4),), 4)


def test_an_older_order_that_cannot_be_placed_uses_its_budget_all_the_same():
    snapshot = a_snapshot(
        releases=[a_release(quotas=budget(h100=12))], claims=[a_claim("huge", count=10, at=1)]
    )
    assert orders.check(snapshot, an_order(3)) == Refused(
        (OverBudget(KEY, 3, 12, 10, "tenant-a", own=True, left=2),), 2
    )


def test_an_order_over_budget_takes_no_units_from_a_younger_one_of_another_tenant():
    snapshot = a_snapshot(
        releases=[a_release("tenant-b", budget(h100=2))],
        claims=[a_claim(tenant="tenant-b", count=8, at=1)],
    )
    assert orders.check(snapshot, an_order(8)) == Accepted("n1")


def test_younger_orders_never_count_against_an_older_one():
    claims = [a_claim(f"c{at:02}", count=1, at=at) for at in range(50)]
    snapshot = a_snapshot(
        nodes=[a_node(units=64)], releases=[a_release(quotas=budget(h100=10))], claims=claims
    )
    draft = Draft.of(snapshot)
    bound = []
    for claim in orders.waiting(draft):
        verdict = orders.check(draft, orders.of(claim))
        if isinstance(verdict, Accepted):
            draft.bind(claim, verdict.node)
            bound.append(claim.meta.name)
    assert bound == [f"c{at:02}" for at in range(10)]


def test_a_stored_order_asked_about_on_the_snapshot_is_judged_at_its_place():
    old, young = a_claim("old", count=5, at=1), a_claim("young", count=5, at=2)
    snapshot = a_snapshot(claims=[young, old])
    assert orders.check(snapshot, orders.of(old)) == Accepted("n1")
    assert orders.check(snapshot, orders.of(young)) == Refused((NoFreeUnits("h100", 5, 3),), 3)


def test_a_set_is_judged_by_binding_each_member_before_the_next():
    one, two = a_claim("one", count=5, at=1), a_claim("two", count=5, at=1)
    draft = Draft.of(a_snapshot(claims=[one, two]))
    verdict = orders.check(draft, orders.of(one))
    assert verdict == Accepted("n1")
    draft.bind(one, verdict.node)
    assert orders.check(draft, orders.of(two)) == Refused((NoFreeUnits("h100", 5, 3),), 3)


def test_asking_twice_gives_the_same_answer():
    snapshot = a_snapshot(claims=[a_claim(count=3)], releases=[a_release(quotas=budget(h100=6))])
    answers = [orders.check(snapshot, an_order(count)) for count in (1, 5, 1, 5)]
    assert answers[:2] == answers[2:]


def test_the_most_of_a_class_nobody_knows_is_none():
    assert orders.most(a_snapshot(), "tenant-a", "nope") == 0


def test_a_snapshot_that_was_asked_goes_with_its_last_user():
    def alive() -> int:
        return sum(type(thing) is Snapshot for thing in gc.get_objects())

    gc.collect()
    before = alive()
    gc.disable()
    try:
        asked = a_snapshot(classes=[a_class()], nodes=[a_node()], claims=[a_claim()])
        assert orders.most(asked, "tenant-a", "h100") == 7
        assert asked.memo.queued is not None
        del asked
        assert alive() == before
    finally:
        gc.enable()
