"""Turns of Lost sets: before any new order, oldest first; one walk for the binder and every answer.

Each set is offered the node where it can be bound now. What stays Lost has units set aside: what it
could take, or, for the oldest that fits nowhere, the one node nearest to having room for it.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from gpu.model import placement, reach, refusals, sets
from gpu.model.draft import Draft
from gpu.model.reach import Reach, Reaches
from gpu.model.refusals import Refusal
from gpu.model.sets import ClaimSet
from gpu.objects.claims import GPUClaim, Phase
from gpu.units import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One Lost set: the node where all of it can be bound now, or why there is none."""

    found: ClaimSet
    claims: tuple[GPUClaim, ...]
    """Its Lost members that are not being deleted, as the draft has them; never empty."""
    reach: Reach
    node: NodeName | None
    refusals: tuple[Refusal, ...] = ()
    """Never empty where there is no node."""


def turns(
    draft: Draft, reaches: Reaches, passed_over: AbstractSet[str] = frozenset()
) -> Iterator[Turn]:
    """Yield the turn of each Lost set; whoever binds it has the draft show that before going on.

    What is Lost still when the next turn is asked for gets units set aside. Sets whose id is in
    `passed_over` have no turn, and what they want is given to others.
    """
    draft.lost_served = True
    draft.ledger.on_undo(lambda: setattr(draft, "lost_served", False))
    for found in lost_sets(draft):
        if found.id in passed_over:
            continue
        turn = _turn(draft, found, reaches(found))
        yield turn
        set_aside(draft, turn)


def serve_lost(draft: Draft) -> None:
    """Set aside what Lost sets come before new orders with; once for a draft."""
    if not draft.lost_served:
        for _ in turns(draft, reach.by_record(draft)):
            pass


def keep_turns(draft: Draft, ids: AbstractSet[str]) -> None:
    """Set units aside for those Lost sets that were bound in the draft only: their write failed."""
    for found in lost_sets(draft) if ids else ():
        if found.id in ids:
            set_aside(draft, _turn(draft, found, reach.by_record(draft)(found)))


def set_aside(draft: Draft, turn: Turn) -> None:
    """Reserve what a set that is Lost still could take now, or keep it the nearest node; once."""
    current = (_now(draft, claim) for claim in turn.claims)
    lost = [claim for claim in current if claim.phase is Phase.LOST]
    set_id = turn.found.id
    if set_id in draft.waiting_sets:
        return
    asked = sets.wants(lost)
    if not lost or any(name not in draft.snapshot.classes for name in asked):
        return
    draft.waiting_sets.add(set_id)
    draft.ledger.on_undo(lambda: draft.waiting_sets.discard(set_id))
    if turn.node is not None and turn.reach.is_tied:
        _reserve_at_home(draft, lost, turn.node)
        return
    node = placement.choose(draft, asked, turn.reach.without)
    if node is None:
        placement.keep_nearest(draft, asked)
        return
    for resource, units in placement.by_resource(draft, asked).items():
        draft.ledger.reserve(node, resource, units)


def lost_sets(draft: Draft) -> tuple[ClaimSet, ...]:
    """Return the sets with Lost members that are not being deleted, whole, oldest first."""
    if not draft.lost:
        return ()
    return tuple(item for item in draft.sets if _lost(item))


def _turn(draft: Draft, found: ClaimSet, where: Reach) -> Turn:
    lost = _lost(found)
    node = None
    why: tuple[Refusal, ...] = ()
    if where.is_tied:
        if where.home is not None and placement.stays(
            draft, lost, where.home, holding=where.is_seen
        ):
            node = where.home
        else:
            why = (refusals.GuestMayRun(),)
    else:
        node = placement.choose(draft, sets.wants(lost), where.without)
        why = () if node else placement.why_not_set(draft, lost)
    return Turn(found=found, claims=lost, reach=where, node=node, refusals=why)


def _reserve_at_home(draft: Draft, lost: list[GPUClaim], home: NodeName) -> None:
    """Reserve what the claims would take beyond the units that their pod uses there already."""
    resources = placement.by_resource(draft, sets.wants(lost))
    before = {resource: draft.ledger.free(home, resource) for resource in resources}
    with draft.savepoint():
        for claim in lost:
            draft.bind(claim, home)
        after = {resource: draft.ledger.free(home, resource) for resource in resources}
    for resource, free in before.items():
        if free > after[resource]:
            draft.ledger.reserve(home, resource, free - after[resource])


def _lost(found: ClaimSet) -> tuple[GPUClaim, ...]:
    return tuple(claim for claim in found.kept if claim.phase is Phase.LOST)


def _now(draft: Draft, claim: GPUClaim) -> GPUClaim:
    return draft.claim(claim.key) or claim
