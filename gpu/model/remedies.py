"""Remedy: one change that would let in what waits, all else as it is; told only if it is sure to.

Each change of a bounded list is tried by asking the model's own check of a queue in which all orders
that can be bound are. It is told when it lets this one in even if everything that comes before it
and that the change may let in too takes its units first. So what is told holds; what is not told
might still help, where others come before.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from gpu.model import booking, budgets, eligibility, orders, placement, refusals, tenancy
from gpu.model.draft import Draft
from gpu.model.gate_reasons import GateReason
from gpu.model.orders import Accepted, Order
from gpu.model.refusals import OverBudget
from gpu.model.waiters import OfRoom, Turn, Waiter, Waiters
from gpu.model.ways import Remedy, Way
from gpu.objects.claims import GPUClaim
from gpu.objects.classes import GPUClass
from gpu.units import ClassName, NodeName, QuotaKey, ResourceName, TenantName, Units


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What waits, as remedies are looked for."""

    draft: Draft
    """The queue worked through: `orders.queued`. Left as it was."""
    waiters: Waiters
    turn: Turn
    tenant: TenantName
    wants: Mapping[ClassName, int]
    """Units that one node must have for it, all of known classes."""
    reasons: tuple[GateReason, ...]
    """Why it waits; never empty."""
    check: Callable[[], bool]
    """Ask the model again, under a change of the draft: is it let in now?"""
    beside: tuple[GPUClaim, ...] = ()
    """Other claims of its VM, that it goes with."""
    is_pod: bool = False
    """A pod has to fit on the node, too."""

    @property
    def is_alone(self) -> bool:
        """Say whether it asks for units of one class, and any node that takes that class will do."""
        return len(self.wants) == 1 and not self.beside and not self.is_pod

    @property
    def units(self) -> dict[ResourceName, int]:
        """What it wants, by resource."""
        return placement.by_resource(self.draft, self.wants)


def of(case: Case) -> Iterator[Remedy]:
    """Yield what cures the only reason of a case, budgets apart: see `of_budgets`."""
    if len(case.reasons) != 1:
        return
    match case.reasons[0]:
        case refusals.ClassRetired(name):
            if _is_first(case):
                yield Remedy(way=Way.UNRETIRE, key=name)
        case refusals.NotPermitted(_, resource):
            if _is_first(case):
                yield Remedy(way=Way.PERMIT, key=resource)
        case refusals.NotEntitled(_, tenant):
            if _is_first(case):
                yield Remedy(way=Way.ENTITLE, tenant=tenant)
        case reason if isinstance(reason, OfRoom):
            yield from of_room(case)
        case _:
            return


def of_room(case: Case, *, is_lost: bool = False) -> Iterator[Remedy]:
    """Yield the room that would do. A Lost set comes before all others but those that it is behind."""
    if len(case.units) != 1:
        return
    ((resource, units),) = case.units.items()
    least = None if is_lost else case.waiters.least_before(case.turn, resource)
    if not is_lost and (case.waiters.has_stuck(resource) or least == 0):
        return
    if least is None or least > units:
        yield Remedy(way=Way.ROOM_ON_A_NODE, key=resource, units=units)
    if case.is_alone and any(
        room >= units + (0 if is_lost else case.waiters.short_before(case.turn, resource, room))
        for room in _behind_cordons(case, resource, units)
    ):
        yield Remedy(way=Way.UNCORDON)


def instead(case: Case, claim: GPUClaim) -> Iterator[Remedy]:
    """Yield orders that would be bound now if they were made in place of one that waits.

    They would be the youngest: whoever waits for the budget of the one that is given up comes first.
    """
    draft, order = case.draft, orders.of(claim)
    with draft.savepoint():
        draft.count_older(None)
        if any(_shares_budget(case, one) for one in case.waiters.started):
            return
        freed = case.waiters.freed(case.draft.snapshot.tree.line(case.tenant), but=claim.age)
        # All others that wait are counted already; they take their units first.
        booking.charge(draft.ledger, (claim,), draft.snapshot.classes, -1)
        if any(one.is_loose for one in freed):
            return
        taken = {resource for one in case.waiters.started for resource in one.units}
        most = _most(draft, order, freed, taken)
        if 0 < most < order.count:
            yield Remedy(way=Way.ORDER_LESS, units=most)
        other = next(_others(draft, order, freed, taken), None)
        if other is not None:
            yield Remedy(way=Way.ORDER_OTHER, key=other, units=order.count)


# Budgets.


def of_budgets(cases: Iterable[Case]) -> dict[Turn, Remedy]:
    """Return what cures those whose only reason is a budget, by turn; cases of one queue.

    Asked together and by age: what older orders use of a budget is counted once for all of them.
    """
    found: dict[Turn, Remedy] = {}
    draft: Draft | None = None
    for case in sorted(cases, key=lambda one: one.turn):
        match case.reasons:
            case (OverBudget() as refusal,):
                case.draft.count_older(case.turn[1])
                remedy = _budget(case, refusal)
                if remedy is not None:
                    found[case.turn] = remedy
            case _:
                continue
        draft = case.draft
    if draft is not None:
        draft.count_older(None)
    return found


