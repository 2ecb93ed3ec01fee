"""Waiters: everything that waits for units at one instant, in turn, and how a place in the queue is told.

Lost sets come first, then orders and starts at the gate, by age; a start of which something is Lost
comes before all others. Found once for a snapshot and shared by all who ask: values only, so
that what is kept never holds the snapshot it was found in.
"""

import bisect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gpu.model import orders, placement, reach, refusals, sets, starts, turns
from gpu.model.draft import Age, Draft
from gpu.model.gate_reasons import GateReason
from gpu.model.reach import Reach
from gpu.model.refusals import Refusal
from gpu.model.snapshot import Snapshot
from gpu.model.starts import Start
from gpu.objects import meta
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.meta import ObjectKey
from gpu.units import ClassName, NodeName, ResourceName, TenantName

WAITING: Final = "Waiting"
DEGRADED: Final = "Degraded"
WRITE_REFUSED: Final = "WriteRefused"
"""Reason in a claim's conditions: the API server refuses to store where it is placed."""
_ROOM: Final = ("room",)

Turn = tuple[bool, Age]
OfRoom = (
    refusals.NoNodeServes
    | refusals.NoNodeEligible
    | refusals.NoFreeUnits
    | refusals.NoNodeAccepts
    | refusals.NoNodeForSet
)
"""Refusals that units on a node cure."""


class Queued(StrEnum):
    """Place in the queue of what it waits for; not told more exactly, or it would tell of others."""

    FIRST = "first"
    UNDER_10 = "under 10"
    UNDER_100 = "under 100"
    MORE = "more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """An order or a start."""

    age: Age
    tenant: TenantName
    units: Mapping[ResourceName, int]
    """Units of each resource that it asks for, its VM's other claims not counted."""
    refusals: tuple[Refusal, ...] = ()
    """Of an order, at its turn; none when it can be bound now."""
    is_loose: bool = False
    """An order of a VM: claims that it holds already may move with it, and nobody knows which."""
    is_start: bool = False
    """Why it waits is not looked at here."""
    has_lost: bool = False

    turn: Turn = field(init=False)
    """How it is told from those that come before it."""

    def __post_init__(self) -> None:
        """Make the turn: it is compared again and again."""
        object.__setattr__(self, "turn", (not self.has_lost, self.age))


