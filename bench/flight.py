"""Many calls with a bounded number in flight, each one timed."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator

Job = Callable[[], Awaitable[object]]


async def in_flight(width: int, jobs: Iterable[Job]) -> tuple[float, ...]:
    """Run all jobs, at most `width` at a time; returns each one's seconds, in order of finishing.

    The first job that fails ends all of them, as an exception group.
    """
    took: list[float] = []
    waiting = iter(jobs)
    async with asyncio.TaskGroup() as group:
        for _ in range(width):
            group.create_task(_drain(waiting, took))
    return tuple(took)


async def _drain(waiting: Iterator[Job], took: list[float]) -> None:
    loop = asyncio.get_running_loop()
    for job in waiting:
        started = loop.time()
        await job()
        took.append(loop.time() - started)
