"""Recorder: Events give way while somebody waits for an answer, for a second at most."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from gpu.cluster import recorder
from gpu.objects import kinds
from tests.cluster.test_recorder import recording, tell, written
from tests.fakes.cluster import FakeCluster

pytestmark = pytest.mark.looptime


class Waiting:
    """Somebody who waits, as long as the test says."""

    def __init__(self, *, waits=True):
        self.waits = waits
        self.asked = []

    def __call__(self):
        self.asked.append(asyncio.get_running_loop().time())
        return self.waits


@asynccontextmanager
async def giving_way(*, waits=True):
    api, somebody = FakeCluster(), Waiting(waits=waits)
    async with recording(api, waits=somebody) as made:
        await asyncio.sleep(0)
        yield api, made, somebody


async def notes(api):
    return sorted(item["note"] for item in await written(api))


def tell_some(made, *names):
    for name in names:
        tell(made, "Bound", uid=name, note=name)


async def test_while_nobody_waits_events_are_written_at_once():
    async with giving_way(waits=False) as (api, made, _):
        tell_some(made, "a", "b", "c")
        await asyncio.sleep(0.01)
        assert await notes(api) == ["a", "b", "c"]


async def test_events_are_held_back_while_somebody_waits_and_written_soon_after():
    async with giving_way() as (api, made, somebody):
        tell_some(made, "a", "b")
        await asyncio.sleep(0.5)
        assert (await notes(api), made.written, made.dropped) == ([], 0, 0)
        somebody.waits = False
        await asyncio.sleep(recorder.LOOK_AGAIN + 0.01)
        assert (await notes(api), made.written) == (["a", "b"], 2)


async def test_they_are_held_back_a_second_at_most_and_then_all_go_that_are_queued_by_then():
    async with giving_way() as (api, made, _):
        tell_some(made, "a")
        await asyncio.sleep(0.9)
        tell_some(made, "b", "c")
        await asyncio.sleep(0.09)
        assert await notes(api) == []
        await asyncio.sleep(0.02)
        assert await notes(api) == ["a", "b", "c"]


async def test_what_comes_after_them_is_held_back_for_a_second_of_its_own():
    async with giving_way() as (api, made, _):
        tell_some(made, "a", "b")
        await asyncio.sleep(1.1)
        tell_some(made, "c")
        await asyncio.sleep(0.99)
        assert await notes(api) == ["a", "b"]
        await asyncio.sleep(0.02)
        assert await notes(api) == ["a", "b", "c"]


class Slow(FakeCluster):
    """Each Event takes 0.1 s."""

    async def create(self, kind, body, *args, **how):
        if kind == kinds.EVENTS:
            await asyncio.sleep(0.1)
        return await super().create(kind, body, *args, **how)


async def test_one_who_waits_again_meanwhile_holds_up_the_rest_for_what_is_left_of_the_second():
    api, somebody = Slow(), Waiting()
    async with recording(api, waits=somebody) as made:
        tell_some(made, "a", "b", "c")
        await asyncio.sleep(0.52)
        somebody.waits = False
        await asyncio.sleep(0.1)  # it is noticed, and `a` is sent
        somebody.waits = True
        await asyncio.sleep(0.37)
        assert await notes(api) == ["a"]
        await asyncio.sleep(0.25)
        assert await notes(api) == ["a", "b", "c"]


async def test_a_queue_that_never_was_held_back_gives_way_for_a_whole_second():
    api, somebody = Slow(), Waiting(waits=False)
    async with recording(api, waits=somebody) as made:
        tell_some(made, *"abcdefghijklmnop")
        await asyncio.sleep(1.05)
        somebody.waits = True
        await asyncio.sleep(1.0)
        before = len(await notes(api))
        assert before == 11
        await asyncio.sleep(0.7)
        assert len(await notes(api)) == 16


async def test_nobody_is_asked_more_often_than_every_50_ms_nor_without_an_event():
    async with giving_way() as (_, made, somebody):
        await asyncio.sleep(10)
        assert somebody.asked == []
        tell_some(made, "a", "b")
        await asyncio.sleep(10)
        assert 2 <= len(somebody.asked) <= 21


async def test_what_does_not_fit_while_they_are_held_back_is_dropped_and_counted():
    async with giving_way() as (_, made, _):
        tell_some(made, "first")
        await asyncio.sleep(0.1)  # in hand
        for number in range(recorder.QUEUE + 10):
            tell(made, "Bound", uid=f"u{number}")
        assert made.dropped == 10
        await asyncio.sleep(1)
        assert made.written == recorder.QUEUE + 1


async def test_one_that_is_held_back_ends_with_its_task():
    async with giving_way() as (api, made, _):
        tell_some(made, "a")
        await asyncio.sleep(0.5)
    assert (await notes(api), made.written, made.dropped) == ([], 0, 0)
