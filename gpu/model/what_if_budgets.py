"""What if a budget were another: which claims it would not cover, and which waiting ones it would let in."""

from dataclasses import dataclass, replace

from gpu.model import booking, settling, tenancy, what_if
from gpu.model.draft import Draft
from gpu.model.drain_plan import Circumstances
from gpu.model.settling import Why
from gpu.model.snapshot import Memo, Snapshot
from gpu.model.tenancy import Tree
from gpu.model.what_if import Answer, Fate, StartFate
from gpu.objects.claims import GPUClaim
from gpu.objects.tenants import Declared
from gpu.units import QuotaKey, TenantName, Units


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A budget with another amount, and what counts against it."""

    was: Units | None
    """As declared now; None is unlimited."""
    to: Units | None
    used: Units
    """By claims of every phase and raw pods of the tenant, and what is used or promised below it."""

    @property
    def excess(self) -> Units:
        """Units used beyond what it would be."""
        return Units(max(0, self.used - self.to)) if self.to is not None else Units(0)


def set_budget(
    snapshot: Snapshot, about: Circumstances, tenant: TenantName, key: QuotaKey, to: Units | None
) -> tuple[Budget, Answer]:
    """Return what comes of a tenant declaring another amount under a key; None takes the budget away.

    Nothing that holds units loses them. `over` are the youngest claims of the tenant and of those below
    it without which the budget would be kept, as far as claims of theirs can do that: units promised below
    and raw pods count as well, and are not claims.
    """
    after = with_tree(snapshot, _declaring(snapshot.tree, tenant, key, to))
    was = snapshot.tree.declared(tenant).get(key)
    budget = Budget(was=was, to=to, used=Units(after.counted().used(tenant, key)))
    before, now = (settling.settle(Draft.of(one), about) for one in (snapshot, after))
    stuck = tuple(
        Fate(claim=snapshot.claims[name], why=Why.OVER_BUDGET)
        for name in before.bound
        if name not in now.bound
    )
    barred = {fate.claim.key for fate in stuck}
    over = tuple(
        Fate(claim=claim, why=Why.OVER_BUDGET)
        for claim in _over(after, tenant, key, budget)
        if claim.key not in barred
    )
    return budget, Answer(
        over=over,
        stuck=stuck,
        let_in=tuple(what_if.newly(snapshot, before.bound, now.bound)),
        starts_let_in=tuple(what_if.newly_seated(before, now)),
        starts_stuck=tuple(
            StartFate(start=one.start, why=Why.OVER_BUDGET)
            for one in what_if.newly_seated(now, before)
        ),
    )


def with_tree(snapshot: Snapshot, tree: Tree) -> Snapshot:
    """Return the snapshot with other declarations; the one given stays as it is."""
    book = snapshot.ledger.copy()
    book.tree = tree
    book.used_units = {}
    own = booking.own_units(snapshot.claims.values(), snapshot.pod_units.raw, snapshot.classes)
    book.load(own)
    return replace(snapshot, tree=tree, ledger=book, memo=Memo())


def _declaring(tree: Tree, tenant: TenantName, key: QuotaKey, to: Units | None) -> Tree:
    old = tree.declarations.get(tenant, Declared())
    units = {name: amount for name, amount in old.units.items() if name != key}
    if to is not None:
        units[key] = to
    unreadable = {name: why for name, why in old.unreadable.items() if name != key}
    declared = Declared(units=units, unreadable=unreadable)
    return replace(tree, declarations={**tree.declarations, tenant: declared})


def _over(
    after: Snapshot, tenant: TenantName, key: QuotaKey, budget: Budget
) -> tuple[GPUClaim, ...]:
    """Return the youngest claims without which the budget is kept, youngest first."""
    if not budget.excess or budget.to is None:
        return ()
    book = after.counted().copy()
    below = sorted(
        (
            claim
            for claim in after.claims.values()
            if tenant in after.tree.line(claim.tenant)
            and key in after.quota_keys(claim.class_name)
            and tenancy.is_tenant(claim.tenant)
        ),
        key=lambda claim: claim.age,
        reverse=True,
    )
    found: list[GPUClaim] = []
    for claim in below:
        used = book.used(tenant, key)
        if used <= budget.to:
            break
        book.charge(claim.tenant, key, -claim.count)
        if book.used(tenant, key) < used:
            found.append(claim)
    return tuple(found)
