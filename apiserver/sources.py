"""CacheSource: the caches as the projection needs them, with a proof of how far they have come.

Every watch tells of its own kind only, and a quiet kind proves nothing for a minute. A list of one
object is answered at the newest version there is, after everything up to it went to the watches; so
when its version is known and the watch has then been silent for a moment, the store holds all of it.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from gpu.cluster.caches import WATCHED, Caches, Watched
from gpu.cluster.reflector import Api
from gpu.objects.kinds import Kind
from gpu.world import World

SILENCE: Final = 0.01
"""Seconds without an event after which what was on its way has arrived."""
_MOST_LOOKS: Final = 50


class CacheSource:
    """Satisfies `apiserver.projection.Source` over the caches; `world` reads them."""

    def __init__(
        self,
        caches: Caches,
        api: Api,
        world: Callable[[], World],
        watched: tuple[Watched, ...] = WATCHED,
    ) -> None:
        self._watched = watched
        self._caches = caches
        self._api = api
        self._world = world
        self._proved: dict[Kind, int] = {}

    @property
    def synced(self) -> bool:
        """Say whether every kind that is served has been listed once."""
        return self._caches.synced

    @property
    def resource_version(self) -> int:
        """The highest version up to which every served kind has proved progress."""
        kinds = self._kinds()
        if not kinds or not self.synced:
            return 0
        return min(
            max(self._caches[kind].resource_version, self._proved.get(kind, 0)) for kind in kinds
        )

    def world(self) -> World:
        """Return everything as the watches have shown it so far."""
        return self._world()

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after each change of a typed view; returns what ends it."""
        return self._caches.subscribe(changed)

    async def progress(self) -> None:
        """List one object of every kind and let the watches catch up with the answers.

        Raises what the client raises, in a group.
        """
        found: dict[Kind, int] = {}

        async def ask(row: Watched) -> None:
            scope = row.scope
            page = await self._api.list(
                row.kind,
                scope.namespace,
                limit=1,
                label_selector=scope.label_selector,
                field_selector=scope.field_selector,
            )
            found[row.kind] = int(page.resource_version)

        async with asyncio.TaskGroup() as tasks:
            for row in self._watched:
                if self._caches[row.kind].served:
                    tasks.create_task(ask(row))
        await self._silence()
        self._proved.update(found)

    async def _silence(self) -> None:
        kinds = self._kinds()
        before: list[int] = []
        for _ in range(_MOST_LOOKS):
            now = [self._caches[kind].resource_version for kind in kinds]
            if now == before:
                return
            before = now
            await asyncio.sleep(SILENCE)

    def _kinds(self) -> list[Kind]:
        return [row.kind for row in self._watched if self._caches[row.kind].served]
