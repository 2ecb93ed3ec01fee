"""Keeping: why a node cannot keep a set any more, since when, and when that is borne no longer.

A clock lies in objects: readiness has its own instant, a cordon and a taint need none, and for what
has none the claim's condition Degraded is the clock. So a new leader counts on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gpu.config import Grace
from gpu.model import coverage, eligibility, guests
from gpu.model.draft import Draft
from gpu.model.guests import Guest
from gpu.model.sets import ClaimSet
from gpu.objects import meta
from gpu.objects.claims import Cause, GPUClaim, Phase
from gpu.objects.classes import GPUClass, OnCordon
from gpu.objects.nodes import OUT_OF_SERVICE, Node
from gpu.units import NodeName, ResourceName

DEGRADED: Final = "Degraded"

CAUSES: Final = (
    Cause.NODE_GONE,
    Cause.NODE_NOT_READY,
    Cause.UNITS_MISSING,
    Cause.NODE_TAINTED,
    Cause.NODE_CORDONED,
)
"""Worst first: of several that are due, a set moves for the first."""

JUDGED_ELSEWHERE: Final = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable",
    }
)
"""Taints that say again what readiness and the cordon say."""
_CONDITION_TAINTS: Final = "node.kubernetes.io/"
"""Kubernetes puts such taints on and takes them off as a node's condition changes: pressure of
memory, disk or processes, or no network. They come and go; a person's taint stays."""

_AT_EASE: Final = {
    Guest.OFF: 0,
    Guest.GATED: 0,
    Guest.PROVISIONING: 0,
    Guest.ENDING: 1,
    Guest.STARTING: 2,
    Guest.RUNNING: 3,
}
"""How much a guest minds a move; the idle go first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why one set cannot stay on its node."""

    node: NodeName
    cause: Cause
    since: datetime | None
    """When it began, as far as objects tell; None for a cordon, which has no clock."""
    over: datetime
    """When the grace is over."""

    def is_due(self, now: datetime) -> bool:
        """Say whether it is borne no longer."""
        return self.over <= now


def troubles(draft: Draft, now: datetime, grace: Grace) -> dict[str, Trouble]:
    """Return what each set suffers from, by set id; sets that are kept well are not in it.

    A set with a Lost member is none of this: it is put together first. Members that are being
    deleted stay where they are until they are let go.
    """
    on: dict[NodeName, list[ClaimSet]] = {}
    suspects = _suspects(draft)
    if not suspects:
        return {}
    for item in draft.sets:
        if not any(claim.phase is Phase.LOST and not claim.meta.deleting for claim in item.claims):
            for node in {claim.node for claim in placed(item) if claim.node in suspects}:
                on.setdefault(node, []).append(item)
    found: dict[str, list[Trouble]] = {}
    for node in sorted(on):
        for item, trouble in _on_node(draft, node, on[node], now, grace):
            found.setdefault(item.id, []).append(trouble)
    return {set_id: _worst(several, now) for set_id, several in found.items()}


def placed(item: ClaimSet) -> tuple[GPUClaim, ...]:
    """Return the members that hold units and are not being deleted: what a move is about."""
    return tuple(
        claim
        for claim in item.claims
        if coverage.node_held(claim) is not None and not claim.meta.deleting
    )


def leaves_a_cordon(draft: Draft, item: ClaimSet) -> bool:
    """Say whether no class of a set stays through a cordon."""
    return all(offer.on_cordon is OnCordon.MOVE for offer in _offers(draft, item))


def degraded_since(claims: Iterable[GPUClaim], cause: Cause | None = None) -> datetime | None:
    """Return since when the first of these claims says so, for a cause or for any of them."""
    reasons = {item.value for item in CAUSES} if cause is None else {cause.value}
    told = (meta.condition(claim.conditions, DEGRADED) for claim in claims)
    return min(
        (item.since for item in told if item and item.since and item.reason in reasons),
        default=None,
    )


def _suspects(draft: Draft) -> set[NodeName]:
    """Return nodes with which anything may be wrong for what is held there; most have nothing."""
    on, nodes = draft.indexed().by_node.keys(), draft.snapshot.nodes
    found = set(on - nodes.keys())
    for name, node in nodes.items():
        if (not node.ready or node.taints or node.cordoned) and name in on:
            found.add(name)
    for resource, room in draft.ledger.held.items():
        served = draft.snapshot.capacities.get(resource, {})
        found.update(
            name for name, units in room.items() if units > served.get(name, 0) and name in on
        )
    return found


