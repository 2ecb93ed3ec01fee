"""Promises to tenants that are on their way: what the quota gate let pass and caches may not show yet.

One ConfigMap per tenant above holds an entry per child: the units it may come to have, until when
that counts, and after which version of the child it is over. Who has seen a later version of the
child knows what became of the write, and goes by what it sees; who has not counts the larger of what
it sees and what is reserved. An entry that nobody can read is left out, and gone with the next write.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from gpu.errors import UnitsError
from gpu.model import tenancy
from gpu.units import QuotaKey, TenantName, Units

LIFE: Final = timedelta(seconds=30)
"""How long an entry counts: longer than a write takes to be stored and to be seen everywhere."""
KEPT: Final = timedelta(seconds=60)
"""How long after its end it is kept, for replicas whose clock is behind."""
MOST: Final = 128
"""Entries of one tenant's ConfigMap that count, of its own children and of those below each of these.

No more are changed in that time: one who changes many below keeps nobody else's from being changed.
"""
MOST_BYTES: Final = 512 * 1024
"""Bytes of one ConfigMap: half of what Kubernetes takes."""
SHARE_BYTES: Final = MOST_BYTES // 8
"""Bytes of those that `MOST` counts together."""

Amounts = Mapping[QuotaKey, Units]
Reserved = Mapping[TenantName, Amounts]
"""By child: units that it may come to have."""
Versions = Mapping[TenantName, int]
"""By child: the newest version of it that was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one child may come to have.

    `after` is a version older than what the write it is for will be stored as, and no older than
    what that replaces: a later version of the child is that write, or one that made it fail.
    """

    until: datetime
    after: int
    units: Amounts

    def counts(self, now: datetime, seen: int) -> bool:
        """Say whether it still tells more than what was seen of the child."""
        return now < self.until and seen <= self.after


@dataclass(frozen=True, slots=True)
class Book:
    """The entries of one tenant above, and what was there that could not be read."""

    entries: Mapping[TenantName, Entry] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()

    def in_force(self, now: datetime, seen: Versions) -> dict[TenantName, Amounts]:
        """Return what counts now, by child."""
        return {
            child: entry.units
            for child, entry in self.entries.items()
            if entry.counts(now, seen.get(child, 0))
        }


def parse(data: object, now: datetime) -> Book:
    """Read a ConfigMap's `data`; an end that lies too far ahead is drawn near."""
    entries: dict[TenantName, Entry] = {}
    broken: set[str] = set()
    for child, text in data.items() if isinstance(data, Mapping) else ():
        found = _entry(text, now)
        if found is None:
            broken.add(child)
        else:
            entries[TenantName(child)] = found
    return Book(entries, frozenset(broken))


def text(entry: Entry) -> str:
    """Return an entry as stored; `parse` of it gives an equal one."""
    document = {"until": entry.until.isoformat(), "after": entry.after, "units": dict(entry.units)}
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def entered(
    book: Book, child: TenantName, units: Amounts, *, after: int, now: datetime, seen: Versions
) -> Entry:
    """Return a child's entry for one more write of it.

    Another write of the same child may still be on its way: each key keeps the larger amount.
    """
    held = book.in_force(now, seen).get(child, {})
    larger = {
        key: max(units.get(key, Units(0)), held.get(key, Units(0))) for key in {*units, *held}
    }
    return Entry(until=now + LIFE, after=after, units=larger)


def changes(book: Book, child: TenantName, entry: Entry, now: datetime) -> dict[str, str | None]:
    """Return what to write over `data`: the entry, and None for whatever is over or broken."""
    over: Iterable[str] = (
        name for name, one in book.entries.items() if now - one.until > KEPT and name != child
    )
    dropped: dict[str, str | None] = dict.fromkeys((*over, *book.broken))
    return {**dropped, child: text(entry)}


def is_full(book: Book, tenant: TenantName, child: TenantName, entry: Entry, now: datetime) -> bool:
    """Say whether a tenant's ConfigMap takes no more: too many children are changed at once."""
    live = {
        name: one for name, one in book.entries.items() if name != child and now - one.until <= KEPT
    }
    whose = _branch(tenant, child)
    beside = [one for name, one in live.items() if _branch(tenant, name) == whose]
    return (
        sum(now < one.until for one in beside) >= MOST
        or _size(beside, entry) > SHARE_BYTES
        or _size(live.values(), entry) > MOST_BYTES
    )


def _branch(tenant: TenantName, child: TenantName) -> TenantName | None:
    """Return the child of a tenant that one lies below; None for such a child itself."""
    found: TenantName | None = None
    above = tenancy.parent(child)
    while above is not None and above != tenant:
        found, above = above, tenancy.parent(above)
    return found


def _size(entries: Iterable[Entry], more: Entry) -> int:
    return sum(len(text(one)) for one in (*entries, more))


def _entry(stored: object, now: datetime) -> Entry | None:
    try:
        found = _table(json.loads(stored) if isinstance(stored, str) else None)
        until = datetime.fromisoformat(str(found["until"]))
        units = {QuotaKey(key): _whole(value) for key, value in _table(found["units"]).items()}
        return Entry(until=min(until, now + 2 * LIFE), after=_whole(found["after"]), units=units)
    except (ValueError, TypeError, KeyError, RecursionError, UnitsError):
        return None


def _table(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TypeError(value)
    return value


def _whole(value: object) -> Units:
    if type(value) is not int:
        raise TypeError(value)
    return Units(value)
