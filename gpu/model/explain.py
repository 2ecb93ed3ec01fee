"""Why a claim waits: reasons, nodes by reason, its place in the queue, what single change would let it in.

Computed when somebody reads it, of the queue as it stands once every order that can be bound is: so it
says what the binder says of what is left. Nothing in it is another tenant's, and no node has a name.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from gpu.model import (
    coverage,
    eligibility,
    mates,
    orders,
    placement,
    rejections,
    remedies,
    sets,
    standing,
    waiters,
)
from gpu.model.draft import Draft
from gpu.model.gate_reasons import ClaimsUnreadable, GateReason
from gpu.model.orders import Accepted
from gpu.model.placement import Wants
from gpu.model.reach import Reach
from gpu.model.refusals import NoNodeForSet, Refusal
from gpu.model.remedies import Case
from gpu.model.snapshot import Snapshot
from gpu.model.standing import Kind
from gpu.model.waiters import LostSet, Queued, Waiters
from gpu.model.ways import Remedy, Way
from gpu.objects import meta
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.meta import ObjectKey
from gpu.units import ClassName, NodeName, ResourceName, TenantName

LOST: Final = "Lost"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why one claim or one VM waits, as things are now."""

    key: ObjectKey
    uid: str
    created: datetime
    is_vm: bool = False
    """It is a VMI whose launcher waits at the gate."""
    phase: Phase | None = None
    """Of a claim."""
    wants: Wants
    """Units of each class that it asks for itself."""
    since: datetime
    """When it began to wait, as its status says; else when it was made."""
    queued: Queued | None = None
    """None of a claim that holds its units still."""
    reasons: tuple[GateReason, ...] = ()
    """Every one; empty when the next pass binds it, or would if it could be stored."""
    write_refused: str = ""
    """Its placement is not stored: the words with which the claim says so."""
    nodes: tuple[tuple[NodeReason, int], ...] = ()
    """How many nodes have which first reason, by reason; of what lacks room alone."""
    remedies: tuple[Remedy, ...] = ()
    """Each would do by itself."""

    @property
    def stands(self) -> tuple[Kind, ...]:
        """Kinds of reasons that stand where no single change would do, the first two."""
        if self.remedies or not self.reasons:
            return ()
        return standing.kinds(self.reasons)


def explanations(
    snapshot: Snapshot, tenant: TenantName, *, unreadable: bool = False
) -> tuple[Explanation, ...]:
    """Return why each claim of a tenant waits that is Lost or an order, and which cannot be stored.

    `unreadable`: some claim of the cluster cannot be read, so nothing is placed.
    """
    line = waiters.of(snapshot)
    lost = (
        _of_lost(snapshot, line, claim, found)
        for found in line.lost
        for claim in found.claims
        if claim.tenant == tenant
    )
    ordered = line.orders.get(tenant, [])
    unstored = (_told(claim) for claim in line.unstored if claim.tenant == tenant)
    found = (*lost, *_of_orders(snapshot, line, ordered), *unstored)
    return tuple(map(_held_up, found)) if unreadable else found


def explain(snapshot: Snapshot, key: ObjectKey) -> Explanation | None:
    """Return why one claim waits; None when it does not, or waits for its VM only."""
    found = explanations(snapshot, TenantName(key.namespace))
    return next((one for one in found if one.key == key), None)


def since(claim: GPUClaim) -> datetime:
    """Return since when a claim waits, is Lost or is not stored elsewhere."""
    for kind in (waiters.WAITING, LOST, waiters.DEGRADED):
        told = meta.condition(claim.conditions, kind)
        if told is not None and told.since is not None:
            return told.since
    return claim.meta.created


def _told(
    claim: GPUClaim,
    line: Waiters | None = None,
    reasons: tuple[Refusal, ...] = (),
    nodes: tuple[tuple[NodeReason, int], ...] = (),
    found: tuple[Remedy, ...] = (),
) -> Explanation:
    return Explanation(
        key=claim.key,
        uid=claim.meta.uid,
        created=claim.meta.created,
        phase=claim.phase,
        wants={claim.class_name: claim.count},
        since=since(claim),
        queued=line.places.get((False, claim.key), Queued.FIRST) if line else None,
        reasons=reasons,
        write_refused="" if reasons else _refused(claim),
        nodes=nodes,
        remedies=found,
    )


def _refused(claim: GPUClaim) -> str:
    """Return what a claim says of a placement that is not stored; empty when it says no such thing."""
    kind = waiters.DEGRADED if claim.phase is Phase.BOUND else waiters.WAITING
    told = meta.condition(claim.conditions, kind)
    return told.message if told is not None and waiters.is_unstored(claim) else ""


def _held_up(found: Explanation) -> Explanation:
    return Explanation(
        key=found.key,
        uid=found.uid,
        created=found.created,
        is_vm=found.is_vm,
        phase=found.phase,
        wants=found.wants,
        since=found.since,
        queued=found.queued,
        reasons=(ClaimsUnreadable(),),
    )


# Lost claims.


def _of_lost(snapshot: Snapshot, line: Waiters, claim: GPUClaim, found: LostSet) -> Explanation:
    draft, asked = orders.queued(snapshot), sets.wants(found.claims)
    if not found.refusals:
        return _told(claim, line)
    return _told(
        claim,
        line,
        found.refusals,
        _counted(draft, asked, found.reach, _earmarked(line, found)),
        tuple(_of_turn(draft, line, found)),
    )


def _earmarked(line: Waiters, found: LostSet) -> frozenset[ResourceName]:
    """Return the resources of which any node that is kept is kept for this set."""
    own: set[ResourceName] = set(found.resources)
    for one in line.lost:
        if one is found:
            break
        if one.refusals and not one.reach.is_tied:
            own -= one.resources
    return frozenset(own)


