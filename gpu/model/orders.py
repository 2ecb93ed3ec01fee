"""May this order be accepted: class, count, capacity, budget, entitlement, in that order.

One function for the order webhook, offers, reviews and the binder. An order is judged behind
everything that comes before it: Lost sets, older Pending orders that could be placed now, and the
budgets of older Pending claims, placeable or not. Younger ones never count.

On a Snapshot the orders before it are worked through first, once for all questions. On a Draft the
asker works through them, oldest first, binding each that is accepted.
"""

from dataclasses import dataclass, replace

from gpu.model import budgets, cases, entry, mates, placement, refusals, tenancy, turns
from gpu.model.cases import MOST_COUNT, Case
from gpu.model.draft import Age, Draft, View
from gpu.model.refusals import Refusal
from gpu.model.snapshot import Snapshot
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.classes import GPUClass
from gpu.objects.meta import ObjectKey
from gpu.units import ZERO, ClassName, NodeName, QuotaKey, TenantName, Units


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
Reasons = tuple[Refusal, ...]
"""Why an order is refused; never empty."""


def of(claim: GPUClaim, mates: tuple[GPUClaim, ...] = ()) -> Order:
    """Return the order a claim stands for."""
    return Order(
        tenant=claim.tenant,
        class_name=claim.class_name,
        count=claim.count,
        age=claim.age,
        mates=mates,
    )


def waiting(view: View) -> tuple[GPUClaim, ...]:
    """Return orders still to be bound, oldest first: Pending and not deleting.

    Template claims are placed with their VM. A VM that was started with an order waits for it.
    """
    snapshot = view.snapshot if isinstance(view, Draft) else view
    changed = view.changed if isinstance(view, Draft) else {}
    current = (changed.get(claim.key, claim) for claim in snapshot.pending)
    return tuple(
        claim for claim in current if not claim.is_template and claim.phase is Phase.PENDING
    )


def check(view: View, order: Order) -> Verdict:
    """Judge one order; changes nothing that another question would notice.

    On a Draft, units of Lost sets are reserved first if nobody did yet.
    """
    draft = view if isinstance(view, Draft) else queued(view, order.age)
    verdict = judge(draft, order)
    if isinstance(verdict, Accepted):
        return verdict
    offer = draft.snapshot.classes.get(order.class_name)
    draft.count_older(order.age)
    return Refused(verdict, ZERO if offer is None else _most(draft, order.tenant, offer))


def judge(draft: Draft, order: Order) -> Accepted | Reasons:
    """Judge as `check` does, and leave out what would fit: for whoever goes through all orders.

    The orders before it are counted only where a budget may refuse it: a long row of orders that
    wait for room alone is not counted one by one.
    """
    turns.serve_lost(draft)
    case = cases.of(draft, order.tenant, order.class_name, order.count)
    if case is None:
        return (*cases.no_tenant(order.tenant), refusals.NoSuchClass(order.class_name))
    over: Reasons = ()
    if asked := _asked(draft, order, case):
        draft.count_older(order.age)
        over = budgets.over(draft.ledger, order.tenant, asked, case.wanted)
    if order.mates and case.wanted:
        return _judge_beside(draft, order, case, over)
    node = case.node(draft)
    if node is not None and not (over or case.is_barred):
        return Accepted(node)
    found = case.refused(draft)
    if not over:
        return found
    last = len(found) - len(case.unentitled)
    return (*found[:last], *over, *found[last:])


def _asked(draft: Draft, order: Order, case: Case) -> tuple[QuotaKey, ...]:
    """Return the keys whose budgets may refuse an order: all of them once starts have used some up."""
    if draft.ledger.more and case.wanted:
        return draft.snapshot.quota_keys(order.class_name)
    return case.budgets


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
    if before is None and isinstance(snapshot.memo.queued, Draft):
        return snapshot.memo.queued
    # Of a copy: the snapshot keeps the draft, and a circle of both would live on until a garbage
    # collection, which holds every thread while it walks all that a snapshot has.
    draft = Draft.of(replace(snapshot, memo=replace(snapshot.memo)))
    turns.serve_lost(draft)
    refused: dict[ObjectKey, Reasons] = {}
    for claim in waiting(snapshot):
        if before is not None and claim.age >= before:
            break
        verdict = judge(draft, of(claim, mates.of(draft, claim)))
        if isinstance(verdict, Accepted):
            for one in (*verdict.gathered, claim):
                draft.bind(one, verdict.node)
        else:
            refused[claim.key] = verdict
    draft.count_older(before)
    if before is None:
        snapshot.memo.queued, snapshot.memo.refused = draft, refused
    return draft


def _judge_beside(draft: Draft, order: Order, case: Case, over: Reasons) -> Accepted | Reasons:
    """Judge an order that a VM names with other claims: no set is split."""
    asked = {order.class_name: order.count}
    spot = mates.spot(draft, order.mates, asked)
    if spot is not None and not (over or case.is_barred):
        return Accepted(spot.node, spot.gathered)
    room: Reasons = ()
    if spot is None:
        units = mates.together(order.mates, asked)
        room = (refusals.NoNodeForSet(len(order.mates) + 1, tuple(sorted(units.items()))),)
    return (*case.barred, *room, *over, *case.unentitled)


def _most(draft: Draft, tenant: TenantName, offer: GPUClass) -> Units:
    snapshot = draft.snapshot
    if not tenancy.is_tenant(tenant) or any(entry.barred(snapshot, tenant, offer)):
        return ZERO
    limits = (
        Units(MOST_COUNT),
        cases.max_count(offer),
        budgets.left(draft.ledger, tenant, snapshot.quota_keys(offer.name)),
        placement.largest(draft, offer.name),
    )
    return min(limit for limit in limits if limit is not None)
