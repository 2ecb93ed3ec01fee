"""Phase sets: a torn set is made whole, or goes Lost whole, before anything is placed."""

from dataclasses import replace

import pytest

from gpu.binder import conditions
from gpu.binder.changes import Degrade, How, Lose, Place
from gpu.binder.confirms import NoOtherPods
from gpu.binder.phases import sets
from gpu.model.refusals import GuestMayRun, NoNodeForSet
from gpu.objects.claims import Cause, Displaced, Phase
from gpu.objects.meta import ObjectKey
from tests.binder import raws
from tests.binder.scenes import NOW, a_scene, scene_of

FINALIZER = {"finalizers": ["gpu.cozystack.io/claim"]}
TORN = "SetTorn"


def held(name, node="n1", *, phase="Bound", vm="", pods=(), **more):
    """A claim held on a node, or Lost from it; attached to `vm`, whose pods are uid to node."""
    status = raws.bound(node, phase=phase)
    if vm:
        recorded = [{"uid": uid, **({"node": at} if at else {})} for uid, at in dict(pods).items()]
        status["attachedTo"] = {"name": vm, "admission": "adm", "uid": f"{vm}-uid"}
        status["attachedTo"]["pods"] = recorded
    return raws.a_claim(name, meta=FINALIZER | more.pop("meta", {}), status=status, **more)


def lost(name, node="n1", **more):
    return held(name, node, phase="Lost", **more)


def scene(*claims, nodes=("n1", "n2"), vms=None, **more):
    names = [claim["metadata"]["name"] for claim in claims]
    return a_scene(
        claims=claims,
        classes=more.pop("classes", [raws.a_class(meta=FINALIZER)]),
        nodes=[raws.a_node(node) if isinstance(node, str) else node for node in nodes],
        vms=[raws.a_vm(claims=names)] if vms is None else vms,
        **more,
    )


def claim_of(found, name):
    return next(item for item in found.world.claims if item.meta.name == name)


def gathered(found, name, node, *, left=None):
    return Place(
        claim=claim_of(found, name),
        node=node,
        at=NOW,
        set_id="tenant-a/a",
        how=How.GATHERED,
        displaced=Displaced(at=NOW, node=left, cause=Cause.SET_TORN) if left else None,
    )


def lose(found, name, node, *why):
    left = Displaced(at=NOW, node=node, cause=Cause.SET_TORN)
    return Lose(
        claim=claim_of(found, name), displaced=left, at=NOW, set_id="tenant-a/a", refusals=why
    )


def changes(found):
    return list(sets.changes_of(found))


WHOLE = {
    "all on one node": [held("a"), held("b")],
    "all Lost, from two nodes": [lost("a", "n1"), lost("b", "n2")],
    "orders beside holds": [held("a"), raws.a_claim("b", meta=FINALIZER)],
    "alone": [held("a", "n2")],
}


@pytest.mark.parametrize("claims", WHOLE.values(), ids=WHOLE)
def test_a_whole_set_is_left_alone(claims):
    assert changes(scene(*claims)) == []


def test_claims_of_two_vms_are_no_set():
    found = scene(held("a", "n1"), held("b", "n2"), vms=[])
    assert changes(found) == []


def test_a_torn_set_is_gathered_where_most_of_it_is():
    found = scene(held("a", "n1", count=1), held("b", "n2", count=2))
    assert changes(found) == [gathered(found, "a", "n2", left="n1")]


def test_it_is_gathered_on_the_first_by_name_of_equals():
    found = scene(held("a", "n2"), held("b", "n1"))
    assert changes(found) == [gathered(found, "a", "n1", left="n2")]


def test_it_is_gathered_elsewhere_when_none_of_its_nodes_has_room():
    found = scene(
        held("a", "n1", count=3),
        held("b", "n2", count=3),
        nodes=[raws.a_node("n1", units=4), raws.a_node("n2", units=4), raws.a_node("n3", units=6)],
    )
    assert changes(found) == [
        gathered(found, "a", "n3", left="n1"),
        gathered(found, "b", "n3", left="n2"),
    ]


def test_a_lost_member_is_gathered_with_those_that_are_held():
    found = scene(held("a", "n2"), lost("b", "n1"))
    assert changes(found) == [gathered(found, "b", "n2")]


def test_a_cordoned_node_takes_none_of_it():
    found = scene(
        held("a", "n1", count=2),
        held("b", "n2", count=1),
        nodes=[raws.a_node("n1", unschedulable=True), raws.a_node("n2")],
    )
    assert changes(found) == [gathered(found, "a", "n2", left="n1")]


def test_a_node_that_refused_its_pod_takes_none_of_it():
    rejected = {"node": "n1", "until": "2026-01-01T12:05:00Z"}
    found = scene(held("a", "n1", count=2), held("b", "n2"))
    refused = replace(
        claim_of(found, "b"), rejected_nodes=claim_of(scene_with(rejected), "b").rejected_nodes
    )
    world = replace(found.world, claims=(claim_of(found, "a"), refused))
    assert [change.node for change in changes(scene_of(world))] == ["n2"]


def scene_with(rejected):
    status = raws.bound("n2", rejectedNodes=[rejected])
    return scene(held("a"), raws.a_claim("b", meta=FINALIZER, status=status))


NO_ROOM = (raws.a_node("n1", units=2), raws.a_node("n2", units=2))


def test_a_set_partly_lost_goes_lost_whole_where_no_node_has_room():
    found = scene(held("a", "n2", count=2), lost("b", "n1", count=2), nodes=NO_ROOM)
    assert changes(found) == [lose(found, "a", "n2", NoNodeForSet(2, (("h100", 4),)))]
    assert found.draft.claim(ObjectKey("tenant-a", "a")).phase is Phase.LOST


