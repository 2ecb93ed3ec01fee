"""WATCH: what a list holds, then every difference, as a stream of lines."""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import structlog
from aiohttp import web
from prometheus_client import Counter, Histogram

from apiserver import appkeys, middleware, told
from apiserver.appkeys import Limits, Services
from apiserver.feeds import Feed
from apiserver.resources.base import Resource
from apiserver.told import Batch
from apiserver.wire import frames, negotiate, status
from apiserver.wire.frames import Event, Framer
from apiserver.wire.negotiate import Subject
from apiserver.wire.options import Options
from apiserver.wire.selectors import Selector
from apiserver.wire.states import State

log = structlog.get_logger(__name__)


class Start(NamedTuple):
    """Where a watch begins: from this state, at this version, telling first what is there or not."""

    feed: Feed
    state: State
    version: int
    tells_all: bool
    then: State | None = None
    """What a watch that goes on is led through before it is told of the newest state."""


async def serve(
    request: web.Request, resource: Resource, namespace: str, asked: Options
) -> web.StreamResponse:
    """Stream until the time is up, the client leaves, or the process does."""
    services = request.app[appkeys.SERVICES]
    begun = asyncio.get_running_loop().time()
    view = negotiate.choose(request.headers.get("Accept"), Subject.WATCH)
    framer = Framer(resource.type, resource.columns, view, asked.include)
    start = await begin(services, resource, namespace, asked)
    return await stream(request, resource, start, asked, framer, begun=begun)


async def stream(
    request: web.Request,
    resource: Resource,
    start: Start,
    asked: Options,
    framer: Framer,
    *,
    begun: float,
    before: Sequence[bytes] = (),
) -> web.StreamResponse:
    """Stream from a start, asked for at `begun` by the loop's clock; the lines `before` go first."""
    services = request.app[appkeys.SERVICES]
    served = services.metrics.served
    clock = asyncio.get_running_loop().time
    response = web.StreamResponse(headers={"Content-Type": framer.view.media})
    labels = middleware.request_labels(request, request[appkeys.ATTRIBUTES])
    about = (resource.group, resource.version, resource.plural)
    counters = (served.watch_events.labels(*about), served.watch_event_sizes.labels(*about))
    gauge = served.long_running.labels(*labels)

    def listed() -> None:
        served.watch_list_seconds.labels(*about, labels[-2]).observe(clock() - begun)

    with services.projection.following(start.feed), gauge.track_inprogress():
        await response.prepare(request)
        lines = _with(before, _lines(services, start, asked, framer, listed))
        await _send(request, response, lines, counters)
    return response


async def _with(
    before: Sequence[bytes], lines: AsyncGenerator[Batch, None]
) -> AsyncGenerator[Batch, None]:
    async with contextlib.aclosing(lines):
        if before:
            yield told.batch(before)
        async for batch in lines:
            yield batch


async def _send(
    request: web.Request,
    response: web.StreamResponse,
    batches: AsyncGenerator[Batch, None],
    counters: tuple[Counter, Histogram],
) -> None:
    """Write the lines; a stream that cannot go on is cut, never followed by another answer."""
    seconds = request.app[appkeys.SERVICES].limits.write
    try:
        async with contextlib.aclosing(batches):
            async for batch in batches:
                if not batch.events:
                    continue
                counters[0].inc(batch.events)
                counters[1].observe(sum(map(len, batch.pieces)))
                for piece in batch.pieces:
                    async with asyncio.timeout(seconds):
                        await response.write(piece)
    except ConnectionError:
        log.debug("watch ended: connection lost")
    except TimeoutError:
        middleware.terminated(request, "slow")
        log.info("watch ended: slow reader")
        _cut(request)
    except Exception:
        log.exception("watch failed", audit_id=request[appkeys.AUDIT_ID])
        _cut(request)


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


