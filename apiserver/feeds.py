"""Feeds: every list that was asked for, with its remembered states; computed together, a few at a time."""

import asyncio
import functools
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from apiserver.rendered import Rendered
from apiserver.resources.base import Resource
from apiserver.told import Told
from apiserver.wire import states
from apiserver.wire.items import Row
from apiserver.wire.states import History, State
from gpu.reading import InThread
from gpu.world import World

_AT_ONCE: Final = 8
"""Lists computed before a pass that waits for the thread gets it: 10 to 20 ms."""
_PIECE: Final = 16
"""The same of rows of a list that makes them one by one, each of which takes a millisecond."""


@dataclass(frozen=True, slots=True)
class Published:
    """A view of the world, its number, and the version it holds at least."""

    serial: int
    version: int
    world: World
    after: int = 0
    """Up to this version readers were told that they know all: nothing new may be numbered so low."""


@dataclass(slots=True, eq=False)
class Feed:
    """One list (a resource in one namespace, or in all) and its remembered states."""

    resource: Resource
    namespace: str
    history: History = field(default_factory=History)
    serial: int = 0
    watchers: int = 0
    last_read: float = float("-inf")
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    told: Told = field(default_factory=Told)
    rendered: Rendered = field(default_factory=Rendered)

    @property
    def is_merged(self) -> bool:
        """Say whether it is made of the lists of all tenants."""
        return self.resource.namespaced and not self.namespace

    def announce(self) -> None:
        """Wake everybody who waits for a newer state."""
        self.changed.set()
        self.changed = asyncio.Event()

    def advance(self, published: Published, state: State | None) -> None:
        """Take a newer state; None says that the last one holds still."""
        adjacent = published.serial == self.serial + 1
        self.serial = published.serial
        if state is None:
            self.history.held_through(published.version)
            return
        self.history.add(state, adjacent=adjacent)
        self.told.forget()
        self.rendered.forget()
        self.announce()


class Feeds:
    """Feeds by resource and namespace; those longest unread are forgotten when there are too many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._feeds: OrderedDict[tuple[str, str, str], Feed] = OrderedDict()

    def __len__(self) -> int:
        return len(self._feeds)

    def of(self, resource: Resource, namespace: str) -> Feed:
        """Return the feed of a list, new or not."""
        key = (resource.group, resource.plural, namespace)
        feed = self._feeds.get(key)
        if feed is None:
            self._forget()
            feed = self._feeds[key] = Feed(resource, namespace)
        self._feeds.move_to_end(key)
        return feed

    def all(self) -> tuple[Feed, ...]:
        """Return every feed."""
        return tuple(self._feeds.values())

    def wanted(self, since: float, most: int) -> tuple[Feed, ...]:
        """Return those that are watched, and of those read since a time as many more, newest first.

        Of what cannot be watched nobody expects to be told of changes: it is computed when it is read.
        """
        watched = [feed for feed in self._feeds.values() if feed.watchers]
        read = [
            feed
            for feed in reversed(self._feeds.values())
            if not feed.watchers and feed.last_read >= since and feed.resource.is_followed
        ]
        return (*watched, *read[:most])

    def _forget(self) -> None:
        """Drop the lists longest unread; namespaces are named by callers, so they must be bounded."""
        surplus = len(self._feeds) + 1 - self._most
        for key in [key for key, feed in self._feeds.items() if not feed.watchers][
            : max(surplus, 0)
        ]:
            del self._feeds[key]


@dataclass(slots=True)
class Computed:
    """What some feeds come to in one world; nobody sees anything of it before `show`."""

    published: Published
    states: dict[Feed, State | None] = field(default_factory=dict)
    """None where the last state holds still."""
    failed: dict[Feed, Exception] = field(default_factory=dict)

    def show(self) -> Mapping[Feed, Exception]:
        """Have every feed take its new state; returns those that could not be computed, and why.

        Readers and watchers wait for this: all that takes long was done before, in the thread.
        """
        for feed, state in self.states.items():
            if feed.serial < self.published.serial:
                feed.advance(self.published, state)
        return self.failed


async def compute(
    feeds: Iterable[Feed],
    published: Published,
    *,
    part: Callable[[Resource, str], Feed],
    in_thread: InThread,
    enabled: bool,
) -> Computed:
    """Compute those feeds that are behind a world, a few at a time; all empty with the feature off.

    No feed may take another state meanwhile.
    """
    parts: dict[Feed, None] = {}
    merged: dict[Feed, tuple[Feed, ...]] = {}
    for feed in feeds:
        if feed.serial == published.serial:
            continue
        if feed.is_merged:
            names = _tenants(published.world) if enabled else ()
            merged[feed] = tuple(part(feed.resource, name) for name in names)
        else:
            parts[feed] = None
    for found in merged.values():
        parts |= dict.fromkeys(found)
    stale = tuple(feed for feed in parts if feed.serial != published.serial)
    made = Computed(published)
    for begin in range(0, len(stale), _AT_ONCE):
        some = stale[begin : begin + _AT_ONCE]
        for one in await in_thread(functools.partial(_each, some, made, enabled=enabled)):
            while await in_thread(functools.partial(_more, one, made)):
                pass
    for feed, found in merged.items():
        await in_thread(functools.partial(_whole, feed, found, made))
    return made


@dataclass(frozen=True, slots=True)
class _Long:
    """A list whose rows are made one by one, and those made so far."""

    feed: Feed
    rest: Iterator[Row]
    rows: list[Row] = field(default_factory=list)


def _each(feeds: Iterable[Feed], made: Computed, *, enabled: bool) -> list[_Long]:
    """Note the next state of each feed; returns those whose rows are still to be made."""
    published, long = made.published, []
    for feed in feeds:
        try:
            rows = feed.resource.rows(published.world, feed.namespace) if enabled else ()
            if isinstance(rows, tuple):
                made.states[feed] = _next(feed, rows, published)
            else:
                long.append(_Long(feed, rows))
        except Exception as error:  # noqa: BLE001 -- one list's fault must not end the others
            made.failed[feed] = error
    return long


def _more(one: _Long, made: Computed) -> bool:
    """Make some more rows of a feed, and its next state of the last; says whether more are to come."""
    try:
        some = list(itertools.islice(one.rest, _PIECE))
        one.rows.extend(some)
        if len(some) == _PIECE:
            return True
        made.states[one.feed] = _next(one.feed, tuple(one.rows), made.published)
    except Exception as error:  # noqa: BLE001 -- one list's fault must not end the others
        made.failed[one.feed] = error
    return False


def _next(feed: Feed, rows: tuple[Row, ...], published: Published) -> State | None:
    before = feed.history.latest
    if before is None:
        return states.first(rows, published.version)
    return states.following(
        before, rows, published.version, after=published.after, forget=feed.history.oldest
    )


def _whole(feed: Feed, parts: Iterable[Feed], made: Computed) -> None:
    """Note the next state of a list of all namespaces, out of theirs."""
    found = []
    for part in parts:
        if part in made.failed:
            made.failed[feed] = made.failed[part]
            return
        state = made.states.get(part) or part.history.latest
        if state is not None:
            found.append(state)
    history = feed.history
    made.states[feed] = states.merged(found, made.published.version, history.latest, history.oldest)


def _tenants(world: World) -> tuple[str, ...]:
    return tuple(sorted(one.meta.name for one in world.namespaces if one.tenant is not None))
