"""Nothing that a refusal rests on is too much: for each of it there is a change that takes it back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from gpu import keys, reading
from gpu.model import counteroffers, premises, refusals
from gpu.model.counteroffers import Judgement
from gpu.model.premises import Named, Premises
from gpu.model.refusals import Refusal
from gpu.model.snapshot import Snapshot
from gpu.objects.claims import GPUClaim
from tests.builders import (
    H100,
    L40,
    a_claim,
    a_class,
    a_kubevirt,
    a_namespace,
    a_node,
    a_pod,
    a_quota,
    a_release,
    a_snapshot,
    a_vm,
    a_vmi,
    an_inventory,
    budget,
)

NIC = "example.com/nic"
TOTAL = keys.QUOTA_TOTAL
TWO = a_claim("new", count=2)
THREE = a_claim("new", count=3, tenant="tenant-b")
OLD = a_claim("old")
LEAVES_ONE = [a_release("tenant-a", {TOTAL: 1})]


def cluster(**objects: Any) -> dict[str, Any]:
    """One class on one node with 3 units; what it could be sold as instead is free."""
    return {"classes": [a_class()], "nodes": [a_node(units=3, also={L40: 9})], **objects}


@dataclass(frozen=True)
class Case:
    """A world in which an order is refused for one reason, and the one change that takes it back."""

    reason: type[Any]
    world: Mapping[str, Any]
    change: Mapping[str, Any]
    order: GPUClaim = TWO
    row: str = ""
    """Which of the reason's sets of premises."""
    named: str = ""
    """The object that changes, where single objects are rested on."""

    @property
    def changed(self) -> Any:
        """What is changed, as a premise."""
        (name,) = self.change
        view = reading.VIEWS[name]
        found = [
            key
            for key in {it.meta.key for it in (*self.change[name], *self.world.get(name, ()))}
            if key.name == self.named
        ]
        return Named(view, found[0]) if found else view


@dataclass
class Told:
    """An order's one refusal in a world, and what that rests on."""

    snapshot: Snapshot
    refusals: tuple[Refusal, ...] = field(default=())

    @property
    def rests_on(self) -> Premises:
        return premises.of(self.refusals[0], self.snapshot)


def judged(world: Mapping[str, Any], order: GPUClaim) -> Told:
    snapshot = a_snapshot(**world)
    found: Judgement = counteroffers.judge(snapshot, counteroffers.of_claim(snapshot, order))
    return Told(snapshot, found.refusals)


def of_class(reason, before, after=None, order=TWO, **world):
    """One class is in the way."""
    now = cluster(**world)
    return Case(
        reason, {**now, "classes": before}, {"classes": after or [a_class()]}, order, named="h100"
    )


