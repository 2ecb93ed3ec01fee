"""Looks at objects: every change is looked at, one look at a time, again when asked or when outrun."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from devcluster.watching import Watch
from gpu.cluster import errors
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from tests.fakes.cluster import FakeCluster

pytestmark = pytest.mark.looptime
KEY = ObjectKey("a", "one")


def a_pod(name: str = "one", **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "a", **meta}, "spec": {}, "status": {}}


@contextlib.asynccontextmanager
async def watched(
    fake: FakeCluster, look: Callable[[ObjectKey], Awaitable[float | None]]
) -> AsyncIterator[Watch]:
    watch = Watch(fake, kinds.PODS, look)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch.run())
        yield watch
        task.cancel()


async def test_what_is_there_what_comes_changes_and_goes_is_looked_at():
    fake = FakeCluster()
    fake.put(kinds.PODS, a_pod())
    seen: list[str] = []

    async def look(key: ObjectKey) -> None:
        seen.append(key.name)

    async with watched(fake, look):
        await asyncio.sleep(1)
        fake.put(kinds.PODS, a_pod("two"))
        await asyncio.sleep(1)
        await fake.patch(kinds.PODS, "two", {"metadata": {"labels": {"a": "b"}}}, "a")
        await asyncio.sleep(1)
        await fake.delete(kinds.PODS, "two", "a")
        await asyncio.sleep(1)
    assert seen == ["one", "two", "two", "two"]


async def test_a_look_is_repeated_when_it_asks_for_it():
    fake = FakeCluster()
    fake.put(kinds.PODS, a_pod())
    times: list[float] = []

    async def look(_: ObjectKey) -> float | None:
        times.append(asyncio.get_running_loop().time())
        return 5 if len(times) < 3 else None

    async with watched(fake, look):
        await asyncio.sleep(60)
    assert [round(b - a) for a, b in itertools.pairwise(times)] == [5, 5]


async def test_a_change_during_a_look_is_looked_at_after_it():
    fake = FakeCluster()
    fake.put(kinds.PODS, a_pod())
    running, most, count = 0, 0, 0

    async def look(_: ObjectKey) -> None:
        nonlocal running, most, count
        running, count = running + 1, count + 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1

    async with watched(fake, look):
        await asyncio.sleep(0.5)
        await fake.patch(kinds.PODS, "one", {"metadata": {"labels": {"a": "b"}}}, "a")
        await asyncio.sleep(5)
    assert (most, count) == (1, 2)


@pytest.mark.parametrize(
    ("error", "after"),
    [
        pytest.param(errors.Conflict(409, "Conflict", "newer"), 0.05, id="outrun"),
        pytest.param(errors.ServerFault(500, "InternalError", "no"), 1.0, id="refused"),
    ],
)
async def test_a_look_whose_write_failed_is_repeated(error, after):
    fake = FakeCluster()
    fake.put(kinds.PODS, a_pod())
    times: list[float] = []

    async def look(_: ObjectKey) -> None:
        times.append(asyncio.get_running_loop().time())
        if len(times) == 1:
            raise error

    async with watched(fake, look):
        await asyncio.sleep(10)
    assert times[1] - times[0] == pytest.approx(after, abs=0.02)
    assert len(times) == 2


async def test_a_stage_counts_from_when_it_was_first_asked_for_and_anew_for_a_new_object():
    fake = FakeCluster()
    fake.put(kinds.PODS, a_pod(uid="first"))

    async def look(_: ObjectKey) -> None:
        return None

    async with watched(fake, look) as watch:
        await asyncio.sleep(1)
        first = watch.store.get(KEY)
        assert first is not None
        assert watch.left(first, "start", 10) == pytest.approx(10)
        await asyncio.sleep(4)
        assert watch.left(first, "start", 10) == pytest.approx(6)
        fake.put(kinds.PODS, a_pod(uid="second"))
        await asyncio.sleep(1)
        second = watch.store.get(KEY)
        assert second is not None
        assert watch.left(second, "start", 10) == pytest.approx(10)
