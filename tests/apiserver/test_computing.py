"""Computing: one thread, in order, beside the event loop."""

import asyncio
import threading

import pytest

from apiserver.computing import Computing


async def test_work_runs_in_its_order_in_one_thread_that_is_not_the_loops():
    computing, done = Computing(), []

    def work(number):
        done.append((number, threading.current_thread()))
        return number

    jobs = (computing(lambda number=number: work(number)) for number in range(20))
    assert await asyncio.gather(*jobs) == list(range(20))
    assert [number for number, _ in done] == list(range(20))
    threads = {thread for _, thread in done}
    assert len(threads) == 1
    assert threading.current_thread() not in threads


async def test_what_work_raises_is_raised_to_who_asked_and_the_next_is_done():
    computing = Computing()
    with pytest.raises(ZeroDivisionError):
        await computing(lambda: 1 // 0)
    assert await computing(lambda: 7) == 7
