"""Departures: sets that their node cannot keep, in the order they are served, and what is done with each.

One table and one choice of node for the binder, for drain plans and for what-ifs, so that what is told
is what happens.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, assert_never

from gpu.config import RunningGuests
from gpu.model import guard, guests, keeping, placement, reach, sets
from gpu.model.draft import Draft
from gpu.model.guard import Leaving
from gpu.model.guests import Guest
from gpu.model.keeping import Trouble
from gpu.model.rejections import Rejections
from gpu.model.sets import ClaimSet
from gpu.model.signs import Proof
from gpu.model.witness import Witness
from gpu.objects.claims import Cause, GPUClaim
from gpu.units import NodeName

_FIRST: Final = {
    Guest.ENDING: 0,
    Guest.OFF: 1,
    Guest.GATED: 1,
    Guest.PROVISIONING: 1,
    Guest.STARTING: 2,
    Guest.RUNNING: 3,
}
"""Who is served first: sets on their way keep what was found for them, running guests come last,
since they run on when nothing is left."""


class Deed(StrEnum):
    """What is done with a set that its node cannot keep."""

    MOVE = "Move"
    END_GUEST = "EndGuest"
    LOSE = "Lose"
    WAIT = "Wait"
    """Its pods must be known to have ended first."""
    KEEP = "Keep"
    """It stays where it is until something changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """A set that its node cannot keep any more, grace and all."""

    item: ClaimSet
    claims: tuple[GPUClaim, ...]
    """Its members as they are moved: those that hold units and are not being deleted."""
    trouble: Trouble
    guest: Guest
    proof: Proof | None
    """That no pod of it may run; None while that is not known, or its guest starts or runs."""

    @property
    def is_on_its_way(self) -> bool:
        """Say whether nothing lives any more that would have to be ended, and that is not proven."""
        return self.guest not in {Guest.STARTING, Guest.RUNNING} and self.proof is None

    @property
    def leaving(self) -> Leaving:
        """What the guard judges."""
        trouble = self.trouble
        return Leaving(
            set_id=self.item.id,
            node=trouble.node,
            cause=trouble.cause,
            id=guard.id_of(trouble.node, trouble.cause, trouble.since),
            since=min(
                filter(None, (keeping.degraded_since(self.claims), trouble.since)), default=None
            ),
            is_on_its_way=self.is_on_its_way,
        )

    def does(self, running: RunningGuests, *, room: bool) -> Deed:
        """Return what is done with it; `room`: another node has room for all of it."""
        return deed(
            self.trouble.cause, self.guest, running, proven=self.proof is not None, room=room
        )


def deed(trouble: Cause, guest: Guest, running: RunningGuests, *, proven: bool, room: bool) -> Deed:
    """Return what is done with a set: the table of docs/binding.md, "When a node cannot keep a set".

    `proven`: no pod of it may run; `room`: another node has room for all of it.
    """
    is_cordon = trouble is Cause.NODE_CORDONED
    match guest:
        case Guest.RUNNING:
            return _of_running(trouble, running, room=room)
        case Guest.STARTING:
            return Deed.END_GUEST if room or not is_cordon else Deed.KEEP
        case Guest.PROVISIONING if is_cordon:
            return Deed.KEEP  # its volumes are there, or will be: a cordon passes
        case Guest.PROVISIONING if not proven:
            return Deed.END_GUEST
        case Guest.OFF | Guest.GATED | Guest.ENDING if not proven:
            return Deed.WAIT
        case Guest.OFF | Guest.GATED | Guest.ENDING | Guest.PROVISIONING:
            without_room = Deed.KEEP if is_cordon else Deed.LOSE
            return Deed.MOVE if room else without_room
        case _:
            assert_never(guest)


def _of_running(trouble: Cause, running: RunningGuests, *, room: bool) -> Deed:
    if trouble is Cause.NODE_CORDONED:
        return Deed.KEEP
    is_gone = trouble is Cause.NODE_GONE
    if running is RunningGuests.KEEP:
        return Deed.LOSE if is_gone else Deed.KEEP
    return Deed.END_GUEST if room or is_gone else Deed.LOSE


def in_order(
    looking: Witness, found: Iterable[ClaimSet], troubles: Mapping[str, Trouble]
) -> list[Departure]:
    """Return the sets that are to be acted on now, in the order they are served.

    `troubles` are by set id; those that are still borne are left out.
    """
    return by_turn(
        _departure(looking, item, troubles[item.id])
        for item in found
        if item.id in troubles and troubles[item.id].is_due(looking.now)
    )


def _departure(looking: Witness, item: ClaimSet, trouble: Trouble) -> Departure:
    guest = guests.of(looking.snapshot, item)
    # What lives has to be ended first: until then nobody asks for a proof.
    lives = guest in {Guest.STARTING, Guest.RUNNING}
    return Departure(
        item=item,
        claims=keeping.placed(item),
        trouble=trouble,
        guest=guest,
        proof=None if lives else guests.proof(looking, item),
    )


def by_turn(found: Iterable[Departure]) -> list[Departure]:
    """Return departures in the order they are served."""
    return sorted(
        found,
        key=lambda one: (
            one.trouble.cause is Cause.NODE_CORDONED,
            _FIRST[one.guest],
            one.item.age,
        ),
    )


def elsewhere(
    draft: Draft,
    one: Departure,
    memory: Rejections,
    now: datetime,
    closed: AbstractSet[NodeName] = frozenset(),
) -> NodeName | None:
    """Return the node that has room for the whole set, of those that have not refused it lately.

    `closed` are nodes that take nothing, whatever the snapshot says of them.
    """
    refused = reach.rejected(one.item, draft.snapshot, memory, now)
    return placement.choose(draft, sets.wants(one.claims), refused | closed | {one.trouble.node})


def reserve(draft: Draft, one: Departure, node: NodeName) -> None:
    """Keep the room that a set was promised: no two guests are ended for one place."""
    wants = placement.by_resource(draft, sets.wants(one.claims))
    for resource, units in wants.items():
        draft.ledger.reserve(node, resource, units)
