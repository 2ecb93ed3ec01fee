"""Each way a unit comes to count, at each edge of a budget: the order's verdict and the gate's numbers.

Three units are used; a budget leaves one, none, is lowered below them, is 0, or is not there. Node
room is never short here.
"""

import itertools

import pytest

from gpu.model import budgets, orders
from gpu.model.budgets import GateState
from gpu.model.orders import Accepted, Order, Refused
from gpu.model.pools import Use
from gpu.model.refusals import OverBudget
from gpu.objects.claims import Phase
from tests.binder import raws
from tests.binder.rig import Rig
from tests.builders import (
    H100,
    a_claim,
    a_node,
    a_pod,
    a_release,
    a_settings,
    a_snapshot,
    a_vmi,
    attachment,
)

CLASS, TOTAL = "gpu.cozystack.io/h100", "gpu.cozystack.io/total"
KEYS = (CLASS, TOTAL, H100)
BY_CLAIMS, BY_PODS, BELOW = (
    Use(claims=3, pods=0, below=0),
    Use(claims=0, pods=3, below=0),
    Use(claims=0, pods=0, below=3),
)
NOTHING = Use(claims=0, pods=0, below=0)
PATHS = {
    "a Bound claim": (lambda _: {"claims": [a_claim(on="n1", count=3)]}, BY_CLAIMS),
    "a Pending claim": (lambda _: {"claims": [a_claim(count=3)]}, BY_CLAIMS),
    "a Lost claim": (lambda _: {"claims": [a_claim(lost="n1", count=3)]}, BY_CLAIMS),
    "a claim that is being deleted": (
        lambda _: {"claims": [a_claim(count=3, deleting=True)]},
        BY_CLAIMS,
    ),
    "a template claim": (
        lambda _: {
            "claims": [a_claim(on="n1", count=3, template=True, vm="vm", pod_uids=["p"])],
            "pods": [a_pod(uid="p", on="n1", units=3)],
        },
        BY_CLAIMS,
    ),
    "a Lost claim whose guest runs on": (
        lambda _: {
            "claims": [a_claim(lost="n1", count=3, vm="vm", pod_uids=["p"])],
            "pods": [a_pod(uid="p", on="n1", units=3)],
        },
        BY_CLAIMS,
    ),
    "a raw pod": (lambda _: {"pods": [a_pod(on="n1", units=3)]}, BY_PODS),
    "a raw pod that no node has yet": (lambda _: {"pods": [a_pod(units=3)]}, BY_PODS),
    "a raw VM": (
        lambda _: {
            "vmis": [a_vmi(active={"p": "n1"})],
            "pods": [a_pod(uid="p", on="n1", units=3)],
        },
        BY_PODS,
    ),
    "a child's declaration": (lambda key: {"releases": [a_release("tenant-a-b", {key: 3})]}, BELOW),
    "an undeclared child's claim": (
        lambda _: {"claims": [a_claim(tenant="tenant-a-b", count=3)]},
        BELOW,
    ),
    "an undeclared grandchild's pod": (
        lambda _: {"pods": [a_pod(tenant="tenant-a-b-c", on="n1", units=3)]},
        BELOW,
    ),
    "a declaring child that uses more": (
        lambda key: {
            "releases": [a_release("tenant-a-b", {key: 2})],
            "claims": [a_claim(tenant="tenant-a-b", count=3)],
        },
        BELOW,
    ),
    "a declaring child that uses less": (
        lambda key: {
            "releases": [a_release("tenant-a-b", {key: 3})],
            "claims": [a_claim(tenant="tenant-a-b", count=2)],
        },
        BELOW,
    ),
}
NOT_BY_CLASS = {"a raw pod", "a raw pod that no node has yet", "a raw VM"} | {
    "an undeclared grandchild's pod"
}
"""Which class a raw unit is of nobody can say: two may share a resource."""
EDGES = {
    "one left": (4, (GateState.OPEN, "Remaining", 1)),
    "used up": (3, (GateState.EXHAUSTED, "UsedUp", 0)),
    "lowered below use": (2, (GateState.CLOSED, "Overdrawn", 0)),
    "0": (0, (GateState.CLOSED, "Overdrawn", 0)),
    "absent": (None, (GateState.OPEN, "Unlimited", None)),
}
UNUSED = {
    "one left": (GateState.OPEN, "Remaining", 4),
    "used up": (GateState.OPEN, "Remaining", 3),
    "lowered below use": (GateState.OPEN, "Remaining", 2),
    "0": (GateState.CLOSED, "NoBudget", 0),
    "absent": (GateState.OPEN, "Unlimited", None),
}
"""The same budgets where nothing counts under the key."""


def a_site(path, key, limit):
    made, _ = PATHS[path]
    objects = made(key)
    own = [a_release("tenant-a", {key: limit})] if limit is not None else []
    return a_snapshot(
        nodes=[a_node(units=99)],
        settings=a_settings(H100, raw=True),
        **objects | {"releases": [*own, *objects.get("releases", [])]},
    )


