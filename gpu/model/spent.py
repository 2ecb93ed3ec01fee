"""How long a claim waited, was held, used, Lost and degraded; added up at each write of its status.

Stored are seconds up to an instant; since then the claim is as its status says, so a reader adds the
rest, and nobody writes a claim only because time passes.
"""

from datetime import datetime
from typing import Final

from gpu.objects import meta
from gpu.objects.claims import GPUClaim, Phase, Spent

DEGRADED: Final = "Degraded"


def up_to(claim: GPUClaim, now: datetime) -> Spent:
    """Return the sums up to an instant, under what the claim is until then; never backwards."""
    before = claim.spent or Spent(at=claim.meta.created)
    if _since(before, now) <= 0:
        return before
    at = before.at.replace(microsecond=0) if before.at.microsecond else before.at
    waiting, held, in_use, lost, degraded = seconds(claim, now)
    return Spent(
        at=max(at, now.replace(microsecond=0)),
        waiting=waiting,
        held=held,
        in_use=in_use,
        lost=lost,
        degraded=degraded,
    )


def seconds(claim: GPUClaim, now: datetime) -> tuple[int, int, int, int, int]:
    """Return the seconds waiting, held, in use, lost and degraded that `up_to` would tell."""
    before = claim.spent or Spent(at=claim.meta.created)
    more = max(_since(before, now), 0)
    is_held = claim.phase is Phase.BOUND
    return (
        before.waiting + (more if claim.phase is Phase.PENDING else 0),
        before.held + (more if is_held else 0),
        before.in_use + (more if is_held and is_in_use(claim) else 0),
        before.lost + (more if claim.phase is Phase.LOST else 0),
        before.degraded + (more if is_held and is_degraded(claim) else 0),
    )


def _since(before: Spent, now: datetime) -> int:
    return int((now - before.at).total_seconds())


def is_in_use(claim: GPUClaim) -> bool:
    """Say whether a Bound claim has a pod that is not known to have ended."""
    return claim.phase is Phase.BOUND and any(
        not pod.ended for pod in (claim.attached_to.pods if claim.attached_to else ())
    )


def is_degraded(claim: GPUClaim) -> bool:
    """Say whether the claim says that its node does not keep it well."""
    found = meta.condition(claim.conditions, DEGRADED)
    return found is not None and found.status == "True"
