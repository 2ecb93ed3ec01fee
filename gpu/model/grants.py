"""May a tenant be granted these quotas (domain contract 8): every objection, as values with numbers.

Only GPU keys are judged, and only where they change. A child may be promised what its parent could
still order with the child's present share taken out: every tenant above that declares the key is
asked, and promises that are on their way count. What stays or is lowered passes, and takes nothing away.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpu.errors import UnitsError
from gpu.model import budgets, quota_keys, tenancy
from gpu.model.budgets import Bound
from gpu.model.ledger import Ledger
from gpu.model.quota_keys import Known, RawDenied, Unknown
from gpu.model.reservations import Reserved
from gpu.model.snapshot import Snapshot
from gpu.model.tenancy import Tree
from gpu.objects.tenants import Declared
from gpu.units import QuotaKey, TenantName, Units, parse_units

MOST_FOREIGN: Final = 64
"""Keys that are not known, of one write, that are looked at for what they were meant to be."""
Quotas = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a write makes of one tenant's `resourceQuotas`, both as JSON; a new tenant has no old ones."""

    tenant: TenantName
    old: Quotas = field(default_factory=dict)
    new: Quotas


@dataclass(frozen=True, slots=True)
class BadKey:
    """A GPU key that may not be granted; `valid` are those that may."""

    key: str
    fault: Unknown | RawDenied
    valid: tuple[QuotaKey, ...]


@dataclass(frozen=True, slots=True)
class BadValue:
    """A GPU key whose value is no whole, non-negative number; `why` names it."""

    key: str
    value: object
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TooMuch:
    """A tenant above leaves less than is wanted. Numbers of the parent are the reader's to see."""

    key: QuotaKey
    wanted: Units
    left: int
    """What may be promised; below zero where the parent is overdrawn."""
    tenant: TenantName
    """Whose budget leaves least."""
    own: bool
    """That is the parent; else hard, promised and used are not the reader's to see."""
    hard: Units
    promised: int
    """Declared by, or reserved for, other children of the parent."""
    used: int
    """By the parent itself, by children that declare nothing, and by others beyond what they declare."""
    reserved: bool
    """Only what is reserved stands against it: that may be over within half a minute."""


Objection = BadKey | BadValue | TooMuch


@dataclass(frozen=True, slots=True)
class BelowHeld:
    """Granted, and less than the tenant has in use and has promised: nothing is taken away."""

    key: QuotaKey
    granted: Units
    held: Units


@dataclass(frozen=True, slots=True)
class Ruling:
    """What is to be said of a change. Nothing objected: it may pass, once `bounding` is reserved."""

    objections: tuple[Objection, ...] = ()
    """By key, one of each."""
    below: tuple[BelowHeld, ...] = ()
    bounding: Mapping[TenantName, Mapping[QuotaKey, Units]] = field(default_factory=dict)
    """Each tenant above that bounds a raised key, or may come to, with what the child is to have."""
    raises: bool = False
    """Some key is raised below somebody: that rests on what every tenant above declares now."""

    @property
    def is_hopeless(self) -> bool:
        """Say whether it is refused whatever is reserved and used: for its keys or values."""
        return any(not isinstance(one, TooMuch) for one in self.objections)


def judge(snapshot: Snapshot, change: Change, reserved: Reserved | None = None) -> Ruling:
    """Judge a change of quotas; `reserved` is what other children may come to have."""
    wanted, raised, objections = _read(quota_keys.known(snapshot), change)
    book = snapshot.counted()
    below = tuple(
        BelowHeld(key, units, Units(book.used(change.tenant, key)))
        for key, units in sorted(wanted.items())
        if units < book.used(change.tenant, key)
    )
    above = tenancy.parent(change.tenant)
    if above is None or not raised:
        return Ruling(_by_key(objections), below)
    child = _Child(change.tenant, above, raised)
    pool = _Pool(snapshot, child, reserved or {})
    bounding: dict[TenantName, dict[QuotaKey, Units]] = {}
    inner = tuple(one for one in snapshot.tree.line(above) if tenancy.parent(one) is not None)
    for key, units in raised.items():
        found = tuple(budgets.bounds(pool.book, above, key))
        for tenant in {*inner, *(bound.tenant for bound in found)}:
            bounding.setdefault(tenant, {})[key] = units
        least = min(found, key=lambda bound: bound.left, default=None)
        if least is not None and units > least.left:
            passing = bool(reserved) and _Pool(snapshot, child, {}).takes(key, units)
            objections.append(pool.too_much(least, units, passing=passing))
    return Ruling(_by_key(objections), below, bounding, raises=True)


