"""Would this order be accepted now, and if not, why and what would? Nothing is stored."""

from collections.abc import Mapping
from typing import Final

from apiserver.identity import User
from apiserver.resources import base
from apiserver.resources.base import Said
from apiserver.wire.table import Column
from apiserver.wire.values import Json, JsonObject
from gpu.admission import orders
from gpu.model import counteroffers, premises, refusals
from gpu.model.counteroffers import Judgement
from gpu.model.orders import Order
from gpu.objects.claims import GPUClaim
from gpu.objects.decode import Fields
from gpu.objects.meta import ObjectMeta
from gpu.units import ClassName
from gpu.world import World


def answer(world: World, namespace: str, body: JsonObject, user: User) -> Said:
    """Return the order as asked and what the order webhook would say of it, whoever asks."""
    del user
    spec = Fields(body["spec"], "spec")
    claim = GPUClaim(
        meta=ObjectMeta(name=spec.text_or("claimName"), namespace=namespace),
        class_name=ClassName(spec.text("className")),
        count=spec.units("count"),
        has_status=False,
    )
    order = counteroffers.of_claim(world.snapshot, claim)
    judged = counteroffers.judge(world.snapshot, order)
    rests_on = premises.least(judged.refusals, world.snapshot)
    said = _status(order, judged)
    cells = (judged.is_accepted, judged.most, base.text(said, "message"))
    return Said({"spec": _spec(claim), "status": said}, rests_on, cells)


def _spec(claim: GPUClaim) -> Mapping[str, Json]:
    spec: dict[str, Json] = {
        "className": claim.class_name,
        "count": claim.count,
        "claimName": claim.meta.name,
    }
    return base.filled(spec)


def _status(order: Order, judged: Judgement) -> Mapping[str, Json]:
    return {
        "allowed": judged.is_accepted,
        "reasons": [
            {
                "code": refusals.code(one),
                "message": refusals.words(one),
                "field": orders.field_of(one),
            }
            for one in judged.refusals
        ],
        "mostAccepted": judged.most,
        "alternatives": [*judged.alternatives],
        **({} if judged.is_accepted else {"message": counteroffers.words(order, judged)}),
    }


ORDER_REVIEWS: Final = base.Resource(
    plural="orderreviews",
    singular="orderreview",
    kind="OrderReview",
    description="Questions whether an order would be accepted.",
    verbs=base.ASK,
    columns=(
        Column(name="Allowed", type="boolean", description="Whether it would be accepted now."),
        Column(name="Most accepted", type="integer", description="Units that would be."),
        Column(name="Why", description="What speaks against it."),
    ),
    answer=answer,
)
