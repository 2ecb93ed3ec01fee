"""Projection: what is served, computed once per change of the world, remembered for watches.

One view of the world is *published* at a time, with the version up to which every source has proved
progress. Lists that somebody watches, or has read lately, are computed before it is published, so that
a reader finds an answer and never waits for one to be computed; others on first demand. All readers
share them. A watcher holds the state it knows and is told the difference to the newest one, so a slow
one costs nothing and loses nothing.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import structlog

from apiserver import feeds
from apiserver.feeds import Computed, Feed, Feeds, Published
from apiserver.resources.base import Resource
from apiserver.wire import states, status
from apiserver.wire.states import State
from gpu.reading import InThread
from gpu.world import World

log = structlog.get_logger(__name__)


class Source(Protocol):
    """What the projection needs of the caches."""

    @property
    def synced(self) -> bool:
        """Say whether every source has been listed once."""

    @property
    def resource_version(self) -> int:
        """The highest version up to which every source has proved progress; 0 before that."""

    def world(self) -> World:
        """Return everything as the watches have shown it so far."""

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after each change of a typed view; returns what ends it."""

    async def progress(self) -> None:
        """Make every source prove progress up to now. Raises when the API server does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast the projection follows, in seconds."""

    coalesce: float = 0.02
    """From the first signal to the refresh it starts."""
    interval: float = 0.2
    """At least this long from one refresh to the next."""
    rest: float = 8.0
    """Times as long as a refresh took, nothing is asked: a busy API server is asked less often."""
    longest: float = 1.0
    """The rest is never longer than this."""
    owed: float = 1.0
    """So much rest may be put off: after a quiet time one change right after another is seen by itself."""
    prove: float = 2.0
    """A proof of progress may take this long."""
    fresh: float = 0.08
    """A list waits this long for a refresh that may come so soon; else it answers at once with what
    is published."""
    busy: float = 0.025
    """The same while much rest is owed, for changes come one after another."""
    catch_up: float = 3.0
    """A reader who wants a version not reached yet waits this long."""
    interest: float = 30.0
    """With no watcher and no read for this long, changes are not followed until the next read."""
    followed: int = 64
    """Lists, besides those watched, that are computed before they are asked for: the last read."""
    retry: float = 0.25
    """Pause after a refresh that could not prove progress."""


