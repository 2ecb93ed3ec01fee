"""Reflector: list one kind, then watch it, for ever, into a Store.

The list is the paged, consistent one (500 a page), not the streamed one (`sendInitialEvents`):
both take 0.65 s for 10,000 objects, a server that cannot stream has to be asked for pages anyway,
and a page has a deadline of its own, so a stuck list is noticed where a silent stream is not.

What ends a watch, and what follows:

    the server's own timeout          watch again from the last version, at once
    cut, half a line, silence, 5xx    watch again from the last version, after a growing delay
    410, also as an ERROR event       list again
    401                               the client has read the credentials again; as a cut
    404 of the kind                   ask quietly until it is served; an emptied store only after
                                      `unserved_grace`, since a starting server may say 404 too
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar, Unpack

import structlog

from gpu.cluster import errors, options, wire
from gpu.cluster.store import Store
from gpu.objects.kinds import Kind
from gpu.objects.meta import HasMeta

T = TypeVar("T", bound=HasMeta)

log: Final = structlog.get_logger(__name__)

_SLICE: Final = 50
"""Objects or events taken in before the event loop gets its turn: 2 to 5 ms."""


class Api(Protocol):
    """What a reflector asks of a client."""

    async def list(
        self, kind: Kind, namespace: str | None = None, **which: Unpack[options.ListOptions]
    ) -> wire.ListPage:
        """Read one page."""

    def watch(
        self, kind: Kind, namespace: str | None = None, **which: Unpack[options.WatchOptions]
    ) -> AsyncGenerator[wire.WatchEvent, None]:
        """Yield events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which objects of a kind; everything when empty."""

    namespace: str | None = None
    label_selector: str | None = None
    field_selector: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How a reflector takes its time, in seconds."""

    page: int = 500
    list_deadline: float = 30.0
    watch_least: float = 240.0
    """A watch lasts between this and twice as long, so that not all end together."""
    idle: float = 100.0
    """Silence after which a watch counts as cut; bookmarks come every 60 to 75 s."""
    steady: float = 10.0
    """A watch that lasted this long has ended the row of failures before it."""
    backoff_first: float = 0.2
    backoff_most: float = 5.0
    unserved: float = 5.0
    """Between two questions for a kind that is not served."""
    unserved_grace: float = 15.0


EVERYTHING: Final = Scope()
USUAL: Final = Pace()


