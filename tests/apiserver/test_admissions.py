"""The handlers of the webhooks, from the JSON of a request to the JSON of a response."""

import asyncio
import threading
from dataclasses import replace

import pytest

from apiserver import admissions
from apiserver.views import Pace, Views
from apiserver.wire.status import BadRequest
from gpu.admission import review
from gpu.admission.review import Allowed
from gpu.config import Config
from tests.apiserver.fakes import FakeSource
from tests.builders import a_class, a_node, a_world, raw_claim

ON = Config()
GATE = admissions.always(Allowed())


def a_request(count=1, **more):
    return {
        "uid": "u",
        "operation": "CREATE",
        "resource": {"group": "gpu.cozystack.io", "resource": "gpuclaims"},
        "name": "c",
        "namespace": "tenant-a",
        "userInfo": {"username": "alice"},
        "object": raw_claim(count=count),
        **more,
    }


def a_source(units=8):
    return FakeSource(a_world(classes=[a_class()], nodes=[a_node(units=units)]))


@pytest.fixture
async def views():
    """Return a function that starts views over a source."""
    async with asyncio.TaskGroup() as group:
        tasks = []

        def start(source, **pace):
            made = Views(source, pace=Pace(**pace))
            tasks.append(group.create_task(made.run()))
            return made

        yield start
        for task in tasks:
            task.cancel()


async def test_the_orders_webhook_judges_by_the_newest_world(views):
    source = a_source(units=2)
    admit = admissions.build(views(source), ON, GATE, GATE)["orders"]
    before = await admit(a_request(count=3))
    source.set(a_source(units=4).world())
    assert (before["allowed"], before["status"]["code"]) == (False, 403)
    assert await admit(a_request(count=3)) == {"allowed": True}


async def test_with_the_feature_off_an_order_is_taken_with_a_warning(views):
    source = a_source(units=0)
    source.synced = False
    admit = admissions.build(views(source), replace(ON, enabled=False), GATE, GATE)["orders"]
    answer = await admit(a_request())
    assert answer["allowed"]
    assert answer["warnings"] == [
        "GPUs are switched off on this cluster: the order waits until they are on"
    ]


@pytest.mark.parametrize("config", [ON, replace(ON, enabled=False)], ids=["on", "off"])
async def test_what_is_no_review_is_refused(views, config):
    admit = admissions.build(views(a_source()), config, GATE, GATE)["orders"]
    with pytest.raises(BadRequest, match=r"not an AdmissionReview: request\.userInfo: is str"):
        await admit(a_request(userInfo="alice"))


async def test_what_cannot_be_judged_in_time_is_refused_and_asks_to_be_tried_again(views):
    go = threading.Event()

    def slowly(asked, world):
        go.wait(5)
        return Allowed()

    admit = admissions.judged(views(a_source()), slowly, within=0.05)
    answer = await admit(a_request())
    go.set()
    assert answer == review.document(
        review.unavailable("the GPU service could not judge it in time: try again")
    )


async def test_a_refusal_of_a_world_that_is_behind_is_judged_again(views):
    """A tenant who gives a claim back and orders anew is not told of what was before."""
    source = a_source(units=1)
    judging = views(source, fresh=0.0)
    admit = admissions.build(judging, ON, GATE, GATE)["orders"]
    assert (await admit(a_request(count=2)))["allowed"] is False
    source.set(a_source(units=2).world())
    assert await admit(a_request(count=2)) == {"allowed": True}
