"""CachesSource: the caches as the projection wants them, with how far every source has come.

A list's resourceVersion is the highest version up to which *every* source has proved progress
(domain contract 9): by an event, a bookmark, or a list of one object. A quiet kind has no events,
and its bookmarks come once a minute, so before anything is published the kinds that lag are asked
for one object each: the list's version is where that kind stood. A refusal is asked for less: that the
objects it rests on are as a direct read shows them, and that of the kinds it rests on nothing is on
its way any more.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, Unpack

from gpu.cluster import errors
from gpu.cluster.caches import WATCHED, Caches
from gpu.cluster.options import GetOptions, ListOptions
from gpu.cluster.store import Store
from gpu.objects.kinds import Kind
from gpu.objects.meta import HasMeta, ObjectKey
from gpu.reading import Live
from gpu.world import World

SILENCE: Final = 0.005
"""Seconds without an event after which what was on its way has arrived."""
LATE: Final = 2 * SILENCE
"""A look that comes so late is none: what kept the loop busy kept it from reading, too."""
_MOST_LOOKS: Final = 40
_SETTLING_LOOKS: Final = 4
"""A kind that is never silent is looked at so often."""
_STEP: Final = 0.001
"""Seconds between two looks for what is known to be on its way."""
_NO_NAMES: Final = frozenset({"", ".", ".."})
"""No object can be called so, and a path with them would lead elsewhere."""
_SCOPES: Final = {row.kind: row.scope for row in WATCHED}
"""Where each kind is looked at: our rights end there too."""


class Page(Protocol):
    """A list's answer, as far as it is looked at here."""

    @property
    def resource_version(self) -> str:
        """Where the kind stood."""


class Api(Protocol):
    """Whoever reads one kind past the cache."""

    async def get(
        self, kind: Kind, name: str, namespace: str | None = None, **how: Unpack[GetOptions]
    ) -> dict[str, Any]:
        """Read one object. Raises NotFound when there is none."""

    async def list(
        self, kind: Kind, namespace: str | None = None, **which: Unpack[ListOptions]
    ) -> Page:
        """List objects; `limit=1` is all that is asked here."""


@dataclass(slots=True, eq=False)
class _Kept:
    """One kind's store, and how far that kind was seen to be past it."""

    kind: Kind
    store: Store[Any]
    proved: int = -1
    """Where the kind stood when it was asked last; -1 before that."""
    known: int = 0
    """The newest version that a direct read has shown."""

    @property
    def reached(self) -> int:
        """The version up to which the kind is known."""
        return max(self.store.resource_version, self.proved)

    @property
    def has_arrived(self) -> bool:
        """Say whether the store shows all there was when the kind was asked."""
        return 0 <= self.proved <= self.store.resource_version


