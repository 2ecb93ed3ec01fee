"""The garbage collector lets alone what the first lists left, and what is made in bulk after them."""

import asyncio
import gc

import pytest

from apiserver import memory


@pytest.fixture(autouse=True)
def _as_before():
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


async def test_nothing_is_settled_before_the_first_lists_are_there():
    filled = asyncio.Event()
    before = gc.get_threshold()
    settling = asyncio.ensure_future(memory.settle(filled.wait))
    await asyncio.sleep(0)
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)
    filled.set()
    await settling
    assert gc.get_freeze_count() > 0


async def test_as_many_new_objects_as_old_ones_are_made_before_any_is_looked_at():
    kept = [[] for _ in range(200_000)]
    await memory.settle(lambda: asyncio.sleep(0))
    least, *_ = gc.get_threshold()
    assert least > len(kept)
    collections = gc.get_stats()[0]["collections"]
    more = [[] for _ in range(100_000)]
    assert (gc.get_stats()[0]["collections"], len(more)) == (collections, 100_000)
