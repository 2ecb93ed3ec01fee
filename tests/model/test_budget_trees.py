"""Over random trees of tenants, budgets are what plain sums over all objects say."""

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from gpu.model import advance, budgets
from gpu.model.budgets import GateState
from tests import sampling
from tests.builders import (
    H100,
    L40,
    a_claim,
    a_class,
    a_pod,
    a_release,
    a_settings,
    a_snapshot,
    a_vmi,
    attachment,
)
from tests.model.budget_oracle import TOTAL, Oracle

quick = sampling.examples(60)
pytestmark = pytest.mark.long  # an oracle that adds up whole trees

TENANTS = (
    "tenant-root",
    "tenant-a",
    "tenant-a-b",
    "tenant-a-b-c",
    "tenant-a-b-d",
    "tenant-a-e",
    "tenant-f",
    "tenant-f-g",
    "tenant-f-g-h",
)
CLASSES = {"h100": H100, "h100-b": H100, "l40": L40}
KEYS = (*(f"gpu.cozystack.io/{name}" for name in CLASSES), TOTAL, H100, L40)
PODS = ("p0", "p1", "p2")

amounts = st.one_of(
    st.integers(0, 9),
    st.integers(6, 40),
    st.sampled_from([0, "0", "1k", "x", 1.5, None]),
)
quotas = st.dictionaries(st.sampled_from(KEYS), amounts, max_size=4)


@st.composite
def releases(draw):
    """Some declare, some declare nothing, some are not there; 0 and unreadable among the values."""
    return [a_release(tenant, draw(quotas)) for tenant in TENANTS if draw(st.integers(0, 2))]


@st.composite
def claims(draw):
    """Of every phase, deleted ones too, attached ones with pods on record."""
    found = []
    for index in range(draw(st.integers(0, 10))):
        place = draw(st.sampled_from([{}, {"on": "n1"}, {"lost": "n1"}]))
        recorded = draw(st.sets(st.sampled_from(PODS)))
        vm = draw(st.sampled_from([None, "vm1", "vm2"]))
        found.append(
            a_claim(
                f"c{index}",
                tenant=draw(st.sampled_from(TENANTS)),
                class_name=draw(st.sampled_from([*CLASSES, "gone"])),
                count=draw(st.integers(1, 4)),
                at=draw(st.integers(0, 3)),
                deleting=draw(st.booleans()),
                template=draw(st.booleans()),
                attached=attachment(vm, pods=dict.fromkeys(sorted(recorded), "n1")) if vm else None,
                **place,
            )
        )
    return found


@st.composite
def pods(draw):
    """Of a few tenants, on a node or not yet, live or ended."""
    return [
        a_pod(
            name,
            uid=name,
            tenant=tenant,
            on=draw(st.sampled_from([None, "n1"])),
            units=draw(st.integers(0, 4)),
            resource=draw(st.sampled_from([H100, L40, "example.com/nic"])),
            phase=draw(st.sampled_from(["Pending", "Running", "Running", "Succeeded"])),
        )
        for tenant in TENANTS[1:5]
        for name in PODS
        if draw(st.integers(0, 2)) == 0
    ]


@st.composite
def vmis(draw):
    """Each lists pods of its own namespace, no two the same."""
    return [
        a_vmi(name, tenant=tenant, active={pod: "n1"})
        for tenant in TENANTS[1:5]
        for name, pod in zip(("vm1", "vm2"), draw(st.permutations(PODS)), strict=False)
        if draw(st.integers(0, 2)) == 0
    ]


@st.composite
def forests(draw):
    return {
        "classes": [a_class(name, resource=resource) for name, resource in CLASSES.items()],
        "claims": draw(claims()),
        "pods": draw(pods()),
        "vmis": draw(vmis()),
        "releases": draw(releases()),
    }


def snapshot_of(objects):
    return a_snapshot(**objects, settings=a_settings(H100, L40, raw=True))


def shown(snapshot):
    """What every tenant is told of every key."""
    return {
        tenant: {gate.key: gate for gate in budgets.gates(snapshot, tenant)} for tenant in TENANTS
    }


@quick
@given(forests())
def test_every_number_of_every_tenant_is_what_the_contract_says(objects):
    snapshot, oracle = snapshot_of(objects), Oracle(objects, TENANTS)
    for tenant, gates in shown(snapshot).items():
        for key in KEYS:
            gate = gates[key]
            use = (gate.use.claims, gate.use.pods, gate.use.below)
            assert use == oracle.parts(tenant, key), (tenant, key)
            assert gate.used == oracle.used(tenant, key), (tenant, key)
            assert gate.hard == oracle.declared(tenant, key), (tenant, key)
            left = oracle.left(tenant, [key])
            event(f"left {left}")
            is_open = gate.remaining is None or gate.remaining > 0
            assert (gate.state is GateState.OPEN) == is_open, (tenant, key)
            if gate.state is GateState.CLOSED:
                continue
            if left is None:
                assert gate.remaining is None or gate.remaining >= 60, (tenant, key)
            else:
                assert gate.remaining == left, (tenant, key)


@quick
@given(forests(), st.sampled_from(TENANTS), st.sampled_from([*CLASSES]), st.integers(1, 12))
def test_an_order_breaks_exactly_the_budgets_it_overdraws(objects, tenant, name, units):
    book, oracle = snapshot_of(objects).counted(), Oracle(objects, TENANTS)
    keys = oracle.keys_of(name)
    found = {(one.tenant, one.key) for one in budgets.over(book, tenant, sorted(keys), units)}
    assert found == oracle.broken(tenant, keys, units)
    left, expected = budgets.left(book, tenant, sorted(keys)), oracle.left(tenant, keys)
    assert left == expected or (expected is None and left >= 60)


@quick
@given(forests(), st.lists(st.tuples(st.sampled_from(TENANTS), quotas), max_size=4), st.data())
def test_after_declarations_changed_all_is_as_if_made_of_nothing(objects, changes, data):
    snapshot = snapshot_of(objects)
    for tenant, declared in changes:
        kept = [one for one in objects["releases"] if one.tenant != tenant]
        changed = {"releases": [*kept, a_release(tenant, declared)]}
        if data.draw(st.booleans()):
            changed["claims"] = objects["claims"][:-1]
        objects = objects | changed
        expected = snapshot_of(objects)
        snapshot = advance.advance(snapshot, expected.given, expected.settings)
        assert shown(snapshot) == shown(expected)
        assert {one: units for one, units in snapshot.ledger.used_units.items() if units} == {
            one: units for one, units in expected.ledger.used_units.items() if units
        }