def _of_turn(draft: Draft, line: Waiters, found: LostSet) -> Iterator[Remedy]:
    """Yield what would let a Lost set in."""
    if found.would_move:
        yield Remedy(way=Way.STOP_VM)
    asked = sets.wants(found.claims)
    is_known = all(name in draft.snapshot.classes for name in asked)
    if found.reach.is_tied or not is_known or found.reach.without:
        return
    if _earmarked(line, found) != found.resources or any(one.has_lost for one in line.others):
        return
    oldest = found.claims[0]
    case = Case(
        draft=draft,
        waiters=line,
        turn=(False, oldest.age),
        tenant=oldest.tenant,
        wants=asked,
        reasons=found.refusals,
        check=lambda: False,
    )
    yield from remedies.of_room(case, is_lost=True)


# Orders.


def _of_orders(snapshot: Snapshot, line: Waiters, claims: list[GPUClaim]) -> Iterator[Explanation]:
    draft = orders.queued(snapshot)
    refused = snapshot.memo.refused
    cases = {claim.key: _case(draft, line, claim, refused.get(claim.key, ())) for claim in claims}
    budgets = remedies.of_budgets(filter(None, cases.values()))
    for claim in claims:
        why, case = refused.get(claim.key, ()), cases[claim.key]
        if case is None:
            yield _told(claim, line, why)
            continue
        others = case.beside
        found = _beside(case, claim, others) if others else _alone(case, claim)
        cured = budgets.get(case.turn)
        nodes = _nodes(draft, line, case.wants) if _lacks_room(why) else ()
        yield _told(claim, line, why, nodes, (*filter(None, [cured]), *found))


def _case(draft: Draft, line: Waiters, claim: GPUClaim, why: tuple[Refusal, ...]) -> Case | None:
    """Return an order as remedies are looked for; None when it is bound next, or its class unknown."""
    order = orders.of(claim, mates.of(draft, claim))
    asked: dict[ClassName, int] = {claim.class_name: claim.count}
    if order.mates:
        asked = dict(mates.together(order.mates, asked))
    if not why or any(name not in draft.snapshot.classes for name in asked):
        return None
    return Case(
        draft=draft,
        waiters=line,
        turn=(True, claim.age),
        tenant=claim.tenant,
        wants=asked,
        reasons=why,
        check=lambda: isinstance(orders.judge(draft, order), Accepted),
        beside=order.mates,
    )


def _lacks_room(found: tuple[Refusal, ...]) -> bool:
    return any(isinstance(one, waiters.OfRoom) for one in found)


def _alone(case: Case, claim: GPUClaim) -> Iterator[Remedy]:
    yield from remedies.of(case)
    yield from remedies.instead(case, claim)


def _beside(case: Case, claim: GPUClaim, others: tuple[GPUClaim, ...]) -> Iterator[Remedy]:
    """Yield what lets in an order that a VM names: room for all of them, or being alone."""
    is_roomless = isinstance(case.reasons[0], NoNodeForSet) and len(case.reasons) == 1
    alone = {claim.class_name: claim.count}
    is_free = claim.attached_to is None and placement.choose(case.draft, alone) is not None
    if is_roomless and is_free:
        yield Remedy(way=Way.NAME_ALONE)
    if not is_roomless:
        yield from remedies.of(case)
        return
    is_whole = len({coverage.node_held(mate) for mate in others} - {None}) == 1
    is_idle = all(mate.phase is Phase.BOUND and mate.attached_to is None for mate in others)
    is_welcome = not rejections.skipped(others, case.draft.snapshot.nodes, None)
    if is_whole and is_idle and is_welcome:
        yield from remedies.of_room(case)


# Nodes.


def _nodes(draft: Draft, line: Waiters, asked: Wants) -> tuple[tuple[NodeReason, int], ...]:
    """Return how many nodes have which first reason, for an order; found once for all that ask the same."""
    same = frozenset(asked.items())
    if same not in line.nodes:
        line.nodes[same] = _counted(draft, asked, Reach(), frozenset())
    return tuple((NodeReason(reason), count) for reason, count in line.nodes[same])


def _counted(
    draft: Draft, asked: Wants, where: Reach, own: frozenset[ResourceName]
) -> tuple[tuple[NodeReason, int], ...]:
    """Return how many nodes have which first reason; a node kept for one of `own` is kept for it."""
    found: dict[NodeReason, int] = {}
    if any(name not in draft.snapshot.classes for name in asked):
        return ()
    for node in draft.snapshot.nodes:
        reason = _why_not(draft, asked, where, node, own)
        found[reason] = found.get(reason, 0) + 1
    return tuple(sorted(found.items()))


def _why_not(
    draft: Draft, asked: Wants, where: Reach, node: NodeName, own: frozenset[ResourceName]
) -> NodeReason:
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
    return _short(draft, placement.by_resource(draft, asked), node, own)


def _short(
    draft: Draft,
    units: Mapping[ResourceName, int],
    node: NodeName,
    own: frozenset[ResourceName],
) -> NodeReason:
    """Return whether a node that takes such sets has room for one."""
    if any(draft.earmarks.get(name) == node for name in units if name not in own):
        return NodeReason.KEPT
    if any(draft.snapshot.capacities[name][node] < count for name, count in units.items()):
        return NodeReason.TOO_SMALL
    if any(draft.ledger.room(node, name) < count for name, count in units.items()):
        return NodeReason.TOO_FULL
    return NodeReason.HAS_ROOM
