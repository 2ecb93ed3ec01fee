"""A tenant's budget, its pool, what is left of it (domain contract 5 and 8).

A key is bounded by every tenant from the orderer upwards that declares it. A declaration below is
kept free for the one who declares it: it counts above as the larger of promised and used. Absent
is unlimited, 0 is none.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from gpu import keys
from gpu.model import entry, refusals, tenancy
from gpu.model.ledger import Ledger
from gpu.model.refusals import OverBudget
from gpu.model.snapshot import Snapshot
from gpu.settings import RawNames
from gpu.units import ClassName, QuotaKey, TenantName, Units


class GateState(StrEnum):
    """Whether a tenant may order more under a key."""

    OPEN = "Open"
    """Unlimited, or something remains."""
    EXHAUSTED = "Exhausted"
    """Nothing remains."""
    CLOSED = "Closed"
    """Overdrawn, a budget of none, or the key takes no orders from this tenant at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One quota key as a tenant sees it. No number in it is another tenant's."""

    key: QuotaKey
    hard: Units | None
    """What the tenant itself declares; None is nothing."""
    used: Units
    """By its claims and raw pods, and used by or promised to tenants below it."""
    remaining: Units | None
    """What it may still order under every tenant that declares the key; None is unlimited."""
    bounded_by: TenantName | None
    """The tenant whose budget leaves least; None where nobody declares the key."""
    state: GateState
    reason: str
    """Stable CamelCase code."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One declared budget that an orderer is under; `left` is what it alone leaves the orderer."""

    key: QuotaKey
    tenant: TenantName
    hard: Units
    used: Units
    left: Units

    @property
    def is_overdrawn(self) -> bool:
        """More is used or promised than declared: nothing is added until that is mended."""
        return self.used > self.hard


def bounds(book: Ledger, tenant: TenantName, key: QuotaKey) -> Iterator[Bound]:
    """Yield every budget a tenant's orders are under for a key, its own or the nearest first."""
    promised = 0
    for one in book.tree.line(tenant):
        hard = book.tree.declared(one).get(key)
        if hard is None:
            continue
        used = Units(book.used(one, key))
        slack = hard - used
        left = Units(0) if slack < 0 else Units(slack + promised)
        yield Bound(key=key, tenant=one, hard=hard, used=used, left=left)
        promised += max(0, slack)


def tightest(book: Ledger, tenant: TenantName, key: QuotaKey) -> Bound | None:
    """Return the budget that leaves a tenant least, the nearest of equals; None is unlimited."""
    return min(bounds(book, tenant, key), key=lambda bound: bound.left, default=None)


def left(book: Ledger, tenant: TenantName, keys: Iterable[QuotaKey]) -> Units | None:
    """Return the most units a tenant may order under all keys at once; None is unlimited."""
    found = [bound.left for key in keys for bound in bounds(book, tenant, key)]
    return min(found, default=None)


def over(
    book: Ledger, tenant: TenantName, keys: Iterable[QuotaKey], wanted: Units
) -> tuple[OverBudget, ...]:
    """Return every budget that an order of so many units would break."""
    return tuple(
        OverBudget(
            key=key,
            wanted=wanted,
            hard=bound.hard,
            used=bound.used,
            tenant=bound.tenant,
            own=bound.tenant == tenant,
            left=bound.left,
        )
        for key in keys
        for bound in bounds(book, tenant, key)
        if wanted > bound.left
    )


def gates(snapshot: Snapshot, tenant: TenantName) -> tuple[Gate, ...]:
    """Return the gates of a tenant by key; none for what is no tenant.

    Keys are `total`, every class, every resource name of the settings, and any other key of our own
    domain that the tenant or one above declares.
    """
    if not tenancy.is_tenant(tenant):
        return ()
    found = {QuotaKey(keys.QUOTA_TOTAL)}
    found.update(QuotaKey(keys.quota_key_of_class(name)) for name in snapshot.classes)
    found.update(QuotaKey(name) for name in snapshot.settings.resource_names)
    for one in snapshot.tree.line(tenant):
        declared = snapshot.tree.declared(one)
        found.update(key for key in declared if key.startswith(keys.QUOTA_PREFIX))
    return tuple(_gate(snapshot, tenant, key) for key in sorted(found))


def _gate(snapshot: Snapshot, tenant: TenantName, key: QuotaKey) -> Gate:
    book = snapshot.counted()
    bound = tightest(book, tenant, key)
    state, reason, message = _judge(snapshot, tenant, key)
    return Gate(
        key=key,
        hard=snapshot.tree.declared(tenant).get(key),
        used=Units(book.used(tenant, key)),
        remaining=bound.left if bound else None,
        bounded_by=bound.tenant if bound else None,
        state=state,
        reason=reason,
        message=message,
    )


def _judge(snapshot: Snapshot, tenant: TenantName, key: QuotaKey) -> tuple[GateState, str, str]:
    barred = _barred(snapshot, tenant, key)
    if barred is not None:
        return (GateState.CLOSED, *barred)
    found = tuple(bounds(snapshot.counted(), tenant, key))
    if not found:
        return GateState.OPEN, "Unlimited", f"no budget limits {key}"
    for bound in found:
        if bound.is_overdrawn:
            return GateState.CLOSED, "Overdrawn", _overdrawn(bound, tenant)
    if found[0].hard == 0:
        return GateState.CLOSED, "NoBudget", f"the budget of {found[0].tenant} for {key} is 0"
    least = min(found, key=lambda bound: bound.left)
    whose = f"the budget of {least.tenant} for {key} leaves {refusals.plural(least.left)}"
    if least.left == 0:
        return GateState.EXHAUSTED, "UsedUp", whose
    return GateState.OPEN, "Remaining", whose


def _overdrawn(bound: Bound, tenant: TenantName) -> str:
    if bound.tenant != tenant:
        return f"the budget of {bound.tenant} for {bound.key} is overdrawn"
    return (
        f"{bound.used} of {bound.key} are used or promised, the budget is {bound.hard}: "
        f"give back {bound.used - bound.hard}"
    )


def _barred(snapshot: Snapshot, tenant: TenantName, key: QuotaKey) -> tuple[str, str] | None:
    """Return code and words of what keeps every order under the key out, whatever the budget."""
    if key == keys.QUOTA_TOTAL:
        return None
    if not key.startswith(keys.QUOTA_PREFIX):
        if snapshot.settings.raw_names is RawNames.DENIED:
            return "RawNameDenied", f"{key} cannot be named directly: order a class instead"
        return None
    name = ClassName(key.removeprefix(keys.QUOTA_PREFIX))
    offer = snapshot.classes.get(name)
    if offer is None:
        refusal: refusals.Refusal = refusals.NoSuchClass(name)
        return refusals.code(refusal), refusals.words(refusal)
    return next(
        (
            (refusals.code(one), refusals.words(one))
            for one in entry.barred(snapshot, tenant, offer)
        ),
        None,
    )
