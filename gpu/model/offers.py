"""What a tenant is shown: classes, free units, the most it could order now, and why not more."""

from dataclasses import dataclass

from gpu.model import cases, orders, placement, refusals
from gpu.model.orders import Order, Refused
from gpu.model.refusals import Refusal
from gpu.model.snapshot import Snapshot
from gpu.objects.classes import GPUClass, Mode
from gpu.units import ClassName, TenantName, Units


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One class as one tenant sees it."""

    class_name: ClassName
    mode: Mode
    display_name: str
    description: str
    max_count: Units | None
    """Most units of one claim; None is unlimited."""
    free: Units
    """Free to order, by anybody: not needed by Lost sets or by orders that wait already."""
    orderable: Units
    """The most this tenant could order in one claim now; one more is refused."""
    refusals: tuple[Refusal, ...]
    """Why not one more; never empty."""

    @property
    def reason(self) -> str:
        """Stable code of the first reason why not more."""
        return refusals.code(self.refusals[0])

    @property
    def message(self) -> str:
        """Every reason why not more, in words."""
        return "; ".join(refusals.words(refusal) for refusal in self.refusals)


def offers(snapshot: Snapshot, tenant: TenantName) -> tuple[Offer, ...]:
    """Return every class, retired and deleting ones too, by name."""
    return tuple(_offer(snapshot, tenant, offer) for offer in snapshot.classes.values())


def _offer(snapshot: Snapshot, tenant: TenantName, offer: GPUClass) -> Offer:
    orderable = orders.most(snapshot, tenant, offer.name)
    order = Order(tenant=tenant, class_name=offer.name, count=orderable + 1)
    verdict = orders.check(snapshot, order)
    assert isinstance(verdict, Refused)
    return Offer(
        class_name=offer.name,
        mode=offer.mode,
        display_name=offer.display_name,
        description=offer.description,
        max_count=cases.max_count(offer),
        free=placement.free(orders.queued(snapshot), offer.name),
        orderable=orderable,
        refusals=verdict.refusals,
    )
