"""What a claim's conditions say in each state; compared here, so that nothing is written twice.

`Waiting` is there only while a claim waits, so that the printer column is empty once it is Bound.
A condition keeps its lastTransitionTime while its status stays the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from gpu.binder.changes import How
from gpu.model import gate_reasons, lasting, refusals
from gpu.model.gate_reasons import GateReason
from gpu.model.refusals import Refusal
from gpu.model.signs import Missing
from gpu.objects import meta
from gpu.objects.claims import Alarm, Cause, Displaced, GPUClaim, Phase
from gpu.objects.meta import Condition
from gpu.units import NodeName

BOUND: Final = "Bound"
WAITING: Final = "Waiting"
LOST: Final = "Lost"
DEGRADED: Final = "Degraded"
RELEASING: Final = "Releasing"
LEADING: Final = "Leading"
SETTINGS_CURRENT: Final = "SettingsCurrent"
ENABLED: Final = "Enabled"
HOLDS_NOT_ENFORCED: Final = "HoldsNotEnforced"
"""Of GPUBinder, and of each class."""

WRITE_REFUSED: Final = "WriteRefused"

_WHILE_WAITING: Final = ((BOUND, "False"), (WAITING, "True"))
"""Conditions that say why a claim waits, both in the same words."""

CAUSES: Final = {
    Cause.NODE_GONE: "its node is gone",
    Cause.NODE_NOT_READY: "its node has not been Ready for too long",
    Cause.UNITS_MISSING: "its node serves fewer units than are held there",
    Cause.NODE_TAINTED: "its node has a taint that the class does not tolerate",
    Cause.NODE_CORDONED: "its node is cordoned",
    Cause.SET_TORN: "its set has no node with room for all of it",
}
"""Why a node does not keep a claim, in a tenant's words."""

_MESSAGE_CAP: Final = 2000
_REASONS_CAP: Final = 32
_TOLD_PODS: Final = 5


@dataclass(frozen=True, slots=True)
class Story:
    """Conditions and reason codes a claim's status shall show."""

    conditions: tuple[Condition, ...]
    reasons: tuple[str, ...]


def bound(claim: GPUClaim, node: NodeName, how: How, now: datetime) -> Story:
    """Return what a claim bound to the node says."""
    message = f"{refusals.plural(claim.count)} of {claim.class_name} held on node {node}"
    kept = without(claim.conditions, WAITING, LOST, DEGRADED)
    return Story(
        put(kept, Condition(type=BOUND, status="True", reason=how.value, message=message), now), ()
    )


def lost(
    claim: GPUClaim, displaced: Displaced, reasons: tuple[Refusal, ...], now: datetime
) -> Story:
    """Return what a claim says that lost its units: why, and why it is not bound elsewhere."""
    message = f"its units are lost: {CAUSES[displaced.cause]}"
    shown = put(
        without(claim.conditions, DEGRADED),
        Condition(type=LOST, status="True", reason=displaced.cause.value, message=message),
        now,
    )
    return waiting(replace(claim, phase=Phase.LOST, conditions=shown), reasons, now)


def degraded(claim: GPUClaim, cause: Cause | Alarm | None, words: str, now: datetime) -> Story:
    """Return what a Bound claim says of a node that does not keep it well, or does again.

    Its lastTransitionTime is the clock of its cause, so it begins anew with another one.
    """
    if cause is None:
        return Story(without(claim.conditions, DEGRADED), claim.reasons)
    shown = Condition(type=DEGRADED, status="True", reason=cause.value, message=words)
    told = claim.conditions
    if reason_of(claim, DEGRADED) != cause.value:
        told = without(told, DEGRADED)
    return Story(put(told, shown, now), claim.reasons)


def waiting(claim: GPUClaim, reasons: tuple[Refusal, ...], now: datetime) -> Story:
    """Return what a Pending claim says of the reasons it cannot be bound."""
    return _waits(claim, *_worded(reasons), now)


def gated(claim: GPUClaim, reasons: tuple[GateReason, ...], now: datetime) -> Story:
    """Return what a Bound claim says whose VM waits at the gate, or (no reasons) does no more."""
    if not reasons:
        return Story(without(claim.conditions, WAITING), claim.reasons)
    text = _short("its VM waits to start: " + "; ".join(map(lasting.words, reasons)))
    first = gate_reasons.code(reasons[0])
    shown = Condition(type=WAITING, status="True", reason=first, message=text)
    return Story(put(claim.conditions, shown, now), claim.reasons)


