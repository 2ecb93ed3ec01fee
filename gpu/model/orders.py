"""May this order be accepted: class, count, capacity, budget, entitlement, in that order.

One function for the order webhook, offers, reviews and the binder. An order is judged behind
everything that comes before it: Lost sets, older Pending orders that could be placed now, and the
budgets of older Pending claims, placeable or not. Younger ones never count.

On a Snapshot the orders before it are worked through first, once for all questions. On a Draft the
asker works through them, oldest first, binding each that is accepted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from gpu.model import budgets, entry, mates, placement, refusals, tenancy, turns
from gpu.model.mates import Spot
from gpu.model.refusals import Refusal
from gpu.model.snapshot import Age, Draft, Snapshot, View
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.classes import GPUClass, Mode
from gpu.units import ONE, ZERO, ClassName, NodeName, TenantName, Units

MOST_COUNT: Final = 2**31 - 1
"""The largest count the stored schema takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Units of one class for a tenant; `age` of an order that is not stored yet is None."""

    tenant: TenantName
    class_name: ClassName
    count: int
    age: Age | None = None
    mates: tuple[GPUClaim, ...] = ()
    """Other claims of the VM that names it, Bound or Lost."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The order can be bound now, to this node."""

    node: NodeName
    gathered: tuple[GPUClaim, ...] = ()
    """Claims of the same VM that are bound to it with the order, so that they stay together."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Every reason the order fails, and the largest count that would be accepted instead (or 0)."""

    refusals: tuple[Refusal, ...]
    would_fit: Units


Verdict = Accepted | Refused


def of(claim: GPUClaim, mates: tuple[GPUClaim, ...] = ()) -> Order:
    """Return the order a claim stands for."""
    return Order(
        tenant=claim.tenant,
        class_name=claim.class_name,
        count=claim.count,
        age=claim.age,
        mates=mates,
    )


def max_count(offer: GPUClass) -> Units | None:
    """Return the most units of one claim of a class; None is unlimited. Absent is 1 for vGPU."""
    if offer.max_count is None and offer.mode is Mode.VGPU:
        return ONE
    return offer.max_count


def waiting(view: View) -> tuple[GPUClaim, ...]:
    """Return orders still to be bound, oldest first: Pending, not deleting, attached to nothing.

    Template claims and members of a VM's set are placed with their VM.
    """
    snapshot = view.snapshot if isinstance(view, Draft) else view
    changed = view.changed if isinstance(view, Draft) else {}
    current = (changed.get(claim.key, claim) for claim in snapshot.pending)
    return tuple(
        claim
        for claim in current
        if claim.attached_to is None and not claim.is_template and claim.phase is Phase.PENDING
    )


def check(view: View, order: Order) -> Verdict:
    """Judge one order; changes nothing that another question would notice.

    On a Draft, units of Lost sets are reserved first if nobody did yet.
    """
    draft = view if isinstance(view, Draft) else queued(view, order.age)
    turns.serve_lost(draft)
    draft.count_older(order.age)
    offer = draft.snapshot.classes.get(order.class_name)
    if offer is None:
        return Refused((*_tenant(order.tenant), refusals.NoSuchClass(order.class_name)), ZERO)
    spot = _spot(draft, order) if order.count > 0 else None
    found = tuple(_refusals(draft, order, offer, spot))
    if spot is None or found:
        return Refused(found, _most(draft, order.tenant, offer))
    return Accepted(spot.node, spot.gathered)


def most(view: View, tenant: TenantName, name: ClassName) -> Units:
    """Return the largest count of a new order that `check` accepts now; 0 when it accepts none."""
    draft = view if isinstance(view, Draft) else queued(view)
    turns.serve_lost(draft)
    draft.count_older(None)
    offer = draft.snapshot.classes.get(name)
    return ZERO if offer is None else _most(draft, tenant, offer)


def queued(snapshot: Snapshot, before: Age | None = None) -> Draft:
    """Return a draft in which all orders older than an age are worked through; None is all of them.

    That of all of them is made once and shared: do not change it.
    """
    if before is None and snapshot.memo.queued is not None:
        return snapshot.memo.queued
    # Of a copy: the snapshot keeps the draft, and a circle of both would live on until a garbage
    # collection, which holds every thread while it walks all that a snapshot has.
    draft = replace(snapshot, memo=replace(snapshot.memo)).draft()
    turns.serve_lost(draft)
    for claim in waiting(snapshot):
        if before is not None and claim.age >= before:
            break
        verdict = check(draft, of(claim, mates.of(draft, claim)))
        if isinstance(verdict, Accepted):
            for one in (*verdict.gathered, claim):
                draft.bind(one, verdict.node)
    draft.count_older(before)
    if before is None:
        snapshot.memo.queued = draft
    return draft


def _spot(draft: Draft, order: Order) -> Spot | None:
    asked = {order.class_name: order.count}
    if order.mates:
        return mates.spot(draft, order.mates, asked)
    node = placement.choose(draft, asked)
    return Spot(node) if node is not None else None


def _refusals(draft: Draft, order: Order, offer: GPUClass, spot: Spot | None) -> Iterator[Refusal]:
    snapshot = draft.snapshot
    yield from _tenant(order.tenant)
    yield from entry.class_bars(snapshot, offer)
    if not 0 < order.count <= MOST_COUNT:
        yield refusals.BadCount(order.count, MOST_COUNT)
    if order.count > 0:
        wanted = Units(order.count)
        allowed = max_count(offer)
        if allowed is not None and wanted > allowed:
            yield refusals.OverMaxCount(offer.name, wanted, allowed)
        if spot is None:
            yield _capacity(draft, order, offer, wanted)
        yield from budgets.over(draft.ledger, order.tenant, snapshot.quota_keys(offer.name), wanted)
    if not entry.is_entitled(snapshot, order.tenant, offer):
        yield refusals.NotEntitled(offer.name, order.tenant)


def _tenant(tenant: TenantName) -> tuple[Refusal, ...]:
    return () if tenancy.is_tenant(tenant) else (refusals.NoTenant(tenant),)


def _capacity(draft: Draft, order: Order, offer: GPUClass, wanted: Units) -> Refusal:
    if not order.mates:
        return placement.why_not(draft, offer.name, wanted)
    units = mates.together(order.mates, {offer.name: wanted})
    return refusals.NoNodeForSet(len(order.mates) + 1, tuple(sorted(units.items())))


def _most(draft: Draft, tenant: TenantName, offer: GPUClass) -> Units:
    snapshot = draft.snapshot
    if not tenancy.is_tenant(tenant) or any(entry.barred(snapshot, tenant, offer)):
        return ZERO
    limits = (
        Units(MOST_COUNT),
        max_count(offer),
        budgets.left(draft.ledger, tenant, snapshot.quota_keys(offer.name)),
        placement.largest(draft, offer.name),
    )
    return min(limit for limit in limits if limit is not None)