@pytest.mark.parametrize(("path", "key", "edge"), list(itertools.product(PATHS, KEYS, EDGES)))
def test_what_a_budget_leaves_however_it_was_used(path, key, edge):
    limit, (state, reason, remaining) = EDGES[edge]
    use = PATHS[path][1]
    if path in NOT_BY_CLASS and key == CLASS:
        use, (state, reason, remaining) = NOTHING, UNUSED[edge]
    snapshot = a_site(path, key, limit)
    gate = {item.key: item for item in budgets.gates(snapshot, "tenant-a")}[key]
    assert (gate.hard, gate.use, gate.remaining) == (limit, use, remaining)
    assert (gate.state, gate.reason) == (state, reason)
    fits = 50 if remaining is None else remaining
    for units in {1, max(1, fits - 1), max(1, fits), fits + 1}:
        verdict = orders.check(snapshot, Order(tenant="tenant-a", class_name="h100", count=units))
        over = ()
        if remaining is not None and units > remaining:
            over = (OverBudget(key, units, limit, use.total, "tenant-a", own=True, left=remaining),)
        found = verdict.refusals if isinstance(verdict, Refused) else ()
        assert tuple(one for one in found if isinstance(one, OverBudget)) == over
        assert isinstance(verdict, Accepted) or over


@pytest.mark.parametrize("phase", Phase, ids=str)
@pytest.mark.parametrize("deleting", [False, True], ids=["", "deleting"])
@pytest.mark.parametrize("template", [False, True], ids=["", "template"])
def test_a_claim_counts_under_its_class_total_and_resource_at_once(phase, deleting, template):
    place = {Phase.BOUND: {"on": "n1"}, Phase.LOST: {"lost": "n1"}}.get(phase, {})
    claim = a_claim(count=2, deleting=deleting, template=template, **place)
    snapshot = a_snapshot(claims=[claim], settings=a_settings(H100))
    used = {gate.key: gate.used for gate in budgets.gates(snapshot, "tenant-a")}
    assert used == dict.fromkeys(KEYS, 2)


@pytest.mark.parametrize(
    ("pods", "raw"),
    [
        pytest.param({"p": 2}, 0, id="covered"),
        pytest.param({"p": 3}, 1, id="one unit more than its claim has"),
        pytest.param({"p": 2, "other": 2}, 2, id="another's pod is not covered"),
        pytest.param({"p": 2, "target": 2}, 0, id="a migration has two pods for a while"),
    ],
)
def test_pod_units_that_an_attached_claim_accounts_for_do_not_count_again(pods, raw):
    claim = a_claim(lost="n1", count=2, attached=attachment("vm", pods={"p": "n1", "target": "n2"}))
    launchers = [a_pod(name, uid=name, on="n1", units=units) for name, units in pods.items()]
    snapshot = a_snapshot(claims=[claim], pods=launchers)
    gate = {item.key: item for item in budgets.gates(snapshot, "tenant-a")}[TOTAL]
    assert gate.use == Use(claims=2, pods=raw, below=0)


ORDER = Order(tenant="tenant-a-b-c", class_name="h100", count=2)
LINE = ("tenant-a-b-c", "tenant-a-b", "tenant-a", "tenant-root")


@pytest.mark.parametrize("tight", LINE)
@pytest.mark.parametrize("key", KEYS)
def test_every_tenant_above_that_declares_the_key_must_have_room(tight, key):
    def site(tightest):
        releases = [a_release(one, {key: tightest if one == tight else 9}) for one in LINE]
        # A tenant promises no more than it has: those below the tight one declare nothing.
        kept = releases[LINE.index(tight) :]
        return a_snapshot(nodes=[a_node(units=99)], releases=kept)

    assert isinstance(orders.check(site(2), ORDER), Accepted)
    verdict = orders.check(site(1), ORDER)
    assert isinstance(verdict, Refused)
    assert [one.tenant for one in verdict.refusals if isinstance(one, OverBudget)] == [tight]
    assert verdict.would_fit == 1


def test_a_promise_is_kept_free_for_the_one_it_was_made_to_and_spent_by_nobody_else():
    snapshot = a_snapshot(
        nodes=[a_node(units=99)],
        releases=[a_release("tenant-a", {TOTAL: 5}), a_release("tenant-a-b", {TOTAL: 4})],
        claims=[a_claim(on="n1")],
    )
    most = {
        tenant: orders.most(snapshot, tenant, "h100")
        for tenant in ("tenant-a", "tenant-a-b", "tenant-a-c", "tenant-a-b-c")
    }
    assert most == {"tenant-a": 0, "tenant-a-b": 4, "tenant-a-c": 0, "tenant-a-b-c": 4}


async def test_a_budget_lowered_below_use_takes_nothing_away_and_lets_nothing_in():
    rig = Rig()
    rig.store(
        classes=[raws.a_class()],
        nodes=[raws.a_node(units=8)],
        namespaces=[raws.a_tenant()],
        releases=[raws.a_release("tenant-a", h100=2)],
        claims=[raws.a_claim("x"), raws.a_claim("y")],
    )
    await rig.until_still()
    held = {"tenant-a/x": "n1", "tenant-a/y": "n1"}
    assert rig.placed() == held
    for units in (1, 0):
        rig.store(
            releases=[raws.a_release("tenant-a", h100=units)],
            claims=[raws.a_claim(f"late-{units}", at=100 + units)],
        )
        await rig.until_still()
        assert rig.placed() == held
        assert rig.claim(f"late-{units}")["status"]["reasons"] == ["OverBudget"]
