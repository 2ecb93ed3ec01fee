"""What-ifs: which claims one change would put over budget, lose, move, leave stuck or let in.

The cluster as it is with one thing changed, decided by what the binder decides by: the same walks over
a snapshot of its own. Nothing is changed, stored or reserved, and the snapshot that was asked is
left as it was. VMs that wait at the gate are not told of: what their launchers ask beside units is
not known here.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from gpu.config import Grace
from gpu.model import (
    advance,
    departures,
    drain_plan,
    evidence,
    guard,
    keeping,
    mates,
    orders,
    reach,
    turns,
)
from gpu.model.drain_plan import Circumstances, Outcome, Rules, Step
from gpu.model.guests import Guest
from gpu.model.orders import Accepted
from gpu.model.rejections import Rejections
from gpu.model.sightings import Sightings
from gpu.model.snapshot import Draft, Snapshot
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.meta import ObjectKey
from gpu.objects.nodes import Node
from gpu.units import ClassName, NodeName

_NOBODY: Final = Rejections()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """One claim, and what becomes of it."""

    claim: GPUClaim
    """As it is now."""
    why: Why
    to: NodeName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one change comes to; a claim is in one of these at most, oldest set first."""

    over: tuple[Fate, ...] = ()
    """Those that a budget does not cover any more, youngest first: without them it would be kept."""
    lost: tuple[Fate, ...] = ()
    movable: tuple[Fate, ...] = ()
    stuck: tuple[Fate, ...] = ()
    let_in: tuple[Fate, ...] = ()
    """Those that wait now and would be bound."""
    held_back: int = 0
    """Sets that the guard would ask a person about."""


def nodes(snapshot: Snapshot) -> frozenset[NodeName]:
    """Return the nodes that can be asked about: they serve a class, or something is held there."""
    serving = {node for rooms in snapshot.capacities.values() for node in rooms}
    return frozenset(serving | snapshot.index.by_node.keys()) & snapshot.nodes.keys()


def cordon_node(snapshot: Snapshot, about: Circumstances, name: NodeName) -> Answer:
    """Return what a cordon of a GPU node comes to. Raises KeyError for a node that there is no plan for."""
    if name not in nodes(snapshot):
        raise KeyError(name)
    movable: list[Fate] = []
    stuck: list[Fate] = []
    plan = drain_plan.Table(snapshot, about).plan(name)
    for one in plan.sets:
        claims = [claim for claim in one.claims if not claim.meta.deleting]
        if one.outcome in _STUCK:
            stuck += (Fate(claim=claim, why=_STUCK[one.outcome]) for claim in claims)
        elif one.held_back:
            stuck += (Fate(claim=claim, why=Why.HELD_BACK, to=one.to) for claim in claims)
        elif one.outcome is not Outcome.RELEASE:
            later = Why.AT_ONCE if one.at_once else Why.WHEN_PODS_END
            stops = one.outcome is Outcome.MOVE_WHEN_STOPPED
            why = Why.WHEN_STOPPED if stops else later
            movable += (Fate(claim=claim, why=why, to=one.to) for claim in claims)
    held_back = sum(one.held_back for one in plan.sets)
    return Answer(movable=tuple(movable), stuck=tuple(stuck), held_back=held_back)


_STUCK: Final = {Outcome.STAY: Why.CLASS_STAYS, Outcome.NO_ROOM: Why.NO_ROOM}


def lose_node(snapshot: Snapshot, about: Circumstances, name: NodeName) -> Answer:
    """Return what comes of a node whose Node object goes. Raises KeyError for one that is not there."""
    if name not in snapshot.nodes:
        raise KeyError(name)
    others = tuple(node for node in snapshot.given.nodes if node.name != name)
    after = advance.advance(snapshot, replace(snapshot.given, nodes=others), snapshot.settings)
    told = [one for one in leave(after.draft(), about) if one.node == name]
    lost: list[Fate] = []
    movable: list[Fate] = []
    stuck: list[Fate] = []
    for one in told:
        into = stuck if one.why is Why.HELD_BACK else lost if one.why in _LOSES else movable
        into += one.fates(to=None if into is lost else one.to)
    return Answer(
        lost=tuple(lost),
        movable=tuple(movable),
        stuck=tuple(stuck),
        held_back=sum(one.why is Why.HELD_BACK for one in told),
    )


_LIVES: Final = frozenset({Guest.RUNNING, Guest.STARTING, Guest.PROVISIONING})
_LOSES: Final = frozenset({Why.NO_ROOM, Why.GUEST_MAY_RUN})
GOES: Final = frozenset({Why.AT_ONCE, Why.GUEST_ENDED, Why.WHEN_PODS_END})


def retire_class(snapshot: Snapshot, name: ClassName) -> Answer:
    """Return which orders of a class are not bound any more once it is retired; holders keep theirs.

    Raises KeyError for a class that does not exist.
    """
    if name not in snapshot.classes:
        raise KeyError(name)
    waiting = (claim for claim in snapshot.pending if claim.class_name == name)
    return Answer(stuck=tuple(Fate(claim=claim, why=Why.CLASS_RETIRED) for claim in waiting))


