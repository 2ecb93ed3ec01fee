"""Drain plans: what each set on a node would do if the node were cordoned now, all else as it is.

The walk of the binder over one node after the other, each on the cluster as it stands: sets leave in the
order in which they are served, and the room that one takes is gone for the next. No clock is read: pods
that only the leader knows to have ended count as running on, a node that refused a launcher stays
refused, and the guard's window ends when a set was displaced last.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from gpu.config import Grace, Guard, RunningGuests
from gpu.model import coverage, departures, guard, guests, keeping, rounds, witness
from gpu.model.departures import Departure
from gpu.model.draft import Draft
from gpu.model.fit_facts import Facts
from gpu.model.guard import Tally
from gpu.model.guests import Guest
from gpu.model.keeping import Trouble
from gpu.model.ledger import Holder
from gpu.model.rounds import Rules, Step
from gpu.model.sets import ClaimSet
from gpu.model.sightings import Sightings
from gpu.model.snapshot import Snapshot
from gpu.objects.binders import GPUBinder
from gpu.objects.claims import Cause, GPUClaim, Phase
from gpu.objects.nodes import Node
from gpu.units import NodeName

_RUN_ON: Final = frozenset({Guest.RUNNING, Guest.PROVISIONING})
"""Guests that a cordon leaves alone."""


class Outcome(StrEnum):
    """What a cordon of its node comes to for one set."""

    MOVE = "Move"
    """It moves to `to`. A start that is under way is ended first, pods that end are waited for."""
    MOVE_WHEN_STOPPED = "MoveWhenStopped"
    """A cordon ends no guest: it moves to `to` once its VM is stopped, if that has room still."""
    STAY = "Stay"
    """A class of it stays through a cordon."""
    NO_ROOM = "NoRoom"
    """No other node has room for all of it."""
    RELEASE = "Release"
    """Its claims are being deleted: they go by themselves once their pods have ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One set, and what would become of it."""

    set_id: str
    claims: tuple[GPUClaim, ...]
    """Its members that hold units on the node, oldest first."""
    vm: Holder | None
    guest: Guest
    outcome: Outcome
    to: NodeName | None = None
    at_once: bool = False
    """It moves in the next pass; else once pods of its own or of others have ended."""
    held_back: bool = False
    """It would move, and the guard asks a person first."""

    @property
    def units(self) -> int:
        """Units that it holds on the node."""
        return sum(claim.count for claim in self.claims)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a cordon of one node would come to."""

    node: Node
    sets: tuple[Planned, ...]
    """In the order they are served: those that a cordon moves, then those whose guest runs, then the
    others by age."""
    guard_id: str
    """What a person would acknowledge where the guard holds sets back."""
    guard_limit: int
    """Sets that may be displaced in a window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What a plan rests on beside the snapshot."""

    guard: Guard
    running: RunningGuests = RunningGuests.RESTART
    binders: tuple[GPUBinder, ...] = ()
    facts: Callable[[Snapshot], Facts] | None = None
    """What pods and volumes there are, for VMs that wait at the gate; None: nobody asks about those."""


def plans(snapshot: Snapshot, about: Circumstances) -> Iterator[Plan]:
    """Yield the plan of every GPU node: one that serves a class, or on which something is held."""
    table = Table(snapshot, about)
    return (table.plan(node) for node in sorted(table.nodes()))