class Reflector(Generic[T]):
    """One kind's list and watch; `run()` never returns. `jitter` gives numbers in [0, 1)."""

    def __init__(
        self,
        api: Api,
        store: Store[T],
        scope: Scope = EVERYTHING,
        *,
        pace: Pace = USUAL,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.store = store
        self.lists = 0
        self.watches = 0
        self.failures = 0
        self.failing_since: float | None = None
        """Loop time of the first failure since the server was last heard; None while all is well."""
        self.is_watching = False
        """A watch is open: what changes now is on its way."""
        self._api = api
        self._scope = scope
        self._pace = pace
        self._jitter = jitter
        self._version = ""
        """Where the next watch begins; empty when a list has to come first."""
        self._row = 0
        """Failures in a row; the delay grows with it."""
        self._unserved_since: float | None = None
        self._last_error = ""
        self._waiters: list[asyncio.Future[None]] = []
        self._wait: asyncio.Timeout | None = None

    async def run(self) -> None:
        """List and watch until cancelled; raises nothing else."""
        while True:
            try:
                while not self._version or self._waiters:
                    await self._list()
                await self._watch()
            except errors.Gone:
                self._version = ""
                self._row += 1
                if self._row > 1:
                    await self._pause(self._delay())
            except errors.ApiError as error:
                await self._pause(self._failed(error))

    async def refresh(self) -> None:
        """Have the kind listed anew and wait for it: the store then is no older than this call.

        Waits on while the server does not answer; put a deadline around it.
        """
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        if self._wait is not None and not self._wait.expired():
            self._wait.reschedule(asyncio.get_running_loop().time())
        await waiter

    async def _list(self) -> None:
        waiting, self._waiters = self._waiters, []
        try:
            self._version = await self._read_list()
        except BaseException:
            self._waiters = [*waiting, *self._waiters]
            raise
        self.lists += 1
        self._heard()
        _release(waiting)

    async def _read_list(self) -> str:
        listing = self.store.listing()
        token, count = "", 0
        while True:
            page = await self._api.list(
                self.store.kind,
                self._scope.namespace,
                label_selector=self._scope.label_selector,
                field_selector=self._scope.field_selector,
                limit=self._pace.page,
                continue_=token,
                deadline=self._pace.list_deadline,
            )
            for raw in page.items:
                listing.add(raw)
                count += 1
                if count % _SLICE == 0:
                    await asyncio.sleep(0)
            token = page.continue_
            if not token:
                listing.finish(page.resource_version)
                return page.resource_version or "0"  # "0": a server without versions; any will do

    async def _watch(self) -> None:
        """Watch until the server ends it, or `refresh` does; raises what breaks it."""
        loop = asyncio.get_running_loop()
        started, count = loop.time(), 0
        try:
            async with asyncio.timeout(None) as self._wait:
                async with aclosing(self._events()) as events:
                    async for event in events:
                        self._take(event)
                        count += 1
                        if count % _SLICE == 0:
                            await asyncio.sleep(0)
        except TimeoutError:
            return
        finally:
            self.is_watching = False
            self._wait = None
            if loop.time() - started >= self._pace.steady:
                self._row = 0
        if not count and loop.time() - started < 1.0:
            self._row += 1  # a server that ends every watch at once must not be asked in a circle
            await self._pause(self._delay())

    def _events(self) -> AsyncGenerator[wire.WatchEvent, None]:
        self.watches += 1
        return self._api.watch(
            self.store.kind,
            self._scope.namespace,
            label_selector=self._scope.label_selector,
            field_selector=self._scope.field_selector,
            resource_version=self._version,
            timeout_seconds=int(self._pace.watch_least * (1 + self._jitter())),
            idle=self._pace.idle,
            opened=self._opened,
        )

    def _take(self, event: wire.WatchEvent) -> None:
        self._row = 0
        if event.type == "DELETED":
            self.store.remove(event.object)
        elif event.type == "BOOKMARK":
            self.store.bookmark(event.object)
        else:
            self.store.put(event.object)
        meta = event.object.get("metadata")
        version = meta.get("resourceVersion") if isinstance(meta, dict) else None
        if isinstance(version, str) and version:
            self._version = version

    def _opened(self) -> None:
        self.is_watching = True
        self._heard()

    def _heard(self) -> None:
        """Note that the server answers."""
        if self.failing_since is not None:
            log.info("kind is read again", kind=self.store.kind.resource)
        self.failing_since = None
        self._unserved_since = None
        self._last_error = ""

    def _failed(self, error: errors.ApiError) -> float:
        """Note a failure and return the seconds to wait after it."""
        if isinstance(error, errors.NotFound):
            return self._not_served()
        now = asyncio.get_running_loop().time()
        self.failures += 1
        self._row += 1
        self.failing_since = now if self.failing_since is None else self.failing_since
        if self._last_error != type(error).__name__:
            self._last_error = type(error).__name__
            log.warning("kind cannot be read", kind=self.store.kind.resource, error=str(error))
        delay = self._delay()
        return max(delay, error.retry_after) if isinstance(error, errors.Throttled) else delay

    def _not_served(self) -> float:
        now = asyncio.get_running_loop().time()
        self._version = ""
        if self._unserved_since is None:
            self._unserved_since = now
        if self.store.has_synced and now - self._unserved_since < self._pace.unserved_grace:
            return min(1.0, self._pace.unserved)
        if self.store.served:
            log.info("kind is not served", kind=self.store.kind.resource)
        self.store.not_served()
        self.failing_since = None
        waiting, self._waiters = self._waiters, []
        _release(waiting)  # nothing is as new as it gets
        return self._pace.unserved

    def _delay(self) -> float:
        """Return the seconds before the next try: doubling, half of it by chance."""
        ceiling = min(self._pace.backoff_first * 2.0 ** (self._row - 1), self._pace.backoff_most)
        return ceiling * (1 + self._jitter()) / 2

    async def _pause(self, seconds: float) -> None:
        """Wait; `refresh` cuts it short."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds) as self._wait:
                await asyncio.Event().wait()
        self._wait = None


def _release(waiting: list[asyncio.Future[None]]) -> None:
    for waiter in waiting:
        if not waiter.done():
            waiter.set_result(None)
