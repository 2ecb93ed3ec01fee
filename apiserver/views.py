"""Views: the newest world that a webhook or a review can be asked about, made off the event loop.

A view is made on demand, one at a time, of the one before it, and serves all who wait. Whoever asks
waits a little for one as new as the question, else is answered from the last one.

A refusal is not given before what it rests on has settled: a class, a node or a budget made just before
an order must not be missed. An object that it names is read directly: that is certain. A kind whose watch
is well has `Pace.settle` seconds from the question on for what is on its way, and then a moment of
silence: that is no proof. What a watch brings later than that is missed, and the refusal is wrong;
whoever orders again is judged anew. A kind whose watch is not known to be well is proved by a consistent
list. Where the API server does not answer in time either, a refusal stands as of a moment ago.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

import structlog

from apiserver.proofs import Proofs
from apiserver.wire import status
from gpu.model import orders
from gpu.model.premises import NOTHING, Premises
from gpu.objects.meta import HasMeta, ObjectKey
from gpu.reading import InThread
from gpu.world import World

T = TypeVar("T")

log = structlog.get_logger(__name__)


class Source(Protocol):
    """What views need of the caches. Its worlds are nobody else's: a snapshot answers one thread."""

    @property
    def synced(self) -> bool:
        """Say whether every source has been listed once."""

    def world(self) -> World:
        """Return everything as the watches have shown it so far; the same until that changes."""

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after each change of a typed view; returns what ends it."""

    def is_live(self, view: type[HasMeta]) -> bool:
        """Say whether what is written of a kind is known to come by itself, as it is written."""

    async def settle(self, views: Sequence[type[HasMeta]], until: float) -> None:
        """Wait until a loop time, then for silence of kinds that are live; for a moment only."""

    async def prove(self, view: type[HasMeta]) -> None:
        """Have one kind catch up with now. Raises when the API server does not answer."""

    async def read(self, view: type[HasMeta], key: ObjectKey) -> None:
        """Have one object shown as it is now. Raises when the API server does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long is waited for what, in seconds."""

    fresh: float = 0.025
    """A question waits this long for a view as new as itself."""
    oldest: float = 5.0
    """A view that something newer has been known for so long answers nobody any more."""
    settle: float = 0.02
    """So long after its question a refusal waits for what is on its way. Watches lag by 1 to 10 ms."""
    prove: float = 0.5
    """A refusal waits so long for the caches to catch up."""
    longest: float = 1.5
    """No question waits longer for any view; admission answers within two seconds."""


@dataclass(frozen=True, slots=True)
class _View:
    number: int
    world: World


def prepare(world: World) -> None:
    """Make what questions need, so that the first of them is as quick as the others."""
    orders.queued(world.snapshot)


class Views:
    """Questions to the newest world. Its methods belong to one event loop."""

    def __init__(
        self,
        source: Source,
        *,
        pace: Pace | None = None,
        prepare: Callable[[World], object] = prepare,
        in_thread: InThread = asyncio.to_thread,
    ) -> None:
        self._source = source
        self._pace = pace or Pace()
        self._prepare = prepare
        self._in_thread = in_thread
        self._number = 0
        self._newest: World | None = None
        self._ready: _View | None = None
        self._behind_since: float | None = None
        """When something was first known that the view that is ready does not show."""
        self._taken_behind: float | None = None
        """The same of the world that the view in the making is made of."""
        self._proofs = Proofs(source, settle=self._pace.settle, within=self._pace.prove)
        self._wake = asyncio.Event()
        self._moved = asyncio.Event()
        # One thread: a snapshot works its answers out in place and takes one question at a time.
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="views")

    async def run(self) -> None:
        """Make views as they are asked for, and the first one at once, until cancelled.

        Call it when the source is synced.
        """
        unsubscribe = self._source.subscribe(self._on_change)
        self._wake.set()
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._make()
        finally:
            unsubscribe()
            self._asking.shutdown(wait=False, cancel_futures=True)

    async def ask(
        self,
        question: Callable[[World], T],
        *,
        rests_on: Callable[[T], Premises] = lambda _: NOTHING,
        came: float | None = None,
    ) -> T:
        """Answer from a view that is as new as the question, if one is ready soon.

        An answer that rests on something is asked again if the caches, once that has settled, show
        anything else. `came` is when whoever asks was asked, in loop time; it is now where that is
        not given. `question` runs in a thread. Raises Unavailable when no view is ready in time.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._pace.longest
        came = loop.time() if came is None else came
        if not self._source.synced:
            raise status.try_later("the GPU service is starting: try again in a moment", 1)
        view = await self._soon(self._look(), until)
        answer = await self._put(question, view.world)
        proved: Premises = NOTHING
        while lacking := rests_on(answer) - proved:
            if not await self._proofs.since(came, lacking):
                break
            proved |= lacking
            number = self._look()
            if view.number < number and await self._made(number, until):
                assert self._ready is not None
                view = self._ready
                answer = await self._put(question, view.world)
        return answer

    async def _put(self, question: Callable[[World], T], world: World) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._asking, question, world)

    async def _soon(self, number: int, until: float) -> _View:
        """Return a view as new as `number` if it comes soon, else the last one if that will do."""
        now = asyncio.get_running_loop().time()
        if not await self._made(number, min(now + self._pace.fresh, until)) and (
            self._ready is None or self._is_old()
        ):
            await self._made(number, until)
        if self._ready is None or self._is_old():
            raise status.try_later("the GPU service could not judge it in time: try again", 1)
        return self._ready

    def _is_old(self) -> bool:
        now = asyncio.get_running_loop().time()
        return self._behind_since is not None and now - self._behind_since > self._pace.oldest

    async def _made(self, number: int, until: float) -> bool:
        """Have views made until one is as new as `number`; False when the time is up."""
        try:
            async with asyncio.timeout_at(until):
                while self._ready is None or self._ready.number < number:
                    self._wake.set()
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True

    def _look(self) -> int:
        """Return the number of the newest world."""
        world = self._source.world()
        if world is not self._newest:
            self._newest = world
            self._number += 1
        return self._number

    async def _make(self) -> None:
        number = self._look()
        world = self._newest
        assert world is not None
        if self._ready is not None and self._ready.number == number:
            return
        self._taken_behind = None
        try:
            await self._in_thread(lambda: self._prepare(world))
        except Exception:
            log.exception("view not made")
            return
        self._ready = _View(number, world)
        self._behind_since = self._taken_behind
        self._moved.set()
        self._moved = asyncio.Event()

    def _on_change(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._behind_since is None:
            self._behind_since = now
        if self._taken_behind is None:
            self._taken_behind = now
