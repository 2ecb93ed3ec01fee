"""Settling: what a cluster comes to, as the binder goes on: sets that leave, and what waits and is let in.

Pass after pass until nothing changes, then the guests that were ended have ended, all at once. What
waits is bound meanwhile, in the room that is promised to nobody, and what leaves then chooses beside it.
VMs at the gate come first in each pass, behind the orders that are older.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from gpu.config import Grace
from gpu.model import (
    departures,
    guard,
    keeping,
    mates,
    orders,
    reach,
    rounds,
    seating,
    turns,
    witness,
)
from gpu.model.departures import Departure
from gpu.model.draft import Draft
from gpu.model.drain_plan import Circumstances
from gpu.model.guard import Tally
from gpu.model.guests import Guest
from gpu.model.orders import Accepted
from gpu.model.rounds import Rules, Step
from gpu.model.seating import Line, Seated
from gpu.model.sightings import Sightings
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.meta import ObjectKey
from gpu.units import NodeName

_LIVES: Final = frozenset({Guest.RUNNING, Guest.STARTING, Guest.PROVISIONING})


class Why(StrEnum):
    """What a claim's fate rests on."""

    AT_ONCE = "AtOnce"
    """It moves by itself."""
    WHEN_PODS_END = "WhenPodsEnd"
    """It moves once pods that end have ended."""
    WHEN_STOPPED = "WhenStopped"
    """It moves once its VM is stopped."""
    GUEST_ENDED = "GuestEnded"
    """Its guest is gone with the node, or is ended there: it moves at once and its VM starts anew."""
    NO_ROOM = "NoRoom"
    """No other node has room for all of its set."""
    GUEST_MAY_RUN = "GuestMayRun"
    """Its guest is left alone where it was."""
    CLASS_STAYS = "ClassStays"
    """A class of its set stays through a cordon."""
    HELD_BACK = "HeldBack"
    """The guard asks a person first."""
    CLASS_RETIRED = "ClassRetired"
    """It is an order that is not bound yet, and a retired class takes none."""
    OVER_BUDGET = "OverBudget"
    """The budget does not cover it; what holds units keeps them."""
    REBOUND = "Rebound"
    """It is Lost, and finds a node."""
    BOUND = "Bound"
    """It is an order, and finds a node."""
    LET_IN = "LetIn"
    """It is a VM at the gate, and finds a node."""