@dataclass(frozen=True, slots=True, kw_only=True)
class LostSet:
    """A Lost set, as its turn was."""

    claims: tuple[GPUClaim, ...]
    """Its Lost members."""
    reach: Reach
    refusals: tuple[Refusal, ...]
    """None when all of it can be bound now."""
    would_move: bool
    """It belongs where its guest may run, and another node has room for all of it."""
    resources: frozenset[ResourceName]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiters:
    """All that waits, in turn."""

    lost: tuple[LostSet, ...]
    others: tuple[Waiter, ...]
    starts: tuple[Start, ...]
    orders: Mapping[TenantName, list[GPUClaim]]
    """Of each tenant, oldest first."""
    places: Mapping[tuple[bool, ObjectKey], Queued]
    """By whether it is a start, and its key."""
    unstored: tuple[GPUClaim, ...]
    """Bound claims that should be elsewhere, which the API server refuses to store."""
    index: "_Index"
    cordoned: tuple[NodeName, ...] = ()
    nodes: dict[object, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    """For `explain`: how many nodes have which reason, by what was asked."""
    judged: dict[ObjectKey, tuple[GateReason, ...]] = field(default_factory=dict)
    """For `explain_starts`: why each start waits, once that was asked."""

    def alike(self, turn: Turn, reason: GateReason) -> Iterator[Waiter]:
        """Yield orders that come before a turn and that may be let in by what cures a reason."""
        for one in self.index.by_cure.get(_cure(reason), ()):
            if one.turn >= turn:
                break
            yield one

    @property
    def started(self) -> tuple[Waiter, ...]:
        """Those that are starts, in turn."""
        return self.index.starts

    def least_before(self, turn: Turn, resource: ResourceName) -> int | None:
        """Return the fewest units that somebody before a turn waits for and lacks nothing but; 0 is unknown.

        None where nobody does.
        """
        if self.index.loose is not None and self.index.loose < turn:
            return 0
        if any(resource in one.units and one.turn < turn for one in self.index.starts):
            return 0
        short = self.index.short.get(resource, ())
        found = bisect.bisect_left(short, turn, key=lambda one: one[0])
        return short[found - 1][1] if found else None

    def short_before(self, turn: Turn, resource: ResourceName, most: int) -> int:
        """Return what those before a turn may take who lack units alone, none of them more than `most`."""
        short = self.index.short.get(resource, ())
        found = bisect.bisect_left(short, turn, key=lambda one: one[0])
        return sum(units for _, _, units in short[:found] if units <= most)

    def freed(self, line: Iterable[TenantName], but: Age) -> list[Waiter]:
        """Return orders that may be let in once budgets of these tenants are used less."""
        over = self.index.over
        tenants = frozenset(line)
        found = over.get(tenants)
        if found is None:
            found = over[tenants] = [
                one for one in self.index.short_of_budget if _is_over(one, tenants)
            ]
        return [one for one in found if one.age != but]

    def has_stuck(self, resource: ResourceName) -> bool:
        """Say whether a Lost set waits for units of a resource: any that come free may be kept for it."""
        return any(resource in one.resources and one.refusals for one in self.lost)


Cure = tuple[object, ...]
"""What refusals have in common that one change cures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    """Orders by what may let them in, each list in turn."""

    starts: tuple[Waiter, ...]
    by_cure: Mapping[Cure, list[Waiter]]
    short: Mapping[ResourceName, list[tuple[Turn, int, int]]]
    """Of those that lack room alone: turn, the fewest units up to it, its own units."""
    loose: Turn | None
    """Of the first order of a VM that lacks room: nobody knows what it takes with it."""
    short_of_budget: list[Waiter]
    """Those that lack nothing but budgets, of one tenant or several."""
    over: dict[frozenset[TenantName], list[Waiter]] = field(default_factory=dict)


def of(snapshot: Snapshot) -> Waiters:
    """Return all that waits in a snapshot; found at the first question."""
    known = snapshot.memo.waiters
    if not isinstance(known, Waiters):
        known = snapshot.memo.waiters = _found(snapshot)
    return known


def told(older: int) -> Queued:
    """Tell how many come before, roughly."""
    if not older:
        return Queued.FIRST
    if older < 10:  # noqa: PLR2004 - as Queued says
        return Queued.UNDER_10
    return Queued.UNDER_100 if older < 100 else Queued.MORE  # noqa: PLR2004 - as Queued says


def _found(snapshot: Snapshot) -> Waiters:
    orders.queued(snapshot)
    draft = Draft.of(snapshot)
    gated = tuple(one for one in starts.waiting(draft) if not one.is_plain)
    lost = tuple(_lost(draft))
    by_tenant: dict[TenantName, list[GPUClaim]] = {}
    for claim in orders.waiting(snapshot):
        by_tenant.setdefault(claim.tenant, []).append(claim)
    ordered = [
        ((False, claim.key), _of_order(snapshot, claim))
        for claim in orders.waiting(snapshot)
        if claim.class_name in snapshot.classes
    ]
    started = [((True, start.key), _of_start(draft, start)) for start in gated]
    others = sorted((*ordered, *started), key=lambda one: one[1].turn)
    return Waiters(
        lost=lost,
        others=tuple(waiter for _, waiter in others),
        index=_indexed(waiter for _, waiter in others),
        cordoned=tuple(node.name for node in snapshot.nodes.values() if node.cordoned),
        unstored=tuple(
            claim
            for claim in snapshot.claims.values()
            if claim.phase is Phase.BOUND and is_unstored(claim)
        ),
        starts=gated,
        orders=by_tenant,
        places=dict(_places(draft, lost, others)),
    )


def is_unstored(claim: GPUClaim) -> bool:
    """Say whether a claim tells that its placement is not stored."""
    told = meta.condition(claim.conditions, DEGRADED if claim.phase is Phase.BOUND else WAITING)
    return told is not None and told.reason == WRITE_REFUSED


def _indexed(others: Iterable[Waiter]) -> _Index:
    by_cure: dict[Cure, list[Waiter]] = {}
    short: dict[ResourceName, list[tuple[Turn, int, int]]] = {}
    started: list[Waiter] = []
    over: list[Waiter] = []
    for one in others:
        if one.is_start:
            started.append(one)
            continue
        if one.refusals and all(isinstance(it, refusals.OverBudget) for it in one.refusals):
            over.append(one)
        cures = {_cure(refusal) for refusal in one.refusals}
        if len(cures) != 1:
            continue
        cure = cures.pop()
        by_cure.setdefault(cure, []).append(one)
        if cure == _ROOM:
            for resource, units in one.units.items():
                known = short.setdefault(resource, [])
                known.append((one.turn, min(units, known[-1][1]) if known else units, units))
    loose = [one.turn for one in by_cure.get(_ROOM, ()) if one.is_loose]
    return _Index(
        starts=tuple(started),
        by_cure=by_cure,
        short=short,
        loose=min(loose, default=None),
        short_of_budget=over,
    )


def _cure(reason: GateReason) -> Cure:
    match reason:
        case refusals.OverBudget():
            return (refusals.OverBudget, reason.key, reason.tenant)
        case refusals.NotPermitted(_, resource):
            return (refusals.NotPermitted, resource)
        case refusals.NotEntitled():
            return (refusals.NotEntitled,)
        case _ if isinstance(reason, OfRoom):
            return _ROOM
        case _:
            return (reason,)


def _is_over(one: Waiter, tenants: frozenset[TenantName]) -> bool:
    return all(isinstance(it, refusals.OverBudget) and it.tenant in tenants for it in one.refusals)


def _lost(draft: Draft) -> Iterator[LostSet]:
    if not draft.lost:
        return
    for turn in turns.turns(draft, reach.by_record(draft)):
        asked = sets.wants(turn.claims)
        known = {name: units for name, units in asked.items() if name in draft.snapshot.classes}
        is_held_up = turn.reach.is_tied and turn.node is None
        yield LostSet(
            claims=turn.claims,
            reach=turn.reach,
            refusals=turn.refusals,
            would_move=is_held_up
            and placement.choose(draft, asked, turn.reach.without) is not None,
            resources=frozenset(placement.by_resource(draft, known)),
        )


def _of_order(snapshot: Snapshot, claim: GPUClaim) -> Waiter:
    return Waiter(
        age=claim.age,
        tenant=claim.tenant,
        units={snapshot.classes[claim.class_name].resource: claim.count},
        refusals=snapshot.memo.refused.get(claim.key, ()),
        is_loose=sets.vm_of(claim, snapshot.named) is not None,
    )


def _of_start(draft: Draft, start: Start) -> Waiter:
    known = {name: units for name, units in start.wants.items() if name in draft.snapshot.classes}
    units = placement.by_resource(draft, known)
    for resource, amount in start.raw.items():
        units[resource] = units.get(resource, 0) + amount
    return Waiter(
        age=start.age,
        tenant=start.tenant,
        units=units,
        is_start=True,
        has_lost=start.has_lost,
    )


def _places(
    draft: Draft, lost: tuple[LostSet, ...], others: list[tuple[tuple[bool, ObjectKey], Waiter]]
) -> Iterator[tuple[tuple[bool, ObjectKey], Queued]]:
    """Yield how many wait before each for the same resource: of several, where it is furthest back."""
    before: dict[ResourceName, int] = {}
    for found in lost:
        told_of = [(claim, _resource(draft, claim.class_name)) for claim in found.claims]
        for claim, resource in told_of:
            yield (False, claim.key), told(before.get(resource, 0) if resource else 0)
        for _, resource in told_of:
            if resource:
                before[resource] = before.get(resource, 0) + 1
    for place, waiter in others:
        yield place, told(max((before.get(name, 0) for name in waiter.units), default=0))
        for name in waiter.units:
            before[name] = before.get(name, 0) + 1


def _resource(draft: Draft, name: ClassName) -> ResourceName | None:
    found = draft.snapshot.classes.get(name)
    return found.resource if found else None