def add_nodes(snapshot: Snapshot, about: Circumstances, like: NodeName, count: int) -> Answer:
    """Return what `count` more nodes let in that serve what one serves, empty, Ready and not cordoned.

    Raises KeyError for a node that does not exist.
    """
    model = snapshot.nodes[like]
    fresh = tuple(_copy(model, number, snapshot.nodes) for number in range(1, count + 1))
    every = tuple(sorted((*snapshot.given.nodes, *fresh), key=lambda node: node.meta.key))
    after = advance.advance(snapshot, replace(snapshot.given, nodes=every), snapshot.settings)
    draft = after.draft()
    before = snapshot.draft()
    went = {one.set_id for one in leave(before, about) if one.why in GOES}
    gone = [one for one in leave(draft, about) if one.why in GOES and one.set_id not in went]
    moved = [fate for one in gone for fate in one.fates(to=one.to)]
    let_in = tuple(newly(snapshot, bound(before), bound(draft)))
    return Answer(movable=tuple(moved), let_in=let_in)


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What becomes of one set that its node cannot keep."""

    set_id: str
    claims: tuple[GPUClaim, ...]
    node: NodeName
    why: Why
    to: NodeName | None

    def fates(self, to: NodeName | None) -> Iterator[Fate]:
        """Yield it claim by claim."""
        return (Fate(claim=claim, why=self.why, to=to) for claim in self.claims)


def leave(draft: Draft, about: Circumstances) -> list[Left]:
    """Return what becomes of all sets that leave their nodes as the draft's snapshot has these.

    The draft shows those gone that find room, once guests that are ended have ended.
    """
    snapshot = draft.snapshot
    now = drain_plan.as_of(snapshot)
    looking = evidence.witness(snapshot, (), Sightings(), Grace(), now)
    troubles = keeping.troubles(draft, now, looking.grace)
    going = departures.in_order(looking, draft.sets, troubles) if troubles else []
    left = {one.trouble.node for one in going}
    tally = guard.tally(
        draft.sets,
        [one.leaving for one in going],
        now=now,
        guard=about.guard,
        acknowledged=guard.acknowledged(about.binders, snapshot.inventory.values(), left),
        shown=guard.told(about.binders),
    )
    rules = Rules(running=about.running, now=now, closed=frozenset())
    with draft.savepoint():
        steps = list(drain_plan.round_of(draft, going, tally, rules))
    found = {step.departure.item.id: _left(step) for step in steps}
    for step in steps:
        if step.goes and step.to is not None:
            drain_plan.move(draft, step.departure, step.to)
    for one in departures.by_turn(drain_plan.ended(step.departure) for step in steps if step.waits):
        to = departures.elsewhere(draft, one, _NOBODY, now)
        if to is not None:
            drain_plan.move(draft, one, to)
        known = found[one.item.id]
        found[one.item.id] = replace(known, to=to, why=known.why if to else Why.NO_ROOM)
    return list(found.values())


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


def newly(
    before: Snapshot, known: Mapping[ObjectKey, NodeName], now: Mapping[ObjectKey, NodeName]
) -> Iterator[Fate]:
    """Yield the claims that would be bound now and were not before, in their turn."""
    for key, to in now.items():
        if key not in known:
            claim = before.claims[key]
            why = Why.REBOUND if claim.phase is Phase.LOST else Why.BOUND
            yield Fate(claim=claim, why=why, to=to)


def bound(draft: Draft) -> Mapping[ObjectKey, NodeName]:
    """Return where each Lost claim and each order would be bound now, as the binder goes through them.

    What leaves its node is served before them: have it `leave` first.
    """
    found: dict[ObjectKey, NodeName] = {}

    def bind(claims: Iterable[GPUClaim], node: NodeName) -> None:
        for claim in claims:
            draft.bind(claim, node)
            found[claim.key] = node

    for turn in turns.turns(draft, reach.by_record(draft)):
        if turn.node is not None:
            bind(turn.claims, turn.node)
    for claim in orders.waiting(draft):
        verdict = orders.judge(draft, orders.of(claim, mates.of(draft, claim)))
        if isinstance(verdict, Accepted):
            for mate in verdict.gathered:
                draft.bind(mate, verdict.node)
            bind((claim,), verdict.node)
    return found


def _copy(model: Node, number: int, known: Mapping[NodeName, Node]) -> Node:
    name = f"added-{number}"
    while name in known:
        name = f"{name}-x"
    taints = tuple(taint for taint in model.taints if taint.key not in keeping.JUDGED_ELSEWHERE)
    return replace(
        model,
        meta=replace(model.meta, name=name, uid=f"{name}-uid", deleting=False),
        ready=True,
        cordoned=False,
        taints=taints,
    )
