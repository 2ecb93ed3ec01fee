"""Bind requests (`binding: request`): which of them are whole and still to be answered.

A webhook writes the same request on each claim of a start, one after the other, and waits. Acted on is
what all the claims it names carry alike. One that is answered in part was cut off, or is being
answered: it is whole still, since what was begun is finished.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gpu.objects.claims import BindRequest, BindResult, GPUClaim
from gpu.objects.meta import ObjectKey

_SLACK: Final = timedelta(seconds=5)
"""An attachment that is made again within a second is dated a little later than it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that all claims it names carry, not all of them answered; its claims oldest first."""

    request: BindRequest
    claims: tuple[GPUClaim, ...]

    @property
    def vm(self) -> ObjectKey:
        """Namespace and name of the VMI that is to come."""
        return ObjectKey(self.claims[0].meta.namespace, self.request.vmi)

    @property
    def is_begun(self) -> bool:
        """Say whether some of its claims carry an answer already."""
        return any(is_answered(claim) for claim in self.claims)


def find(claims: Iterable[GPUClaim], now: datetime, grace: float) -> tuple[Asked, ...]:
    """Return the requests to be answered, those begun first, then the oldest.

    `claims` are all that carry a request. One that is older than `grace` seconds nobody waits for:
    it expires.
    """
    found: dict[tuple[str, str], list[GPUClaim]] = {}
    for claim in claims:
        if claim.bind_request is not None:
            found.setdefault((claim.meta.namespace, claim.bind_request.id), []).append(claim)
    whole = (asked for group in found.values() for asked in _whole(group, now, grace))
    return tuple(
        sorted(whole, key=lambda it: (not it.is_begun, it.request.requested_at, it.request.id))
    )


def is_open(claim: GPUClaim) -> bool:
    """Say whether a claim carries a request without an answer; others of its set may lack it."""
    return claim.bind_request is not None and claim.bind_request.result is None


def is_answered(claim: GPUClaim) -> bool:
    """Say whether a claim carries an answer."""
    return claim.bind_request is not None and claim.bind_request.result is not None


def is_promised(claim: GPUClaim) -> bool:
    """Say whether the VMI it is attached to was promised its node: it is pinned there when it comes."""
    request, attachment = claim.bind_request, claim.attached_to
    return (
        request is not None
        and request.result is BindResult.SUCCEEDED
        and attachment is not None
        and attachment.vmi == request.vmi
    )


def is_awaited(claim: GPUClaim) -> bool:
    """Say whether the VMI of a claim's attachment cannot come before its request is answered.

    The request must be that attachment's own: one that is made after it is another start's.
    """
    request, attachment = claim.bind_request, claim.attached_to
    if request is None or attachment is None or request.result is not None:
        return False
    if attachment.uid or attachment.vmi != request.vmi:
        return False
    return attachment.since is None or attachment.since <= request.requested_at + _SLACK


def is_forgotten(claim: GPUClaim, now: datetime, grace: float) -> bool:
    """Say whether a request is nobody's any more: it goes by itself, `grace` seconds after it was made.

    One that goes with an attachment to its VMI goes when that does.
    """
    request, attachment = claim.bind_request, claim.attached_to
    if request is None or (attachment is not None and attachment.vmi == request.vmi):
        return False
    return request.requested_at + timedelta(seconds=grace) <= now


def _whole(group: list[GPUClaim], now: datetime, grace: float) -> Iterator[Asked]:
    """Yield the request of claims that carry the same id, if it is one that can be answered."""
    request = group[0].bind_request
    assert request is not None
    names = {claim.meta.name for claim in group}
    if names != set(request.claims) or any(_said(claim) != _said(group[0]) for claim in group):
        return
    waiting = [claim for claim in group if is_open(claim)]
    if not waiting or request.requested_at + timedelta(seconds=grace) <= now:
        return
    if all(_is_ours(claim) for claim in group):
        by_age = tuple(sorted(group, key=lambda claim: claim.age))
        yield Asked(request=request, claims=by_age)


def _said(claim: GPUClaim) -> tuple[str, frozenset[str]] | None:
    """Return what must be the same on each claim of a request."""
    request = claim.bind_request
    return (request.vmi, frozenset(request.claims)) if request else None


def _is_ours(claim: GPUClaim) -> bool:
    """Say whether a claim is attached to the start that asks, and its VMI has not come."""
    if is_answered(claim):
        return claim.attached_to is not None and not claim.attached_to.uid
    return is_awaited(claim)
