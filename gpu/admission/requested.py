"""A start under `binding: request`: what refuses it before anything is written, and what claims answer; pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gpu.admission import orders, review, vmis
from gpu.admission.review import Cause, Denied, Review
from gpu.admission.vmis import Plan
from gpu.errors import DecodeError
from gpu.model import gate_reasons, pins, premises, refusals, template_claims, template_units
from gpu.model import orders as model
from gpu.model.resolving import Start
from gpu.model.snapshot import Snapshot
from gpu.objects.claims import BindResult, GPUClaim, Phase
from gpu.objects.meta import ObjectKey
from gpu.units import ClaimName, ClassName, NodeName, TenantName, Units
from gpu.world import World

MOST_NAMES: Final = 4
"""Claims of earlier starts of a VM, of one class, that may still be there beside the one to be made."""


def is_asked(plan: Plan) -> bool:
    """Say whether a start needs the leader: one with raw names alone waits at the gate."""
    return bool(plan.found.held or plan.found.template)


def refused(asked: Review, plan: Plan, world: World) -> Denied | None:
    """Return the denial of units that the tenant may not have: entitlement, class and all budgets.

    What a claim that is there already for this start has counts as used, and is not asked for again.
    """
    try:
        pins.terms(asked.object or {})
    except DecodeError as error:
        return vmis.unread(asked, str(error))
    snapshot, start = world.snapshot, plan.start
    wanted = {
        name: units
        for name, units in plan.found.template.items()
        if not any(_made(snapshot, start, name, units))
    }
    if not wanted:
        return None
    found = template_units.refused(model.queued(snapshot), TenantName(start.namespace), wanted)
    if not found:
        return None
    causes = [Cause(_field(one, start), refusals.code(one), refusals.words(one)) for one in found]
    return Denied(
        code=review.FORBIDDEN,
        reason="Forbidden",
        message=f"VM {asked.title}: {'; '.join(cause.message for cause in causes)}",
        causes=tuple(causes),
        about=vmis.about(asked),
        rests_on=premises.least(found, snapshot),
    )


def names(start: Start, class_name: ClassName) -> Iterator[ClaimName]:
    """Yield the names that the claim for units of a class may have, the usual one first."""
    for index in range(MOST_NAMES):
        yield template_claims.requested_name(start.namespace, start.name, class_name, index)


def is_free(claim: GPUClaim, class_name: ClassName, units: Units) -> bool:
    """Say whether a template claim can be taken up: no VMI has had it, and it has what is asked."""
    used = claim.attached_to is not None and claim.attached_to.uid
    is_of_earlier = claim.meta.deleting or claim.meta.owners or used
    return not is_of_earlier and (claim.class_name, claim.count) == (class_name, units)


def earlier(found: Iterable[GPUClaim], plan: Plan) -> Iterator[GPUClaim]:
    """Yield claims that an earlier VMI of the name, or of a held claim, has not let go of yet."""
    held = {claim.meta.name for claim in plan.found.held}
    for claim in found:
        if claim.attached_to is None or not claim.attached_to.uid:
            continue
        if claim.attached_to.vmi == plan.start.name or claim.meta.name in held:
            yield claim


def placed(found: Sequence[GPUClaim], plan: Plan, launcher: str) -> NodeName | None:
    """Return the one node on which an earlier call for this start had all claims placed, if it did.

    Not where its launcher asks for something else by now: nobody has asked that node for it.
    """
    told = {claim.bind_request for claim in found}
    nodes = {claim.node if claim.phase is Phase.BOUND else None for claim in found}
    if len(told) != 1 or len(nodes) != 1:
        return None
    (one,) = told
    if one is None or (one.vmi, one.result) != (plan.start.name, BindResult.SUCCEEDED):
        return None
    if one.launcher != launcher and not plan.found.is_repeated:  # which has our own pin in it
        return None
    return nodes.pop() if set(one.claims) == {claim.meta.name for claim in found} else None


@dataclass(frozen=True, slots=True)
class Written:
    """A request as it was stored on a claim."""

    key: ObjectKey
    version: int
    """Of the claim: a cache that shows an older one has not seen the request."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The leader has refused, in these words."""

    words: str


class Superseded:
    """Another call for the same VM has asked since."""


def answer(
    found: Sequence[tuple[Written, GPUClaim | None]], request: str
) -> NodeName | Refused | Superseded | None:
    """Return what the leader has answered to a request; None while something is to be waited for."""
    there = [(one, claim) for one, claim in found if claim is not None]
    told = [(one, claim, claim.bind_request) for one, claim in there]
    if any(
        claim.meta.version >= one.version and (got is None or got.id != request)
        for one, claim, got in told
    ):
        return Superseded()
    mine = [(claim, got) for _, claim, got in told if got and got.id == request and got.result]
    if len(mine) != len(found):
        return None
    words = [got.message for _, got in mine if got.result is BindResult.REFUSED]
    if words:
        said = "; ".join(filter(None, dict.fromkeys(words)))
        return Refused(said or "its claims cannot be placed on one node now")
    nodes = {claim.node if claim.phase is Phase.BOUND else None for claim, _ in mine}
    return nodes.pop() if len(nodes) == 1 else None


def denied(asked: Review, words: str) -> Denied:
    """Return the denial of what the leader has refused, in its words."""
    return Denied(
        code=review.FORBIDDEN,
        reason="Forbidden",
        message=f"VM {asked.title}: {words}",
        about=vmis.about(asked),
    )


def late(asked: Review) -> Denied:
    """Return the denial of what the leader has not answered."""
    return review.unavailable(
        f"VM {asked.title}: the GPU service did not place its claims in time: nothing was changed "
        "for it, try again"
    )


def name_taken(asked: Review, name: ClaimName) -> Denied:
    """Return the denial of a start whose claim has the name of somebody else's."""
    taken = gate_reasons.ClaimNameTaken(name)
    said = gate_reasons.words(taken)
    cause = Cause("spec.domain.devices", gate_reasons.code(taken), said)
    return Denied(
        code=review.FORBIDDEN,
        reason="Forbidden",
        message=f"VM {asked.title}: {said}",
        causes=(cause,),
        about=vmis.about(asked),
    )


def _made(
    snapshot: Snapshot, start: Start, class_name: ClassName, units: Units
) -> Iterator[GPUClaim]:
    for name in names(start, class_name):
        claim = snapshot.claim(ObjectKey(start.namespace, name))
        if claim is not None and claim.is_template and is_free(claim, class_name, units):
            yield claim


def _field(refusal: refusals.Refusal, start: Start) -> str:
    if orders.field_of(refusal) == orders.NAMESPACE:
        return orders.NAMESPACE
    name = getattr(refusal, "class_name", None)
    if name is None or name not in start.references.template():
        return "spec.domain.devices"
    return start.references.first(name)
