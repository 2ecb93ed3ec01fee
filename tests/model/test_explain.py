"""Why a claim waits, against an oracle that tries every node and sums over all claims."""

from dataclasses import replace

import pytest
from hypothesis import given

from gpu.model import explain
from gpu.model.explain import NodeReason, Queued, Remedy, Way
from gpu.model.refusals import (
    ClassRetired,
    GuestMayRun,
    NoFreeUnits,
    NoNodeAccepts,
    NoNodeForSet,
    NotEntitled,
    OverBudget,
)
from gpu.objects.claims import Phase
from gpu.objects.meta import ObjectKey
from tests import sampling, strategies
from tests.builders import (
    H100,
    START,
    a_claim,
    a_class,
    a_namespace,
    a_node,
    a_pod,
    a_release,
    a_snapshot,
    a_vm,
    budget,
)
from tests.model import oracles
from tests.strategies import TENANTS

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
    found = of(snapshot)
    assert found == explain.Explanation(
        claim=ObjectKey("tenant-a", "c"),
        phase=Phase.PENDING,
        class_name="h100",
        count=5,
        since=snapshot.claims[found.claim].meta.created,
        queued=Queued.FIRST,
        refusals=(NoNodeAccepts("h100", 5, 6, 4),),
        nodes=(
            (NodeReason.CORDONED, 1),
            (NodeReason.NOT_READY, 1),
            (NodeReason.NOT_SERVED, 1),
            (NodeReason.TOO_FULL, 1),
            (NodeReason.TOO_SMALL, 1),
        ),
        remedies=(Remedy(way=Way.ORDER_LESS, units=4), room(5)),
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
    assert (found.refusals, found.remedies, found.nodes) == ((), (), ((NodeReason.HAS_ROOM, 1),))


@pytest.mark.parametrize(
    "claim", [a_claim(on="n1"), a_claim(template=True), a_claim(deleting=True)]
)
def test_what_does_not_wait_or_waits_for_its_vm_is_not_explained(claim):
    assert of(a_snapshot(claims=[claim])) is None
    assert explain.explanations(a_snapshot(claims=[claim]), "tenant-a") == ()


@pytest.mark.parametrize(
    ("older", "queued"),
    [
        (0, "First"),
        (1, "Under10"),
        (9, "Under10"),
        (10, "Under100"),
        (99, "Under100"),
        (100, "More"),
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
    told = {item.claim.name: item.queued for item in explain.explanations(snapshot, "tenant-a")}
    assert told == {"lost": Queued.FIRST, "other": Queued.FIRST, "c": Queued.UNDER_10}


def test_only_a_tenants_own_claims_are_told():
    snapshot = a_snapshot(claims=[a_claim(count=9), a_claim("b", tenant="tenant-b", count=9)])
    assert [item.claim.name for item in explain.explanations(snapshot, "tenant-b")] == ["b"]


CURES = {
    "budget": (
        {"releases": [a_release("tenant-a", budget(h100=3))]},
        OverBudget,
        [
            Remedy(way=Way.ORDER_LESS, units=3),
            Remedy(way=Way.MORE_BUDGET, key="gpu.cozystack.io/h100", units=1, tenant="tenant-a"),
        ],
    ),
    "budget above": (
        {"releases": [a_release("tenant-root", budget(total=2))]},
        OverBudget,
        [
            Remedy(way=Way.ORDER_LESS, units=2),
            Remedy(way=Way.BUDGET_ABOVE, key="gpu.cozystack.io/total", tenant="tenant-root"),
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
        [Remedy(way=Way.ORDER_LESS, units=3), room(4)],
    ),
}


@pytest.mark.parametrize(("objects", "refusal", "remedies"), CURES.values(), ids=CURES)
def test_a_single_change_that_would_do_is_named(objects, refusal, remedies):
    found = of(a_snapshot(claims=[a_claim(count=4)], **objects))
    assert [type(item) for item in found.refusals] == [refusal]
    assert list(found.remedies) == remedies


def test_where_it_takes_two_changes_none_is_named():
    objects = {"releases": [a_release("tenant-a", budget(h100=0))], "nodes": [a_node(units=3)]}
    found = of(a_snapshot(claims=[a_claim(count=4)], **objects))
    assert (len(found.refusals), found.remedies) == (2, ())


def test_a_lost_set_needs_room_for_all_of_it():
    claims = [a_claim("a", lost="gone", count=5), a_claim("b", lost="gone", count=4)]
    found = of(a_snapshot(claims=claims, vms=[a_vm(claims=["a", "b"])]), "b")
    assert found.refusals == (NoNodeForSet(2, (("h100", 9),)),)
    assert (found.nodes, found.remedies) == (((NodeReason.TOO_SMALL, 1),), (room(9),))


def test_a_lost_set_whose_guest_may_run_waits_for_its_end():
    lost = a_claim(lost="n1", count=4, vm="vm", pod_uids=["p"])
    nodes = [a_node("n1", ready=False), a_node("n2"), a_node("n3")]
    pods = [a_pod("p", uid="p", on="n1", units=4)]
    found = of(a_snapshot(nodes=nodes, claims=[lost], pods=pods))
    assert found.refusals == (GuestMayRun(),)
    assert found.nodes == ((NodeReason.NOT_ITS_GUESTS, 2), (NodeReason.NOT_READY, 1))
    assert found.remedies == (Remedy(way=Way.STOP_VM),)


def test_an_order_that_a_vm_names_could_be_had_alone():
    claims = [a_claim("a", lost="gone", count=9), a_claim(count=2, at=2)]
    snapshot = a_snapshot(claims=claims, vms=[a_vm(claims=["a", "c"])])
    assert of(snapshot).remedies == (Remedy(way=Way.NAME_ALONE),)


def naive_walk(objects):
    """Each order, the claims that count against it at its turn, and the node a naive pass gives it.

    One whose VM holds other claims already takes its turn and is not told: it can only join them.
    """
    claims = list(objects["claims"])
    waiting = [c for c in claims if c.phase is Phase.PENDING and not c.meta.deleting]
    for order in sorted(waiting, key=lambda item: item.age):
        counted = [
            c
            for c in claims
            if c.phase is not Phase.PENDING or c.meta.deleting or c.age < order.age
        ]
        node = oracles.verdict(objects, counted, order, TENANTS)
        homes = nodes_of_mates(claims, order)
        if not homes:
            yield order, counted, node
        elif node is not None:
            node = home_with_room(objects, counted, order, homes)
        if node is not None:
            claims = [
                replace(c, phase=Phase.BOUND, node=node) if c.key == order.key else c
                for c in claims
            ]


def nodes_of_mates(claims, order):
    """Where claims of the order's VM are held; no VM of these clusters is known to use nothing."""
    return {
        claim.node
        for claim in claims
        if claim.phase is Phase.BOUND
        and not claim.meta.deleting
        and order.attached_to is not None
        and claim.attached_to is not None
        and oracles.holder_of(claim) == oracles.holder_of(order)
    }


def home_with_room(objects, counted, order, homes):
    """The node of a VM's claims when that is one, and takes one more of them."""
    offer = next(item for item in objects["classes"] if item.name == order.class_name)
    takes = {name for _, name in oracles.nodes_for(objects, counted, offer, order.count)}
    return min(homes) if len(homes) == 1 and homes <= takes else None


def without_lost(objects):
    kept = [claim for claim in objects["claims"] if claim.phase is not Phase.LOST]
    return dict(objects) | {"claims": kept}


def naive_reasons(objects, counted, order):
    """The codes of why not, by trying every node and summing over all claims; capacity is one."""
    offer = next((item for item in objects["classes"] if item.name == order.class_name), None)
    if offer is None:
        return {"NoSuchClass"}
    allowed = offer.max_count or (1 if offer.mode == "vgpu" else None)
    checks = {
        "ClassRetired": offer.retired,
        "OverMaxCount": allowed is not None and order.count > allowed,
        "capacity": not oracles.nodes_for(objects, counted, offer, order.count),
        "OverBudget": oracles.breaks_budget(objects, counted, order, TENANTS),
        "NotEntitled": offer.mode == "vgpu" and not oracles.entitled(objects, order.tenant),
    }
    return {code for code, fails in checks.items() if fails}


CAPACITY = {"NoNodeServes", "NoNodeEligible", "NoFreeUnits", "NoNodeAccepts"}


@quick
@given(strategies.clusters())
def test_reasons_and_counts_of_nodes_are_those_of_a_naive_walk(objects):
    objects = without_lost(objects)
    snapshot = a_snapshot(**objects)
    for order, counted, node in naive_walk(objects):
        found = explain.explain(snapshot, order.key)
        codes = {"capacity" if item.reason in CAPACITY else item.reason for item in found.refusals}
        assert codes == naive_reasons(objects, counted, order)
        assert (node is None) is bool(codes)
        offer = next((item for item in objects["classes"] if item.name == order.class_name), None)
        if offer is not None:
            with_room = len(oracles.nodes_for(objects, counted, offer, order.count))
            assert dict(found.nodes).get(NodeReason.HAS_ROOM, 0) == with_room
            assert sum(dict(found.nodes).values()) == len(objects["nodes"])


def cured(objects, order, remedy, by):
    """The cluster with a remedy in force, short of it by `by`; None for one that is not a number."""
    units = remedy.units - by
    match remedy.way:
        case Way.ORDER_LESS:
            return objects, replace(order, count=remedy.units + by)
        case Way.ROOM_ON_A_NODE:
            node = a_node("zz", units=units, resource=remedy.key)
            return dict(objects) | {"nodes": [*objects["nodes"], node]}, order
        case Way.MORE_BUDGET:
            releases = []
            for release in objects["releases"]:
                declared = dict(release.declared.units)
                if release.tenant == remedy.tenant:
                    declared[remedy.key] += units
                releases.append(a_release(release.tenant, declared))
            return dict(objects) | {"releases": releases}, order
    return None


@pytest.mark.parametrize("above", [2, 4, 6, 9])
@pytest.mark.parametrize("hard", [0, 1, 3, 5])
@pytest.mark.parametrize("held", [0, 2, 4])
def test_a_larger_budget_of_ones_own_is_named_to_the_unit(held, hard, above):
    """Also where the tenant above bounds it, and where more is used than declared."""
    quotas = [("tenant-root", above), ("tenant-a", hard)]
    objects = {
        "classes": [a_class()],
        "nodes": [a_node()],
        "claims": [a_claim("held", on="n1", count=held), a_claim(count=2, at=5)],
        "releases": [a_release(tenant, budget(h100=units)) for tenant, units in quotas],
        **{name: [] for name in ("pods", "vmis", "inventory", "namespaces")},
    }
    if not held:
        objects["claims"] = objects["claims"][1:]
    ((order, counted, node),) = naive_walk(objects)
    found = of(a_snapshot(**objects))
    ways = {item.way: item for item in found.remedies}
    own_only = len(found.refusals) == 1 and found.refusals[0].own
    assert (node is None) is bool(found.refusals)
    assert (Way.MORE_BUDGET in ways) is own_only
    if own_only:
        remedy = ways[Way.MORE_BUDGET]
        for by, enough in ((0, True), (1, False)):
            fixed, _ = cured(objects, order, remedy, by)
            assert (oracles.verdict(fixed, counted, order, TENANTS) is not None) is enough


def test_an_order_that_a_started_vm_waits_for_takes_its_turn_too():
    objects = {
        "classes": [a_class()],
        "nodes": [a_node(units=6)],
        "claims": [
            a_claim("alone", count=3),
            a_claim("started", count=3, vm="vm1"),
            a_claim("young", at=1),
        ],
        **{name: [] for name in ("pods", "vmis", "inventory", "namespaces", "releases")},
    }
    assert of(a_snapshot(**objects), "young").remedies == (room(1),)
    each_remedy_is_just_enough(objects)


@quick
@given(strategies.clusters())
def test_a_remedy_lets_the_order_in_and_one_unit_less_of_it_does_not(objects):
    each_remedy_is_just_enough(without_lost(objects))


def each_remedy_is_just_enough(objects):
    snapshot = a_snapshot(**objects)
    for order, counted, _ in naive_walk(objects):
        for remedy in explain.explain(snapshot, order.key).remedies:
            full, short = cured(objects, order, remedy, 0), cured(objects, order, remedy, 1)
            if full is not None and short is not None:
                assert oracles.verdict(full[0], counted, full[1], TENANTS) is not None
                assert oracles.verdict(short[0], counted, short[1], TENANTS) is None


@quick
@given(strategies.clusters())
def test_a_yes_or_no_remedy_lets_the_order_in(objects):
    objects = without_lost(objects)
    snapshot = a_snapshot(**objects)
    for order, counted, _ in naive_walk(objects):
        for remedy in explain.explain(snapshot, order.key).remedies:
            if remedy.way is Way.UNRETIRE:
                classes = [replace(item, retired=False) for item in objects["classes"]]
                fixed = dict(objects) | {"classes": classes}
            elif remedy.way is Way.ENTITLE:
                fixed = dict(objects) | {"namespaces": [a_namespace(remedy.tenant, entitled=True)]}
            else:
                continue
            assert oracles.verdict(fixed, counted, order, TENANTS) is not None