def _on_node(
    draft: Draft, name: NodeName, found: Sequence[ClaimSet], now: datetime, grace: Grace
) -> Iterator[tuple[ClaimSet, Trouble]]:
    """Yield every trouble of the sets of one node."""
    asked = _Asked(draft=draft, name=name, now=now, claims=draft.indexed().by_node.get(name, ()))
    node = draft.snapshot.nodes.get(name)
    if node is None:
        gone = asked.trouble(Cause.NODE_GONE, asked.clock(Cause.NODE_GONE), 0)
        yield from ((item, gone) for item in found)
        return
    if not node.ready:
        since = node.ready_since or asked.clock(Cause.NODE_NOT_READY)
        borne = 0 if node.out_of_service else grace.not_ready
        unready = asked.trouble(Cause.NODE_NOT_READY, since, borne)
        yield from ((item, unready) for item in found)
    for item in asked.short_of_units(found):
        since = asked.clock(Cause.UNITS_MISSING)
        yield item, asked.trouble(Cause.UNITS_MISSING, since, grace.degraded)
    if node.taints:
        yield from _tainted(asked, node, found, grace)
    if node.cordoned:
        cordoned = asked.trouble(Cause.NODE_CORDONED, None, 0)
        yield from ((item, cordoned) for item in found if leaves_a_cordon(draft, item))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One node, its Bound claims, and the instant of the question."""

    draft: Draft
    name: NodeName
    now: datetime
    claims: tuple[GPUClaim, ...]

    def clock(self, cause: Cause) -> datetime:
        """Return since when a claim here says so; else now, in whole seconds as it is stored."""
        return degraded_since(self.claims, cause) or self.now.replace(microsecond=0)

    def trouble(self, cause: Cause, since: datetime | None, grace: float) -> Trouble:
        over = self.now if since is None else since + timedelta(seconds=grace)
        return Trouble(node=self.name, cause=cause, since=since, over=over)

    def short_of_units(self, found: Iterable[ClaimSet]) -> list[ClaimSet]:
        """Return as many sets as the shortage needs: idle ones first, then the youngest."""
        missing = self._missing()
        if not missing:
            return []
        snapshot = self.draft.snapshot
        willing = sorted(found, key=lambda item: item.age, reverse=True)
        willing.sort(key=lambda item: _AT_EASE[guests.of(snapshot, item)])
        chosen: list[tuple[ClaimSet, dict[ResourceName, int]]] = []
        for item in willing:
            units = self._units(placed(item))
            if any(missing[name] > 0 for name in units.keys() & missing.keys()):
                chosen.append((item, units))
                _add(missing, units, -1)
        for entry in reversed(chosen):
            if all(
                missing[name] + units <= 0 for name, units in entry[1].items() if name in missing
            ):
                chosen.remove(entry)
                _add(missing, entry[1], +1)
        return [item for item, _ in chosen]

    def _missing(self) -> dict[ResourceName, int]:
        """Return units held beyond what the node serves. What is being deleted goes by itself."""
        held = self._units(claim for claim in self.claims if not claim.meta.deleting)
        served = self.draft.snapshot.capacities
        short = {
            name: units - served.get(name, {}).get(self.name, 0) for name, units in held.items()
        }
        return {name: units for name, units in short.items() if units > 0}

    def _units(self, claims: Iterable[GPUClaim]) -> dict[ResourceName, int]:
        units: dict[ResourceName, int] = {}
        for claim in claims:
            offer = self.draft.snapshot.classes.get(claim.class_name)
            if offer is not None and coverage.node_held(claim) == self.name:
                units[offer.resource] = units.get(offer.resource, 0) + claim.count
        return units


def _add(missing: dict[ResourceName, int], units: Mapping[ResourceName, int], sign: int) -> None:
    for name in units.keys() & missing.keys():
        missing[name] += sign * units[name]


def _tainted(
    asked: _Asked, node: Node, found: Iterable[ClaimSet], grace: Grace
) -> Iterator[tuple[ClaimSet, Trouble]]:
    """Yield sets with a class that does not tolerate the node's taints."""
    for item in found:
        offers = _offers(asked.draft, item)
        keys = {
            taint.key
            for taint in node.taints
            if taint.effect in {"NoSchedule", "NoExecute"}
            and taint.key not in JUDGED_ELSEWHERE
            and not all(
                any(eligibility.tolerates(one, taint) for one in offer.tolerations)
                for offer in offers
            )
        }
        if keys:
            passes = all(
                key.startswith(_CONDITION_TAINTS) and key != OUT_OF_SERVICE for key in keys
            )
            since = asked.clock(Cause.NODE_TAINTED)
            borne = grace.degraded if passes else 0
            yield item, asked.trouble(Cause.NODE_TAINTED, since, borne)


def _offers(draft: Draft, item: ClaimSet) -> list[GPUClass]:
    known = draft.snapshot.classes
    return [known[claim.class_name] for claim in placed(item) if claim.class_name in known]


def _worst(several: Iterable[Trouble], now: datetime) -> Trouble:
    return min(
        several, key=lambda item: (not item.is_due(now), CAUSES.index(item.cause), item.node)
    )
