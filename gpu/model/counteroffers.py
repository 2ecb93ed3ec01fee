"""What would be accepted in place of an order: a smaller count, or another class that takes it all.

One function judges a new order for the order webhook and for order reviews, and one words it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpu.model import coverage, orders, refusals, sets
from gpu.model.draft import Draft
from gpu.model.orders import Accepted, Order, Refused
from gpu.model.refusals import Refusal
from gpu.model.sets import ClaimSet
from gpu.model.snapshot import Snapshot
from gpu.objects.claims import GPUClaim
from gpu.objects.classes import GPUClass
from gpu.units import ZERO, ClassName, Units


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is said of a new order as things are now, and what would be said of others."""

    refusals: tuple[Refusal, ...] = ()
    """Every reason the order fails; empty when it would be bound now."""
    most: Units = ZERO
    """The largest count of its class that would be accepted."""
    alternatives: tuple[ClassName, ...] = ()
    """Other classes that would take all of a refused order: those of its mode first, then by name."""

    @property
    def is_accepted(self) -> bool:
        """Say whether the order would be bound now."""
        return not self.refusals


def of_claim(snapshot: Snapshot, claim: GPUClaim) -> Order:
    """Return the order that a claim would be if it were stored now: the youngest.

    A VM that names it already has its other claims beside it.
    """
    return replace(orders.of(claim, _mates(orders.queued(snapshot), claim)), age=None)


def judge(snapshot: Snapshot, order: Order) -> Judgement:
    """Judge a new order, behind all that wait already."""
    verdict = orders.check(snapshot, order)
    if isinstance(verdict, Accepted):
        most = orders.most(snapshot, order.tenant, order.class_name)
        return Judgement(most=_most(snapshot, order, most))
    return Judgement(
        refusals=verdict.refusals,
        most=_most(snapshot, order, verdict.would_fit),
        alternatives=tuple(_alternatives(snapshot, order)),
    )


def words(order: Order, judged: Judgement) -> str:
    """Say why an order is refused and what would be accepted, in one line."""
    parts = [refusals.words(refusal) for refusal in judged.refusals]
    if judged.most:
        parts.append(f"at most {judged.most} would be accepted now")
    elif judged.alternatives:
        parts.append(f"no order of class {order.class_name} would be accepted now")
    else:
        parts.append("nothing would be accepted now")
    if judged.alternatives:
        parts.append(f"class {judged.alternatives[0]} would take all {order.count}")
    return "; ".join(parts)


def _mates(draft: Draft, claim: GPUClaim) -> tuple[GPUClaim, ...]:
    """Return what `mates.of` would if the claim were in the draft."""
    named = draft.snapshot.named
    vm = named.get(claim.key)
    if vm is None:
        return ()
    keys = [key for key, owner in named.items() if owner == vm]
    keys += [one.key for one in draft.snapshot.attached if coverage.holder_of(one) == vm]
    found = filter(None, (draft.claim(key) for key in dict.fromkeys(keys)))
    members = sorted(
        (one for one in found if sets.vm_of(one, named) == vm), key=lambda one: one.age
    )
    return ClaimSet(claims=tuple(members)).kept if members else ()


def _most(snapshot: Snapshot, order: Order, alone: Units) -> Units:
    """Return the largest count accepted beside the order's mates; `alone` is that without them.

    What is accepted of some count is accepted of any smaller one.
    """
    if not order.mates:
        return alone
    least, most = 0, int(alone)
    while least < most:
        middle = (least + most + 1) // 2
        if isinstance(orders.check(snapshot, replace(order, count=middle)), Refused):
            most = middle - 1
        else:
            least = middle
    return Units(least)


def _alternatives(snapshot: Snapshot, order: Order) -> Iterator[ClassName]:
    asked = snapshot.classes.get(order.class_name)

    def rank(offer: GPUClass) -> tuple[bool, str]:
        return (asked is not None and offer.mode is not asked.mode, offer.name)

    for offer in sorted(snapshot.classes.values(), key=rank):
        if offer.name == order.class_name:
            continue
        verdict = orders.check(snapshot, replace(order, class_name=offer.name))
        if isinstance(verdict, Accepted):
            yield offer.name
