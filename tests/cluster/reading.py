"""A reflector at work, the store it fills, and what a test waits for."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from gpu.cluster import reflector
from tests.cluster import things

QUICK = reflector.Pace(
    page=500,
    list_deadline=2.0,
    idle=0.3,
    backoff_first=0.01,
    backoff_most=0.05,
    unserved=0.02,
    unserved_grace=0.1,
)


class Reading:
    """The store a reflector fills, and what to wait for."""

    def __init__(self, api: Any, pace: reflector.Pace = QUICK, **how: Any) -> None:
        self.malformed: list[str] = []
        self.store = things.store(report=lambda _kind, key, _error: self.malformed.append(key.name))
        self.reflector = reflector.Reflector(api, self.store, pace=pace, jitter=lambda: 0.5, **how)

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not done():  # noqa: ASYNC110 -- what is waited for is on the other side of a socket
                await asyncio.sleep(0.005)

    async def holds(self, **want: int) -> None:
        try:
            await self.until(lambda: things.content(self.store) == want)
        except TimeoutError:
            assert things.content(self.store) == want


@asynccontextmanager
async def reading(api: Any, pace: reflector.Pace = QUICK, **how: Any) -> AsyncIterator[Reading]:
    made = Reading(api, pace, **how)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(made.reflector.run())
        try:
            yield made
        finally:
            task.cancel()
