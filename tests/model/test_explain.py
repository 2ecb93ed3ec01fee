"""Why a claim waits, against an oracle that tries every node and sums over all claims."""

import pytest

from gpu.model import explain
from gpu.model.explain import NodeReason
from gpu.model.refusals import (
    ClassRetired,
    GuestMayRun,
    NoFreeUnits,
    NoNodeAccepts,
    NoNodeForSet,
    NotEntitled,
    OverBudget,
)
from gpu.model.waiters import Queued
from gpu.model.ways import Remedy, Way
from gpu.objects.claims import Phase
from gpu.objects.meta import ObjectKey
from tests import sampling
from tests.builders import (
    H100,
    START,
    a_claim,
    a_class,
    a_node,
    a_pod,
    a_release,
    a_snapshot,
    a_vm,
    budget,
)

quick = sampling.examples(15)


def of(snapshot, name="c", tenant="tenant-a"):
    return explain.explain(snapshot, ObjectKey(tenant, name))


def room(units):
    return Remedy(way=Way.ROOM_ON_A_NODE, key=H100, units=units)


def test_an_order_that_waits_for_units():
    snapshot = a_snapshot(
        nodes=[
            a_node("a", units=8),
            a_node("b", units=4),
            a_node("c", cordoned=True),
            a_node("d", ready=False),
            a_node("e", units=None),
        ],
        claims=[a_claim("held", on="a", count=6), a_claim(count=5, at=3)],
    )
    found, claim = of(snapshot), snapshot.claims["tenant-a", "c"]
    assert found == explain.Explanation(
        key=ObjectKey("tenant-a", "c"),
        uid=claim.meta.uid,
        created=claim.meta.created,
        phase=Phase.PENDING,
        wants={"h100": 5},
        since=claim.meta.created,
        queued=Queued.FIRST,
        reasons=(NoNodeAccepts("h100", 5, 6, 4),),
        nodes=(
            (NodeReason.CORDONED, 1),
            (NodeReason.NOT_READY, 1),
            (NodeReason.NOT_SERVED, 1),
            (NodeReason.TOO_FULL, 1),
            (NodeReason.TOO_SMALL, 1),
        ),
        remedies=(room(5), Remedy(way=Way.UNCORDON), Remedy(way=Way.ORDER_LESS, units=4)),
    )


