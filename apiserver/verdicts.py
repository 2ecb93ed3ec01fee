"""Verdicts: answers of a reviewer kept for seconds, bounded, each question asked once at a time."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Verdicts(Generic[K, V]):
    """A cache of answers. Failures are shared by those who wait, and never kept."""

    def __init__(self, *, seconds: float = 10.0, most: int = 8192) -> None:
        self._seconds = seconds
        self._most = most
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._asked: dict[K, asyncio.Future[V]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        """Forget everything kept."""
        self._kept.clear()

    async def get(self, question: K, ask: Callable[[], Awaitable[V]]) -> V:
        """Return the kept answer or ask; whoever comes while it is being asked shares the answer."""
        loop = asyncio.get_running_loop()
        while True:
            if (kept := self._kept.get(question)) is not None and kept[0] > loop.time():
                self._kept.move_to_end(question)  # what is asked often is forgotten last
                return kept[1]
            running = self._asked.get(question)
            if running is None:
                return await self._ask(question, ask, loop)
            await asyncio.wait([running])
            if not running.cancelled():
                return running.result()
            # The one who asked hung up: somebody who still waits asks anew.

    async def _ask(
        self, question: K, ask: Callable[[], Awaitable[V]], loop: asyncio.AbstractEventLoop
    ) -> V:
        shared: asyncio.Future[V] = loop.create_future()
        self._asked[question] = shared
        try:
            answer = await ask()
        except asyncio.CancelledError:
            shared.cancel()
            raise
        except Exception as error:
            shared.set_exception(error)
            shared.exception()  # retrieved: nobody may be waiting
            raise
        else:
            shared.set_result(answer)
            self._keep(question, answer, loop.time() + self._seconds)
            return answer
        finally:
            del self._asked[question]

    def _keep(self, question: K, answer: V, until: float) -> None:
        self._kept[question] = (until, answer)
        self._kept.move_to_end(question)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
