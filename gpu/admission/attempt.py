"""Attempt: one start that is being admitted: what was written for it so far, and how it fails."""

from dataclasses import dataclass, field

from gpu.admission import review
from gpu.admission.review import Denied, Review
from gpu.admission.vmis import Plan
from gpu.model import start_refusals
from gpu.model.resolving import Objection
from gpu.objects.claims import Attachment, GPUClaim
from gpu.objects.kubevirt import VMI
from gpu.objects.pods import Pod
from gpu.units import ClaimName


class AnsweredError(Exception):
    """A claim was found to carry the answer to an earlier call, which the cache did not show yet."""


class FailedError(Exception):
    """A start cannot go on; `answer` says why."""

    def __init__(self, answer: Denied) -> None:
        super().__init__(answer.message)
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Write:
    """An attachment that was sent, and the claim it was made of."""

    before: GPUClaim
    wanted: Attachment


@dataclass(slots=True)
class Attempt:
    """One start being attached."""

    asked: Review
    plan: Plan
    admission: str
    """The id of what is attached anew; unknown to anybody before it is stored."""
    mine: VMI | None = None
    """The VMI of the start's own name: an earlier one that is about to go."""
    others: dict[str, VMI | None] = field(default_factory=dict)
    """VMIs of other names, read past the cache."""
    launchers: dict[tuple[str, bool], tuple[Pod, ...]] = field(default_factory=dict)
    """Those that are past the gate and live, by the name of their VMI, read past the cache; True: targets alone."""
    admissions: dict[ClaimName, str] = field(default_factory=dict)
    sent: list[Write] = field(default_factory=list)
    made: list[GPUClaim] = field(default_factory=list)
    """Claims that were made for units of its template (`binding: request`)."""
    launcher: str = ""
    """What its launcher will ask of a node, as a bind request has it (`binding: request`)."""
    is_requested: bool = False
    """The leader was, or may have been, asked to place its claims."""


def objection(attempt: Attempt, refusal: start_refusals.OfClaim) -> Objection:
    """Return a refusal with the place in the VMI where the claim is named."""
    asks = attempt.plan.start.references
    path = next((path for name, path in asks.held() if name == refusal.claim), "")
    return Objection(refusal, path)


def superseded(asked: Review) -> Denied:
    """Return the denial of a call that another one for the same VM has overtaken."""
    return review.unavailable(
        f"VM {asked.title}: it is being started by another request: try again"
    )
