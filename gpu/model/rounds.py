"""Rounds: what one pass does with the sets that leave their nodes; worked out for plans and what-ifs.

No clock is read: what has passed by the newest instant that the objects tell of has passed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from gpu.config import RunningGuests
from gpu.model import coverage, departures
from gpu.model.departures import Deed, Departure
from gpu.model.draft import Draft
from gpu.model.guard import Tally
from gpu.model.guests import Guest
from gpu.model.rejections import Rejections
from gpu.model.signs import Proof
from gpu.model.snapshot import Snapshot
from gpu.objects import meta
from gpu.units import NodeName

NOBODY: Final = Rejections()
"""Of the refusals of nodes that the leader alone remembers, none is known here."""
_PROVEN: Final = Proof(words=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One departure of a round: whether it goes, and the node with room for all of it."""

    departure: Departure
    to: NodeName | None
    goes: bool = False
    waits: bool = False
    """Its pods have to end first: it goes in the next round."""
    held_back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the rounds over one node go by."""

    running: RunningGuests
    now: datetime
    closed: frozenset[NodeName]
    """Nodes that take nothing: the one that is cordoned."""


def of(draft: Draft, going: Iterable[Departure], tally: Tally, rules: Rules) -> Iterator[Step]:
    """Yield what one pass does with sets that leave, in their order; the draft shows those that go.

    Room that is promised to those that wait is kept in the draft; undo it before the next round.
    """
    for one in going:
        to = departures.elsewhere(draft, one, NOBODY, rules.now, rules.closed)
        does = one.does(rules.running, room=to is not None)
        asks = does not in {Deed.KEEP, Deed.WAIT}
        if asks and not tally.admits(one.leaving):
            yield Step(departure=one, to=to, held_back=True)
            continue
        goes, waits = does is Deed.MOVE, does in {Deed.WAIT, Deed.END_GUEST}
        yield Step(departure=one, to=to, goes=goes, waits=waits)
        if to is not None and goes:
            move(draft, one, to)
        elif to is not None and waits:
            departures.reserve(draft, one, to)


def move(draft: Draft, one: Departure, to: NodeName) -> None:
    """Have the room of a set be gone where it goes; what it leaves behind is nobody's yet."""
    for claim in one.claims:
        offer = draft.snapshot.classes.get(claim.class_name)
        if offer is not None and coverage.node_held(claim) != to:
            draft.ledger.reserve(to, offer.resource, claim.count)


def ended(one: Departure) -> Departure:
    """Return a departure as it is once its guest has ended and its pods are known to have."""
    if one.guest is Guest.OFF and one.proof is not None:
        return one
    return replace(one, guest=Guest.OFF, proof=one.proof or _PROVEN)


def as_of(snapshot: Snapshot) -> datetime:
    """Return the newest instant that claims and nodes tell of: an answer reads no clock.

    It is never later than now: what has passed by then has passed.
    """
    displaced = (
        claim.displaced.at
        for item in snapshot.sets
        if item.was_displaced
        for claim in item.claims
        if claim.displaced is not None
    )
    changed = (node.ready_since for node in snapshot.nodes.values() if node.ready_since)
    return max((*displaced, *changed), default=meta.EPOCH)