def test_it_waits_since_its_status_says_so():
    told = {
        "type": "Waiting",
        "status": "True",
        "reason": "NoFreeUnits",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    claim = a_claim(count=9, at=7, status={"phase": "Pending", "conditions": [told]})
    assert of(a_snapshot(claims=[claim])).since == START


def test_what_the_next_pass_binds_has_no_reason_to_wait():
    found = of(a_snapshot(claims=[a_claim()]))
    assert (found.reasons, found.remedies, found.nodes) == ((), (), ())


@pytest.mark.parametrize(
    "claim", [a_claim(on="n1"), a_claim(template=True), a_claim(deleting=True)]
)
def test_what_does_not_wait_or_waits_for_its_vm_is_not_explained(claim):
    assert of(a_snapshot(claims=[claim])) is None
    assert explain.explanations(a_snapshot(claims=[claim]), "tenant-a") == ()


@pytest.mark.parametrize(
    ("older", "queued"),
    [
        (0, "first"),
        (1, "under 10"),
        (9, "under 10"),
        (10, "under 100"),
        (99, "under 100"),
        (100, "more"),
    ],
)
def test_its_place_in_the_queue_is_told_roughly(older, queued):
    others = [a_claim(f"o{n:03}", tenant="tenant-b", count=9, at=1) for n in range(older)]
    assert of(a_snapshot(claims=[*others, a_claim(count=9, at=2)])).queued == queued


def test_lost_claims_stand_before_all_orders_and_those_of_other_resources_nowhere():
    claims = [
        a_claim("lost", lost="gone", count=9, at=9),
        a_claim("other", class_name="l40", count=9, at=1),
        a_claim(count=9, at=2),
    ]
    classes = [a_class(), a_class("l40", resource="nvidia.com/L40")]
    snapshot = a_snapshot(classes=classes, claims=claims)
    told = {item.key.name: item.queued for item in explain.explanations(snapshot, "tenant-a")}
    assert told == {"lost": Queued.FIRST, "other": Queued.FIRST, "c": Queued.UNDER_10}


def test_only_a_tenants_own_claims_are_told():
    snapshot = a_snapshot(claims=[a_claim(count=9), a_claim("b", tenant="tenant-b", count=9)])
    assert [item.key.name for item in explain.explanations(snapshot, "tenant-b")] == ["b"]


CURES = {
    "budget": (
        {"releases": [a_release("tenant-a", budget(h100=3))]},
        OverBudget,
        [
            Remedy(way=Way.MORE_BUDGET, key="gpu.cozystack.io/h100", units=1, tenant="tenant-a"),
            Remedy(way=Way.ORDER_LESS, units=3),
        ],
    ),
    "budget above": (
        {"releases": [a_release("tenant-root", budget(total=2))]},
        OverBudget,
        [
            Remedy(way=Way.BUDGET_ABOVE, key="gpu.cozystack.io/total", tenant="tenant-root"),
            Remedy(way=Way.ORDER_LESS, units=2),
        ],
    ),
    "retired": (
        {"classes": [a_class(retired=True)]},
        ClassRetired,
        [Remedy(way=Way.UNRETIRE, key="h100")],
    ),
    "entitlement": (
        {"classes": [a_class(mode="vgpu", maxCount=8)]},
        NotEntitled,
        [Remedy(way=Way.ENTITLE, tenant="tenant-a")],
    ),
    "units": (
        {"nodes": [a_node(units=3)]},
        NoFreeUnits,
        [room(4), Remedy(way=Way.ORDER_LESS, units=3)],
    ),
}


@pytest.mark.parametrize(("objects", "refusal", "remedies"), CURES.values(), ids=CURES)
def test_a_single_change_that_would_do_is_named(objects, refusal, remedies):
    found = of(a_snapshot(claims=[a_claim(count=4)], **objects))
    assert [type(item) for item in found.reasons] == [refusal]
    assert list(found.remedies) == remedies


def test_where_it_takes_two_changes_none_is_named():
    objects = {"releases": [a_release("tenant-a", budget(h100=0))], "nodes": [a_node(units=3)]}
    found = of(a_snapshot(claims=[a_claim(count=4)], **objects))
    assert (len(found.reasons), found.remedies) == (2, ())


def test_a_lost_set_needs_room_for_all_of_it():
    claims = [a_claim("a", lost="gone", count=5), a_claim("b", lost="gone", count=4)]
    found = of(a_snapshot(claims=claims, vms=[a_vm(claims=["a", "b"])]), "b")
    assert found.reasons == (NoNodeForSet(2, (("h100", 9),)),)
    assert (found.nodes, found.remedies) == (((NodeReason.TOO_SMALL, 1),), (room(9),))


def test_a_lost_set_whose_guest_may_run_waits_for_its_end():
    lost = a_claim(lost="n1", count=4, vm="vm", pod_uids=["p"])
    nodes = [a_node("n1", ready=False), a_node("n2"), a_node("n3")]
    pods = [a_pod("p", uid="p", on="n1", units=4)]
    found = of(a_snapshot(nodes=nodes, claims=[lost], pods=pods))
    assert found.reasons == (GuestMayRun(),)
    assert found.nodes == ((NodeReason.NOT_ITS_GUESTS, 2), (NodeReason.NOT_READY, 1))
    assert found.remedies == (Remedy(way=Way.STOP_VM),)


def test_an_order_that_a_vm_names_could_be_had_alone():
    claims = [a_claim("a", lost="gone", count=9), a_claim(count=2, at=2)]
    snapshot = a_snapshot(claims=claims, vms=[a_vm(claims=["a", "c"])])
    assert of(snapshot).remedies == (Remedy(way=Way.NAME_ALONE),)
