"""Kubernetes Events out of stored changes: one per change of reason, never before it is stored.

A change that only brings a message up to date is no news, so 2,000 waiting orders cause no Event
while their reasons stay the same. What is said to a tenant names no other tenant and no node but
its own claim's. Evidence and the words of the API server are cut to what an Event takes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpu.binder import changes, conditions, results, standing
from gpu.binder.answer_changes import Answer
from gpu.binder.changes import Change, ClaimStatus
from gpu.binder.rejection_changes import Reject
from gpu.binder.start_changes import ExplainGated, Pin
from gpu.model import refusals
from gpu.model.rejections import Why
from gpu.objects import meta
from gpu.objects.claims import BindResult
from gpu.objects.kinds import GPU_BINDERS, GPU_CLAIMS, GPU_CLASSES, VMIS, Kind
from gpu.objects.meta import Condition, ObjectKey
from gpu.ports import Recorder

LOST: Final = "Lost"
RECOVERED: Final = "Recovered"
DETACHED: Final = "Detached"
RELEASED: Final = "Released"
DELETED: Final = "TemplateClaimDeleted"
GUEST_ENDED: Final = "GuestEnded"
RECORD_DROPPED: Final = "UsageRecordDropped"
PLAN_REFUSED: Final = "PlanRefused"
PINNED: Final = "Pinned"
UNGATED: Final = "Ungated"
START_REFUSED: Final = "StartRefused"
AWAITS_UNCORDON: Final = "AwaitsUncordon"
REASONS: Final = (
    *(how.value for how in changes.How),
    LOST,
    RECOVERED,
    DETACHED,
    RELEASED,
    DELETED,
    GUEST_ENDED,
    RECORD_DROPPED,
    PLAN_REFUSED,
    PINNED,
    UNGATED,
    START_REFUSED,
    AWAITS_UNCORDON,
    *(why.value for why in Why),
)
"""Reasons of Events that are not reasons of a condition or codes of a refusal as well."""

_TOLD: Final = (
    conditions.LOST,
    conditions.DEGRADED,
    conditions.WAITING,
    conditions.RELEASING,
)
"""Conditions of a claim whose reasons are news, the worst first."""
_READY: Final = "Ready"
_BAD_WHEN_TRUE: Final = frozenset({standing.LOSSES_HELD_BACK})
_TOLD_ELSEWHERE: Final = frozenset({standing.PLANS_CHECKED})
"""Told by `plan_refused` at once, whether or not the condition could be written."""
_EVIDENCE: Final = 8
"""Pods whose evidence is spelled out."""


class Silent:
    """A Recorder that nobody reads."""

    def event(
        self, regarding: Kind, key: ObjectKey, uid: str, *, warning: bool, reason: str, note: str
    ) -> None:
        """Tell nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """One Event to be."""

    regarding: Kind
    key: ObjectKey
    uid: str
    reason: str
    note: str
    warning: bool = False

    def send(self, recorder: Recorder) -> None:
        """Hand it to the recorder, which never waits and never raises."""
        recorder.event(
            self.regarding,
            self.key,
            self.uid,
            warning=self.warning,
            reason=self.reason,
            note=self.note,
        )


def of(change: Change) -> tuple[News, ...]:
    """Return what a stored change is worth telling: mostly nothing, or one thing."""
    match change:
        case changes.ReportClass():
            return tuple(_class_turned(change))
        case changes.ReportBinder():
            return tuple(_binder_turned(change))
        case changes.EndGuest() | Pin():
            return (_of_vmi(change),)
        case changes.DropFinalizer() | changes.DeleteClaim() | changes.DropRecord():
            return (_let_go(change),)
        case (
            Reject()
            | Answer()
            | changes.Place()
            | changes.Lose()
            | changes.Detach()
            | changes.Degrade()
            | changes.Explain()
            | ExplainGated()
            | changes.ExplainKept()
            | changes.ExplainRefused()
        ):
            return tuple(_claim_told(change))
        case _:
            return ()


def plan_refused(binder: ObjectKey, uid: str, problem: str) -> News:
    """Return the Event about a plan that was not written."""
    return News(
        regarding=GPU_BINDERS,
        key=binder,
        uid=uid,
        reason=PLAN_REFUSED,
        note=f"a plan broke a rule and was not written; nothing is placed: {problem}",
        warning=True,
    )


def _claim_told(change: ClaimStatus) -> Iterator[News]:
    if isinstance(change, Reject):
        yield from _rejected(change)
        return
    claim = change.claim
    told = _told(change)
    if told is not None and claim.meta.uid:  # of one just made its VMI is told
        reason, note, is_bad = told
        yield News(
            regarding=GPU_CLAIMS,
            key=claim.key,
            uid=claim.meta.uid,
            reason=reason,
            note=note,
            warning=is_bad,
        )


