"""Budgets of many tenants in a deep tree: what a verdict and a tenant's gates cost."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from time import thread_time
from typing import Final

from bench import house
from bench.figures import Collected, Goal, Sense, Take
from gpu import keys
from gpu.model import budgets, grants, orders
from gpu.model.draft import Draft
from gpu.model.grants import Change
from gpu.model.orders import Order
from gpu.model.reservations import Reserved
from gpu.model.snapshot import Snapshot
from gpu.objects import tenants
from gpu.objects.tenants import Namespace, TenantRelease
from gpu.units import ClassName, QuotaKey, TenantName, Units
from gpu.world import World

HELD: Final = 10_000
NODES: Final = 1_000
TENANTS: Final = 1_000
_WIDE: Final = 10
_ASKED: Final = 1_000
_RESERVED: Final = 64
"""Tenants whose quotas were changed in the last half minute: many."""
_SHARE: Final = 20
"""Units of `total` each tenant at the bottom declares; those above declare what is below, and more."""
_OVER: Final = Goal(take=Take.P99, sense=Sense.AT_MOST, value=1)
_CHECK: Final = Goal(take=Take.P99, sense=Sense.AT_MOST, value=5)
_AMONG: Final = f"{HELD:,} claims, {TENANTS:,} tenants 4 deep"
_NOTE: Final = (
    "each tenant declares total and a class; every one above the orderer is asked; processor time"
)


def measure(got: Collected) -> None:
    """Add the figures of budgets; one snapshot, the questions go around its deepest tenants."""
    snapshot = planted().snapshot
    book = snapshot.counted()
    names = [ClassName(name) for name in house.CLASSES]
    asked = list(itertools.islice(itertools.cycle(zip(deepest(), itertools.cycle(names))), _ASKED))
    Draft.of(snapshot)
    orders.queued(snapshot)

    def over(tenant: TenantName, name: ClassName) -> object:
        return budgets.over(book, tenant, snapshot.quota_keys(name), Units(9))

    def check(tenant: TenantName, name: ClassName) -> object:
        return orders.check(snapshot, Order(tenant=tenant, class_name=name, count=9))

    for what, ask, goal in (
        ("budgets of an order", over, _OVER),
        ("order verdict", check, _CHECK),
        ("all gates of a tenant", _gates(snapshot), None),
        ("quotas of a new tenant", _grants(snapshot, {}), _CHECK),
        (f"the same beside {_RESERVED} reservations", _grants(snapshot, _reserved()), None),
    ):
        took = [_ms(lambda: ask(tenant, name)) for tenant, name in asked]  # noqa: B023 - asked at once
        got.add(f"model: {what}, {_AMONG}", "ms", took, goal=goal, note=_NOTE)


def planted() -> World:
    """Return a full house whose claims belong to the tenants of a deep tree."""
    full = house.full(HELD, NODES).world
    owners = itertools.cycle(every())
    claims = tuple(
        replace(claim, meta=replace(claim.meta, namespace=next(owners))) for claim in full.claims
    )
    return World(
        classes=full.classes,
        nodes=full.nodes,
        inventory=full.inventory,
        claims=tuple(sorted(claims, key=lambda claim: claim.meta.key)),
        namespaces=tuple(_namespace(name) for name in (keys.TENANT_ROOT, *every())),
        releases=tuple(_release(name) for name in every()),
    )


def every() -> tuple[TenantName, ...]:
    """Return the tenants of the tree, those above before those below."""
    tops = [f"tenant-t{index}" for index in range(_WIDE)]
    middle = [f"{top}-m{index}" for top in tops for index in range(_WIDE)]
    return tuple(map(TenantName, (*tops, *middle))) + tuple(deepest())


def deepest() -> Iterator[TenantName]:
    """Yield the tenants at the bottom."""
    rest = TENANTS - _WIDE - _WIDE * _WIDE
    for index in range(rest):
        above = f"tenant-t{index % _WIDE}-m{index // _WIDE % _WIDE}"
        yield TenantName(f"{above}-d{index}")


def _namespace(name: str) -> Namespace:
    return tenants.decode_namespace({"metadata": {"name": name, "uid": name}})


def share(tenant: TenantName) -> int:
    """Return the units that a tenant declares of each of its keys."""
    return int(_SHARE * (_WIDE + 1) ** (3 - tenant.count("-")))


def _release(tenant: TenantName) -> TenantRelease:
    depth, total = tenant.count("-"), share(tenant)
    above, _, name = tenant.rpartition("-")
    quotas = {keys.QUOTA_TOTAL: total, keys.quota_key_of_class(house.CLASSES[depth]): total}
    return tenants.decode_release(
        {
            "metadata": {
                "name": f"tenant-{name}",
                "namespace": keys.TENANT_ROOT if depth == 1 else above,
                "uid": f"release-{tenant}",
            },
            "spec": {"values": {"resourceQuotas": quotas}},
        }
    )


def _gates(snapshot: Snapshot) -> Callable[[TenantName, ClassName], object]:
    return lambda tenant, _: budgets.gates(snapshot, tenant)


def _grants(snapshot: Snapshot, reserved: Reserved) -> Callable[[TenantName, ClassName], object]:
    """Return a question for the quotas of a new sibling; what is reserved is other tenants'."""

    def judge(tenant: TenantName, name: ClassName) -> object:
        above = tenant.rpartition("-")[0]
        wanted = {keys.QUOTA_TOTAL: 2, keys.quota_key_of_class(name): 1}
        change = Change(tenant=TenantName(f"{above}-new"), new=wanted)
        return grants.judge(snapshot, change, reserved)

    return judge


def _reserved() -> Reserved:
    found = itertools.islice(deepest(), _RESERVED)
    return {tenant: {QuotaKey(keys.QUOTA_TOTAL): Units(_SHARE + 1)} for tenant in found}


def _ms(ask: Callable[[], object]) -> float:
    began = thread_time()
    ask()
    return 1000 * (thread_time() - began)
