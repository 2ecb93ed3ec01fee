"""The collector lets alone what lists left and what is made in bulk; what is free does not stay resident."""

import asyncio
import gc
import os
import weakref

import pytest

from apiserver import memory
from bench import scrape


class Circle:
    """Something that only a collection can end."""

    def __init__(self, more):
        self.itself = (self, more)


@pytest.fixture(autouse=True)
def _as_before():
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)


async def test_lists_are_filled_without_a_walk_over_what_they_bring_and_then_left_alone():
    before = gc.get_freeze_count()
    filled = asyncio.Event()
    settling = asyncio.ensure_future(memory.settle(filled.wait))
    await asyncio.sleep(0)
    assert (gc.get_threshold()[0], gc.get_freeze_count()) == (500_000, before)
    kept = [[] for _ in range(300_000)]
    filled.set()
    await settling
    assert gc.get_freeze_count() - before >= len(kept)
    assert gc.get_threshold()[0] == pytest.approx(2 * gc.get_freeze_count(), rel=0.01)


async def test_what_passes_make_in_bulk_is_not_looked_at_and_circles_end_at_last():
    await memory.settle(lambda: asyncio.sleep(0))
    gc.set_threshold(300_000, *gc.get_threshold()[1:])
    collections = gc.get_stats()[0]["collections"]
    more: list[list[object]] = [[] for _ in range(200_000)]
    assert gc.get_stats()[0]["collections"] == collections
    for one in more:
        one.append(one)
    kept = weakref.WeakSet([Circle(more)])
    del more, one
    assert len(kept) == 1
    _ = [[] for _ in range(200_000)]
    assert len(kept) == 0


async def test_what_was_freed_below_something_in_use_goes_back_to_the_system():
    giving = asyncio.ensure_future(memory.give_back(every=0.05))
    await asyncio.sleep(0)
    held = [bytearray(100_000) for _ in range(600)]
    for one in held:
        one[::4096] = b"x" * len(one[::4096])
    above = bytearray(100_000)
    full = scrape.memory_mib(os.getpid())
    del held, one
    async with asyncio.timeout(10):
        while full - scrape.memory_mib(os.getpid()) <= 40:  # noqa: ASYNC110 -- memory has no event
            await asyncio.sleep(0.05)
    assert not giving.done()
    giving.cancel()
    assert above is not None
