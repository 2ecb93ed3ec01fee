"""CachesSource: the caches as the projection wants them, with how far every source has come.

A list's resourceVersion is the highest version up to which *every* source has proved progress
(domain contract 9): by an event, a bookmark, or a list of one object. A quiet kind has no events,
and its bookmarks come once a minute, so before anything is published the kinds that lag are asked
for one object each: the list's version is where that kind stood. A refusal is asked for less: that the
kinds it rests on have come to where they stood when it was asked for.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Final, Protocol, Unpack

from gpu.cluster.caches import WATCHED, Caches
from gpu.cluster.options import ListOptions
from gpu.objects.kinds import Kind
from gpu.objects.meta import HasMeta
from gpu.reading import Live
from gpu.world import World

SILENCE: Final = 0.005
"""Seconds without an event after which what was on its way has arrived."""
_MOST_LOOKS: Final = 40
_SCOPES: Final = {row.kind: row.scope for row in WATCHED}
"""Where each kind is looked at: our rights end there too."""


class Page(Protocol):
    """A list's answer, as far as it is looked at here."""

    @property
    def resource_version(self) -> str:
        """Where the kind stood."""


class Lists(Protocol):
    """Whoever lists one kind."""

    async def list(
        self, kind: Kind, namespace: str | None = None, **which: Unpack[ListOptions]
    ) -> Page:
        """List objects; `limit=1` is all that is asked here."""


class CachesSource:
    """Everything the projection needs of the caches (projection.Source)."""

    def __init__(self, caches: Caches, api: Lists, *, in_flight: int = 4) -> None:
        self._caches = caches
        self._api = api
        self._live = Live(caches)
        self._proved: dict[Kind, int] = {}
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
            await self._silence((kind,))

    async def _silence(self, kinds: Sequence[Kind]) -> None:
        """Wait for events on their way: a list is answered before the last of them is read here.

        One that came after its version was published would have to wait for the next version. Nothing
        is on its way to a cache that has come as far as its list.
        """
        before: list[int] = []
        for _ in range(_MOST_LOOKS):
            now = [self._caches[kind].resource_version for kind in kinds]
            if now == before or all(map(self._has_arrived, kinds)):
                return
            before = now
            await asyncio.sleep(SILENCE)

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
