"""Which version of a tenant's HelmRelease this process has seen, also of one that is gone by now.

What is reserved for a child counts until a later version of the child was seen (gpu.model.reservations).
"""

import bisect
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from gpu.admission import tenants
from gpu.model.reservations import Book
from gpu.objects.meta import HasMeta, ObjectKey
from gpu.objects.tenants import TenantRelease
from gpu.ports import Reader
from gpu.units import TenantName
from gpu.world import World


@dataclass(frozen=True, slots=True)
class Glance:
    """What was seen of children up to one moment, and the HelmReleases of that moment."""

    releases: tuple[TenantRelease, ...]
    remembered: Mapping[TenantName, int]

    def seen(self, world: World, book: Book) -> dict[TenantName, int]:
        """Return the newest version seen of each child of a book, as far as the World shows it.

        What was seen of a child that is gone counts only where the World is of that very moment.
        """
        found = _versions(world.releases, book.entries)
        if world.releases is not self.releases:
            return found
        return {**{name: self.remembered.get(name, 0) for name in book.entries}, **found}


class Sightings:
    """The newest version of each child's HelmRelease that this process saw while it was looked out for.

    A child that came and went between two questions is known by it. `close` ends the subscription.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._awaited: dict[TenantName, datetime] = {}
        self._seen: dict[TenantName, int] = {}
        self.close = reader.subscribe(self._look)

    def glance(self) -> Glance:
        """Return what was seen so far."""
        return Glance(self._reader.items(TenantRelease), dict(self._seen))

    def look_out(self, book: Book, now: datetime) -> None:
        """Look out for the children of a book until their entries are over."""
        self._awaited.update({name: entry.until for name, entry in book.entries.items()})
        for name in [name for name, until in self._awaited.items() if until < now]:
            del self._awaited[name]
            self._seen.pop(name, None)
        self._look()

    def _look(self) -> None:
        if self._awaited:
            self._seen.update(_versions(self._reader.items(TenantRelease), self._awaited))


def _versions(
    releases: tuple[TenantRelease, ...], children: Mapping[TenantName, object]
) -> dict[TenantName, int]:
    """Return the version of each child's HelmRelease that is among some, which are in key order."""
    found: dict[TenantName, int] = {}
    for child in children:
        key = tenants.release_of(child)
        at = bisect.bisect_left(releases, key, key=_key_of)
        if at < len(releases) and releases[at].meta.key == key:
            found[child] = releases[at].meta.version
    return found


def _key_of(item: HasMeta) -> ObjectKey:
    return item.meta.key