def _told(change: ClaimStatus) -> tuple[str, str, bool] | None:
    """Return reason, words, and whether it is bad news; None when the reason is as it was."""
    match change:
        case changes.Place():
            return change.how.value, _placed(change), False
        case changes.Lose():
            _, words, _ = _turned(change) or ("", "", True)
            return LOST, words, True
        case changes.Detach():
            words = f"its VM is over ({change.why.value}): {_evidence(change.evidence)}"
            return DETACHED, words, False
        case Answer():
            return _answered(change)
        case changes.Degrade(cause=None):
            had = conditions.reason_of(change.claim, conditions.DEGRADED)
            return (RECOVERED, f"its node keeps it again: no more {had}", False) if had else None
        case _:
            return _turned(change)


def _turned(change: ClaimStatus) -> tuple[str, str, bool] | None:
    """Return the first condition that says something bad which the claim did not say before."""
    after = results.after(change).conditions
    for kind in _TOLD:
        found = meta.condition(after, kind)
        if found is not None and found.reason != conditions.reason_of(change.claim, kind):
            return found.reason, found.message, True
    return None


def _answered(change: Answer) -> tuple[str, str, bool] | None:
    """Tell of a start that is refused or waits; of a claim that was made for it its VM's owner is told."""
    if change.claim.is_template:
        return None
    vm, words = change.request.vmi, change.request.message
    if change.request.result is BindResult.REFUSED:
        return START_REFUSED, f"VM {vm} is not started: {words}", True
    return (AWAITS_UNCORDON, f"VM {vm}: {words}", False) if change.awaits_uncordon else None


def _placed(change: changes.Place) -> str:
    words = f"{refusals.plural(change.claim.count)} of {change.claim.class_name} held on node "
    if change.displaced is None:
        return words + change.node
    why = conditions.CAUSES[change.displaced.cause]
    return f"{words}{change.node}, no longer on {change.displaced.node}: {why}"


def _evidence(words: tuple[str, ...]) -> str:
    told = "; ".join(words[:_EVIDENCE])
    left = len(words) - _EVIDENCE
    return (f"{told}; and {left} more pods" if left > 0 else told) or "no pod used it"


def _let_go(change: changes.DropFinalizer | changes.DeleteClaim | changes.DropRecord) -> News:
    target = changes.target_of(change)
    if isinstance(change, changes.DeleteClaim):
        reason, note = DELETED, "it was made for a VM that never came or is over"
    elif isinstance(change, changes.DropRecord):
        reason, note = RECORD_DROPPED, "the claim it was kept for is gone"
    elif change.kind == GPU_CLAIMS:
        reason, note = RELEASED, f"its units are given back: {_evidence(change.evidence)}"
    else:
        reason, note = RELEASED, "no claim names it any more"
    return News(regarding=target.kind, key=target.key, uid=target.uid, reason=reason, note=note)


def _rejected(change: Reject) -> Iterator[News]:
    """Tell of nodes that are newly skipped; that one is not any more is no news."""
    for one in change.news:
        yield News(
            regarding=GPU_CLAIMS,
            key=change.claim.key,
            uid=change.claim.meta.uid,
            reason=one.why.value,
            note=one.words,
            warning=True,
        )


def _guest_ended(change: changes.EndGuest) -> News:
    return News(
        regarding=VMIS,
        key=change.vmi,
        uid=change.uid,
        reason=GUEST_ENDED,
        note=f"deleted, so that its GPUs are held elsewhere: {conditions.CAUSES[change.cause]}",
        warning=True,
    )


def _of_vmi(change: changes.EndGuest | Pin) -> News:
    return _let_through(change) if isinstance(change, Pin) else _guest_ended(change)


def _let_through(change: Pin) -> News:
    """Tell a tenant the node, as its claims do."""
    if change.node is None:
        note = "its launcher holds no GPUs and goes wherever the scheduler puts it"
    else:
        note = f"its GPUs are held on node {change.node}, where its launcher is let through"
    return News(
        regarding=VMIS,
        key=change.vmi,
        uid=change.vmi_uid,
        reason=UNGATED if change.node is None else PINNED,
        note=note,
    )


def _class_turned(change: changes.ReportClass) -> Iterator[News]:
    offer = change.offer
    for found in change.conditions:
        if found.type == _READY and _is_news(offer.status.conditions, found):
            yield News(
                regarding=GPU_CLASSES,
                key=offer.meta.key,
                uid=offer.meta.uid,
                reason=found.reason,
                note=found.message,
                warning=found.status != "True",
            )


def _binder_turned(change: changes.ReportBinder) -> Iterator[News]:
    binder = change.binder
    for found in change.conditions:
        is_bad = (found.status == "True") is (found.type in _BAD_WHEN_TRUE)
        before = meta.condition(binder.conditions, found.type)
        if found.type in _TOLD_ELSEWHERE or (before is None and not is_bad):
            continue
        if _is_news(binder.conditions, found):
            yield News(
                regarding=GPU_BINDERS,
                key=binder.meta.key,
                uid=binder.meta.uid,
                reason=found.reason,
                note=f"{found.type}: {found.message}",
                warning=is_bad,
            )


def _is_news(stored: tuple[Condition, ...], found: Condition) -> bool:
    before = meta.condition(stored, found.type)
    return before is None or (before.status, before.reason) != (found.status, found.reason)
