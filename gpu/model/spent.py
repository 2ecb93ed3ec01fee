"""How long a claim waited, was held, used, Lost and degraded; added up at each write of its status.

Stored are seconds up to an instant; since then the claim is as its status says, so a reader adds the
rest, and nobody writes a claim only because time passes.
"""

from dataclasses import replace
from datetime import datetime
from typing import Final

from gpu.objects import meta
from gpu.objects.claims import GPUClaim, Phase, Spent

DEGRADED: Final = "Degraded"


def up_to(claim: GPUClaim, now: datetime) -> Spent:
    """Return the sums up to an instant, under what the claim is until then; never backwards."""
    before = claim.spent or Spent(at=claim.meta.created)
    seconds = int((now - before.at).total_seconds())
    if seconds <= 0:
        return before
    at = before.at.replace(microsecond=0) if before.at.microsecond else before.at
    sums = replace(before, at=max(at, now.replace(microsecond=0)))
    match claim.phase:
        case Phase.PENDING:
            return replace(sums, waiting=sums.waiting + seconds)
        case Phase.LOST:
            return replace(sums, lost=sums.lost + seconds)
        case Phase.BOUND:
            return replace(
                sums,
                held=sums.held + seconds,
                in_use=sums.in_use + (seconds if is_in_use(claim) else 0),
                degraded=sums.degraded + (seconds if is_degraded(claim) else 0),
            )


def is_in_use(claim: GPUClaim) -> bool:
    """Say whether a Bound claim has a pod that is not known to have ended."""
    return claim.phase is Phase.BOUND and any(
        not pod.ended for pod in (claim.attached_to.pods if claim.attached_to else ())
    )


def is_degraded(claim: GPUClaim) -> bool:
    """Say whether the claim says that its node does not keep it well."""
    found = meta.condition(claim.conditions, DEGRADED)
    return found is not None and found.status == "True"