def _budget(case: Case, refusal: OverBudget) -> Remedy | None:
    key, tenant = refusal.key, refusal.tenant
    with case.draft.savepoint():
        short = _short(case.draft, case.tenant, refusal)
        _raise(case.draft, tenant, key, short)
        if not (case.check() and _is_first(case)):
            return None
    if refusal.own:
        return Remedy(way=Way.MORE_BUDGET, key=key, units=short, tenant=tenant)
    return Remedy(way=Way.BUDGET_ABOVE, key=key, tenant=tenant)


def _short(draft: Draft, orderer: TenantName, refusal: OverBudget) -> int:
    """Return how much more a tenant would have to declare, all others as they are."""
    promised = 0
    for bound in budgets.bounds(draft.ledger, orderer, refusal.key):
        slack = bound.hard - bound.used
        if bound.tenant == refusal.tenant:
            return max(refusal.wanted - promised - slack, -slack)
        promised += max(0, slack)
    return 0


def _raise(draft: Draft, tenant: TenantName, key: QuotaKey, by: int) -> None:
    """Have a tenant declare more: above it, that is promised unless it is used already."""
    book = draft.ledger
    old, used = book.tree, book.used(tenant, key)
    found = old.declarations[tenant]
    hard = found.units[key]
    raised = replace(found, units={**found.units, key: Units(hard + by)})
    book.tree = replace(old, declarations={**old.declarations, tenant: raised})
    book.on_undo(lambda: setattr(book, "tree", old))
    above = tenancy.parent(tenant)
    if above is not None:
        book.charge(above, key, max(hard + by, used) - max(hard, used))


# What comes before.


def _is_first(case: Case) -> bool:
    """Say whether it is let in even when all before it that its cure may let in too come first."""
    names, reason = case.units, case.reasons[0]
    for one in case.waiters.started:
        if one.turn >= case.turn:
            break
        if names.keys() & one.units.keys():
            return False
        if isinstance(reason, OverBudget) and _shares_budget(case, one):
            return False
    taken = 0
    for one in case.waiters.alike(case.turn, reason):
        if one.is_loose:
            return False
        taken += sum(one.units.get(name, 0) for name in names)
    if not case.is_alone:
        return not taken
    ((name, units),) = case.wants.items()
    return placement.largest(case.draft, name) >= units + taken


def _shares_budget(case: Case, one: Waiter) -> bool:
    """Say whether a start may be let in by what a tenant's budgets leave: those count none of its units."""
    tree = case.draft.snapshot.tree
    shared = set(tree.line(case.tenant)) & set(tree.line(one.tenant))
    return any(tree.declared(tenant) for tenant in shared)


def _behind_cordons(case: Case, resource: ResourceName, units: int) -> Iterator[int]:
    """Yield the room of each node that a cordon alone keeps from taking it."""
    draft = case.draft
    offers = [draft.snapshot.classes[name] for name in case.wants]
    for node in case.waiters.cordoned:
        room = draft.ledger.room(node, resource)
        if room >= units and all(_is_cordoned_only(draft, one, node) for one in offers):
            yield room


def _is_cordoned_only(draft: Draft, offer: GPUClass, node: NodeName) -> bool:
    why = eligibility.why_not(draft.snapshot, offer, node)
    return (
        why is eligibility.Ineligible.CORDONED
        and eligibility.why_not(draft.snapshot, offer, node, holding=True) is None
    )


# Other orders.


def _most(draft: Draft, order: Order, freed: list[Waiter], taken: Container[ResourceName]) -> int:
    offer = draft.snapshot.classes[order.class_name]
    if offer.resource in taken:
        return 0
    room = placement.largest(draft, offer.name) - _units(freed, offer)
    return min(orders.most(draft, order.tenant, order.class_name), room)


def _others(
    draft: Draft, order: Order, freed: list[Waiter], taken: Container[ResourceName]
) -> Iterator[ClassName]:
    """Yield other classes that would take all of it: those of its mode first, then by name."""
    asked = draft.snapshot.classes[order.class_name]

    def rank(offer: GPUClass) -> tuple[bool, str]:
        return (offer.mode is not asked.mode, offer.name)

    for offer in sorted(draft.snapshot.classes.values(), key=rank):
        other = Order(tenant=order.tenant, class_name=offer.name, count=order.count)
        if offer.name == order.class_name or offer.resource in taken:
            continue
        if not isinstance(orders.judge(draft, other), Accepted):
            continue
        if placement.largest(draft, offer.name) >= order.count + _units(freed, offer):
            yield offer.name


def _units(freed: list[Waiter], offer: GPUClass) -> int:
    return sum(one.units.get(offer.resource, 0) for one in freed)
