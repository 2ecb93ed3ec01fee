"""CachesSource: the caches as the projection wants them, with how far every source has come.

A list's resourceVersion is the highest version up to which *every* source has proved progress
(domain contract 9): by an event, a bookmark, or a list of one object. A quiet kind has no events,
and its bookmarks come once a minute, so before anything is published the kinds that lag are asked
for one object each: the list's version is where that kind stood. A refusal is asked for less: that the
objects it rests on are as a direct read shows them, and that of the kinds it rests on nothing is on
its way any more.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
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


class CachesSource:
    """Everything the projection needs of the caches (projection.Source)."""

    def __init__(self, caches: Caches, api: Api, *, in_flight: int = 4) -> None:
        self._caches = caches
        self._api = api
        self._live = Live(caches)
        self._proved: dict[Kind, int] = {}
        self._known: dict[Kind, int] = {}
        """The newest version of each kind that a direct read has shown."""
        self._slots = asyncio.Semaphore(in_flight)

    @property
    def synced(self) -> bool:
        """Say whether every source has been listed once."""
        return self._caches.synced

    @property
    def resource_version(self) -> int:
        """The highest version every served source has reached; 0 before the first lists."""
        if not self.synced:
            return 0
        return min((self._reached(kind) for kind in self._kinds()), default=0)

    def world(self) -> World:
        """Return everything as the watches have shown it so far."""
        return self._live.world()

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after each change of a typed view; returns what ends it."""
        return self._caches.subscribe(changed)

    async def progress(self) -> None:
        """Ask every kind that lags behind the foremost where it stands. Raises ApiError."""
        foremost = max((self._caches[kind].resource_version for kind in self._kinds()), default=0)
        async with asyncio.TaskGroup() as tasks:
            for kind in self._kinds():
                if self._reached(kind) < foremost or foremost <= self.resource_version:
                    tasks.create_task(self._ask(kind))
        await self._silence(self._kinds())

    async def prove(self, view: type[HasMeta]) -> None:
        """Have one kind catch up with now, whatever the others do; at once if it is not served.

        Raises ApiError.
        """
        kind = self._caches.kind(view)
        if self._caches[kind].has_synced:
            await self._ask(kind)
            # Of a watch that is not open silence says nothing.
            await _until(lambda: self.is_live(view) or self._has_arrived(kind))
            await self._silence((kind,))

    def is_live(self, view: type[HasMeta]) -> bool:
        """Say whether what is written of a kind is known to come here by itself, as it is written."""
        kind = self._caches.kind(view)
        store, reflector = self._caches[kind], self._caches.reflectors[kind]
        if not store.served:
            return True  # nothing can be written
        is_open = store.has_synced and reflector.is_watching and reflector.failing_since is None
        return is_open and store.resource_version >= self._known.get(kind, 0)

    async def settle(self, views: Sequence[type[HasMeta]], until: float) -> None:
        """Wait until a loop time, then for silence of kinds that are live; for a moment only.

        What was written before and did not lag by more than that is shown then.
        """
        kinds = [self._caches.kind(view) for view in views]
        await asyncio.sleep(until - SILENCE - asyncio.get_running_loop().time())
        for _ in range(_SETTLING_LOOKS):
            if await self._is_silent(kinds):
                return

    async def read(self, view: type[HasMeta], key: ObjectKey) -> None:
        """Have one object shown as it is now, or as absent; waits on while a newer one does not come.

        Raises ApiError.
        """
        kind = self._caches.kind(view)
        store = self._caches[kind]
        if not store.has_synced or key.name in _NO_NAMES or key.namespace in _NO_NAMES - {""}:
            return
        before = store.get(key)
        try:
            async with self._slots:
                found = await self._api.get(kind, key.name, key.namespace or None)
        except errors.NotFound:
            await _until(lambda: _is_other(store, before))
            return
        version = int(found["metadata"]["resourceVersion"])
        self._known[kind] = max(self._known.get(kind, 0), version)
        await _until(lambda: _has_come_to(store, key, version))

    async def _silence(self, kinds: Sequence[Kind]) -> None:
        """Wait for events on their way: a list is answered before the last of them is read here.

        One that came after its version was published would have to wait for the next version. Nothing
        is on its way to a cache that has come as far as its list.
        """
        for _ in range(_MOST_LOOKS):
            if all(map(self._has_arrived, kinds)) or await self._is_silent(kinds):
                return

    async def _is_silent(self, kinds: Sequence[Kind]) -> bool:
        """Look twice, and say whether nothing came in between that would have been read."""
        loop = asyncio.get_running_loop()
        before, began = self._come_to(kinds), loop.time()
        await asyncio.sleep(SILENCE)
        return loop.time() - began < LATE and self._come_to(kinds) == before

    def _come_to(self, kinds: Sequence[Kind]) -> list[int]:
        return [self._caches[kind].resource_version for kind in kinds]

    def _has_arrived(self, kind: Kind) -> bool:
        return self._caches[kind].resource_version >= self._proved.get(kind, math.inf)

    async def _ask(self, kind: Kind) -> None:
        async with self._slots:
            scope = _SCOPES[kind]
            page = await self._api.list(
                kind,
                scope.namespace,
                limit=1,
                label_selector=scope.label_selector,
                field_selector=scope.field_selector,
            )
        self._proved[kind] = max(self._proved.get(kind, 0), int(page.resource_version or 0))

    def _reached(self, kind: Kind) -> int:
        return max(self._caches[kind].resource_version, self._proved.get(kind, 0))

    def _kinds(self) -> tuple[Kind, ...]:
        return tuple(kind for kind in self._caches.reflectors if self._caches[kind].has_synced)


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