def _by_key(objections: list[Objection]) -> tuple[Objection, ...]:
    return tuple(sorted(objections, key=lambda one: one.key))


def _read(
    known: Known, change: Change
) -> tuple[dict[QuotaKey, Units], dict[QuotaKey, Units], list[Objection]]:
    """Return the changed GPU keys with their amounts, those of them that are raised, and what is wrong."""
    wanted: dict[QuotaKey, Units] = {}
    raised: dict[QuotaKey, Units] = {}
    objections: list[Objection] = []
    for name in _changed(known, change):
        fault = quota_keys.fault(known, name)
        if fault is None and not quota_keys.is_ours(known, name):
            continue
        if fault is not None and name not in change.old:
            objections.append(BadKey(name, fault, known.valid))
            continue
        try:
            units = parse_units(change.new[name])
        except UnitsError as error:
            objections.append(BadValue(name, change.new[name], str(error)))
            continue
        key, before = QuotaKey(name), _amount(change.old.get(name))
        if before is not None and units <= before:
            wanted |= {key: units} if units < before else {}
        elif fault is not None:
            objections.append(BadKey(name, fault, known.valid))
        else:
            wanted[key] = raised[key] = units
    return wanted, raised, objections


def _changed(known: Known, change: Change) -> Iterator[str]:
    """Yield the changed keys that may be ours, by name; of too many strange ones the first alone."""
    strange = 0
    for name, value in sorted(change.new.items()):
        if "/" not in name or (name in change.old and _same(change.old[name], value)):
            continue
        if not quota_keys.is_ours(known, name):
            strange += 1
            if strange > MOST_FOREIGN:
                continue
        yield name


def _same(old: object, new: object) -> bool:
    return type(old) is type(new) and old == new


def _amount(value: object) -> Units | None:
    try:
        return parse_units(value)
    except UnitsError:
        return None


@dataclass(frozen=True, slots=True)
class _Child:
    """Whose share is taken out, and under which keys anything is asked at all."""

    name: TenantName
    above: TenantName
    raised: Mapping[QuotaKey, Units]


class _Pool:
    """What is promised and used above a child, the child's own share taken out."""

    def __init__(self, snapshot: Snapshot, child: _Child, reserved: Reserved) -> None:
        tree = snapshot.tree
        self._child = child
        self._declarations = dict(tree.declarations)
        merged = Tree(declarations=self._declarations, entitled_namespaces=tree.entitled_namespaces)
        self.book = Ledger(tree=merged, used_units=dict(snapshot.counted().used_units))
        for tenant, amounts in sorted(reserved.items()):
            if tenant != child.name:
                self._promise(tenant, amounts)
        for key in child.raised:
            self.book.charge(child.above, key, -self._share(child.name, key))

    def takes(self, key: QuotaKey, units: Units) -> bool:
        """Say whether every tenant above leaves so much."""
        return all(
            units <= bound.left for bound in budgets.bounds(self.book, self._child.above, key)
        )

    def too_much(self, bound: Bound, wanted: Units, *, passing: bool) -> TooMuch:
        """Return the objection of one budget."""
        promised = sum(
            declared.units.get(bound.key, 0)
            for tenant, declared in self._declarations.items()
            if tenant != self._child.name and tenancy.parent(tenant) == bound.tenant
        )
        own = bound.tenant == self._child.above
        return TooMuch(
            key=bound.key,
            wanted=wanted,
            left=bound.hard - bound.used if own else bound.left,
            tenant=bound.tenant,
            own=own,
            hard=bound.hard,
            promised=promised,
            used=bound.used - promised,
            reserved=passing,
        )

    def _promise(self, tenant: TenantName, amounts: Mapping[QuotaKey, Units]) -> None:
        """Have a tenant declare what is reserved for it, where that is the more cautious reading.

        Beside the child that is the larger amount; above the child it is the smaller.
        """
        is_above = tenant in self.book.tree.line(self._child.above)
        above = tenancy.parent(tenant)
        declared = dict(self.book.tree.declared(tenant))
        for key in amounts.keys() & self._child.raised.keys():
            units = amounts[key]
            held = declared.get(key, units)
            before = self._share(tenant, key)
            declared[key] = min(held, units) if is_above else max(held, units)
            self._declarations[tenant] = Declared(units=declared)
            if above is not None:
                self.book.charge(above, key, self._share(tenant, key) - before)

    def _share(self, tenant: TenantName, key: QuotaKey) -> int:
        """Return what a tenant adds to the one above."""
        return max(self.book.tree.declared(tenant).get(key, 0), self.book.used(tenant, key))
