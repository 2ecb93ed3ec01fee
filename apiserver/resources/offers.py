"""Offers a tenant can order: one object per class, named after it."""

from typing import Final

from apiserver.resources import base
from apiserver.wire.items import Row
from apiserver.wire.table import Column
from apiserver.wire.values import Json
from gpu import keys
from gpu.model import offers
from gpu.model.offers import Offer
from gpu.objects.classes import GPUClass
from gpu.units import TenantName
from gpu.world import World


def rows(world: World, namespace: str) -> tuple[Row, ...]:
    """Return every class as the tenant sees it; none in a namespace that does not exist."""
    if base.namespace(world, namespace) is None:
        return ()
    known = {one.name: one for one in world.classes}
    found = offers.offers(world.snapshot, TenantName(namespace))
    return tuple(
        _row(known[offer.class_name], offer, namespace)
        for offer in found
        if offer.class_name in known
    )


def _row(one: GPUClass, offer: Offer, namespace: str) -> Row:
    spec: dict[str, Json] = {
        "className": one.name,
        "mode": one.mode.value,
        "displayName": one.display_name,
        "description": one.description,
        "maxCount": offer.max_count,
    }
    status: dict[str, Json] = {
        "free": offer.free,
        "orderable": offer.orderable,
        "reason": offer.reason,
        "message": offer.message,
    }
    return Row(
        namespace=namespace,
        name=one.name,
        uid=base.uid("gpuoffers", namespace, one.name),
        created=one.meta.created,
        labels={keys.CLASS_LABEL: one.name, keys.MODE_LABEL: one.mode.value},
        body={"spec": base.filled(spec), "status": base.filled(status)},
        cells=(
            one.mode.value,
            offer.free,
            offer.orderable,
            offer.message,
            one.display_name,
            one.description,
        ),
    )


OFFERS: Final = base.Resource(
    plural="gpuoffers",
    singular="gpuoffer",
    kind="GPUOffer",
    short_names=("offers",),
    description="GPU classes as a tenant sees them.",
    columns=(
        Column(name="Mode", description="How a card reaches the guest."),
        Column(name="Free", type="integer", description="Units free to order."),
        Column(name="Orderable", type="integer", description="Most units of one order now."),
        Column(name="Why not more", description="What keeps an order from being larger."),
        Column(name="Title", description="The hoster's title.", priority=1),
        Column(name="Description", description="The hoster's words.", priority=1),
    ),
    rows=rows,
)
