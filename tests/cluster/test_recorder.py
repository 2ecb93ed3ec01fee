"""Recorder: which Events are written, and that it never gets in anybody's way."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from gpu.cluster import errors, recorder
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster

pytestmark = pytest.mark.looptime

KEY = ObjectKey("tenant-a", "one")


@asynccontextmanager
async def recording(api, **more):
    made = recorder.Recorder(
        api, recorder.Reporter("gpu.cozystack.io/binder", "binder-0"), clock=FakeClock(), **more
    )
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(made.run())
        try:
            yield made
        finally:
            task.cancel()


def tell(made, reason, *, uid="u1", note="words", key=KEY, kind=kinds.GPU_CLAIMS):
    made.event(kind, key, uid, warning=False, reason=reason, note=note)


async def written(api):
    return list((await api.list_all(kinds.EVENTS)).items)


async def test_an_event_says_what_happened_to_what():
    api = FakeCluster()
    async with recording(api) as made:
        made.event(kinds.GPU_CLAIMS, KEY, "u1", warning=True, reason="Lost", note="node is gone")
        await asyncio.sleep(1)
    [event] = await written(api)
    name = event["metadata"]["name"]
    assert name.startswith("one.")
    assert event["metadata"]["namespace"] == "tenant-a"
    assert {key: value for key, value in event.items() if key != "metadata"} == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": "2026-01-02T03:04:05.000000Z",
        "reportingController": "gpu.cozystack.io/binder",
        "reportingInstance": "binder-0",
        "type": "Warning",
        "reason": "Lost",
        "action": "Lost",
        "note": "node is gone",
        "regarding": {
            "apiVersion": "gpu.cozystack.io/v1alpha1",
            "kind": "GPUClaim",
            "namespace": "tenant-a",
            "name": "one",
            "uid": "u1",
        },
    }


async def test_one_event_per_change_of_reason():
    api = FakeCluster()
    async with recording(api) as made:
        for reason in ("Pending", "Pending", "Bound", "Bound", "Pending"):
            tell(made, reason, note=f"other words for {reason}")
        tell(made, "Bound", uid="u2")
        await asyncio.sleep(1)
    reasons = sorted(item["reason"] for item in await written(api))
    assert (reasons, made.written) == (["Bound", "Bound", "Pending", "Pending"], 4)


async def test_an_event_of_a_cluster_object_goes_to_the_default_namespace():
    api = FakeCluster()
    async with recording(api) as made:
        tell(made, "Ready", key=ObjectKey("", "l40s"), kind=kinds.GPU_CLASSES)
        await asyncio.sleep(1)
    [event] = await written(api)
    assert event["metadata"]["namespace"] == "default"
    assert "namespace" not in event["regarding"]


async def test_a_long_note_is_cut_at_a_kilobyte_of_bytes():
    api = FakeCluster()
    async with recording(api) as made:
        tell(made, "Bound", note="ü" * 1000)
        await asyncio.sleep(1)
    [event] = await written(api)
    assert event["note"].endswith("…")
    assert 1000 < len(event["note"].encode()) <= 1024


async def test_what_does_not_fit_is_dropped_and_counted_without_waiting():
    api = FakeCluster()
    api.down = True
    async with recording(api) as made:
        for number in range(recorder.QUEUE + 10):
            tell(made, "Bound", uid=f"u{number}")
        assert made.dropped == 10


async def test_a_server_that_is_away_costs_the_event_and_not_the_next():
    api = FakeCluster()
    async with recording(api) as made:
        api.down = True
        tell(made, "Bound")
        await asyncio.sleep(1)
        assert (made.dropped, made.written) == (1, 0)
        api.down = False
        tell(made, "Bound")
        await asyncio.sleep(10)
        assert (made.dropped, made.written) == (1, 1)


async def test_a_refused_event_delays_no_other():
    api = FakeCluster()
    api.refuse(
        lambda write: write.key.namespace == "tenant-a", errors.Forbidden(403, "Forbidden", "no")
    )
    async with recording(api) as made:
        tell(made, "Bound")
        tell(made, "Bound", uid="u2", key=ObjectKey("tenant-b", "two"))
        await asyncio.sleep(0.1)
        assert (made.dropped, made.written) == (1, 1)
