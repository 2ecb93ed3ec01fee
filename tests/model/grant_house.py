"""A house of tenants, and replicas of the quota gate: what is stored, shown, read, reserved, on its way.

A replica shows any older state of what is stored. It judges a grant as `gpu.admission.reserving` does,
in steps between which others act: what the tenants above declare is read past the cache; a view that
shows them as read is looked at, with the reservations; those are written, each by compare-and-swap. The
write that passed is stored later, or never.
"""

from dataclasses import dataclass, field

from gpu import keys
from gpu.model import grants, reservations, tenancy
from gpu.model.grants import Change, Ruling
from gpu.model.reservations import Book
from tests.builders import START, a_claim, a_class, a_node, a_release, a_snapshot

KEY = "gpu.cozystack.io/h100"
TENANTS = (
    "tenant-root",
    "tenant-a",
    "tenant-b",
    "tenant-a-x",
    "tenant-a-y",
    "tenant-a-x-m",
    "tenant-a-x-n",
    "tenant-a-x-m-o",
)
REPLICAS = 2

Stored = dict[str, tuple[int | None, int]]
"""By tenant: units it declares, or None for no such key, and the version it was stored as."""


def above(tenant):
    """Yield the tenants above one."""
    while (tenant := tenancy.parent(tenant)) is not None:
        yield tenant


@dataclass
class Write:
    """One that a replica judges, or has let pass and that is not stored yet."""

    replica: int
    tenant: str
    units: int | None
    old: int | None
    base: int
    read: Stored
    """What was stored of the tenants above when it came; those that are none are absent."""
    most: dict[str, int | None]
    """By tenant above, the most it has declared since it was read; None once that was nothing."""
    ruling: Ruling | None = None
    books: dict[str, Book] = field(default_factory=dict)
    """Of the look that made the ruling."""
    seen: dict[str, int] = field(default_factory=dict)

    @property
    def raises(self) -> bool:
        return self.units is not None and (self.old is None or self.units > self.old)


def _is_loose(write: Write) -> bool:
    return write.raises and write.read.get(keys.TENANT_ROOT, (None, 0))[0] is None