class CachesSource:
    """Everything the projection needs of the caches (projection.Source)."""

    def __init__(self, caches: Caches, api: Api, *, in_flight: int = 4) -> None:
        self._caches = caches
        self._api = api
        self._live = Live(caches)
        # Gone through with each request: looked up by kind, most of that would be hashing kinds.
        self._each = tuple(_Kept(kind, caches[kind]) for kind in caches.reflectors)
        self._by_kind = {each.kind: each for each in self._each}
        self._slots = asyncio.Semaphore(in_flight)

    @property
    def synced(self) -> bool:
        """Say whether every source has been listed once."""
        return self._caches.synced

    @property
    def resource_version(self) -> int:
        """The highest version every served source has reached; 0 before the first lists."""
        reached = [each.reached for each in self._each if each.store.has_synced]
        # Asked with each request: where every kind was listed there is no need to look at them again.
        if len(reached) < len(self._each) and not self.synced:
            return 0
        return min(reached, default=0)

    def world(self) -> World:
        """Return everything as the watches have shown it so far."""
        return self._live.world()

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after each change of a typed view; returns what ends it."""
        return self._caches.subscribe(changed)

    async def progress(self) -> None:
        """Ask every kind that lags behind the foremost where it stands. Raises ApiError."""
        synced = self._synced()
        foremost = max((each.store.resource_version for each in synced), default=0)
        async with asyncio.TaskGroup() as tasks:
            for each in synced:
                if each.reached < foremost or foremost <= self.resource_version:
                    tasks.create_task(self._ask(each))
        await self._silence(self._synced())

    async def prove(self, view: type[HasMeta]) -> None:
        """Have one kind catch up with now, whatever the others do; at once if it is not served.

        Raises ApiError.
        """
        each = self._kept(view)
        if each.store.has_synced:
            await self._ask(each)
            # Of a watch that is not open silence says nothing.
            await _until(lambda: self.is_live(view) or each.has_arrived)
            await self._silence((each,))

    def is_live(self, view: type[HasMeta]) -> bool:
        """Say whether what is written of a kind is known to come here by itself, as it is written."""
        each = self._kept(view)
        store, reflector = each.store, self._caches.reflectors[each.kind]
        if not store.served:
            return True  # nothing can be written
        is_open = store.has_synced and reflector.is_watching and reflector.failing_since is None
        return is_open and store.resource_version >= each.known

    async def settle(self, views: Sequence[type[HasMeta]], until: float) -> None:
        """Wait until a loop time, then for silence of kinds that are live; for a moment only.

        What was written before and did not lag by more than that is shown then.
        """
        kept = [self._kept(view) for view in views]
        await asyncio.sleep(until - SILENCE - asyncio.get_running_loop().time())
        for _ in range(_SETTLING_LOOKS):
            if await _is_silent(kept):
                return

    async def read(self, view: type[HasMeta], key: ObjectKey) -> None:
        """Have one object shown as it is now, or as absent; waits on while a newer one does not come.

        Raises ApiError.
        """
        each = self._kept(view)
        store = each.store
        if not store.has_synced or key.name in _NO_NAMES or key.namespace in _NO_NAMES - {""}:
            return
        before = store.get(key)
        try:
            async with self._slots:
                found = await self._api.get(each.kind, key.name, key.namespace or None)
        except errors.NotFound:
            await _until(lambda: _is_other(store, before))
            return
        version = int(found["metadata"]["resourceVersion"])
        each.known = max(each.known, version)
        await _until(lambda: _has_come_to(store, key, version))

    async def _silence(self, kept: Sequence[_Kept]) -> None:
        """Wait for events on their way: a list is answered before the last of them is read here.

        One that came after its version was published would have to wait for the next version. Nothing
        is on its way to a cache that has come as far as its list.
        """
        for _ in range(_MOST_LOOKS):
            if all(each.has_arrived for each in kept) or await _is_silent(kept):
                return

    async def _ask(self, each: _Kept) -> None:
        async with self._slots:
            scope = _SCOPES[each.kind]
            page = await self._api.list(
                each.kind,
                scope.namespace,
                limit=1,
                label_selector=scope.label_selector,
                field_selector=scope.field_selector,
            )
        each.proved = max(each.proved, int(page.resource_version or 0))

    def _kept(self, view: type[HasMeta]) -> _Kept:
        return self._by_kind[self._caches.kind(view)]

    def _synced(self) -> tuple[_Kept, ...]:
        return tuple(each for each in self._each if each.store.has_synced)


async def _is_silent(kept: Sequence[_Kept]) -> bool:
    """Look twice, and say whether nothing came in between that would have been read."""
    loop = asyncio.get_running_loop()
    before, began = _come_to(kept), loop.time()
    await asyncio.sleep(SILENCE)
    return loop.time() - began < LATE and _come_to(kept) == before


def _come_to(kept: Sequence[_Kept]) -> list[int]:
    return [each.store.resource_version for each in kept]


async def _until(is_so: Callable[[], bool]) -> None:
    """Look again and again: a version that changes no view is not signalled."""
    while True:
        if is_so():
            return
        await asyncio.sleep(_STEP)


def _has_come_to(store: Store[Any], key: ObjectKey, version: int) -> bool:
    held = store.version_of(key)
    return held.isdecimal() and int(held) >= version


def _is_other(store: Store[Any], before: HasMeta | None) -> bool:
    """Say whether an object is gone, or is another of its name by now."""
    if before is None:
        return True
    now = store.get(before.meta.key)
    return now is None or now.meta.uid != before.meta.uid
