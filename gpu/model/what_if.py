"""What-ifs: which claims one change would put over budget, lose, move, leave stuck or let in.

The cluster as it is with one thing changed, decided by what the binder decides by: the same walks over
a snapshot of its own. Nothing is changed, stored or reserved, and the snapshot that was asked is
left as it was. A VM that waits at the gate is told of as long as it has no claim; else its claims are.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from gpu.model import advance, drain_plan, keeping, settling, starts
from gpu.model.draft import Draft
from gpu.model.drain_plan import Circumstances, Outcome
from gpu.model.settling import Left, Settled, Why
from gpu.model.snapshot import Snapshot
from gpu.model.starts import Start
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.meta import ObjectKey
from gpu.objects.nodes import Node
from gpu.units import ClassName, NodeName

_HOSTNAME: Final = "kubernetes.io/hostname"
"""Says which node it is; all other labels say what it is like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """One claim, and what becomes of it."""

    claim: GPUClaim
    """As it is now."""
    why: Why
    to: NodeName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFate:
    """One VM that waits at the gate, and what becomes of it."""

    start: Start
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
    starts_let_in: tuple[StartFate, ...] = ()
    """VMs that wait at the gate without a claim and would be let through, in their turn."""
    starts_stuck: tuple[StartFate, ...] = ()
    """Those that would be let through as things are, or whose class takes none any more."""


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
    settled = settling.settle(Draft.of(after), about)
    told = [one for one in settled.left.values() if one.node == name]
    lost: list[Fate] = []
    movable: list[Fate] = []
    stuck: list[Fate] = []
    for one in told:
        into = stuck if one.why is Why.HELD_BACK else lost if one.why in _LOSES else movable
        into += _fates(one, to=None if into is lost else one.to)
    return Answer(
        lost=tuple(lost),
        movable=tuple(movable),
        stuck=tuple(stuck),
        held_back=sum(one.why is Why.HELD_BACK for one in told),
    )


_LOSES: Final = frozenset({Why.NO_ROOM, Why.GUEST_MAY_RUN})


def retire_class(snapshot: Snapshot, name: ClassName) -> Answer:
    """Return which orders of a class are not bound any more once it is retired; holders keep theirs.

    Raises KeyError for a class that does not exist.
    """
    if name not in snapshot.classes:
        raise KeyError(name)
    waiting = (claim for claim in snapshot.pending if claim.class_name == name)
    starting = (one for one in starts.waiting(Draft.of(snapshot)) if name in one.missing)
    return Answer(
        stuck=tuple(Fate(claim=claim, why=Why.CLASS_RETIRED) for claim in waiting),
        starts_stuck=tuple(StartFate(start=one, why=Why.CLASS_RETIRED) for one in starting),
    )


def add_nodes(snapshot: Snapshot, about: Circumstances, like: NodeName, count: int) -> Answer:
    """Return what `count` more nodes let in that serve what one serves, empty, Ready and not cordoned.

    Raises KeyError for a node that does not exist.
    """
    model = snapshot.nodes[like]
    fresh = tuple(_copy(model, number, snapshot.nodes) for number in range(1, count + 1))
    every = tuple(sorted((*snapshot.given.nodes, *fresh), key=lambda node: node.meta.key))
    after = advance.advance(snapshot, replace(snapshot.given, nodes=every), snapshot.settings)
    before = settling.settle(Draft.of(snapshot), about)
    now = settling.settle(Draft.of(after), about)
    went = {one.set_id for one in before.left.values() if one.why in settling.GOES}
    gone = [one for one in now.left.values() if one.why in settling.GOES and one.set_id not in went]
    moved = [fate for one in gone for fate in _fates(one, to=one.to)]
    return Answer(
        movable=tuple(moved),
        let_in=tuple(newly(snapshot, before.bound, now.bound)),
        starts_let_in=tuple(newly_seated(before, now)),
    )


def newly(
    before: Snapshot, known: Mapping[ObjectKey, NodeName], now: Mapping[ObjectKey, NodeName]
) -> Iterator[Fate]:
    """Yield the claims that would be bound now and were not before, in their turn."""
    for key, to in now.items():
        if key not in known:
            claim = before.claims[key]
            why = Why.REBOUND if claim.phase is Phase.LOST else Why.BOUND
            yield Fate(claim=claim, why=why, to=to)


def newly_seated(before: Settled, now: Settled) -> Iterator[StartFate]:
    """Yield the VMs that would be let through now and were not before, in their turn."""
    known = {one.start.key for one in before.seated}
    for one in now.seated:
        if one.start.key not in known:
            yield StartFate(start=one.start, why=Why.LET_IN, to=one.node)


def _fates(left: Left, to: NodeName | None) -> Iterator[Fate]:
    return (Fate(claim=claim, why=left.why, to=to) for claim in left.claims)


def _copy(model: Node, number: int, known: Mapping[NodeName, Node]) -> Node:
    name = f"added-{number}"
    while name in known:
        name = f"{name}-x"
    taints = tuple(taint for taint in model.taints if taint.key not in keeping.JUDGED_ELSEWHERE)
    labels = dict(model.meta.labels)
    if _HOSTNAME in labels:
        labels[_HOSTNAME] = name
    return replace(
        model,
        meta=replace(model.meta, name=name, uid=f"{name}-uid", labels=labels, deleting=False),
        ready=True,
        cordoned=False,
        taints=taints,
    )
