"""What a write of a claim's status makes of the claim: one place for phases, draft and JSON.

A phase plans a change with `Scene.plan`, which puts this result in the draft; `bodies` sends the
fields of the same result. So what later phases see is what is stored.
"""

from dataclasses import replace
from typing import assert_never

from gpu.binder import changes, conditions
from gpu.binder.answer_changes import Answer, ForgetRequest
from gpu.binder.changes import ClaimStatus, Placement
from gpu.binder.conditions import Story
from gpu.binder.rejection_changes import Reject
from gpu.binder.start_changes import ExplainGated
from gpu.model import spent
from gpu.objects.claims import GPUClaim, Phase


def after(change: ClaimStatus) -> GPUClaim:
    """Return the claim as the change leaves it; its time up to then is added up under what it was."""
    claim = replace(change.claim, spent=spent.up_to(change.claim, change.at), has_status=True)
    match change:
        case changes.Place() | changes.Lose():
            return _placed(claim, change)
        case changes.Attach():
            return replace(claim, attached_to=change.attachment)
        case changes.Detach():
            return replace(claim, attached_to=None, bind_request=None)
        case Answer() | ForgetRequest():
            told = change.request if isinstance(change, Answer) else None
            return replace(claim, bind_request=told)
        case Reject():
            return replace(claim, rejected_nodes=change.nodes)
        case (
            changes.Degrade()
            | changes.Explain()
            | ExplainGated()
            | changes.ExplainKept()
            | changes.ExplainRefused()
        ):
            return _told(claim, _words(claim, change))
        case _:
            assert_never(change)


def _placed(claim: GPUClaim, change: Placement) -> GPUClaim:
    if isinstance(change, changes.Lose):
        lost = replace(claim, phase=Phase.LOST, displaced=change.displaced)
        return _told(lost, conditions.lost(claim, change.displaced, change.refusals, change.at))
    bound = replace(
        claim,
        phase=Phase.BOUND,
        node=change.node,
        bound_at=change.at,
        displaced=change.displaced or claim.displaced,
        attached_to=change.attachment or claim.attached_to,
        bind_request=change.answer or claim.bind_request,
    )
    return _told(bound, conditions.bound(claim, change.node, change.how, change.at))


def _words(
    claim: GPUClaim,
    change: changes.Degrade
    | changes.Explain
    | ExplainGated
    | changes.ExplainKept
    | changes.ExplainRefused,
) -> Story:
    match change:
        case changes.Degrade():
            return conditions.degraded(claim, change.cause, change.words, change.at)
        case changes.Explain():
            return conditions.waiting(claim, change.refusals, change.at)
        case ExplainGated():
            return conditions.gated(claim, change.reasons, change.at)
        case changes.ExplainKept():
            return conditions.kept(claim, change.missing, change.at)
        case changes.ExplainRefused():
            return conditions.refused(claim, change.words, change.at)
        case _:
            assert_never(change)


def _told(claim: GPUClaim, story: Story) -> GPUClaim:
    return replace(claim, reasons=story.reasons, conditions=story.conditions)
