"""Projection: what is served, computed once per change of the world, remembered for watches.

One view of the world is *published* at a time, with the version up to which every source has proved
progress. Lists are computed from it on first demand and shared by all readers; lists that somebody
watches are computed as soon as it is published. A watcher holds the state it knows and is told the
difference to the newest one, so a slow one costs nothing and loses nothing.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from apiserver.resources.base import Resource
from apiserver.wire import states, status
from apiserver.wire.items import Row
from apiserver.wire.states import History, State
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
    prove: float = 2.0
    """A proof of progress may take this long."""
    fresh: float = 0.025
    """A list waits this long for a refresh that is due, then answers with what is published."""
    catch_up: float = 3.0
    """A reader who wants a version not reached yet waits this long."""
    interest: float = 30.0
    """With no watcher and no read for this long, changes are not followed until the next read."""
    retry: float = 0.25
    """Pause after a refresh that could not prove progress."""


@dataclass(frozen=True, slots=True)
class _Published:
    """A view of the world and the version it holds at least."""

    serial: int
    version: int
    world: World


@dataclass(slots=True)
class Feed:
    """One list (a resource in one namespace, or in all) and its remembered states."""

    resource: Resource
    namespace: str
    history: History = field(default_factory=History)
    serial: int = 0
    watchers: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def announce(self) -> None:
        """Wake everybody who waits for a newer state."""
        self.changed.set()
        self.changed = asyncio.Event()


class Projection:
    """The states of every served list. Its methods belong to one event loop."""

    def __init__(
        self,
        source: Source,
        *,
        enabled: bool = True,
        pace: Pace | None = None,
        most_feeds: int = 4096,
    ) -> None:
        self._source = source
        self._enabled = enabled
        self._pace = pace or Pace()
        self._most_feeds = most_feeds
        self._feeds: OrderedDict[tuple[str, str], Feed] = OrderedDict()
        self._published: _Published | None = None
        self._through = 0
        self._dirty = False
        self._wake = asyncio.Event()
        self._moved = asyncio.Event()
        self._lock = asyncio.Lock()
        self._proving = True
        self._unfollowed = False
        self._last_read = float("-inf")
        self.closing = False

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
                if not await self._refresh():
                    self._wake.set()
                    await asyncio.sleep(self._pace.retry)
                else:
                    await asyncio.sleep(self._pace.interval)
        finally:
            unsubscribe()

    def _rest(self, took: float) -> float:
        """Return how long to leave the API server alone after a refresh that took so long."""
        return max(self._pace.interval, min(self._pace.rest * took, self._pace.longest))

    def close(self) -> None:
        """End every watch, cleanly: readers of `closing` are woken."""
        self.closing = True
        for feed in self._feeds.values():
            feed.announce()

    @property
    def synced(self) -> bool:
        """Say whether there is something to serve."""
        return self._published is not None

    @property
    def watchers(self) -> int:
        """How many watches are open."""
        return sum(feed.watchers for feed in self._feeds.values())

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
        await self._first()
        if at_least is None and self._dirty:
            patience = self._pace.catch_up if self._unfollowed else self._pace.fresh
            await self._wait(lambda: not self._dirty, patience)
        elif at_least and not await self._wait(
            lambda: self.proved() >= at_least, self._pace.catch_up
        ):
            raise status.too_new(at_least, self.proved())
        feed = self._feed(resource, namespace)
        state = await self._current(feed)
        return feed, state, max(self.proved(), state.version)

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

    def _on_change(self) -> None:
        self._dirty = True
        self._wake.set()

    async def _refresh(self) -> bool:
        """Prove progress and publish; False when that has to be tried again."""
        if not (self._source.synced and await self._progressed()):
            return False
        async with self._lock:
            if not self._publish():
                return False
            for feed in [feed for feed in self._feeds.values() if feed.watchers]:
                try:
                    await self._bring_up(feed)
                except Exception:
                    log.exception("list not computed", resource=feed.resource.plural)
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

    def _publish(self) -> bool:
        """Take the world as it is now if it changed; False when its version did not grow."""
        version = self._source.resource_version
        if not self._dirty:
            self.proved()
            return True
        if version <= self._through:
            return False
        self._dirty = False
        self._unfollowed = False
        serial = self._published.serial + 1 if self._published else 1
        self._published = _Published(serial, version, self._source.world())
        self._through = version
        return True

    def _announce_move(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    def _feed(self, resource: Resource, namespace: str) -> Feed:
        key = (resource.plural, namespace)
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = Feed(resource, namespace)
            self._forget_feeds()
        self._feeds.move_to_end(key)
        return feed

    def _forget_feeds(self) -> None:
        """Drop the lists longest unread; namespaces are named by callers, so they must be bounded."""
        surplus = len(self._feeds) - self._most_feeds
        for key in [key for key, feed in self._feeds.items() if not feed.watchers][
            : max(surplus, 0)
        ]:
            del self._feeds[key]

    async def _current(self, feed: Feed) -> State:
        """Return the feed's state in what is published now."""
        if self._published is None:  # the feature is off and nothing is known yet
            return states.first((), 1)
        if feed.serial != self._published.serial:
            async with self._lock:
                await self._bring_up(feed)
        if feed.serial == self._published.serial:
            feed.history.held_through(self.proved())
        state = feed.history.latest
        assert state is not None
        return state

    async def _bring_up(self, feed: Feed) -> None:
        """Compute a feed from what is published; nothing is published meanwhile (lock held)."""
        published = self._published
        if published is None or feed.serial == published.serial:
            return
        everywhere = feed.resource.namespaced and not feed.namespace
        parts = [feed]
        if everywhere:
            names = _tenants(published.world) if self._enabled else []
            parts = [self._feed(feed.resource, name) for name in names]
        stale = [part for part in parts if part.serial != published.serial]
        computed = await asyncio.to_thread(_rows, stale if self._enabled else [], published.world)
        for part in stale:
            rows = computed.get(part.namespace, ())
            before = part.history.latest
            _advance(part, published, _next_state(part, before, rows, published.version))
        if everywhere:
            latest = [part.history.latest for part in parts]
            found = [state for state in latest if state is not None]
            state = states.merged(found, published.version, feed.history.latest)
            _advance(feed, published, state)


def _rows(feeds: Sequence[Feed], world: World) -> dict[str, tuple[Row, ...]]:
    return {feed.namespace: feed.resource.rows(world, feed.namespace) for feed in feeds}


def _next_state(
    feed: Feed, before: State | None, rows: Sequence[Row], version: int
) -> State | None:
    if before is None:
        return states.first(rows, version)
    return states.following(before, rows, version, feed.history.oldest)


def _advance(feed: Feed, published: _Published, state: State | None) -> None:
    adjacent = published.serial == feed.serial + 1
    feed.serial = published.serial
    if state is None:
        feed.history.held_through(published.version)
        return
    feed.history.add(state, adjacent=adjacent)
    feed.announce()


def _tenants(world: World) -> list[str]:
    return sorted(one.meta.name for one in world.namespaces if one.tenant is not None)
