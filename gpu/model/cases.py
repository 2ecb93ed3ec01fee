"""Case: what all orders of one tenant, class and count are judged by, asked once for a draft.

Thousands of waiting orders are a few cases. What nothing in a draft changes is found once for each;
where there is room is asked again once units of the resource have moved. Only budgets are asked
for every order, where one is declared: each is judged behind those that are older.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from gpu.model import budgets, entry, placement, refusals, tenancy
from gpu.model.draft import Draft
from gpu.model.refusals import Refusal
from gpu.model.snapshot import Snapshot
from gpu.objects.classes import GPUClass, Mode
from gpu.units import ONE, ClassName, NodeName, QuotaKey, TenantName, Units

MOST_COUNT: Final = 2**31 - 1
"""The largest count the stored schema takes."""


@dataclass(slots=True, kw_only=True, eq=False)
class Case:
    """What orders of one case are judged by in one draft, but for the claims of a VM beside them."""

    offer: GPUClass
    wanted: Units
    """Units of one of them; 0 where its count makes no sense."""
    barred: tuple[Refusal, ...]
    """What is wrong with each of them whatever is free, told before room and budgets."""
    unentitled: tuple[Refusal, ...]
    """The same, told after them."""
    budgets: tuple[QuotaKey, ...]
    """The keys it counts under of which a budget may refuse it: no other does, whatever orders are bound."""
    _seen: tuple[int, NodeName | None] | None = field(default=None, repr=False)
    """What the room below was found by: touched nodes of the resource, and the one kept."""
    _node: NodeName | None = None
    _refused: tuple[Refusal, ...] = ()

    @property
    def is_barred(self) -> bool:
        """Say whether each of them is refused whatever is free and used."""
        return bool(self.barred or self.unentitled)

    def node(self, draft: Draft) -> NodeName | None:
        """Return the fullest node with room for one of them, or None."""
        self._look(draft)
        return self._node

    def refused(self, draft: Draft) -> tuple[Refusal, ...]:
        """Return why each is refused where no budget is in the way; the very same while it stands."""
        self._look(draft)
        return self._refused

    def _look(self, draft: Draft) -> None:
        resource = self.offer.resource
        seen = len(draft.ledger.touched.get(resource, ())), draft.earmarks.get(resource)
        if seen == self._seen:
            return
        self._node, why = None, self.barred
        if self.wanted:
            name = self.offer.name
            self._node = placement.choose(draft, {name: self.wanted})
            if self._node is None:
                why = (*why, placement.why_not(draft, name, self.wanted))
        self._refused = (*why, *self.unentitled)
        self._seen = seen


def of(draft: Draft, tenant: TenantName, name: ClassName, count: int) -> Case | None:
    """Return the case of an order, made at its first question; None for a class nobody knows."""
    key = (tenant, name, count)
    found = draft.cases.get(key)
    if isinstance(found, Case):
        return found
    offer = draft.snapshot.classes.get(name)
    if offer is None:
        return None
    snapshot = draft.snapshot
    wanted = Units(max(count, 0))
    entitled = entry.is_entitled(snapshot, tenant, offer)
    made = Case(
        offer=offer,
        wanted=wanted,
        barred=(*no_tenant(tenant), *entry.class_bars(snapshot, offer), *_count_bars(offer, count)),
        unentitled=() if entitled else (refusals.NotEntitled(offer.name, tenant),),
        budgets=_scarce(snapshot, tenant, name, wanted) if wanted else (),
    )
    draft.cases[key] = made
    return made


def max_count(offer: GPUClass) -> Units | None:
    """Return the most units of one claim of a class; None is unlimited. Absent is 1 for vGPU."""
    if offer.max_count is None and offer.mode is Mode.VGPU:
        return ONE
    return offer.max_count


def no_tenant(tenant: TenantName) -> tuple[Refusal, ...]:
    """Return what is wrong with an order in a namespace that is no tenant's."""
    return () if tenancy.is_tenant(tenant) else (refusals.NoTenant(tenant),)


def _count_bars(offer: GPUClass, count: int) -> Iterator[Refusal]:
    if not 0 < count <= MOST_COUNT:
        yield refusals.BadCount(count, MOST_COUNT)
    allowed = max_count(offer)
    if allowed is not None and count > 0 and count > allowed:
        yield refusals.OverMaxCount(offer.name, Units(count), allowed)


def _scarce(
    snapshot: Snapshot, tenant: TenantName, name: ClassName, wanted: Units
) -> tuple[QuotaKey, ...]:
    """Return the keys that would refuse the order behind all that wait, whatever their age.

    What is left of a budget only shrinks with each order that counts, and a bound one counts as it
    did while it waited. So what leaves enough behind all of them does behind the older ones alone.
    """
    found = budgets.over(snapshot.counted(), tenant, snapshot.quota_keys(name), wanted)
    return tuple(dict.fromkeys(item.key for item in found))
