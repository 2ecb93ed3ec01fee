"""A tenant's budget, its pool, what is left of it (domain contract 5 and 8).

A key is bounded by every tenant from the orderer upwards that declares it. A declaration below is
kept free for the one who declares it: it counts above as the larger of promised and used. Absent
is unlimited, 0 is none.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpu import keys
from gpu.model import entry, pools, refusals, tenancy
from gpu.model.ledger import Ledger
from gpu.model.pools import Pool, Use
from gpu.model.refusals import OverBudget
from gpu.model.snapshot import Snapshot
from gpu.settings import RawNames
from gpu.units import ZERO, ClassName, QuotaKey, TenantName, Units


class GateState(StrEnum):
    """Whether a tenant may order more under a key."""

    OPEN = "Open"
    """Unlimited, or something remains."""
    EXHAUSTED = "Exhausted"
    """Nothing remains."""
    CLOSED = "Closed"
    """Overdrawn, a budget of none, or the key takes no orders from this tenant at all."""


class GateReason(StrEnum):
    """Why a gate stands as it does; what bars a class has the code of its refusal instead."""

    UNLIMITED = "Unlimited"
    REMAINING = "Remaining"
    USED_UP = "UsedUp"
    NO_BUDGET = "NoBudget"
    OVERDRAWN = "Overdrawn"
    UNREADABLE = "Unreadable"
    RAW_NAME_DENIED = "RawNameDenied"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One quota key as a tenant sees it. No number in it is another tenant's."""

    key: QuotaKey
    hard: Units | None
    """What the tenant itself declares; None is nothing."""
    use: Use
    """By its claims, by its raw pods, and by tenants below it; they add up to what is used."""
    remaining: Units | None
    """What it may still order: what every tenant that declares the key leaves, nothing while the gate
    is Closed; None is unlimited. So the gate is Open where this is None or more than 0."""
    bounded_by: TenantName | None
    """The tenant whose budget the gate tells of; None where nobody declares the key."""
    state: GateState
    reason: str
    """Stable CamelCase code."""
    message: str

    @property
    def used(self) -> Units:
        """What a budget of the tenant counts: all that it uses."""
        return self.use.total


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One declared budget that an orderer is under; `left` is what it alone leaves the orderer."""

    key: QuotaKey
    tenant: TenantName
    hard: Units
    used: Units
    left: Units
    unreadable: str = ""
    """What is wrong with the declared value, if it could not be read: it counts as 0."""

    @property
    def is_overdrawn(self) -> bool:
        """More is used or promised than declared: nothing is added until that is mended."""
        return self.used > self.hard

    @property
    def is_closed(self) -> bool:
        """Nothing the orderer gives back would let it order more."""
        return self.is_overdrawn or self.hard == 0


Least = Mapping[QuotaKey, Bound | None]
"""By key the budget that leaves a tenant least; None is unlimited."""


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
        unreadable = book.tree.unreadable(one).get(key, "")
        yield Bound(key=key, tenant=one, hard=hard, used=used, left=left, unreadable=unreadable)
        promised += max(0, slack)


def tightest(book: Ledger, tenant: TenantName, key: QuotaKey) -> Bound | None:
    """Return the budget that leaves a tenant least; None is unlimited.

    Of equals a closed one, which giving back does not open, then the nearest.
    """
    return min(
        bounds(book, tenant, key),
        key=lambda bound: (bound.left, not bound.is_closed),
        default=None,
    )


def left(book: Ledger, tenant: TenantName, keys: Iterable[QuotaKey]) -> Units | None:
    """Return the most units a tenant may order under all keys at once; None is unlimited."""
    found = [bound.left for key in keys for bound in bounds(book, tenant, key)]
    return min(found, default=None)


def over(
    book: Ledger, tenant: TenantName, keys: Iterable[QuotaKey], wanted: Units
) -> tuple[OverBudget, ...]:
    """Return every budget that an order of so many units would break."""
    return over_each(book, tenant, dict.fromkeys(keys, wanted))


def over_each(
    book: Ledger, tenant: TenantName, wanted: Mapping[QuotaKey, Units]
) -> tuple[OverBudget, ...]:
    """Return every budget that so many units of each key at once would break."""
    return tuple(
        OverBudget(
            key=key,
            wanted=units,
            hard=bound.hard,
            used=bound.used,
            tenant=bound.tenant,
            own=bound.tenant == tenant,
            left=bound.left,
            unreadable=bound.unreadable,
        )
        for key, units in wanted.items()
        for bound in bounds(book, tenant, key)
        if units > bound.left
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
    book = snapshot.counted()
    pool = pools.of(snapshot, tenant)
    least = {key: tightest(book, tenant, key) for key in sorted(found)}
    return tuple(_gate(snapshot, pool, key, least) for key in least)


def _gate(snapshot: Snapshot, pool: Pool, key: QuotaKey, least: Least) -> Gate:
    bound = least[key]
    state, reason, message = _judge(snapshot, pool.tenant, key, least)
    remaining = bound.left if bound else None
    return Gate(
        key=key,
        hard=snapshot.tree.declared(pool.tenant).get(key),
        use=pool.use(key),
        remaining=ZERO if state is GateState.CLOSED else remaining,
        bounded_by=bound.tenant if bound else None,
        state=state,
        reason=reason,
        message=message,
    )


def _judge(
    snapshot: Snapshot, tenant: TenantName, key: QuotaKey, least: Least
) -> tuple[GateState, str, str]:
    """Say how a gate stands: what is wrong with the key itself comes before what is left."""
    bound = least[key]
    why = snapshot.tree.unreadable(tenant).get(key)
    if why is not None:
        words = refusals.unreadable(key, tenant, why, own=True)
        return GateState.CLOSED, GateReason.UNREADABLE.value, words
    barred = _barred(snapshot, tenant, key)
    if barred is not None:
        return (GateState.CLOSED, *barred)
    if bound is None:
        words = f"no budget limits {key}{_but(snapshot, key, least)}"
        return GateState.OPEN, GateReason.UNLIMITED.value, words
    state, reason = _standing(bound)
    said = _own_words(bound) if bound.tenant == tenant else _words_from_above(bound)
    words = said[reason]
    if state is GateState.OPEN:
        words += _but(snapshot, key, least)
    return state, reason.value, words


def _but(snapshot: Snapshot, key: QuotaKey, least: Least) -> str:
    """Say which other key lets fewer of a class through than its own; empty where none does."""
    if key == keys.QUOTA_TOTAL or not key.startswith(keys.QUOTA_PREFIX):
        return ""
    own = least[key]
    others = (least.get(one) for one in snapshot.quota_keys(_class_of(key)) if one != key)
    other = min(filter(None, others), key=lambda bound: bound.left, default=None)
    if other is None or (own is not None and own.left <= other.left):
        return ""
    leaves = refusals.plural(other.left) if other.left else "nothing"
    return f"; an order counts under {other.key} too, which leaves {leaves}"


def _class_of(key: QuotaKey) -> ClassName:
    return ClassName(key.removeprefix(keys.QUOTA_PREFIX))


def _standing(bound: Bound) -> tuple[GateState, GateReason]:
    if bound.unreadable:
        return GateState.CLOSED, GateReason.UNREADABLE
    if bound.is_overdrawn:
        return GateState.CLOSED, GateReason.OVERDRAWN
    if bound.hard == 0:
        return GateState.CLOSED, GateReason.NO_BUDGET
    if bound.left == 0:
        return GateState.EXHAUSTED, GateReason.USED_UP
    return GateState.OPEN, GateReason.REMAINING


def _own_words(bound: Bound) -> Mapping[GateReason, str]:
    whose = f"the budget of {bound.tenant} for {bound.key}"
    over = bound.used - bound.hard
    return {
        GateReason.REMAINING: f"{whose} leaves {refusals.plural(bound.left)}",
        GateReason.USED_UP: f"{whose} is used up: delete a claim or ask for a larger budget",
        GateReason.NO_BUDGET: f"{whose} is 0: ask for a larger one",
        GateReason.OVERDRAWN: (
            f"{bound.used} of {bound.key} are used or promised, the budget is {bound.hard}: "
            f"give back {over} or ask for a larger budget"
        ),
    }


def _words_from_above(bound: Bound) -> Mapping[GateReason, str]:
    """Word a budget of a tenant above: what it leaves is all of it that is told."""
    whose = f"the budget of {bound.tenant} for {bound.key}"
    return {
        GateReason.REMAINING: f"{whose} leaves {refusals.plural(bound.left)} to this tenant",
        GateReason.USED_UP: f"{whose} leaves nothing to this tenant: ask its owner for more",
        GateReason.NO_BUDGET: f"{whose} is 0: ask its owner for a larger one",
        GateReason.OVERDRAWN: f"{whose} is overdrawn: ask its owner for more, or to give back",
        GateReason.UNREADABLE: refusals.unreadable(bound.key, bound.tenant, "", own=False),
    }


def _barred(snapshot: Snapshot, tenant: TenantName, key: QuotaKey) -> tuple[str, str] | None:
    """Return code and words of what keeps every order under the key out, whatever the budget."""
    if key == keys.QUOTA_TOTAL:
        return None
    if not key.startswith(keys.QUOTA_PREFIX):
        if snapshot.settings.raw_names is RawNames.DENIED:
            return (
                GateReason.RAW_NAME_DENIED.value,
                f"{key} cannot be named directly: order a class instead",
            )
        return None
    name = _class_of(key)
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
