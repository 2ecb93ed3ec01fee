"""What offers, order reviews and the order webhook say is one thing, on whatever cluster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.identity import User
from apiserver.resources.orderreviews import ORDER_REVIEWS
from gpu import keys
from gpu.admission import orders, review
from gpu.admission.review import Allowed, Denied
from gpu.config import Config
from gpu.model import offers
from gpu.world import World
from tests import sampling, strategies
from tests.builders import a_vm, a_world

pytestmark = pytest.mark.long  # whole clusters asked at every count

NAMESPACES = (*strategies.TENANTS, "default")
USER = User("alice")


def webhook(world: World, namespace: str, name: str, class_name: str, count: int):
    request = {
        "uid": "u",
        "operation": "CREATE",
        "resource": {"group": keys.GROUP, "resource": "gpuclaims"},
        "namespace": namespace,
        "name": name,
        "userInfo": {"username": USER.name},
        "object": {"metadata": {"name": name}, "spec": {"className": class_name, "count": count}},
    }
    return orders.answer(review.decode(request), world, Config())


def reviewed(world: World, namespace: str, name: str, class_name: str, count: int):
    spec = {"className": class_name, "count": count, **({"claimName": name} if name else {})}
    assert ORDER_REVIEWS.answer is not None
    return ORDER_REVIEWS.answer(world, namespace, {"spec": spec}, USER).members["status"]


def agreed(world: World, namespace: str, name: str, class_name: str, count: int) -> bool:
    """Whether both accept it; they must say the same in every word."""
    answer = webhook(world, namespace, name, class_name, count)
    status = reviewed(world, namespace, name, class_name, count)
    assert status["allowed"] == isinstance(answer, Allowed)
    if isinstance(answer, Denied):
        assert answer.message == f"order {name or '*'}: {status['message']}"
        told = [(cause.reason, cause.message, cause.field) for cause in answer.causes]
        assert told == [(one["code"], one["message"], one["field"]) for one in status["reasons"]]
    for other in status["alternatives"]:
        assert isinstance(webhook(world, namespace, name, other, count), Allowed)
    return status["allowed"]


@sampling.examples(50)
@given(strategies.clusters(), st.sampled_from(NAMESPACES))
def test_offers_reviews_and_webhook_agree_at_below_and_above_what_is_orderable(objects, namespace):
    world = a_world(**objects)
    for offer in offers.offers(world.snapshot, namespace):
        most = offer.orderable
        for count in {1, most // 2, most} - {0}:
            assert agreed(world, namespace, "", offer.class_name, count) == (count <= most)
        for count in (most + 1, most + 7):
            assert not agreed(world, namespace, "", offer.class_name, count)
        status = reviewed(world, namespace, "", offer.class_name, most + 1)
        assert (status["mostAccepted"], status["reasons"][0]["code"]) == (most, offer.reason)


@sampling.examples(50)
@given(
    strategies.clusters(),
    st.sampled_from(NAMESPACES),
    st.sampled_from(strategies.CLASSES),
    st.integers(1, 9),
    st.sets(st.sampled_from([f"c{index}" for index in range(8)]), max_size=3),
)
def test_the_most_that_is_told_is_the_most_that_is_accepted_also_beside_a_vms_claims(
    objects, namespace, class_name, count, others
):
    world = a_world(**objects, vms=[a_vm(tenant=namespace, claims=["new", *sorted(others)])])
    accepted = agreed(world, namespace, "new", class_name, count)
    most = reviewed(world, namespace, "new", class_name, count)["mostAccepted"]
    assert accepted == (count <= most)
    if most:
        assert agreed(world, namespace, "new", class_name, most)
    assert not agreed(world, namespace, "new", class_name, most + 1)
