"""Phase lost: Lost sets are bound anew before any new order, or say why not."""

from dataclasses import replace

import pytest

from gpu.binder import conditions
from gpu.binder.changes import Explain, How, Place
from gpu.binder.confirms import NodeOff, NoOtherPods, PodsEnded
from gpu.binder.phases import lost, orders
from gpu.model.refusals import GuestMayRun, NoFreeUnits, NoNodeAccepts, NoNodeForSet, NoSuchClass
from gpu.objects.meta import ObjectKey
from tests.binder import raws
from tests.binder.scenes import NOW, a_scene, scene_of

FINALIZER = {"finalizers": ["gpu.cozystack.io/claim"]}
GUEST = {"vm": "vm", "pods": {"p": "n1"}}


def a_lost(name, node="n1", *, vm="", pods=(), **more):
    status = raws.bound(node, phase="Lost")
    if vm:
        recorded = [{"uid": uid, "node": at} for uid, at in dict(pods).items()]
        status["attachedTo"] = {"name": vm, "admission": "adm", "uid": f"{vm}-uid"}
        status["attachedTo"]["pods"] = recorded
    return raws.a_claim(name, meta=FINALIZER | more.pop("meta", {}), status=status, **more)


def scene(*claims, nodes=("n1",), **more):
    return a_scene(
        claims=claims,
        classes=more.pop("classes", [raws.a_class(meta=FINALIZER)]),
        nodes=[raws.a_node(node) if isinstance(node, str) else node for node in nodes],
        namespaces=[raws.a_tenant(name) for name in ("tenant-root", "tenant-a", "tenant-b")],
        **more,
    )


def claim_of(found, name):
    return next(item for item in found.world.claims if item.meta.name == name)


def rebound(found, name, node, set_id=""):
    set_id = set_id or f"tenant-a/{name}"
    claim = claim_of(found, name)
    return Place(claim=claim, node=node, at=NOW, set_id=set_id, how=How.REBOUND)


def waits(found, name, *why, set_id=""):
    claim = claim_of(found, name)
    return Explain(claim=claim, refusals=why, at=NOW, set_id=set_id or f"tenant-a/{name}")


def changes(found):
    return list(lost.changes_of(found))


def then_orders(found):
    """What the orders get once the Lost sets had their turn."""
    list(lost.changes_of(found))
    placed = [change for change in orders.changes_of(found) if isinstance(change, Place)]
    return {change.claim.meta.name: change.node for change in placed}


def test_a_lost_claim_is_bound_anew_to_the_fullest_node_with_room():
    found = scene(a_lost("a", "gone", count=3), nodes=["n1", raws.a_node("n2", units=4)])
    assert changes(found) == [rebound(found, "a", "n2")]


def test_the_oldest_comes_first_and_the_others_see_what_it_took():
    found = scene(a_lost("young", count=6, at=2), a_lost("old", count=5, at=1))
    assert changes(found) == [
        rebound(found, "old", "n1"),
        waits(found, "young", NoFreeUnits("h100", 6, 3)),
    ]


def test_all_of_a_set_goes_to_one_node():
    found = scene(
        a_lost("a", "n1", count=3, at=2),
        a_lost("b", "n2", count=3, at=1),
        nodes=[raws.a_node("n1", units=4), raws.a_node("n2", units=4), raws.a_node("n3", units=6)],
        vms=[raws.a_vm(claims=["a", "b"])],
    )
    assert changes(found) == [
        rebound(found, "b", "n3", "tenant-a/b"),
        rebound(found, "a", "n3", "tenant-a/b"),
    ]


def test_a_set_that_fits_nowhere_says_so_on_each_of_its_claims():
    found = scene(a_lost("a", count=6), a_lost("b", count=3), vms=[raws.a_vm(claims=["a", "b"])])
    why = NoNodeForSet(2, (("h100", 9),))
    assert changes(found) == [waits(found, name, why, set_id="tenant-a/a") for name in ("a", "b")]


def test_a_claim_of_a_class_that_is_gone_waits_for_it():
    found = scene(a_lost("a", class_name="nope"))
    assert changes(found) == [waits(found, "a", NoSuchClass("nope"))]


def test_no_budget_is_asked_again():
    found = scene(a_lost("a", count=3), releases=[raws.a_release("tenant-a", h100=1)])
    assert changes(found) == [rebound(found, "a", "n1")]


def test_a_younger_order_gets_nothing_a_lost_set_could_take():
    found = scene(
        a_lost("a", "gone", count=5, at=9),
        raws.a_claim("old", meta=FINALIZER, count=4, at=1),
        raws.a_claim("small", meta=FINALIZER, count=3, at=2),
    )
    assert then_orders(found) == {"small": "n1"}


def test_the_oldest_that_fits_nowhere_keeps_the_nearest_node():
    found = scene(
        a_lost("a", "gone", count=7),
        raws.a_claim("held", meta=FINALIZER, count=2, status=raws.bound("n1")),
        raws.a_claim("order", meta=FINALIZER, at=2),
        nodes=["n1", raws.a_node("n2", units=4)],
    )
    assert then_orders(found) == {"order": "n2"}


def test_a_set_in_quarantine_keeps_nobody_waiting():
    found = scene(
        a_lost("a", "gone", count=8),
        raws.a_claim("order", meta=FINALIZER, count=8),
        skip=["tenant-a/a"],
    )
    assert then_orders(found) == {"order": "n1"}


def test_a_set_whose_write_is_tried_again_keeps_its_turn():
    claims = a_lost("a", "gone", count=8), raws.a_claim("order", meta=FINALIZER, count=8)
    found = replace(scene(*claims), later=frozenset({"tenant-a/a"}))
    assert changes(found) == []
    assert then_orders(found) == {}


