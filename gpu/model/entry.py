"""What bars a tenant from a class whatever is free and whatever the budget: asked before counting."""

from collections.abc import Iterator

from gpu.model import names, refusals
from gpu.model.refusals import Refusal
from gpu.model.snapshot import Snapshot
from gpu.objects.classes import GPUClass, Mode
from gpu.units import TenantName


def class_bars(snapshot: Snapshot, offer: GPUClass) -> Iterator[Refusal]:
    """Yield why the class takes no orders from anybody."""
    if offer.retired:
        yield refusals.ClassRetired(offer.name)
    if offer.meta.deleting:
        yield refusals.ClassDeleting(offer.name)
    if not names.is_permitted(offer.resource, snapshot.permitted):
        yield refusals.NotPermitted(offer.name, offer.resource)


def is_entitled(snapshot: Snapshot, tenant: TenantName, offer: GPUClass) -> bool:
    """Say whether the tenant may order the class's mode: vGPU needs the entitlement."""
    return offer.mode is not Mode.VGPU or snapshot.tree.is_entitled(tenant)


def barred(snapshot: Snapshot, tenant: TenantName, offer: GPUClass) -> Iterator[Refusal]:
    """Yield all of it: what the class bars, then a missing entitlement."""
    yield from class_bars(snapshot, offer)
    if not is_entitled(snapshot, tenant, offer):
        yield refusals.NotEntitled(offer.name, tenant)
