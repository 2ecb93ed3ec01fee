"""GPUClaim CREATE: refuse what cannot be met now, with every reason and what would be accepted.

The binder judges every order again before it binds it, so an order that passes here and cannot be
met any more waits, and says why.
"""

import json
from dataclasses import replace
from typing import Final

from gpu.admission import review
from gpu.admission.review import About, Allowed, Answer, Cause, Denied, Review
from gpu.config import Config
from gpu.errors import DecodeError
from gpu.model import counteroffers, premises, refusals
from gpu.model.refusals import Refusal
from gpu.objects.claims import GPUClaim
from gpu.objects.decode import Fields
from gpu.objects.kinds import GPU_CLAIMS
from gpu.objects.meta import ObjectMeta
from gpu.units import ClassName
from gpu.world import World

MOST_METADATA: Final = 64 * 1024
"""Bytes of metadata, as JSON: nobody could add a status to an object that fills what etcd takes."""
NAMESPACE: Final = "metadata.namespace"
CLASS: Final = "spec.className"
COUNT: Final = "spec.count"

OFF: Final = Allowed(
    warnings=("GPUs are switched off on this cluster: the order waits until they are on",)
)
"""With the feature off no webhook is registered, and orders are taken and wait. One that is still
registered, while a release is being changed, must not do otherwise."""


def answer(asked: Review, world: World, config: Config) -> Answer:
    """Judge one review. Anything but the CREATE of a claim passes: it is not asked about here."""
    if not _is_order(asked):
        return Allowed()
    try:
        claim = _claim(asked)
        _measure(asked)
    except DecodeError as error:
        # What the schema says it has refused before any webhook is asked; but who knows who asks.
        return _denied(asked, review.INVALID, "Invalid", str(error), ())
    if _is_placed_with_its_vm(asked, claim, config):
        return Allowed()
    if world.snapshot.claim(claim.key) is not None:
        return Allowed()  # the API server says AlreadyExists, which clients know how to take
    order = counteroffers.of_claim(world.snapshot, claim)
    judged = counteroffers.judge(world.snapshot, order)
    if judged.is_accepted:
        return Allowed()
    said = counteroffers.words(order, judged)
    causes = tuple(
        Cause(field_of(one), refusals.code(one), refusals.words(one)) for one in judged.refusals
    )
    denied = _denied(asked, review.FORBIDDEN, "Forbidden", said, causes)
    return replace(denied, rests_on=premises.least(judged.refusals, world.snapshot))


def field_of(refusal: Refusal) -> str:
    """Return the field of the order that a refusal is about."""
    match refusal:
        case refusals.NoTenant():
            return NAMESPACE
        case (
            refusals.NoSuchClass()
            | refusals.ClassRetired()
            | refusals.ClassDeleting()
            | refusals.NotPermitted()
            | refusals.NoNodeServes()
            | refusals.NoNodeEligible()
            | refusals.NotEntitled()
        ):
            return CLASS
        case _:
            return COUNT


def _is_order(asked: Review) -> bool:
    kind = (asked.group, asked.plural, asked.subresource)
    return asked.operation == review.CREATE and kind == (GPU_CLAIMS.group, GPU_CLAIMS.plural, "")


def _measure(asked: Review) -> None:
    """Raise DecodeError where an order's metadata is too large."""
    size = len(json.dumps(Fields(asked.object, "").child("metadata").raw).encode())
    if size > MOST_METADATA:
        raise DecodeError("metadata", f"{size} bytes, at most {MOST_METADATA} are accepted")


def _is_placed_with_its_vm(asked: Review, claim: GPUClaim, config: Config) -> bool:
    """Say whether it is a template claim; of anybody but the controller the mark means nothing."""
    return claim.is_template and asked.user == config.controller_user


def _claim(asked: Review) -> GPUClaim:
    """Return the claim as it would be stored. Raises DecodeError."""
    fields = Fields(asked.object, "")
    spec = fields.child("spec")
    return GPUClaim(
        meta=ObjectMeta(
            name=asked.name,
            namespace=asked.namespace,
            labels=fields.child("metadata").text_map("labels"),
        ),
        class_name=ClassName(spec.text("className")),
        count=spec.units("count"),
        has_status=False,
    )


def _denied(asked: Review, code: int, reason: str, said: str, causes: tuple[Cause, ...]) -> Denied:
    return Denied(
        code=code,
        reason=reason,
        message=f"order {asked.title}: {said}",
        causes=causes,
        about=About(group=GPU_CLAIMS.group, kind=GPU_CLAIMS.plural, name=asked.name),
    )
