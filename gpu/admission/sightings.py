"""Which version of a tenant's HelmRelease this process has seen, also of one that is gone by now.

What is reserved for a child counts until a later version of the child was seen (gpu.model.reservations).
"""

import bisect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gpu.admission import tenants
from gpu.objects.meta import HasMeta, ObjectKey
from gpu.objects.tenants import TenantRelease
from gpu.ports import Reader
from gpu.units import TenantName
from gpu.world import World

MOST_GONE: Final = 1024
"""HelmReleases that are gone and remembered: far more than are deleted while a reservation lives."""


@dataclass(frozen=True, slots=True)
class Glance:
    """What was seen up to one moment, and the HelmReleases of that moment."""

    releases: tuple[TenantRelease, ...]
    gone: Mapping[ObjectKey, int]

    def seen(self, world: World, children: Iterable[TenantName]) -> dict[TenantName, int]:
        """Return the newest version seen of each child, as far as the World shows it.

        What was seen of one that is gone counts only where the World is of that very moment.
        """
        gone = self.gone if world.releases is self.releases else {}
        found: dict[TenantName, int] = {}
        for child in children:
            key = tenants.release_of(child)
            at = bisect.bisect_left(world.releases, key, key=_key_of)
            if at < len(world.releases) and world.releases[at].meta.key == key:
                found[child] = world.releases[at].meta.version
            else:
                found[child] = gone.get(key, 0)
        return found


class Sightings:
    """The HelmReleases of tenants as they come and go. `close` ends the subscription."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._shown = reader.items(TenantRelease)
        self._gone: dict[ObjectKey, int] = {}
        self.close = reader.subscribe(self._look)

    def glance(self) -> Glance:
        """Return what was seen so far."""
        self._look()
        return Glance(self._shown, dict(self._gone))

    def _look(self) -> None:
        """Note who went; nothing is gone over unless a HelmRelease has changed."""
        shown = self._reader.items(TenantRelease)
        if shown is self._shown:
            return
        present = {item.meta.key for item in shown}
        for item in self._shown:
            if item.meta.key not in present:
                self._gone[item.meta.key] = item.meta.version
        while len(self._gone) > MOST_GONE:
            del self._gone[next(iter(self._gone))]
        self._shown = shown


def _key_of(item: HasMeta) -> ObjectKey:
    return item.meta.key