def test_a_set_keeps_its_turn_when_its_own_write_was_not_sent_after_all():
    claims = a_lost("a", "gone", count=8), raws.a_claim("order", meta=FINALIZER, count=8)
    found = scene(*claims)
    (placed,) = changes(found)
    found.draft.put(placed.claim)
    (waiting,) = orders.changes_of(replace(found, later=frozenset({"tenant-a/a"})))
    assert isinstance(waiting, Explain)


def test_deleted_claims_are_not_bound_anew():
    found = scene(a_lost("a", "gone", meta=raws.DELETED))
    assert changes(found) == []


RUNNING = [raws.a_pod("p", node="n1", units=4)]


def guest(name="a", **more):
    return a_lost(name, "n1", count=4, **GUEST | more)


@pytest.mark.parametrize("cordoned", [False, True])
def test_a_set_whose_guest_may_run_is_bound_where_it_is_cordoned_or_not(cordoned):
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    spec = {"unschedulable": True, "taints": [taint]} if cordoned else {}
    found = scene(guest(), nodes=[raws.a_node("n1", units=4, **spec), "n2"], pods=RUNNING)
    assert changes(found) == [rebound(found, "a", "n1")]


def test_a_cordoned_node_takes_nothing_back_for_a_pod_that_is_not_seen_there():
    found = scene(guest(), nodes=[raws.a_node("n1", units=4, unschedulable=True), "n2"])
    assert changes(found) == [waits(found, "a", GuestMayRun())]


KEEPS_NOT = {
    "not Ready": raws.a_node("n1", ready="False"),
    "serves fewer": raws.a_node("n1", units=3),
    "tainted": raws.a_node("n1", taints=[{"key": "dedicated", "effect": "NoSchedule"}]),
}


@pytest.mark.parametrize("node", KEEPS_NOT.values(), ids=KEEPS_NOT)
def test_it_waits_while_that_node_cannot_keep_it_whatever_room_others_have(node):
    found = scene(guest(), nodes=[node, "n2"], pods=RUNNING)
    assert changes(found) == [waits(found, "a", GuestMayRun())]


def test_it_keeps_what_it_could_take_once_the_guest_has_ended():
    order = raws.a_claim("order", meta=FINALIZER, count=5, at=3)
    found = scene(guest(), order, nodes=[raws.a_node("n1", ready="False"), "n2"], pods=RUNNING)
    assert then_orders(found) == {}


def test_units_beyond_those_of_its_pod_are_asked_for_as_any_others():
    pod = raws.a_pod("p", node="n1", units=3)
    held = raws.a_claim("held", meta=FINALIZER, count=1, status=raws.bound("n1"))
    enough = scene(guest(), held, nodes=[raws.a_node("n1", units=5)], pods=[pod])
    short = scene(guest(), held, nodes=[raws.a_node("n1", units=4)], pods=[pod])
    assert changes(enough) == [rebound(enough, "a", "n1")]
    assert changes(short) == [waits(short, "a", GuestMayRun())]


def test_it_waits_while_its_pods_may_run_on_two_nodes():
    two = {"pods": {"p": "n1", "q": "n2"}}
    found = scene(guest(**two), nodes=["n1", "n2"], pods=RUNNING)
    assert changes(found) == [waits(found, "a", GuestMayRun())]


VMI = NoOtherPods(key=ObjectKey("tenant-a", "vm"), uid="vm-uid", pods=frozenset({"p"}))
PROVEN = {
    "ended": (
        raws.a_pod("p", node="n1", units=4, phase="Succeeded"),
        raws.a_node("n1", ready="False"),
        (VMI, PodsEnded(namespace="tenant-a", uids=frozenset({"p"}))),
    ),
    "node gone": (RUNNING[0], raws.a_node("n3", units=1), (VMI, NodeOff(node="n1"))),
}


@pytest.mark.parametrize(("pod", "node", "confirm"), PROVEN.values(), ids=PROVEN)
def test_evidence_lets_it_go_elsewhere_and_is_read_once_more(pod, node, confirm):
    found = scene(guest(), nodes=[node, "n2"], pods=[pod])
    assert changes(found) == [replace(rebound(found, "a", "n2"), confirm=confirm)]


def after(found):
    """The world as the changes leave it."""
    changes(found)
    return scene_of(replace(found.world, claims=tuple(found.draft.claims())))


def test_what_a_waiting_claim_says_is_written_once():
    found = scene(a_lost("a", "gone", count=9), guest("b", pods={"p": "n2"}))
    assert len(changes(found)) == 2
    assert changes(after(found)) == []


def test_binds_of_others_change_nothing_of_what_it_says():
    nodes = ["n1", raws.a_node("n2", units=7)]
    first = after(scene(a_lost("a", "gone", count=9), nodes=nodes))
    (claim,) = first.world.claims
    assert (claim.reasons, conditions.reason_of(claim, "Waiting")) == (
        (NoNodeAccepts.reason,),
        NoNodeAccepts.reason,
    )
    held = raws.a_claim("held", meta=FINALIZER, count=8, status=raws.bound("n1"))
    fewer = scene(held, nodes=nodes).world
    assert changes(scene_of(replace(fewer, claims=(*fewer.claims, claim)))) == []


def test_nothing_is_bound_while_a_claim_cannot_be_read():
    found = scene(a_lost("a", "gone"))
    world = replace(found.world, unreadable_claims=frozenset({ObjectKey("tenant-b", "odd")}))
    assert changes(scene_of(world)) == []