@dataclass
class House:
    """What the gate is asked, and what becomes of it. `overdrawing` says what it should have refused."""

    use: dict[str, int]
    stored: Stored = field(default_factory=dict)
    version: int = 1
    states: list[Stored] = field(default_factory=list)
    """All that was ever stored, in turn."""
    shown: list[int] = field(default_factory=lambda: [0] * REPLICAS)
    """By replica, which of these states it shows."""
    books: dict[str, Book] = field(default_factory=dict)
    judged: list[Write] = field(default_factory=list)
    under_way: list[Write] = field(default_factory=list)
    loose: set[int] = field(default_factory=set)
    """Versions of what was granted while the root declared nothing."""
    excused: set[str] = field(default_factory=set)
    """Declared less than before, or for the first time: what is below may be more, as ever."""

    def begin(self) -> None:
        """Have every replica show what is stored to begin with."""
        self.excused = self.overdrawn()
        self.states = [dict(self.stored)]

    def arrive(self, replica: int, tenant: str, units: int | None) -> Write:
        """Have a replica asked about a write; it reads what the tenants above declare."""
        old, base = self.stored.get(tenant, (None, 0))
        read = {name: self.stored[name] for name in above(tenant) if name in self.stored}
        most = {name: read.get(name, (None, 0))[0] for name in above(tenant)}
        write = Write(replica, tenant, units, old, base, read, most)
        self.judged.append(write)
        return write

    def shows(self, write: Write) -> bool:
        """Say whether its replica shows the tenants above as they were read, or later."""
        shown = self.states[self.shown[write.replica]]
        return not write.raises or all(
            name not in shown
            if name not in write.read
            else name in shown and shown[name][1] >= write.read[name][1]
            for name in above(write.tenant)
        )

    def look(self, write: Write) -> None:
        """Judge a write by what its replica shows and by what is reserved, if that shows enough."""
        if not self.shows(write):
            return
        shown = self.states[self.shown[write.replica]]
        write.seen = {name: version for name, (_, version) in shown.items()}
        found = self._snapshot(shown)
        change = Change(
            tenant=write.tenant,
            old={} if write.old is None else {KEY: write.old},
            new={} if write.units is None else {KEY: write.units},
        )
        write.books = {}
        while True:
            reserved = {}
            for book in write.books.values():
                reserved.update(book.in_force(START, write.seen))
            write.ruling = grants.judge(found, change, reserved)
            unread = write.ruling.bounding.keys() - write.books.keys()
            if write.ruling.objections or not unread:
                break
            write.books.update({name: self.books.get(name, Book()) for name in unread})
        if write.ruling.objections:
            self.judged.remove(write)

    def swap(self, write: Write) -> bool:
        """Write down what was granted; True when it passes, else somebody wrote first."""
        ruling = write.ruling
        if ruling is None:
            return False
        for name in sorted(ruling.bounding, key=tenancy.nesting):
            if self.books.get(name, Book()) != write.books[name]:
                write.ruling = None
                return False
            after, amounts = write.base or self.version, ruling.bounding[name]
            entry = reservations.entered(
                write.books[name], write.tenant, amounts, after=after, now=START, seen=write.seen
            )
            self.books[name] = Book({**write.books[name].entries, write.tenant: entry})
        self.judged.remove(write)
        self.under_way.append(write)
        return True

    def judge(self, tenant: str, units: int | None) -> bool:
        """Have a write judged with nobody in between; True when it passes."""
        write = self.arrive(0, tenant, units)
        self.look(write)
        return write in self.judged and self.swap(write)

    def store(self, write: Write) -> None:
        """Store a write that has passed, unless its object was changed meanwhile.

        Others of the same object are not stored after it: whoever sent them is told so at once.
        """
        self.under_way.remove(write)
        old, version = self.stored.get(write.tenant, (None, 0))
        if version != write.base:
            return
        if write.units is not None and (old is None or write.units < old):
            self.excused.add(write.tenant)
        self.version += 1
        self.stored[write.tenant] = (write.units, self.version)
        self.loose |= {self.version} if _is_loose(write) else set()
        self.under_way = [one for one in self.under_way if one.tenant != write.tenant]
        self._changed(write.tenant)

    def delete(self, tenant: str) -> None:
        """Delete a tenant's HelmRelease."""
        self.stored.pop(tenant, None)
        self._changed(tenant)

    def overdrawing(self, write: Write) -> set[str]:
        """Return the tenants above that do not have what just passed, whatever else is stored yet.

        What was granted before the root declared anything is not reserved there: while some of that is
        on its way to the replica, nothing is said of the root.
        """
        if not write.raises or not write.units:
            return set()
        likely = {name: units for name, (units, _) in self.stored.items() if units is not None}
        for one in self.under_way:
            if one.units is not None and one.base == self.stored.get(one.tenant, (None, 0))[1]:
                likely[one.tenant] = max(one.units, likely.get(one.tenant, 0))
        return {
            name
            for name, most in write.most.items()
            if most is not None
            and self._promised(name, likely, write) > most
            and not (name == keys.TENANT_ROOT and self._is_late(write))
        }

    def _is_late(self, write: Write) -> bool:
        stored = {version for _, version in self.stored.values()}
        unseen = self.loose & stored - set(write.seen.values())
        return any(map(_is_loose, self.under_way)) or bool(unseen)

    def overdrawn(self) -> set[str]:
        """Return the tenants with more below them, as stored, than they declare."""
        declared = {name: units for name, (units, _) in self.stored.items() if units is not None}
        return {name for name, units in declared.items() if self._promised(name, declared) > units}

    def promised(self, tenant: str) -> int:
        """Return what lies below a tenant, as stored, and its own use."""
        declared = {name: units for name, (units, _) in self.stored.items() if units is not None}
        return self._promised(tenant, declared)

    def _promised(self, tenant: str, declared: dict[str, int], write: Write | None = None) -> int:
        """Add up, by recursion, what lies below a tenant and its own use.

        Of the child that is granted something that alone counts: what it uses beyond is its own trouble.
        """
        total = self.use.get(tenant, 0)
        for name in TENANTS:
            if tenancy.parent(name) == tenant:
                if write is not None and name == write.tenant:
                    total += write.units or 0
                else:
                    total += max(declared.get(name, 0), self._promised(name, declared, write))
        return total

    def _changed(self, tenant: str) -> None:
        self.states.append(dict(self.stored))
        units = self.stored.get(tenant, (None, 0))[0]
        for write in self.judged:
            if tenant in write.most:
                before = write.most[tenant]
                write.most[tenant] = None if None in {units, before} else max(units, before)

    def _snapshot(self, shown: Stored):
        return a_snapshot(
            classes=[a_class()],
            nodes=[a_node(units=99)],
            claims=[
                a_claim(tenant=name, count=count, on="n1")
                for name, count in self.use.items()
                if count
            ],
            releases=[
                a_release(name, {} if units is None else {KEY: units})
                for name, (units, _) in shown.items()
            ],
        )
