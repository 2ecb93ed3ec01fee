"""Whatever is granted, in whatever order, by replicas however stale: no tenant promises more than it has.

The oracle adds up promises by recursion over what is stored. A write passes the gate on what one
replica shows and on the reservations; it is stored later, or never.
"""

import random
from dataclasses import dataclass, field
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.model import grants, reservations, tenancy
from gpu.model.grants import Change
from gpu.model.reservations import Book
from tests.builders import START, a_claim, a_class, a_node, a_release, a_snapshot

pytestmark = pytest.mark.long  # sequences of writes by stale replicas

KEY = "gpu.cozystack.io/h100"
TENANTS = (
    "tenant-root",
    "tenant-a",
    "tenant-b",
    "tenant-a-x",
    "tenant-a-y",
    "tenant-a-x-m",
    "tenant-a-x-n",
    "tenant-a-x-m-o",
)
REPLICAS = 2

Stored = dict[str, tuple[int | None, int]]
"""By tenant: units it declares, or None for no such key, and the version it was stored as."""


@dataclass
class Write:
    """One that has passed the gate and is not stored yet."""

    tenant: str
    units: int | None
    base: int


@dataclass
class House:
    """What is stored, what each replica shows of it, what is reserved and on its way."""

    use: dict[str, int]
    stored: Stored = field(default_factory=dict)
    version: int = 1
    shown: list[Stored] = field(default_factory=list)
    books: dict[str, Book] = field(default_factory=dict)
    under_way: list[Write] = field(default_factory=list)
    excused: set[str] = field(default_factory=set)
    """Declared less than before, or for the first time: what is below may be more, as ever."""

    def judge(self, replica: int, tenant: str, units: int | None) -> bool:
        """Have a replica judge a write; True when it lets it pass, with its reservation made."""
        shown = self.shown[replica]
        found = a_snapshot(
            classes=[a_class()],
            nodes=[a_node(units=99)],
            claims=[
                a_claim(tenant=name, count=count, on="n1")
                for name, count in self.use.items()
                if count
            ],
            releases=[
                a_release(name, {} if units is None else {KEY: units})
                for name, (units, _) in shown.items()
            ],
        )
        old, base = self.stored.get(tenant, (None, 0))
        change = Change(
            tenant=tenant,
            old={} if old is None else {KEY: old},
            new={} if units is None else {KEY: units},
        )
        seen = {name: version for name, (_, version) in shown.items()}
        read: dict[str, Book] = {}
        while True:
            reserved = {}
            for book in read.values():
                reserved.update(book.in_force(START, seen))
            ruling = grants.judge(found, change, reserved)
            if ruling.objections:
                return False
            unread = ruling.bounding.keys() - read.keys()
            if not unread:
                break
            read.update({name: self.books.get(name, Book()) for name in unread})
        for name, amounts in ruling.bounding.items():
            entry = reservations.entered(
                read[name], tenant, amounts, after=base or self.version, now=START, seen=seen
            )
            self.books[name] = Book({**read[name].entries, tenant: entry})
        self.under_way.append(Write(tenant, units, base))
        return True

    def store(self, at: int) -> None:
        """Store a write that is under way, unless its object was changed meanwhile."""
        write = self.under_way.pop(at)
        old, version = self.stored.get(write.tenant, (None, 0))
        if version != write.base:
            return
        if write.units is not None and (old is None or write.units < old):
            self.excused.add(write.tenant)
        self.version += 1
        self.stored[write.tenant] = (write.units, self.version)

    def promised(self, tenant: str) -> int:
        """Return what lies below a tenant and its own use: by recursion, from what is stored."""
        below = (name for name in TENANTS if tenancy.parent(name) == tenant)
        return self.use.get(tenant, 0) + sum(
            max(self.stored.get(name, (None, 0))[0] or 0, self.promised(name)) for name in below
        )

    def overdrawn(self) -> set[str]:
        """Return the tenants with more below them than they declare."""
        return {
            name
            for name, (units, _) in self.stored.items()
            if units is not None and self.promised(name) > units
        }


STEPS: Final = 40
KINDS: Final = ("judge",) * 5 + ("store",) * 4 + ("show", "lose", "delete")
rolls = st.integers(0, 2**32 - 1).map(random.Random)
"""Dice of one's own: short lists, which hypothesis likes, hold no race."""


def a_house(dice):
    """A house of small budgets, most of them above."""
    house = House(use={dice.choice(TENANTS): dice.randint(0, 2)})
    for name in TENANTS:
        most = 2 if name in TENANTS[3:] else 5
        if dice.random() < (0.2 if name in TENANTS[3:] else 0.6):
            house.stored[name] = (dice.randint(0, most), house.version)
    house.excused = house.overdrawn()
    house.shown = [dict(house.stored) for _ in range(REPLICAS)]
    return house


def amount(dice):
    return dice.choice([None, *range(5), *range(5), 9])


def a_step(dice):
    kind = dice.choice(KINDS)
    if kind == "judge":
        return kind, dice.randrange(REPLICAS), dice.choice(TENANTS[1:]), amount(dice)
    return kind, dice.choice(TENANTS[3:]) if kind == "delete" else dice.randrange(REPLICAS)


def take(house, step):
    match step:
        case ("judge", replica, tenant, units):
            house.judge(replica, tenant, units)
        case ("store", at) if house.under_way:
            house.store(at % len(house.under_way))
        case ("lose", at) if house.under_way:
            house.under_way.pop(at % len(house.under_way))
        case ("show", replica):
            house.shown[replica] = dict(house.stored)
        case ("delete", tenant):
            house.stored.pop(tenant, None)


@settings(deadline=None)
@given(rolls)
def test_no_tenant_comes_to_promise_more_than_it_declares(dice):
    house = a_house(dice)
    for step in [a_step(dice) for _ in range(STEPS)]:
        take(house, step)
        assert house.overdrawn() <= house.excused, step


@settings(deadline=None)
@given(rolls)
def test_what_stays_is_lowered_or_removed_always_passes(dice):
    house, tenant, units = a_house(dice), dice.choice(TENANTS), amount(dice)
    held = house.stored.get(tenant, (None, 0))[0]
    lowers = units is None or (held is not None and units <= held)
    if lowers:
        assert house.judge(0, tenant, units)
        assert house.books == {}


@settings(deadline=None)
@given(rolls)
def test_one_write_alone_passes_just_where_nobody_above_would_be_overdrawn(dice):
    house, tenant, units = a_house(dice), dice.choice(TENANTS[1:]), dice.randint(0, 9)
    held = house.stored.get(tenant, (None, 0))[0]
    if held is not None and units <= held:
        return
    passes = house.judge(0, tenant, units)
    was_over = house.overdrawn()
    house.stored[tenant] = (units, 99)
    above = set(house_line(tenant))
    over = {name for name in above & house.stored.keys() if _alone(house, name, tenant, units)}
    assert passes == (not over or units == 0), (was_over, over)


def house_line(tenant):
    """Yield the tenants above one."""
    above = tenancy.parent(tenant)
    while above is not None:
        yield above
        above = tenancy.parent(above)


def _alone(house, name, tenant, units):
    """Say whether a tenant above has too little, counting of the child what it was promised alone.

    A child's own use beyond its promise is its own trouble, and so is what lies below it.
    """
    declared = house.stored[name][0]
    child_only = House(
        use={
            one: count
            for one, count in house.use.items()
            if one != tenant and not one.startswith(f"{tenant}-")
        },
        stored={
            one: kept for one, kept in house.stored.items() if not one.startswith(f"{tenant}-")
        },
    )
    return declared is not None and child_only.promised(name) > declared
