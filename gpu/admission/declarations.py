"""What the tenants above declare, read past the cache: a grant rests on what is declared now.

A watch may be late by any time, so a cache that shows no budget does not prove that there is none. What
may declare is read, object by object, and a World counts once it shows each as it was read, or later. Of
one kind it then shows all that was stored before, too: what was granted before a budget was declared.
"""

import asyncio
import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu import keys
from gpu.admission import tenants, unanswered
from gpu.errors import DecodeError
from gpu.model import tenancy
from gpu.model.premises import Named
from gpu.model.tenancy import Declaring
from gpu.objects.kinds import HELM_RELEASES, RESOURCE_QUOTAS, Kind
from gpu.objects.meta import ObjectKey
from gpu.objects.tenants import TenantQuota, TenantRelease, decode_quota, decode_release
from gpu.ports import Outcome, Writer
from gpu.units import TenantName
from gpu.world import World

Found = Mapping[Named, Declaring | None]
"""By object, as it was read; None where nothing is that could declare."""


class UnreadError(Exception):
    """What a tenant above declares is not known; the text says why and what is next."""


def lacking(world: World, tenant: TenantName, read: Found) -> frozenset[Named]:
    """Return what must be read before a tenant is granted anything: unread, or not shown as read."""
    return frozenset(
        one
        for above in _above(tenant)
        for one in _declaring(world, above)
        if one not in read or not _shows(world, one, read[one])
    )


def words(found: Iterable[Named]) -> str:
    """Name objects, for whoever must wait for them."""
    return ", ".join(
        sorted(f"{_kind(one).kind} {one.key.namespace}/{one.key.name}" for one in found)
    )


class Declarations:
    """All of those objects, as stored. Put a deadline around what is asked."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def read(self, wanted: Iterable[Named]) -> dict[Named, Declaring | None]:
        """Read objects beside each other, again while there is no answer. Raises UnreadError."""
        names = tuple(wanted)
        try:
            async with asyncio.TaskGroup() as tasks:
                found = [tasks.create_task(self._read(one)) for one in names]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from failed
        return {one: task.result() for one, task in zip(names, found, strict=True)}

    async def _read(self, one: Named) -> Declaring | None:
        row = _ROWS[one.view]
        try:
            raw = await unanswered.again(
                self._writer, lambda: self._writer.get(row.kind, one.key.name, one.key.namespace)
            )
            return row.decode(raw) if row.counts(raw) else None
        except DecodeError as error:
            raise _unread(one, error) from error
        except Exception as error:
            outcome = self._writer.outcome(error)
            if outcome is Outcome.GONE:
                return None
            if outcome is None:
                raise
            raise _unread(one, error) from error


@dataclass(frozen=True, slots=True)
class _Row:
    """How objects of one view are read, and found in a World."""

    kind: Kind
    decode: Callable[[Mapping[str, Any]], Declaring]
    of: Callable[[World], tuple[Declaring, ...]]
    counts: Callable[[Mapping[str, Any]], bool]
    """Says of a stored object whether it is one that a World shows."""


def _makes_a_tenant(raw: Mapping[str, Any]) -> bool:
    labels = raw["metadata"].get("labels") or {}
    return bool(labels.get(keys.APPLICATION_KIND_LABEL) == tenants.TENANT_KIND)


_ROWS: Final[Mapping[type, _Row]] = {
    TenantRelease: _Row(
        HELM_RELEASES, decode_release, lambda world: world.releases, _makes_a_tenant
    ),
    TenantQuota: _Row(RESOURCE_QUOTAS, decode_quota, lambda world: world.quotas, lambda _: True),
}


def _unread(one: Named, error: Exception) -> UnreadError:
    return UnreadError(
        f"cannot read {words([one])}, so nothing can be granted below it: {error}; ask the hoster"
    )


def _above(tenant: TenantName) -> Iterator[TenantName]:
    above = tenancy.parent(tenant)
    while above is not None:
        yield above
        above = tenancy.parent(above)


def _declaring(world: World, tenant: TenantName) -> Iterator[Named]:
    """Yield what may declare for a tenant: its HelmRelease, and where none is shown all that may else."""
    usual = Named(TenantRelease, tenants.release_of(tenant))
    yield usual
    shown = _shown(world, usual)
    if isinstance(shown, TenantRelease) and shown.is_hosts:
        return
    for home in _above(tenant):
        short = tenant if home == keys.TENANT_ROOT else f"tenant-{tenant.removeprefix(f'{home}-')}"
        odd = Named(TenantRelease, ObjectKey(home, short))
        if odd != usual:
            yield odd
    yield Named(TenantQuota, ObjectKey(tenant, keys.TENANT_QUOTA_NAME))


def _shows(world: World, one: Named, read: Declaring | None) -> bool:
    """Say whether an object is shown as it was read, or later.

    A cache keeps what it shows while a new version changes nothing of that.
    """
    found = _shown(world, one)
    if found is None or read is None:
        return found is read
    return found == read or found.meta.version >= read.meta.version


def _shown(world: World, one: Named) -> Declaring | None:
    items = _ROWS[one.view].of(world)
    at = bisect.bisect_left(items, one.key, key=_key_of)
    return items[at] if at < len(items) and items[at].meta.key == one.key else None


def _key_of(item: Declaring) -> ObjectKey:
    return item.meta.key


def _kind(one: Named) -> Kind:
    return _ROWS[one.view].kind