def kept(claim: GPUClaim, missing: tuple[Missing, ...], now: datetime) -> Story:
    """Return what a deleted claim says of the pods that keep it; the worst first, not all of many."""
    told = [item.words for item in missing[:_TOLD_PODS]]
    if len(missing) > _TOLD_PODS:
        told.append(f"and {len(missing) - _TOLD_PODS} more")
    message = "deleted, and its units are given back once nothing uses them: " + "; ".join(told)
    shown = Condition(
        type=RELEASING, status="True", reason=missing[0].lack.value, message=_short(message)
    )
    return Story(put(claim.conditions, shown, now), claim.reasons)


def refused(claim: GPUClaim, words: str, now: datetime) -> Story:
    """Return what a claim says whose placement the API server refuses to store.

    One that is Bound stays so, on a node that it should have left.
    """
    message = f"the API server refuses to store the placement, which is tried again: {words}"
    if claim.phase is Phase.BOUND:
        text = _short(message)
        shown = Condition(type=DEGRADED, status="True", reason=WRITE_REFUSED, message=text)
        return Story(put(claim.conditions, shown, now), claim.reasons)
    return _waits(claim, (WRITE_REFUSED,), message, now)


def reason_of(claim: GPUClaim, kind: str) -> str:
    """Return the reason of one of a claim's conditions; empty when it has none of that type."""
    found = meta.condition(claim.conditions, kind)
    return found.reason if found else ""


def steady(claim: GPUClaim, reasons: tuple[Refusal, ...]) -> tuple[Refusal, ...]:
    """Return the reasons as the claim shall store them: what is told and still true is told on.

    That no node has so many units free is true as well when fewer are free in all. So binds of
    others, which only take units away, change nothing of what a waiting claim says.
    """
    if refusals.NoNodeAccepts.reason not in claim.reasons:
        return reasons
    return tuple(
        refusals.NoNodeAccepts(item.class_name, item.wanted, item.free, item.free)
        if isinstance(item, refusals.NoFreeUnits)
        else item
        for item in reasons
    )


def is_told(claim: GPUClaim, reasons: tuple[Refusal, ...]) -> bool:
    """Tell whether a waiting claim's status gives these reasons already: `says` of `waiting`.

    Asked each pass of every order that waits, so nothing is made but the words.
    """
    codes, message = _worded(reasons)
    if not claim.has_status or claim.reasons != codes:
        return False
    shown = {item.type: item for item in claim.conditions}
    text = _short(message)
    for kind, status in _WHILE_WAITING:
        found = shown.get(kind)
        if found is None or found.status != status or found.observed_generation:
            return False
        if found.reason != codes[0] or found.message != text:
            return False
    return True


def says(claim: GPUClaim, story: Story) -> bool:
    """Tell whether the claim's status says this already, whenever it began to."""
    return claim.reasons == story.reasons and same(claim.conditions, story.conditions)


def same(old: Iterable[Condition], new: Iterable[Condition]) -> bool:
    """Tell whether two lists of conditions say the same, whenever they began to, in any order."""
    return _timeless(old) == _timeless(new)


def put(
    conditions: tuple[Condition, ...], condition: Condition, now: datetime
) -> tuple[Condition, ...]:
    """Set one condition; its lastTransitionTime moves only with its status. Order is kept."""
    old = meta.condition(conditions, condition.type)
    if old is None:
        return (*conditions, replace(condition, since=now))
    since = old.since if old.status == condition.status and old.since else now
    fresh = replace(condition, since=since)
    return tuple(fresh if item.type == condition.type else item for item in conditions)


def without(conditions: tuple[Condition, ...], *types: str) -> tuple[Condition, ...]:
    """Take conditions off."""
    return tuple(item for item in conditions if item.type not in types)


def _worded(reasons: tuple[Refusal, ...]) -> tuple[tuple[str, ...], str]:
    """Return the codes and the message that are stored for reasons to wait."""
    codes = tuple(dict.fromkeys(map(refusals.code, reasons)))[:_REASONS_CAP]
    return codes, "; ".join(map(lasting.words, reasons))


def _waits(claim: GPUClaim, codes: tuple[str, ...], message: str, now: datetime) -> Story:
    text = _short(message)
    shown = claim.conditions
    for kind, status in _WHILE_WAITING:
        fresh = Condition(type=kind, status=status, reason=codes[0], message=text)
        shown = put(shown, fresh, now)
    return Story(shown, codes)


def _short(message: str) -> str:
    return message if len(message) <= _MESSAGE_CAP else message[: _MESSAGE_CAP - 1] + "…"


def _timeless(conditions: Iterable[Condition]) -> dict[str, Condition]:
    return {item.type: replace(item, since=None) for item in conditions}
