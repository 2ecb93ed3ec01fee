"""Computing: one thread for all that keeps a CPU busy, so that no two of them wait for each other.

Of several busy threads each holds the interpreter for a switch interval in turn, and the event loop
waits for all of them each time it comes back from the kernel; of one thread it waits for one.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Computing:
    """Runs work in the order it came (gpu.reading.InThread)."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="computing")

    async def __call__(self, work: Callable[[], T], /) -> T:
        """Run it to its end. Cancelled, work that has not begun is not done."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
