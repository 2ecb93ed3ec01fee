"""Whatever is granted, in whatever order, by replicas however stale: no tenant promises more than it has.

The oracle adds up promises by recursion over what is stored, and over what may yet be.
"""

import random
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.grant_house import REPLICAS, TENANTS, House, above

pytestmark = pytest.mark.long  # sequences of writes by stale replicas

STEPS: Final = 100
KINDS: Final = (
    *("arrive",) * 5,
    *("judge",) * 10,
    *("store",) * 4,
    *("show",) * 4,
    "lose",
    "delete",
)
rolls = st.integers(0, 2**32 - 1).map(random.Random)
"""Dice of one's own: short lists, which hypothesis likes, hold no race."""


def a_house(dice):
    """A house of small budgets, most of them above, or of none yet."""
    house = House(use={dice.choice(TENANTS): dice.randint(0, 2)})
    likely = dice.choice([0, 0.3, 0.6])
    for name in TENANTS:
        most = 3 if name in TENANTS[3:] else 6
        if dice.random() < (likely / 3 if name in TENANTS[3:] else likely):
            house.stored[name] = (dice.randint(0, most), house.version)
    house.begin()
    return house


def amount(dice):
    return dice.choice([None, 0, 1, 1, 2, 2, 3, 4, 6])


def a_step(house, dice, busy):
    """Take one step; return the write that it let pass, if any. `busy` are tenants that are granted."""
    match dice.choice(KINDS):
        case "arrive":
            house.arrive(dice.randrange(REPLICAS), dice.choice(busy), amount(dice))
        case "judge" if house.judged:
            write = dice.choice(house.judged)
            if write.ruling is None:
                house.look(write)
            elif house.swap(write):
                return write
        case "store" if house.under_way:
            house.store(dice.choice(house.under_way))
        case "lose" if house.under_way:
            house.under_way.remove(dice.choice(house.under_way))
        case "show":
            replica = dice.randrange(REPLICAS)
            newest = len(house.states) - 1
            house.shown[replica] = dice.choice([newest, dice.randint(house.shown[replica], newest)])
        case "delete":
            house.delete(dice.choice(TENANTS[3:]))
    return None


@settings(deadline=None)
@given(rolls)
def test_no_tenant_comes_to_promise_more_than_it_declares(dice):
    house, busy = a_house(dice), dice.sample(TENANTS, 4)
    for _ in range(STEPS):
        passed = a_step(house, dice, busy)
        assert passed is None or house.overdrawing(passed) == set()
        assert house.overdrawn() <= house.excused


def test_a_budget_that_is_declared_between_two_grants_bounds_the_second():
    house = House(use={})
    house.begin()
    assert house.judge("tenant-a-x", 4)  # nobody above declares anything; it is not stored yet
    assert house.judge("tenant-a", 4)
    house.store(house.under_way[1])
    house.shown[0] = 1
    assert not house.judge("tenant-a-y", 1)


@settings(deadline=None)
@given(rolls)
def test_what_stays_is_lowered_or_removed_always_passes(dice):
    house, tenant, units = a_house(dice), dice.choice(TENANTS), amount(dice)
    held = house.stored.get(tenant, (None, 0))[0]
    lowers = units is None or (held is not None and units <= held)
    if lowers:
        assert house.judge(tenant, units)
        assert house.books == {}


@settings(deadline=None)
@given(rolls)
def test_one_write_alone_passes_just_where_nobody_above_would_be_overdrawn(dice):
    house, tenant, units = a_house(dice), dice.choice(TENANTS[1:]), dice.randint(0, 9)
    held = house.stored.get(tenant, (None, 0))[0]
    if held is not None and units <= held:
        return
    passes = house.judge(tenant, units)
    house.stored[tenant] = (units, 99)
    over = {name for name in above(tenant) if name in house.stored and _alone(house, name, tenant)}
    assert passes == (not over or units == 0), over


def _alone(house, name, tenant):
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