VGPU = [a_class(mode="vgpu", maxCount=9)]
CHILD = a_claim("new", tenant="tenant-a-x")
AS_L40 = [a_class(resource=L40)]
DOWN = cluster(nodes=[a_node(units=3, also={L40: 0}, cordoned=True), a_node("n2", units=0)])
SICK = [an_inventory(healthy=1, sick=2)]
HALVES = cluster(nodes=[a_node(units=2, also={L40: 9}), a_node("n2", units=2)])
SPREAD = [a_claim("a", on="n1"), a_claim("b", on="n2")]
RAW = [a_pod(on="n1", uid="p0")]
COVERED = [a_vmi(active={"p0": "n1"})]
MOVED = [a_vmi(active={"p0": "n9"})]
BEHIND = cluster(claims=[OLD])
SHARED = [a_class(), a_class("old", mode="vgpu", resource=H100)]
VGPU_OLD = cluster(
    classes=SHARED,
    claims=[a_claim("old", class_name="old")],
    namespaces=[a_namespace(entitled=True)],
)
STAYS = cluster(
    nodes=[a_node(units=3), a_node("n2", units=1)],
    claims=[OLD, a_claim("mate", on="n2", vm="vm", pod_uids=("p1",))],
    vmis=[a_vmi(active={"p1": "n2"})],
    pods=[a_pod(uid="p1", on="n2")],
)
OWN_SET = cluster(
    nodes=[a_node(units=3), a_node("n2", units=2)],
    claims=[a_claim("mate", count=2, on="n1", vm="vm", pod_uids=("p1",))],
    vmis=[a_vmi(active={"p1": "n1"})],
    pods=[a_pod(uid="p1", on="n1", units=2)],
    vms=[a_vm(claims=["new", "mate"])],
)
NO_ROOM = refusals.NoFreeUnits
SPLIT = refusals.NoNodeAccepts
OVER = refusals.OverBudget
CASES = [
    of_class(refusals.NoSuchClass, [a_class("other")]),
    of_class(refusals.ClassRetired, [a_class(retired=True)]),
    of_class(refusals.ClassDeleting, [a_class(deleting=True)]),
    of_class(refusals.OverMaxCount, [a_class(maxCount=1)]),
    of_class(refusals.NotPermitted, [a_class()], AS_L40, kubevirts=[a_kubevirt(L40)]),
    Case(
        refusals.NotPermitted,
        cluster(kubevirts=[a_kubevirt(L40)]),
        {"kubevirts": [a_kubevirt(L40, H100)]},
    ),
    of_class(refusals.NotEntitled, VGPU, order=CHILD),
    *(
        Case(
            refusals.NotEntitled,
            cluster(classes=VGPU),
            {"namespaces": [a_namespace(name, entitled=True)]},
            CHILD,
            named=name,
        )
        for name in ("tenant-a-x", "tenant-a", "tenant-root")
    ),
    Case(refusals.NoNodeServes, cluster(classes=[a_class(resource=NIC)]), {"classes": [a_class()]}),
    Case(refusals.NoNodeServes, cluster(nodes=[]), {"nodes": [a_node()]}),
    Case(
        refusals.NoNodeServes,
        cluster(inventory=[an_inventory(healthy=0, sick=3)]),
        {"inventory": []},
    ),
    Case(
        refusals.NoNodeEligible,
        cluster(nodes=[a_node(cordoned=True), a_node("n2", units=0, also={L40: 9})]),
        {"classes": AS_L40},
    ),
    Case(refusals.NoNodeEligible, DOWN, {"nodes": [a_node()]}),
    Case(
        refusals.NoNodeEligible,
        cluster(
            nodes=[a_node(cordoned=True), a_node("n2")],
            inventory=[an_inventory("n2", healthy=0, sick=3)],
        ),
        {"inventory": []},
    ),
    *(
        Case(NO_ROOM, world, change, row="more than all nodes")
        for world, change in (
            (cluster(nodes=[a_node(units=1, also={L40: 9})]), {"classes": AS_L40}),
            (cluster(nodes=[a_node(units=1)]), {"nodes": [a_node(units=2)]}),
            (cluster(inventory=SICK), {"inventory": []}),
        )
    ),
    *(
        Case(NO_ROOM, world, change, row="in use")
        for world, change in (
            (cluster(claims=[a_claim("a", count=2, on="n1")]), {"classes": AS_L40}),
            (cluster(claims=[a_claim("a", count=2, on="n1")]), {"nodes": [a_node(units=4)]}),
            (
                cluster(
                    claims=[a_claim("a", on="n1")], inventory=[an_inventory(healthy=2, sick=1)]
                ),
                {"inventory": []},
            ),
            (cluster(claims=[a_claim("a", count=2, on="n1")]), {"claims": []}),
            (cluster(pods=[a_pod(on="n1", uid="p0", units=2)]), {"pods": []}),
            (cluster(claims=[a_claim("a", on="n1", vm="vm")], pods=RAW), {"vmis": COVERED}),
        )
    ),
    *(
        Case(SPLIT, {**HALVES, **world}, change)
        for world, change in (
            ({"claims": SPREAD}, {"classes": AS_L40}),
            ({"claims": SPREAD}, {"nodes": [a_node(units=3), a_node("n2", units=2)]}),
            (
                {"nodes": [a_node(units=2), a_node("n2", units=1)], "inventory": SICK},
                {"inventory": []},
            ),
            ({"claims": SPREAD}, {"claims": SPREAD[:1]}),
            ({"claims": SPREAD[:1], "pods": [a_pod(on="n2", uid="p0")]}, {"pods": []}),
            (
                {
                    "nodes": [a_node(units=3), a_node("n2", units=1)],
                    "claims": [a_claim("a", on="n1", vm="vm")],
                    "pods": RAW,
                },
                {"vmis": COVERED},
            ),
        )
    ),
    *(
        Case(NO_ROOM, world, change, THREE, row="behind what waits")
        for world, change in (
            (BEHIND, {"classes": AS_L40}),
            (BEHIND, {"nodes": [a_node(units=4)]}),
            (
                {
                    **BEHIND,
                    "nodes": [a_node(units=4)],
                    "inventory": [an_inventory(healthy=3, sick=1)],
                },
                {"inventory": []},
            ),
            (BEHIND, {"claims": []}),
            ({**BEHIND, "nodes": [a_node(units=4)], "pods": RAW}, {"pods": []}),
            (
                cluster(
                    nodes=[a_node(units=5)], claims=[OLD, a_claim("a", on="n1", vm="vm")], pods=RAW
                ),
                {"vmis": COVERED},
            ),
            (BEHIND, {"releases": [a_release("tenant-a", budget(h100=0))]}),
            (BEHIND, {"quotas": [a_quota("tenant-a", of={f"requests.{H100}": 0})]}),
            (
                {
                    **BEHIND,
                    "releases": LEAVES_ONE,
                    "pods": [a_pod(resource=NIC, uid="p0", on="n9")],
                },
                {"kubevirts": [a_kubevirt(H100, NIC)]},
            ),
            (VGPU_OLD, {"namespaces": []}),
            (STAYS, {"vms": [a_vm(claims=["old", "mate"])]}),
        )
    ),
    Case(refusals.NoNodeForSet, OWN_SET, {"vms": []}),
    *(
        Case(OVER, world, change)
        for world, change in (
            (
                cluster(
                    classes=[a_class(), a_class("l40", resource=L40)],
                    releases=[a_release("tenant-a", {TOTAL: 2})],
                    pods=[a_pod(on="n9", uid="p0", resource=L40)],
                ),
                {"classes": [a_class()]},
            ),
            (
                cluster(
                    releases=[a_release("tenant-a", {TOTAL: 3})],
                    claims=[a_claim("a", count=2, on="n9")],
                ),
                {"claims": []},
            ),
            (
                cluster(
                    releases=[a_release("tenant-a", {TOTAL: 2})], pods=[a_pod(on="n9", uid="p0")]
                ),
                {"pods": []},
            ),
            (
                cluster(
                    releases=[a_release("tenant-a", {TOTAL: 3})],
                    claims=[a_claim("a", on="n9", vm="vm")],
                    pods=[a_pod(on="n9", uid="p0")],
                ),
                {"vmis": MOVED},
            ),
            (cluster(releases=LEAVES_ONE), {"releases": []}),
            (cluster(quotas=[a_quota("tenant-a", of={f"requests.{H100}": 1})]), {"quotas": []}),
            (
                cluster(
                    releases=[a_release("tenant-a", {TOTAL: 2})],
                    pods=[a_pod(on="n9", uid="p0", resource=NIC)],
                    kubevirts=[a_kubevirt(H100, NIC)],
                ),
                {"kubevirts": [a_kubevirt(H100)]},
            ),
        )
    ),
]


def called(case: Case) -> str:
    return "-".join(
        filter(None, (case.reason.reason, case.row, *case.change, case.named)),
    ).replace(" ", "-")


@pytest.mark.parametrize("case", CASES, ids=called)
def test_what_takes_a_refusal_back_is_rested_on(case):
    told = judged(case.world, case.order)
    assert [type(one) for one in told.refusals] == [case.reason]
    assert case.changed in told.rests_on
    assert judged({**case.world, **case.change}, case.order).refusals == ()


ROWS = sorted({(case.reason.reason, case.row) for case in CASES} - {("NoNodeForSet", "")})
"""Room for a whole set rests on the same as room behind what waits."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(row).replace(" ", "-"))
def test_of_all_that_is_rested_on_there_is_such_a_change(row):
    cases = [case for case in CASES if (case.reason.reason, case.row) == row]
    shown = {case.changed for case in cases}
    assert {judged(case.world, case.order).rests_on for case in cases} == {frozenset(shown)}