class Projection:
    """The states of every served list. Its methods belong to one event loop."""

    def __init__(
        self,
        source: Source,
        *,
        enabled: bool = True,
        pace: Pace | None = None,
        most_feeds: int = 4096,
        in_thread: InThread = asyncio.to_thread,
    ) -> None:
        self._source = source
        self._enabled = enabled
        self._pace = pace or Pace()
        self._in_thread = in_thread
        self._feeds = Feeds(most_feeds)
        self._published: Published | None = None
        self._through = 0
        self._changes = 0
        """Counts the source's signals."""
        self._shown = 0
        """How many of them what is published shows."""
        self._wake = asyncio.Event()
        self._moved = asyncio.Event()
        self._lock = asyncio.Lock()
        """Held while lists take their next state, so that each takes it after the one before."""
        self._aside = asyncio.Lock()
        """The same of lists that are not followed: what is published holds none, and waits for none."""
        self._proving = True
        self._unfollowed = False
        self._last_read = float("-inf")
        self._rested_until = float("-inf")
        """When all rest has been had; a refresh may begin `Pace.owed` earlier."""
        self.closing = False
        self.parting = 0
        """How many watches were open when `close` was called."""

    async def run(self) -> None:
        """Follow the source until cancelled."""
        unsubscribe = self._source.subscribe(self._on_change)
        self._on_change()
        try:
            while True:
                await self._wake.wait()
                await asyncio.sleep(self._pace.coalesce)
                self._wake.clear()
                if not self._is_wanted():
                    self._unfollowed = True
                    continue
                began = asyncio.get_running_loop().time()
                if await self._refresh():
                    self._owe(began)
                else:
                    self._wake.set()
                    now = asyncio.get_running_loop().time()
                    self._rested_until = now + self._pace.owed + self._pace.retry
                await asyncio.sleep(self._pause())
        finally:
            unsubscribe()

    def _owe(self, began: float) -> None:
        """Note how long to leave the API server alone after a refresh that began then."""
        now = asyncio.get_running_loop().time()
        owed = max(0.0, self._rested_until - began)
        rest = max(self._pace.interval, min(self._pace.rest * (now - began), self._pace.longest))
        self._rested_until = now + owed + rest

    def _pause(self) -> float:
        """Return in how many seconds a refresh may begin."""
        now = asyncio.get_running_loop().time()
        return max(0.0, self._rested_until - self._pace.owed - now)

    def _patience(self) -> float:
        """Return how long a list waits for changes that are known; 0 where it would be for nothing."""
        if self._unfollowed:
            return self._pace.catch_up
        owed = self._rested_until - asyncio.get_running_loop().time()
        longest = self._pace.fresh if owed <= self._pace.owed / 2 else self._pace.busy
        return longest if self._pause() + self._pace.coalesce < longest else 0.0

    def close(self) -> None:
        """End every watch, cleanly: readers of `closing` are woken."""
        self.closing = True
        self.parting = self.watchers
        for feed in self._feeds.all():
            feed.announce()

    @property
    def synced(self) -> bool:
        """Say whether there is something to serve."""
        return self._published is not None

    @property
    def watchers(self) -> int:
        """How many watches are open."""
        return sum(feed.watchers for feed in self._feeds.all())

    def proved(self) -> int:
        """Return the version at which what is published is known to hold."""
        if not self._dirty and self._published is not None:
            self._through = max(self._through, self._source.resource_version)
        return self._through

    async def read(
        self, resource: Resource, namespace: str, *, at_least: int | None = None
    ) -> tuple[Feed, State, int]:
        """Return a list's feed, its newest state, and the version at which that holds.

        `at_least` 0 takes whatever is there; None takes what is current, as far as a short wait
        goes; N waits for that version. Raises TimedOut for a version not reached, Unavailable
        before the first proof of progress.
        """
        loop = asyncio.get_running_loop()
        self._last_read = loop.time()
        if self._unfollowed:
            # What changed meanwhile may have been the last change for long, and a watch begins here.
            self._wake.set()
        await self._first()
        if at_least is None and self._dirty:
            seen = self._changes
            await self._wait(lambda: self._shown >= seen, self._patience())
        elif at_least and not await self._wait(
            lambda: self.proved() >= at_least, self._pace.catch_up
        ):
            raise status.too_new(at_least, self.proved())
        feed = self._feeds.of(resource, namespace)
        feed.last_read = self._last_read
        state, version = await self._current(feed)
        return feed, state, version

    @contextlib.contextmanager
    def following(self, feed: Feed) -> Iterator[None]:
        """Keep a feed computed on every change while somebody watches it."""
        feed.watchers += 1
        try:
            yield
        finally:
            feed.watchers -= 1

    async def newer(self, feed: Feed, known: State, until: float) -> State | None:
        """Wait for a newer state of a feed than `known`; None when the time came or all ends."""
        while not self.closing:
            latest = feed.history.latest
            if latest is not None and latest.version > known.version:
                return latest
            try:
                async with asyncio.timeout_at(until):
                    await feed.changed.wait()
            except TimeoutError:
                return None
        return None

    async def _first(self) -> None:
        if self._published is None and not self._enabled:
            return
        if not await self._wait(lambda: self._published is not None, self._pace.catch_up):
            raise status.try_later("the caches behind this resource are not synced yet", 2)

    async def _wait(self, done: Callable[[], bool], seconds: float) -> bool:
        """Hurry the refresh on and wait until `done`; False when the time is up."""
        if done():
            return True
        if seconds <= 0:
            return False
        try:
            async with asyncio.timeout(seconds):
                while not done():
                    self._wake.set()
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True

    def _is_wanted(self) -> bool:
        """Say whether anybody would look: proofs of progress cost the API server requests."""
        age = asyncio.get_running_loop().time() - self._last_read
        return self._published is None or self.watchers > 0 or age < self._pace.interest

    @property
    def _dirty(self) -> bool:
        """Say whether the source has changed since what is published."""
        return self._changes != self._shown

    def _on_change(self) -> None:
        self._changes += 1
        self._wake.set()

    async def _refresh(self) -> bool:
        """Prove progress and publish; False when that has to be tried again."""
        if not (self._source.synced and await self._progressed()):
            return False
        if not self._dirty:
            self.proved()
        elif not await self._publish():
            return False
        self._announce_move()
        return True

    async def _progressed(self) -> bool:
        try:
            async with asyncio.timeout(self._pace.prove):
                await self._source.progress()
        except Exception as error:  # noqa: BLE001 - whatever it was: said once, tried again
            if self._proving:
                causes = error.exceptions if isinstance(error, ExceptionGroup) else (error,)
                text = "; ".join(f"{type(one).__name__}: {one}" for one in causes)
                log.warning("progress not proved", error=text)
            self._proving = False
            return False
        self._proving = True
        return True

    async def _publish(self) -> bool:
        """Compute what is wanted of the world as it is now, then publish it.

        Returns False when its version did not grow: that has to be tried again.
        """
        version, changes = self._source.resource_version, self._changes
        if version <= self._through:
            return False
        serial = self._published.serial + 1 if self._published else 1
        taken = Published(serial, version, self._source.world(), self._through)
        # Beside the lock: most of the time goes here, and readers of what is published go on.
        await self._in_thread(lambda: _prepare(taken.world))
        since = asyncio.get_running_loop().time() - self._pace.interest
        async with self._lock:
            computed = await self._compute(self._feeds.wanted(since, self._pace.followed), taken)
            self._published, self._through, self._shown = taken, version, changes
            self._unfollowed = False
            for feed, error in computed.show().items():
                log.error("list not computed", resource=feed.resource.plural, exc_info=error)
        return True

    def _announce_move(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    async def _current(self, feed: Feed) -> tuple[State, int]:
        """Return the feed's state in what is published now, and the version at which that holds."""
        if self._published is None:  # the feature is off and nothing is known yet
            return states.first((), 1), max(self.proved(), 1)
        if feed.serial == self._published.serial:
            through = self.proved()  # once: every source is looked at for it
        else:
            async with self._lock if feed.resource.is_followed else self._aside:
                # Before: by the end another view may be published, of which the list says nothing.
                through = self.proved()
                failed = (await self._compute([feed], self._published)).show()
            if feed in failed:
                raise failed[feed]
        feed.history.held_through(through)
        state = feed.history.latest
        assert state is not None
        return state, max(through, state.version)

    async def _compute(self, wanted: Iterable[Feed], published: Published) -> Computed:
        return await feeds.compute(
            wanted,
            published,
            part=self._feeds.of,
            in_thread=self._in_thread,
            enabled=self._enabled,
        )


def _prepare(world: World) -> None:
    """Make what all lists need; where that fails, each of them fails and tells why."""
    with contextlib.suppress(Exception):
        _ = world.snapshot
