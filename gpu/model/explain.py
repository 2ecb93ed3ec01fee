"""Why a claim waits: reasons with numbers, its place in the queue, what single change would let it in.

Computed when somebody reads it, by the walk that the binder makes, so it says what the binder would
decide now. Nothing in it is another tenant's, and no node has a name.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gpu.model import coverage, eligibility, mates, orders, placement, reach, refusals, sets, turns
from gpu.model.orders import Accepted, Order, Refused, Verdict
from gpu.model.placement import Wants
from gpu.model.reach import Reach
from gpu.model.refusals import Refusal
from gpu.model.snapshot import Draft, Snapshot
from gpu.model.turns import Turn
from gpu.objects import meta
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.meta import ObjectKey
from gpu.units import ClassName, NodeName, ResourceName, TenantName, Units

WAITING = "Waiting"


class Queued(StrEnum):
    """Place in the queue of its resource; not told more exactly."""

    FIRST = "First"
    UNDER_10 = "Under10"
    UNDER_100 = "Under100"
    MORE = "More"


class NodeReason(StrEnum):
    """The first thing that keeps a node from taking it."""

    GONE = "Gone"
    NOT_SERVED = "NotServed"
    NOT_READY = "NotReady"
    CORDONED = "Cordoned"
    TAINTED = "Tainted"
    REJECTED = "Rejected"
    """The node refused its pod a short while ago."""
    NOT_ITS_GUESTS = "NotItsGuests"
    """Its VM may still run on another node."""
    KEPT = "Kept"
    """For a Lost set that comes before it."""
    TOO_SMALL = "TooSmall"
    """The node has fewer units than it wants, used or not."""
    TOO_FULL = "TooFull"
    HAS_ROOM = "HasRoom"


class Way(StrEnum):
    """A single change that would let it in."""

    MORE_BUDGET = "MoreBudget"
    """`tenant` gets `units` more under `key`."""
    BUDGET_ABOVE = "BudgetAbove"
    """`tenant`, above the orderer, leaves more under `key`; how much is not the orderer's to know."""
    ROOM_ON_A_NODE = "RoomOnANode"
    """One node that takes it has `units` of `key`, a resource, free; all of these at once."""
    ORDER_LESS = "OrderLess"
    """An order of `units` instead."""
    UNRETIRE = "Unretire"
    PERMIT = "Permit"
    """KubeVirt permits `key`, the resource."""
    ENTITLE = "Entitle"
    """`tenant` is entitled to vGPU classes."""
    STOP_VM = "StopVM"
    """Its VM is known to have ended: another node has room."""
    NAME_ALONE = "NameAlone"
    """No VM names it together with claims that are elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One way to let a claim in, all else as it is."""

    way: Way
    key: str = ""
    units: int = 0
    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why one claim waits, as things are now."""

    claim: ObjectKey
    phase: Phase
    class_name: ClassName
    count: Units
    since: datetime
    """When it began to wait, as its status says; else when it was ordered."""
    queued: Queued
    refusals: tuple[Refusal, ...]
    """As in its status, with numbers; empty when the next pass binds it."""
    nodes: tuple[tuple[NodeReason, int], ...]
    """How many nodes have which first reason, by reason."""
    remedies: tuple[Remedy, ...]
    """Each would do by itself; empty when it takes more than one change."""


def explanations(snapshot: Snapshot, tenant: TenantName) -> tuple[Explanation, ...]:
    """Return why each claim of a tenant waits that is Lost or an order, Lost ones first, by age."""
    return tuple(_walk(snapshot, lambda claim: claim.tenant == tenant))


def explain(snapshot: Snapshot, key: ObjectKey) -> Explanation | None:
    """Return why one claim waits; None when it does not, or waits for its VM only."""
    return next(_walk(snapshot, lambda claim: claim.key == key), None)


def _walk(snapshot: Snapshot, is_asked: Callable[[GPUClaim], bool]) -> Iterator[Explanation]:
    """Go through Lost sets and orders as a pass does, each judged behind those before it."""
    draft = snapshot.draft()
    before: dict[ResourceName, int] = {}
    for turn in turns.turns(draft, reach.by_record(draft)):
        for claim in filter(is_asked, turn.claims):
            yield _of_lost(draft, turn, claim, before)
        _count(snapshot, turn.claims, before)
    for claim in orders.waiting(draft):
        order = orders.of(claim, mates.of(draft, claim))
        verdict = orders.judge(draft, order)
        if is_asked(claim):
            yield _of_order(draft, claim, order, orders.check(draft, order), before)
        if isinstance(verdict, Accepted):
            for one in (*verdict.gathered, claim):
                draft.bind(one, verdict.node)
        _count(snapshot, (claim,), before)


def _count(
    snapshot: Snapshot, claims: tuple[GPUClaim, ...], before: dict[ResourceName, int]
) -> None:
    for claim in claims:
        offer = snapshot.classes.get(claim.class_name)
        if offer is not None:
            before[offer.resource] = before.get(offer.resource, 0) + 1


def _of_lost(
    draft: Draft, turn: Turn, claim: GPUClaim, before: dict[ResourceName, int]
) -> Explanation:
    asked = sets.wants(turn.claims)
    return _explanation(
        draft,
        claim,
        before,
        refused=turn.refusals,
        nodes=_nodes(draft, asked, turn.reach),
        remedies=tuple(_of_turn(draft, turn, asked)),
    )


def _of_order(
    draft: Draft, claim: GPUClaim, order: Order, verdict: Verdict, before: dict[ResourceName, int]
) -> Explanation:
    asked: dict[ClassName, int] = {claim.class_name: claim.count}
    if order.mates:
        asked = dict(mates.together(order.mates, asked))
    refused = verdict.refusals if isinstance(verdict, Refused) else ()
    return _explanation(
        draft,
        claim,
        before,
        refused=refused,
        nodes=_nodes(draft, asked, Reach()),
        remedies=tuple(_remedies(draft, order, verdict, asked))
        if isinstance(verdict, Refused)
        else (),
    )


def _explanation(
    draft: Draft,
    claim: GPUClaim,
    before: dict[ResourceName, int],
    *,
    refused: tuple[Refusal, ...],
    nodes: tuple[tuple[NodeReason, int], ...],
    remedies: tuple[Remedy, ...],
) -> Explanation:
    offer = draft.snapshot.classes.get(claim.class_name)
    told = meta.condition(claim.conditions, WAITING)
    return Explanation(
        claim=claim.key,
        phase=claim.phase,
        class_name=claim.class_name,
        count=claim.count,
        since=(told.since if told else None) or claim.meta.created,
        queued=_queued(before.get(offer.resource, 0) if offer else 0),
        refusals=refused,
        nodes=nodes,
        remedies=remedies,
    )


def _queued(older: int) -> Queued:
    if not older:
        return Queued.FIRST
    if older < 10:  # noqa: PLR2004 - as Queued says
        return Queued.UNDER_10
    return Queued.UNDER_100 if older < 100 else Queued.MORE  # noqa: PLR2004 - as Queued says


def _nodes(draft: Draft, asked: Wants, where: Reach) -> tuple[tuple[NodeReason, int], ...]:
    found: dict[NodeReason, int] = {}
    if any(name not in draft.snapshot.classes for name in asked):
        return ()
    for node in draft.snapshot.nodes:
        reason = _why_not(draft, asked, where, node)
        found[reason] = found.get(reason, 0) + 1
    return tuple(sorted(found.items()))


def _why_not(draft: Draft, asked: Wants, where: Reach, node: NodeName) -> NodeReason:
    snapshot = draft.snapshot
    if where.is_tied and node != where.home:
        return NodeReason.NOT_ITS_GUESTS
    for name in sorted(asked):
        holding = where.is_tied and where.is_seen
        barred = eligibility.why_not(snapshot, snapshot.classes[name], node, holding=holding)
        if barred is not None:
            return NodeReason(barred.value)
    if node in where.without and not where.is_tied:
        return NodeReason.REJECTED
    return _short(draft, placement.by_resource(draft, asked), node)


def _short(draft: Draft, units: Mapping[ResourceName, int], node: NodeName) -> NodeReason:
    """Return whether a node that takes such sets has room for one."""
    if any(draft.earmarks.get(resource) == node for resource in units):
        return NodeReason.KEPT
    if any(draft.snapshot.capacities[resource][node] < count for resource, count in units.items()):
        return NodeReason.TOO_SMALL
    if any(draft.ledger.room(node, resource) < count for resource, count in units.items()):
        return NodeReason.TOO_FULL
    return NodeReason.HAS_ROOM


def _of_turn(draft: Draft, turn: Turn, asked: Wants) -> Iterator[Remedy]:
    """Yield what would let a Lost set in."""
    if turn.node is not None or any(name not in draft.snapshot.classes for name in asked):
        return
    if turn.reach.is_tied:
        if placement.choose(draft, asked, turn.reach.without) is not None:
            yield Remedy(way=Way.STOP_VM)
        return
    yield from _room(draft, asked)


def _room(draft: Draft, asked: Wants) -> Iterator[Remedy]:
    for resource, units in sorted(placement.by_resource(draft, asked).items()):
        yield Remedy(way=Way.ROOM_ON_A_NODE, key=resource, units=units)


def _remedies(draft: Draft, order: Order, verdict: Refused, asked: Wants) -> Iterator[Remedy]:
    """Yield what would let an order in: what cures its only refusal, or a smaller order."""
    if not order.mates and 0 < verdict.would_fit < order.count:
        yield Remedy(way=Way.ORDER_LESS, units=verdict.would_fit)
    if len(verdict.refusals) != 1:
        return
    (refusal,) = verdict.refusals
    match refusal:
        case refusals.OverBudget(own=True):
            more = refusal.used + refusal.wanted - refusal.hard
            yield Remedy(way=Way.MORE_BUDGET, key=refusal.key, units=more, tenant=refusal.tenant)
        case refusals.OverBudget():
            yield Remedy(way=Way.BUDGET_ABOVE, key=refusal.key, tenant=refusal.tenant)
        case refusals.ClassRetired(name):
            yield Remedy(way=Way.UNRETIRE, key=name)
        case refusals.NotPermitted(_, resource):
            yield Remedy(way=Way.PERMIT, key=resource)
        case refusals.NotEntitled(_, tenant):
            yield Remedy(way=Way.ENTITLE, tenant=tenant)
        case refusals.NoNodeForSet():
            yield from _beside(draft, order, asked)
        case (
            refusals.NoNodeServes()
            | refusals.NoNodeEligible()
            | refusals.NoFreeUnits()
            | refusals.NoNodeAccepts()
        ):
            yield from _room(draft, asked)
        case _:
            return


def _beside(draft: Draft, order: Order, asked: Wants) -> Iterator[Remedy]:
    """Yield what lets in an order that a VM names: room for all of them, or being alone."""
    if placement.choose(draft, {order.class_name: order.count}) is not None:
        yield Remedy(way=Way.NAME_ALONE)
    is_whole = len({coverage.node_held(mate) for mate in order.mates} - {None}) == 1
    is_idle = all(mate.phase is Phase.BOUND and mate.attached_to is None for mate in order.mates)
    if is_whole and is_idle:
        yield from _room(draft, asked)