def test_a_set_all_bound_keeps_what_it_holds_where_no_node_has_room_and_says_so():
    found = scene(held("a", "n1", count=2), held("b", "n2", count=2), nodes=NO_ROOM)
    first, second = changes(found)
    assert (first.claim.meta.name, second.claim.meta.name) == ("a", "b")
    assert {type(first), type(second)} == {Degrade}
    assert {first.cause, second.cause} == {Cause.SET_TORN}
    assert first.words == (
        "2 claims of VM vm are held on several nodes, none has room for all 4 units: the VM cannot "
        "use them together until one has; wait, or name fewer claims in it"
    )
    assert found.draft.claim(ObjectKey("tenant-a", "a")).node == "n1"


def after(found):
    """The world as the changes leave it."""
    changes(found)
    return scene_of(replace(found.world, claims=tuple(found.draft.claims())))


def test_it_says_so_once():
    found = scene(held("a", "n1", count=2), held("b", "n2", count=2), nodes=NO_ROOM)
    assert changes(after(found)) == []


def test_it_says_so_no_more_once_it_is_gathered():
    torn = after(scene(held("a", "n1", count=2), held("b", "n2", count=2), nodes=NO_ROOM))
    world = replace(torn.world, nodes=raws.a_world(nodes=[raws.a_node("n1")]).nodes)
    healed = after(scene_of(world))
    told = {
        claim.meta.name: (claim.node, conditions.reason_of(claim, "Degraded"))
        for claim in healed.world.claims
    }
    assert told == {"a": ("n1", ""), "b": ("n1", "")}
    assert changes(healed) == []


def test_it_says_so_no_more_once_the_vm_names_them_no_more():
    torn = after(scene(held("a", "n1", count=2), held("b", "n2", count=2), nodes=NO_ROOM))
    found = scene_of(replace(torn.world, vms=()))
    assert [(type(item), item.cause, item.set_id) for item in changes(found)] == [
        (Degrade, None, "tenant-a/a"),
        (Degrade, None, "tenant-a/b"),
    ]


def test_what_another_phase_says_of_a_claim_is_not_said_over():
    status = raws.bound(
        "n1",
        conditions=[
            {"type": "Degraded", "status": "True", "reason": "UnitsMissing", "message": ""}
        ],
    )
    found = scene(
        raws.a_claim("a", count=2, meta=FINALIZER, status=status),
        held("b", "n2", count=2),
        nodes=NO_ROOM,
    )
    assert [change.claim.meta.name for change in changes(found)] == ["b"]


def test_members_that_are_being_deleted_are_left_out():
    found = scene(held("a", "n1", meta=raws.DELETED), held("b", "n2"), lost("c", "n2"))
    assert changes(found) == [gathered(found, "c", "n2")]


GUEST = {"vm": "vm", "pods": {"p": "n1"}}


def test_a_set_whose_guest_may_run_is_gathered_where_that_is_and_nowhere_else():
    found = scene(
        held("a", "n2", count=2, **GUEST),
        held("b", "n1", count=1, **GUEST),
        pods=[raws.a_pod("p", node="n1", units=3)],
    )
    assert changes(found) == [gathered(found, "a", "n1", left="n2")]


def test_it_shares_the_units_of_its_pod_and_needs_no_other():
    found = scene(
        lost("a", "n1", count=4, **GUEST),
        held("b", "n1", count=4, **GUEST),
        nodes=[raws.a_node("n1", units=8, unschedulable=True), raws.a_node("n2", units=16)],
        pods=[raws.a_pod("p", node="n1", units=8)],
    )
    assert changes(found) == [gathered(found, "a", "n1")]


def test_it_goes_lost_whole_where_that_node_has_no_room_though_another_has():
    found = scene(
        held("a", "n2", count=4, **GUEST),
        lost("b", "n1", count=4, **GUEST),
        nodes=[raws.a_node("n1", units=4), raws.a_node("n2", units=8)],
        pods=[raws.a_pod("p", node="n1", units=8)],
    )
    assert changes(found) == [lose(found, "a", "n2", GuestMayRun())]


def test_it_stays_as_it_is_where_its_pods_may_run_on_two_nodes():
    two = {"vm": "vm", "pods": {"p": "n1", "q": "n2"}}
    found = scene(held("a", "n1", **two), held("b", "n2", **two))
    assert {type(change) for change in changes(found)} == {Degrade}


def test_a_pod_at_the_gate_ties_the_set_to_no_node():
    gated = {"vm": "vm", "pods": {"p": ""}}
    found = scene(
        held("a", "n1", count=1, **gated),
        held("b", "n2", count=2, **gated),
        pods=[raws.a_pod("p", node="", gated=True)],
    )
    unused = NoOtherPods(key=ObjectKey("tenant-a", "vm"), uid="vm-uid", pods=frozenset({"p"}))
    moved = gathered(found, "a", "n2", left="n1")
    assert changes(found) == [replace(moved, confirm=(unused,))]


def test_a_set_in_quarantine_is_left_alone():
    claims = [held("a", "n1"), held("b", "n2")]
    found = scene(*claims, skip=["tenant-a/a"])
    assert changes(found) == []


def test_nothing_is_gathered_while_a_claim_cannot_be_read():
    found = scene(held("a", "n1"), held("b", "n2"))
    world = replace(found.world, unreadable_claims=frozenset({ObjectKey("tenant-b", "odd")}))
    assert changes(scene_of(world)) == []
