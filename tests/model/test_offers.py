import pytest

from gpu.model import offers, orders
from gpu.model.offers import Offer
from gpu.model.orders import Accepted, Order, Refused
from gpu.model.refusals import ClassRetired, NoFreeUnits, NoTenant, OverBudget, OverMaxCount
from tests.builders import L40, a_claim, a_class, a_node, a_release, a_snapshot, budget

KEY = "gpu.cozystack.io/h100"


def the_offer(tenant="tenant-a", **objects):
    (found,) = offers.offers(a_snapshot(**objects), tenant)
    return found


def test_an_offer_shows_the_class_and_what_the_tenant_could_order():
    offer = the_offer(
        classes=[a_class(displayName="H100", description="80 GB", maxCount=4)],
        claims=[a_claim(on="n1", count=2)],
    )
    assert offer == Offer(
        class_name="h100",
        mode="passthrough",
        display_name="H100",
        description="80 GB",
        max_count=4,
        free=6,
        orderable=4,
        refusals=(OverMaxCount("h100", 5, 4),),
    )
    assert offer.reason == "OverMaxCount"
    assert offer.message == (
        "5 units asked, one claim of class h100 may have at most 4: order several claims"
    )


@pytest.mark.parametrize(
    ("objects", "free", "orderable", "refusals"),
    [
        pytest.param({}, 8, 8, (NoFreeUnits("h100", 9, 8),), id="all of it"),
        pytest.param(
            {"claims": [a_claim(tenant="tenant-b", count=3)]},
            5,
            5,
            (NoFreeUnits("h100", 6, 5),),
            id="what an older order waits for is not free",
        ),
        pytest.param(
            {"releases": [a_release(quotas=budget(h100=2))]},
            8,
            2,
            (OverBudget(KEY, 3, 2, 0, "tenant-a", own=True, left=2),),
            id="budget",
        ),
        pytest.param(
            {"classes": [a_class(retired=True)]}, 8, 0, (ClassRetired("h100"),), id="retired"
        ),
    ],
)
def test_what_an_offer_says_is_free_orderable_and_why_not_more(objects, free, orderable, refusals):
    offer = the_offer(**objects)
    assert (offer.free, offer.orderable, offer.refusals) == (free, orderable, refusals)


def test_outside_a_tenant_nothing_is_orderable():
    offer = the_offer("default")
    assert (offer.orderable, offer.refusals) == (0, (NoTenant("default"),))


def test_offers_come_by_class_name():
    snapshot = a_snapshot(
        classes=[a_class("b"), a_class("c", resource=L40), a_class("a")],
        nodes=[a_node(also={L40: 2})],
    )
    assert [
        (offer.class_name, offer.orderable) for offer in offers.offers(snapshot, "tenant-a")
    ] == [
        ("a", 8),
        ("b", 8),
        ("c", 2),
    ]


def test_no_number_of_another_tenant_is_told():
    offer = the_offer(
        releases=[a_release("tenant-root", budget(total=71))],
        claims=[a_claim(tenant="tenant-b", on="gone", count=68)],
    )
    assert offer.orderable == 3
    assert "71" not in offer.message
    assert "68" not in offer.message


def test_what_is_offered_is_accepted_and_one_more_is_refused():
    snapshot = a_snapshot(releases=[a_release(quotas=budget(total=3))])
    (offer,) = offers.offers(snapshot, "tenant-a")

    def verdict(count):
        return orders.check(snapshot, Order(tenant="tenant-a", class_name="h100", count=count))

    assert isinstance(verdict(offer.orderable), Accepted)
    assert isinstance(verdict(offer.orderable + 1), Refused)