GOES: Final = frozenset({Why.AT_ONCE, Why.GUEST_ENDED, Why.WHEN_PODS_END})
"""It leaves its node and is bound to another, at once or once its pods have ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What becomes of one set that its node cannot keep."""

    set_id: str
    claims: tuple[GPUClaim, ...]
    node: NodeName
    why: Why
    to: NodeName | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What a cluster comes to."""

    left: Mapping[str, Left]
    """By set id; those that the guard asks about included."""
    bound: Mapping[ObjectKey, NodeName]
    """Lost claims and orders that find a node, in their turn."""
    seated: tuple[Seated, ...] = ()
    """VMs without any claim that are let through the gate, in their turn."""


def settle(draft: Draft, about: Circumstances) -> Settled:
    """Return what becomes of all sets that leave and of all that waits; the draft is used up by it."""
    going, tally = _leaving(draft, about)
    line = seating.line(draft.snapshot, about.facts) if about.facts else None
    course = _Course(draft=draft, about=about, tally=tally, line=line)
    course.run(going)
    if course.waits:
        course.end_guests()
        course.run(())
    return Settled(left=course.left, bound=course.bound, seated=tuple(course.seated))


@dataclass(slots=True, kw_only=True)
class _Course:
    """Passes that are worked out one after the other, and what has come of them."""

    draft: Draft
    about: Circumstances
    tally: Tally
    line: Line | None
    left: dict[str, Left] = field(default_factory=dict)
    bound: dict[ObjectKey, NodeName] = field(default_factory=dict)
    seated: list[Seated] = field(default_factory=list)
    waits: dict[str, Departure] = field(default_factory=dict)

    @property
    def rules(self) -> Rules:
        """What rounds go by."""
        now = rounds.as_of(self.draft.snapshot)
        return Rules(running=self.about.running, now=now, closed=frozenset())

    def run(self, going: Iterable[Departure]) -> None:
        """Pass after pass until one changes nothing."""
        rules, going = self.rules, list(going)
        is_news = True
        while is_news:
            with self.draft.savepoint():  # what one pass promises is found anew by the next
                seated = list(self.line.turns(self.draft)) if self.line else []
                steps = list(rounds.of(self.draft, going, self.tally, rules))
                came = list(_bind(self.draft))
            fresh = [one for one in steps if one.departure.item.id not in self.waits]
            self._note(fresh, seated, came)
            stirs = any(one.goes or _ends_a_guest(one) for one in fresh)
            is_news = bool(came or seated or stirs)
            going = departures.by_turn(_next(one) for one in steps if not one.goes)
            shown = self.tally.shown.union(*self.tally.held_back.values())
            self.tally = replace(self.tally, shown=shown)

    def _note(
        self,
        steps: list[Step],
        seated: Iterable[Seated],
        came: Iterable[tuple[GPUClaim, NodeName]],
    ) -> None:
        """Keep what a pass came to, and have the draft show it."""
        self.left |= {one.departure.item.id: _left(one) for one in steps}
        self.waits |= {one.departure.item.id: one.departure for one in steps if one.waits}
        for one in seated:
            seating.show(self.draft, one)
            self.seated.append(one)
        if self.line:
            self.line.go(seated)
        for step in steps:
            if step.goes and step.to is not None:
                rounds.move(self.draft, step.departure, step.to)
        for claim, node in came:
            self.draft.bind(claim, node)
        self.bound |= _waited(came)

    def end_guests(self) -> None:
        """Have all that ends have ended: each set that waits for that goes where there is room."""
        now = self.rules.now
        for one in departures.by_turn(map(rounds.ended, self.waits.values())):
            to = departures.elsewhere(self.draft, one, rounds.NOBODY, now)
            if to is not None:
                rounds.move(self.draft, one, to)
            known = self.left[one.item.id]
            self.left[one.item.id] = replace(known, to=to, why=known.why if to else Why.NO_ROOM)


def _leaving(draft: Draft, about: Circumstances) -> tuple[list[Departure], Tally]:
    """Return what leaves its node as the draft's snapshot has it, and the guard's count of that."""
    snapshot = draft.snapshot
    now = rounds.as_of(snapshot)
    looking = witness.of(snapshot, (), Sightings(), Grace(), now)
    troubles = keeping.troubles(draft, now, looking.grace)
    going = departures.in_order(looking, draft.sets, troubles) if troubles else []
    nodes = {one.trouble.node for one in going}
    tally = guard.tally(
        draft.sets,
        [one.leaving for one in going],
        now=now,
        guard=about.guard,
        acknowledged=guard.acknowledged(about.binders, snapshot.inventory.values(), nodes),
        shown=guard.told(about.binders),
    )
    return going, tally


def _ends_a_guest(step: Step) -> bool:
    return step.waits and step.departure.guest in _LIVES


def _next(step: Step) -> Departure:
    """Return a departure as the next pass finds it: a guest that is ended is ending by then."""
    one = step.departure
    return replace(one, guest=Guest.ENDING) if _ends_a_guest(step) else one


def _left(step: Step) -> Left:
    one = step.departure
    why = Why.GUEST_MAY_RUN
    if step.held_back:
        why = Why.HELD_BACK
    elif step.goes:
        why = Why.AT_ONCE
    elif step.waits:
        why = Why.GUEST_ENDED if one.guest in _LIVES else Why.WHEN_PODS_END
    elif step.to is None:
        why = Why.NO_ROOM
    return Left(set_id=one.item.id, claims=one.claims, node=one.trouble.node, why=why, to=step.to)


def _bind(draft: Draft) -> Iterator[tuple[GPUClaim, NodeName]]:
    """Bind Lost claims and orders as the binder goes through them; yield what is bound, as it was.

    So are claims that go along with an order of their VM.
    """
    for turn in turns.turns(draft, reach.by_record(draft)):
        if turn.node is not None:
            for claim in turn.claims:
                draft.bind(claim, turn.node)
                yield claim, turn.node
    for claim in orders.waiting(draft):
        verdict = orders.judge(draft, orders.of(claim, mates.of(draft, claim)))
        if isinstance(verdict, Accepted):
            for one in (*verdict.gathered, claim):
                draft.bind(one, verdict.node)
                yield one, verdict.node


def _waited(came: Iterable[tuple[GPUClaim, NodeName]]) -> dict[ObjectKey, NodeName]:
    """Return where what held no units is bound: claims that only go along held theirs."""
    return {claim.key: node for claim, node in came if claim.phase is not Phase.BOUND}