async def begin(services: Services, resource: Resource, namespace: str, asked: Options) -> Start:
    """Find the state to begin from. Raises Expired for a version that is forgotten."""
    read = services.projection.read
    feed, state, version = await read(resource, namespace, at_least=asked.version)
    if asked.initial_events is not None:
        return Start(feed, state, version, asked.initial_events)
    if not asked.version:
        return Start(feed, state, version, tells_all=True)
    known = feed.history.resume(asked.version)
    if known is None:
        raise status.watch_too_old(asked.version, feed.history.oldest)
    return Start(feed, known, asked.version, tells_all=False, then=feed.history.after(known))


async def _lines(
    services: Services,
    start: Start,
    asked: Options,
    framer: Framer,
    listed: Callable[[], None],
) -> AsyncGenerator[Batch, None]:
    """Yield the lines to send, what belongs together at once; call `listed` when a first list is sent."""
    projection = services.projection
    clock = asyncio.get_running_loop().time
    end = clock() + _seconds(asked, services.limits)
    teller = _Teller(start.feed, asked.selector, framer)
    known, sent = start.state, start.version
    if start.tells_all:
        yield teller.all_of(known)
        if asked.initial_events and asked.bookmarks:
            yield told.batch([framer.bookmark(start.version, ends_initial=True)])
            listed()
    if start.then is not None:
        yield teller.between(known, start.then)
        known = start.then
    marks = _marks(asked, clock(), end, services.limits)
    mark = next(marks)
    while not projection.closing and clock() < end:
        newest = await projection.newer(start.feed, known, min(mark, end))
        if newest is not None:
            if known.version < start.feed.history.oldest:
                log.info("watch ended: too far behind")
                return
            batch = teller.to_newest(known, newest)
            known = newest
            yield batch
        elif clock() >= mark:
            mark = next(marks)
            version = max(projection.proved(), known.version)
            if version > sent and not projection.closing:
                sent = version
                yield told.batch([framer.bookmark(version)])
    if projection.closing:  # whoever is let go at once comes back at once
        spread = min(projection.parting / services.limits.partings, services.limits.parting)
        await asyncio.sleep(spread * random.random())  # noqa: S311 -- spreads reconnects


@dataclass(frozen=True, slots=True)
class _Teller:
    """Makes the lines of one stream, or takes those that another one like it was sent."""

    feed: Feed
    selector: Selector
    framer: Framer

    def all_of(self, state: State) -> Batch:
        """Return every object as ADDED."""
        return self._batch(("all", state.version), lambda: frames.initial(state, self.selector))

    def between(self, known: State, later: State) -> Batch:
        """Return the difference to a state that is not the newest."""
        return self._framed(frames.difference(known, later, self.selector))

    def to_newest(self, known: State, newest: State) -> Batch:
        """Return the difference to the newest state."""
        events = self.feed.told.events
        return self._batch(
            ("to", known.version, newest.version), lambda: events(known, newest, self.selector)
        )

    def _batch(self, about: Hashable, events: Callable[[], Sequence[Event]]) -> Batch:
        about = (about, self.selector, self.framer.likeness)
        made = self.feed.told.batch(about, lambda: self._lines(events()))
        if made.events:
            self.framer.begin()
        return made

    def _framed(self, events: Sequence[Event]) -> Batch:
        return told.batch(self._lines(events))

    def _lines(self, events: Sequence[Event]) -> list[bytes]:
        return [self.framer.event(event) for event in events]


def _marks(asked: Options, now: float, end: float, limits: Limits) -> Iterator[float]:
    """Yield when to send bookmarks: each minute and shortly before the end."""
    last = end - limits.last_bookmark
    at = now + limits.bookmark
    while asked.bookmarks and at < last:
        yield at
        at += limits.bookmark
    if asked.bookmarks and last > now:
        yield last
    while True:
        yield float("inf")


def _seconds(asked: Options, limits: Limits) -> float:
    if asked.timeout and asked.timeout > 0:
        return float(asked.timeout)
    return limits.shortest_watch * (1 + random.random())  # noqa: S311 -- spreads reconnects