class Table:
    """The plans of one snapshot; what they share is worked out once."""

    __slots__ = ("_about", "_base", "_beside", "_draft", "_looking", "_on", "_snapshot")

    def __init__(self, snapshot: Snapshot, about: Circumstances) -> None:
        """Look at the sets of a snapshot; it is not changed."""
        self._snapshot, self._about = snapshot, about
        self._draft = Draft.of(snapshot)
        found = self._draft.sets
        self._looking = witness.of(snapshot, (), Sightings(), Grace(), rounds.as_of(snapshot))
        self._on: dict[NodeName, list[ClaimSet]] = {}
        for item in found:
            for node in item.nodes:
                self._on.setdefault(node, []).append(item)
        leaving = self._leaving(found)
        self._beside = [one for one in leaving if one.guest not in _RUN_ON]
        self._base = self._tally(found, leaving)

    def nodes(self) -> frozenset[NodeName]:
        """Return the nodes that there is a plan for."""
        serving = {node for rooms in self._snapshot.capacities.values() for node in rooms}
        return frozenset(serving | self._on.keys()) & self._snapshot.nodes.keys()

    def plan(self, name: NodeName) -> Plan:
        """Return the plan of one node."""
        found = self._on.get(name, [])
        trouble = Trouble(node=name, cause=Cause.NODE_CORDONED, since=None, over=self._looking.now)
        leaves = [
            item
            for item in found
            if _is_whole(item) and keeping.leaves_a_cordon(self._draft, item) and _is_kept(item)
        ]
        going = departures.in_order(self._looking, leaves, dict.fromkeys(_ids(leaves), trouble))
        tally = self._tally_of(name, going)
        told: dict[str, Planned] = {}
        with self._draft.savepoint():
            self._rounds(name, going, tally, told)
        was = {one.item.id: one.guest for one in going}
        rest = self._others(name, (item for item in found if item.id not in told))
        return Plan(
            node=self._snapshot.nodes[name],
            sets=(*(_with_guest(told[key], guest) for key, guest in was.items()), *rest),
            guard_id=guard.id_of(name, Cause.NODE_CORDONED, None),
            guard_limit=tally.limit,
        )

    def _rounds(
        self, name: NodeName, going: list[Departure], tally: Tally, told: dict[str, Planned]
    ) -> None:
        """Tell of every departure: what goes at once, once pods have ended, and once VMs are stopped."""
        rules = Rules(running=self._about.running, now=self._looking.now, closed=frozenset({name}))
        beside = [one for one in self._beside if one.trouble.node != name]
        runs = {one.item.id for one in going if one.guest in _RUN_ON}
        left = [one for one in going if one.item.id not in runs]
        held_back: list[Step] = []
        for is_second in (False, True):
            if is_second:
                left = departures.by_turn(map(rounds.ended, left))
            first = departures.by_turn((*beside, *left)) if beside else left
            with self._draft.savepoint():
                steps = [
                    step
                    for step in rounds.of(self._draft, first, tally, rules)
                    if step.departure.trouble.node == name
                ]
            held_back += [step for step in steps if step.held_back]
            for step in steps:
                if step.goes and step.to is not None:
                    rounds.move(self._draft, step.departure, step.to)
                    one, to = step.departure, step.to
                    told[one.item.id] = _planned(name, one, Outcome.MOVE, to, at_once=not is_second)
            apart = {*told, *(step.departure.item.id for step in held_back)}
            left = [one for one in left if one.item.id not in apart]
            if tally.held_back:
                tally = replace(tally, shown=tally.shown | set().union(*tally.held_back.values()))
        for _ in rounds.of(self._draft, beside, tally, rules):
            pass  # what is promised to others is theirs
        asks = bool(tally.held_back)
        for one in (*(step.departure for step in held_back), *left):
            told[one.item.id] = self._last(name, one, Outcome.MOVE, asks=asks)
        for one in departures.by_turn(rounds.ended(one) for one in going if one.item.id in runs):
            told[one.item.id] = self._last(name, one, Outcome.MOVE_WHEN_STOPPED, asks=asks)

    def _last(self, name: NodeName, one: Departure, outcome: Outcome, *, asks: bool) -> Planned:
        """Tell of one that goes after all others, if there is room left; it takes that."""
        to = departures.elsewhere(self._draft, one, rounds.NOBODY, self._looking.now)
        if to is None:
            return _planned(name, one, Outcome.NO_ROOM)
        rounds.move(self._draft, one, to)
        return _planned(name, one, outcome, to, held_back=asks)

    def _tally(self, found: Iterable[ClaimSet], leaving: Iterable[Departure]) -> Tally:
        """Open the guard's count of what was displaced, and of what is on its way already."""
        return guard.tally(
            found,
            [one.leaving for one in leaving],
            now=self._looking.now,
            guard=self._about.guard,
            acknowledged={},
            shown=guard.told(self._about.binders),
        )

    def _leaving(self, found: Iterable[ClaimSet]) -> list[Departure]:
        """Return what leaves its node as things are. An end that is under way is as good as due."""
        now, snapshot = self._looking.now, self._snapshot
        troubles = keeping.troubles(self._draft, now, self._looking.grace)
        if not troubles:
            return []
        for item in found:
            if item.id in troubles and guests.of(snapshot, item) is Guest.ENDING:
                troubles[item.id] = replace(troubles[item.id], over=now)
        return departures.in_order(self._looking, found, troubles)

    def _tally_of(self, name: NodeName, going: Iterable[Departure]) -> Tally:
        told = self._snapshot.inventory.get(name)
        known = guard.acknowledged(self._about.binders, (told,) if told else (), {name})
        on_their_way = {one.item.id for one in going if one.is_on_its_way}
        base = self._base
        return replace(
            base,
            counted=base.counted | on_their_way,
            acknowledged=known,
            held_back={},
            sets=set(),
        )

    def _others(self, name: NodeName, found: Iterable[ClaimSet]) -> Iterator[Planned]:
        for item in found:
            outcome = Outcome.NO_ROOM
            if not _is_kept(item):
                outcome = Outcome.RELEASE
            elif not keeping.leaves_a_cordon(self._draft, item):
                outcome = Outcome.STAY
            yield Planned(
                set_id=item.id,
                claims=_held_on(item, name),
                vm=item.vm,
                guest=guests.of(self._snapshot, item),
                outcome=outcome,
            )


def _planned(
    name: NodeName,
    one: Departure,
    outcome: Outcome,
    to: NodeName | None = None,
    *,
    at_once: bool = False,
    held_back: bool = False,
) -> Planned:
    return Planned(
        set_id=one.item.id,
        claims=_held_on(one.item, name),
        vm=one.item.vm,
        guest=one.guest,
        outcome=outcome,
        to=to,
        at_once=at_once,
        held_back=held_back,
    )


def _with_guest(told: Planned, guest: Guest) -> Planned:
    """Return what is told of a set with its guest as it is now; most are told so already."""
    return told if told.guest is guest else replace(told, guest=guest)


def _is_whole(item: ClaimSet) -> bool:
    """Say whether nothing of it is Lost: one that is in part is put together first."""
    return not any(claim.phase is Phase.LOST and not claim.meta.deleting for claim in item.claims)


def _is_kept(item: ClaimSet) -> bool:
    return bool(keeping.placed(item))


def _held_on(item: ClaimSet, node: NodeName) -> tuple[GPUClaim, ...]:
    return tuple(claim for claim in item.claims if coverage.node_held(claim) == node)


def _ids(found: Iterable[ClaimSet]) -> list[str]:
    return [item.id for item in found]
