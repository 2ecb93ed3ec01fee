"""Guard: how many sets may be made Lost or moved in a while before a person is asked.

Sets are counted that were displaced within the window, that are on their way (their guest was ended
and its pods are not gone), and that this pass displaces. Those of the first node that is gone or not
Ready never count: one real loss is answered at once. What was held back once stays so until it is
acknowledged or its cause passes; time alone lets nothing through. Keeping a torn set together is no
loss and is not counted.
"""

import hashlib
import itertools
import operator
import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from gpu import keys
from gpu.config import Guard
from gpu.model.sets import ClaimSet
from gpu.objects.binders import GPUBinder
from gpu.objects.claims import Cause, Displaced
from gpu.objects.meta import ObjectMeta
from gpu.objects.nodes import GPUNode
from gpu.units import NodeName

LOSSES: Final = frozenset({Cause.NODE_GONE, Cause.NODE_NOT_READY})
"""Causes that take a whole node; the sets of the first such node are never held back."""

CONDITION: Final = "LossesHeldBack"
"""Of GPUBinder: some are held back now."""

_HAS_BOUND: Final = operator.attrgetter("has_bound")
_WAS_DISPLACED: Final = operator.attrgetter("was_displaced")
_IDS: Final = re.compile(rf"{re.escape(keys.ACKNOWLEDGE_LOST_ANNOTATION)}=([0-9a-f,]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """A set that cannot stay on its node, grace and all."""

    set_id: str
    node: NodeName
    cause: Cause
    id: str
    """The guard id: what a person acknowledges."""
    since: datetime | None
    """When the node's trouble began, as far as objects tell; None for a cordon."""
    is_on_its_way: bool = False
    """Its guest was ended or ends; it moves once its pods are gone."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """What one pass has let through and held back so far."""

    limit: int
    counted: set[str] = field(default_factory=set)
    """Sets displaced in the window, on their way, or let through by this pass."""
    exempt: NodeName | None = None
    """The node whose sets never count while it is gone or not Ready."""
    acknowledged: Mapping[NodeName, AbstractSet[str]] = field(default_factory=dict)
    shown: frozenset[str] = frozenset()
    """Guard ids held back when the leader last told."""
    held_back: dict[NodeName, set[str]] = field(default_factory=dict)
    """Guard ids by node."""
    sets: set[str] = field(default_factory=set)
    """Sets held back in this pass."""

    def admits(self, going: Leaving) -> bool:
        """Say whether a set may be displaced now, and count it if so. Ask just before doing it."""
        if going.id in self.acknowledged.get(going.node, ()):
            self._count(going)
            return True
        if going.id not in self.shown:
            if self._is_exempt(going.node, going.cause):
                return True
            if len(self.counted | {going.set_id}) <= self.limit:
                self._count(going)
                return True
        self.held_back.setdefault(going.node, set()).add(going.id)
        self.sets.add(going.set_id)
        return False

    def _count(self, going: Leaving) -> None:
        if not self._is_exempt(going.node, going.cause):
            self.counted.add(going.set_id)

    def _is_exempt(self, node: NodeName, cause: Cause) -> bool:
        return node == self.exempt and cause in LOSSES


def tally(
    sets: Iterable[ClaimSet],
    leaving: Iterable[Leaving],
    *,
    now: datetime,
    guard: Guard,
    acknowledged: Mapping[NodeName, AbstractSet[str]],
    shown: frozenset[str] = frozenset(),
) -> Tally:
    """Open the count of one pass.

    `leaving` are all sets whose node cannot keep them now, on their way or not.
    """
    leaving = tuple(leaving)
    held, recent = _held_and_left(sets, now, guard)
    exempt = _first_lost(recent, leaving)
    counted = {
        set_id
        for set_id, several in recent.items()
        if any(found.node != exempt or found.cause not in LOSSES for found in several)
    } | {
        going.set_id
        for going in leaving
        if going.is_on_its_way and (going.node != exempt or going.cause not in LOSSES)
    }
    return Tally(
        limit=_limit(guard, held),
        counted=counted,
        exempt=exempt,
        acknowledged=acknowledged,
        shown=shown,
    )


def limit(sets: Iterable[ClaimSet], now: datetime, guard: Guard) -> int:
    """Return how many sets may be displaced in a window, of those that are held now."""
    return _limit(guard, _held_and_left(sets, now, guard)[0])


def id_of(node: NodeName, cause: Cause, since: datetime | None) -> str:
    """Return the guard id of a node's trouble: the same for every leader while it lasts."""
    began = since.isoformat(timespec="seconds") if since else ""
    return hashlib.sha256(f"{node} {cause.value} {began}".encode()).hexdigest()[:10]


def ids(text: str) -> frozenset[str]:
    """Return the guard ids a person acknowledged: one, or several with commas between."""
    return frozenset(item.strip() for item in text.split(",")) - {""}


def command(node: NodeName, held: str, *, inventoried: bool) -> str:
    """Return the command that acknowledges the losses of a node; `held` is guard ids with commas.

    A node without a GPUNode (it went with its Node) is acknowledged on GPUBinder.
    """
    target = f"gpunode {node}" if inventoried else f"gpubinder {keys.BINDER_NAME}"
    return f"kubectl annotate {target} {keys.ACKNOWLEDGE_LOST_ANNOTATION}={held} --overwrite"


def shown(message: str) -> frozenset[str]:
    """Return the guard ids of the commands in what GPUBinder says of losses held back."""
    return frozenset(item for found in _IDS.findall(message) for item in ids(found))


def acknowledged(
    binders: Iterable[GPUBinder], inventory: Iterable[GPUNode], nodes: AbstractSet[NodeName]
) -> dict[NodeName, AbstractSet[str]]:
    """Return the guard ids that a person acknowledged for each of these nodes, there or on GPUBinder."""
    everywhere = frozenset[str]().union(*(_on(binder.meta) for binder in binders))
    told = {item.name: _on(item.meta) for item in inventory if item.name in nodes}
    return {node: told.get(node, frozenset()) | everywhere for node in nodes}


def told(binders: Iterable[GPUBinder]) -> frozenset[str]:
    """Return the guard ids that GPUBinder says are held back."""
    said = (
        shown(condition.message)
        for binder in binders
        for condition in binder.conditions
        if condition.type == CONDITION and condition.status == "True"
    )
    return frozenset[str]().union(*said)


def _on(found: ObjectMeta) -> frozenset[str]:
    return ids(found.annotations.get(keys.ACKNOWLEDGE_LOST_ANNOTATION, ""))


def _held_and_left(
    sets: Iterable[ClaimSet], now: datetime, guard: Guard
) -> tuple[int, dict[str, list[Displaced]]]:
    """Return how many sets are held or were when the window began, and what left its node since."""
    after = now - timedelta(seconds=guard.window)
    sets = tuple(sets)
    held = sum(map(_HAS_BOUND, sets))
    recent: dict[str, list[Displaced]] = {}
    for item in itertools.compress(sets, map(_WAS_DISPLACED, sets)):
        for claim in item.claims:
            found = claim.displaced
            if found is not None and found.at > after and found.cause is not Cause.SET_TORN:
                recent.setdefault(item.id, []).append(found)
        held += item.id in recent and not item.has_bound
    return held, recent


def _limit(guard: Guard, held: int) -> int:
    return max(guard.at_least, int(guard.share * held))


def _first_lost(
    recent: Mapping[str, Iterable[Displaced]], leaving: Iterable[Leaving]
) -> NodeName | None:
    """Return the node whose sets were displaced first of late, else the one that was lost first.

    Sets that have left stay uncounted while the window lasts: another node, lost before that and grown out
    of its grace since, is a second one. Of several whose sets left in one instant it is that of most sets.
    """
    left: dict[NodeName, list[datetime]] = {}
    for several in recent.values():
        for node, at in {(found.node, found.at) for found in several if found.cause in LOSSES}:
            left.setdefault(node, []).append(at)
    if left:
        return min(left, key=lambda node: (min(left[node]), -len(left[node]), node))
    began = [
        (going.since, going.node) for going in leaving if going.since and going.cause in LOSSES
    ]
    return min(began)[1] if began else None
