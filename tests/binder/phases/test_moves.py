"""Phase moves: sets off nodes that cannot keep them, or Lost; each as a whole, and not too many."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpu.binder.changes import EndGuest, How, Lose, Place
from gpu.binder.confirms import NodeOff, NoOtherPods, PodsEnded
from gpu.binder.phases import lost, moves
from gpu.model.draft import Draft
from gpu.model.refusals import GuestMayRun, NoFreeUnits
from gpu.model.sightings import Sightings
from gpu.objects.claims import Cause, Displaced, Phase
from gpu.objects.meta import ObjectKey
from tests.binder import raws
from tests.binder.phases.node_stories import (
    FINALIZER,
    KEEP,
    a_hold,
    a_scene,
    ago,
    degraded,
    done,
    guest,
    node_with,
    one,
    told,
)
from tests.binder.scenes import NOW, only

HARD = [Cause.NODE_GONE, Cause.NODE_NOT_READY, Cause.UNITS_MISSING, Cause.NODE_TAINTED]
GONE, CORDONED = Cause.NODE_GONE, Cause.NODE_CORDONED
STANDING = [Cause.NODE_NOT_READY, Cause.UNITS_MISSING, Cause.NODE_TAINTED]

TABLE = [
    # An idle set moves; with no room it is Lost, but never for a cordon alone.
    *[(cause, state, True, ["place x n2"]) for cause in HARD for state in ("off", "gated")],
    *[(cause, state, False, ["lose x"]) for cause in HARD for state in ("off", "gated")],
    *[(CORDONED, state, True, ["place x n2"]) for state in ("off", "gated")],
    *[(CORDONED, state, False, []) for state in ("off", "gated")],
    # A start that is under way is ended, so that the set can be placed anew.
    *[(cause, "starting", room, ["end vm"]) for cause in HARD for room in (True, False)],
    (CORDONED, "starting", True, ["end vm"]),
    (CORDONED, "starting", False, []),
    # A guest that runs is ended where that helps it; else its set is Lost and it runs on.
    *[(cause, "running", True, ["end vm"]) for cause in HARD],
    *[(cause, "running", False, ["lose x"]) for cause in STANDING],
    (GONE, "running", False, ["end vm"]),
    *[(CORDONED, "running", room, []) for room in (True, False)],
    # Pods that have not ended are waited for; those of a node that is gone have.
    *[(cause, "ending", room, []) for cause in STANDING for room in (True, False)],
    *[(CORDONED, "ending", room, []) for room in (True, False)],
    (GONE, "ending", True, ["place x n2"]),
    (GONE, "ending", False, ["lose x"]),
    *[(cause, "ended", True, ["place x n2"]) for cause in [*HARD, CORDONED]],
    *[(cause, "ended", False, ["lose x"]) for cause in HARD],
    (CORDONED, "ended", False, []),
]


@pytest.mark.parametrize(("cause", "state", "room", "does"), TABLE)
def test_what_becomes_of_a_set_that_its_node_cannot_keep(cause, state, room, does):
    assert done(one(cause, state, room=room)) == does


@pytest.mark.parametrize(("cause", "state", "room", "does"), TABLE)
def test_runningguests_keep_ends_no_running_guest_and_changes_nothing_else(
    cause, state, room, does
):
    if state == "running":
        does = ["lose x"] if cause is GONE else []
    assert done(one(cause, state, room=room, config=KEEP)) == does


@pytest.mark.parametrize("state", ["off", "gated", "starting", "running", "ending", "ended"])
def test_a_node_that_is_well_keeps_everything(state):
    assert told(one(None, state)) == []


def test_a_move_says_where_from_why_and_what_it_relies_on():
    scene = one(GONE, "ending")
    change = only(moves.changes_of(scene))
    assert change == Place(
        claim=scene.world.claims[0],
        node="n2",
        at=NOW,
        set_id="tenant-a/x",
        how=How.MOVED,
        displaced=Displaced(at=NOW, node="n1", cause=GONE),
        confirm=(
            NoOtherPods(key=ObjectKey("tenant-a", "vm"), uid="vm-uid", pods=frozenset({"vm-pod"})),
            NodeOff(node="n1"),
        ),
    )
    assert scene.draft.claim(change.claim.key).node == "n2"


def test_a_set_at_the_gate_moves_only_if_its_vmi_still_lists_that_pod_alone():
    change = only(moves.changes_of(one(CORDONED, "gated")))
    assert change.confirm == (
        NoOtherPods(key=ObjectKey("tenant-a", "vm"), uid="vm-uid", pods=frozenset({"vm-pod"})),
    )


def test_a_pod_seen_to_have_ended_is_asked_for_once_more():
    change = only(moves.changes_of(one(CORDONED, "ended")))
    assert PodsEnded(namespace="tenant-a", uids=frozenset({"vm-pod"})) in change.confirm


def test_a_loss_says_where_from_and_why_no_node_takes_it():
    scene = one(GONE, "off", room=False)
    claim = scene.world.claims[0]
    assert list(moves.changes_of(scene)) == [
        Lose(
            claim=claim,
            displaced=Displaced(at=NOW, node="n1", cause=GONE),
            at=NOW,
            set_id="tenant-a/x",
            refusals=only(moves.changes_of(one(GONE, "off", room=False))).refusals,
        )
    ]


def test_a_loss_under_a_running_guest_says_that_the_guest_may_run():
    scene = one(Cause.NODE_TAINTED, "running", room=False)
    assert only(moves.changes_of(scene)).refusals == (GuestMayRun(),)


def test_a_loss_for_want_of_room_names_what_is_asked():
    nodes = [raws.a_node("n2", units=1)]
    scene = a_scene(a_hold("x", count=2), nodes=nodes)
    assert only(moves.changes_of(scene)).refusals == (NoFreeUnits("h100", 2, 1),)


def test_a_guest_is_ended_by_uid_and_version_with_the_cause():
    scene = one(Cause.NODE_TAINTED, "running")
    (vmi,) = scene.world.vmis
    assert vmi.meta.resource_version
    ended = [change for change in moves.changes_of(scene) if isinstance(change, EndGuest)]
    assert ended == [
        EndGuest(
            vmi=ObjectKey("tenant-a", "vm"),
            uid="vm-uid",
            version=vmi.meta.resource_version,
            node="n1",
            cause=Cause.NODE_TAINTED,
            set_id="tenant-a/x",
        )
    ]


def test_a_set_says_degraded_before_its_guest_is_ended():
    assert told(one(Cause.NODE_TAINTED, "running")) == ["mark x NodeTainted", "end vm"]


# Whole sets.


def a_pair(*, on=("n1", "n1"), **more):
    """Two claims that one VM's template names; the VM is off."""
    return {
        "claims": [
            a_hold("x", on[0], at=1, count=2, **more),
            a_hold("y", on[1], at=2, **more),
        ],
        "vms": [raws.a_vm("vm", claims=["x", "y"])],
    }


def test_the_claims_of_a_vm_that_is_off_move_together():
    pair = a_pair()
    scene = a_scene(*pair["claims"], nodes=[raws.a_node("n2", units=3)], vms=pair["vms"])
    assert done(scene) == ["place x n2", "place y n2"]


def test_the_claims_of_a_vm_that_is_off_are_lost_together_though_one_would_fit():
    pair = a_pair()
    scene = a_scene(*pair["claims"], nodes=[raws.a_node("n2", units=2)], vms=pair["vms"])
    assert done(scene) == ["lose x", "lose y"]


def test_both_changes_of_a_set_are_of_that_set():
    pair = a_pair()
    scene = a_scene(*pair["claims"], nodes=[raws.a_node("n2")], vms=pair["vms"])
    assert {change.set_id for change in moves.changes_of(scene)} == {"tenant-a/x"}


def test_a_member_that_is_being_deleted_stays_where_it_is():
    claims = [a_hold("x", at=1), a_hold("y", at=2, meta=raws.DELETED)]
    vms = [raws.a_vm("vm", claims=["x", "y"])]
    assert done(a_scene(*claims, nodes=[raws.a_node("n2")], vms=vms)) == ["place x n2"]


def test_a_set_that_is_partly_lost_is_put_together_first():
    pair = a_pair()
    pair["claims"][1]["status"]["phase"] = "Lost"
    assert told(a_scene(*pair["claims"], nodes=[raws.a_node("n2")], vms=pair["vms"])) == []


@pytest.mark.parametrize("unready", ["gone", "cordon"])
def test_a_set_held_on_two_nodes_leaves_a_node_that_is_gone_as_a_whole(unready):
    pair = a_pair(on=("n1", "n2"))
    nodes = [raws.a_node("n2", units=1), raws.a_node("n3", units=3)]
    if unready == "cordon":
        nodes += node_with(CORDONED)
    scene = a_scene(*pair["claims"], nodes=nodes, vms=pair["vms"])
    assert done(scene) == ["place x n3", "place y n3"]


def test_a_set_goes_to_no_node_that_has_just_refused_it():
    def rejected(seconds):
        return {"rejectedNodes": [{"node": "n2", "until": ago(-seconds)}]}

    nodes = [raws.a_node("n2", units=1), raws.a_node("n3", units=2)]
    assert done(a_scene(a_hold("x", **rejected(60)), nodes=nodes)) == ["place x n3"]
    assert done(a_scene(a_hold("x", **rejected(-60)), nodes=nodes)) == ["place x n2"]


def test_a_stay_class_keeps_its_set_through_a_cordon_but_not_through_a_loss():
    classes = [raws.a_class(onCordon="Stay"), raws.a_class("l40", resource="nvidia.com/L40")]
    claims = [
        raws.a_claim("x", at=1, meta=FINALIZER, status=raws.bound()),
        raws.a_claim("y", at=2, class_name="l40", meta=FINALIZER, status=raws.bound()),
    ]
    vms = [raws.a_vm("vm", claims=["x", "y"])]

    def served(name, **spec):
        node = raws.a_node(name, **spec)
        node["status"]["allocatable"]["nvidia.com/L40"] = "8"
        return node

    elsewhere = served("n2")
    cordoned = [served("n1", unschedulable=True), elsewhere]
    assert told(a_scene(*claims, nodes=cordoned, classes=classes, vms=vms)) == []
    assert done(a_scene(*claims, nodes=[elsewhere], classes=classes, vms=vms)) == [
        "place x n2",
        "place y n2",
    ]


# Room.


def running(*names, node="n1", units=1):
    """Sets of one claim whose guests run."""
    claims, vmis, pods = [], [], []
    for at, name in enumerate(names):
        found = guest("running", f"vm-{name}", node)
        claims.append(a_hold(name, node, at=at, count=units, **found["attached"]))
        vmis += found["vmis"]
        pods += found["pods"]
    return {"claims": claims, "vmis": vmis, "pods": pods}


def test_as_many_guests_are_ended_as_there_is_room_elsewhere():
    found = running("a", "b", "c")
    nodes = [*node_with(Cause.NODE_TAINTED), raws.a_node("n2", units=2)]
    scene = a_scene(*found["claims"], nodes=nodes, vmis=found["vmis"], pods=found["pods"])
    assert done(scene) == ["end vm-a", "end vm-b", "lose c"]


def test_room_that_a_set_on_its_way_will_take_is_given_to_no_other():
    ending, found = guest("ending", "vm-a"), running("b")
    claims = [a_hold("a", at=9, **ending["attached"]), *found["claims"]]
    nodes = [*node_with(Cause.NODE_TAINTED), raws.a_node("n2", units=1)]
    scene = a_scene(
        *claims,
        nodes=nodes,
        vmis=[*ending["vmis"], *found["vmis"]],
        pods=[*ending["pods"], *found["pods"]],
    )
    assert done(scene) == ["lose b"]


def test_a_set_made_lost_does_not_get_the_room_of_one_on_its_way():
    """Both left one node; whoever comes first there keeps what was found for it, pass after pass."""
    ending = guest("ending", "vm-a")
    claims = [a_hold("a", at=9, **ending["attached"]), a_hold("b", at=1)]
    nodes = [*node_with(Cause.NODE_TAINTED), raws.a_node("n2", units=1)]
    scene = a_scene(*claims, nodes=nodes, vmis=ending["vmis"], pods=ending["pods"])
    assert done(scene) == ["lose b"]
    assert [type(change) for change in lost.changes_of(scene)] == []
    assert scene.draft.claim(ObjectKey("tenant-a", "b")).phase is Phase.LOST


def test_a_lost_node_is_served_before_a_drain():
    claims = [a_hold("drained", "n1", at=1), a_hold("lost", "n3", at=2)]
    nodes = [*node_with(CORDONED), raws.a_node("n2", units=1)]
    assert done(a_scene(*claims, nodes=nodes)) == ["place lost n2"]


def test_idle_sets_come_before_running_guests_and_older_before_younger():
    found = running("r")
    claims = [*found["claims"], a_hold("y", at=7), a_hold("x", at=5)]
    nodes = [*node_with(Cause.NODE_TAINTED), raws.a_node("n2", units=2)]
    scene = a_scene(*claims, nodes=nodes, vmis=found["vmis"], pods=found["pods"])
    assert done(scene) == ["place x n2", "place y n2", "lose r"]


# What is left alone.


def test_nothing_is_done_while_a_claim_cannot_be_read():
    scene = one(GONE, "off")
    unread = replace(scene.world, unreadable_claims=frozenset({ObjectKey("tenant-a", "bad")}))
    assert told(replace(scene, world=unread)) == []


def test_a_set_in_quarantine_is_left_alone_and_holds_what_it_holds():
    nodes = [raws.a_node("n2", units=1)]
    scene = a_scene(a_hold("x"), a_hold("y", at=1), nodes=nodes, skip=("tenant-a/x",))
    assert done(scene) == ["place y n2"]


def test_a_vmi_that_is_going_is_not_deleted_again():
    assert done(one(Cause.NODE_NOT_READY, "ending")) == []


def test_a_set_waits_for_a_pod_that_went_without_a_trace():
    """Its object is gone; the node was Ready all the time, but not long enough since."""
    found = guest("ended")
    found["attached"]["attachedTo"]["pods"] = [{"uid": "vm-pod", "node": "n1"}]
    nodes = [*node_with(CORDONED), raws.a_node("n2")]

    def after(seconds):
        seen = Sightings(absent={"vm-pod": NOW - timedelta(seconds=seconds)})
        return done(a_scene(a_hold("x", **found["attached"]), nodes=nodes, seen=seen))

    assert after(60) == []
    assert after(600) == ["place x n2"]


# Grace, and what claims say meanwhile.


def test_within_the_grace_a_set_only_says_what_is_wrong():
    nodes = [raws.a_node("n1", ready="False", since=ago(299)), raws.a_node("n2")]
    scene = a_scene(a_hold("x"), nodes=nodes)
    change = only(moves.changes_of(scene))
    assert (change.cause, change.words) == (
        Cause.NODE_NOT_READY,
        "node n1 is not Ready: if that lasts 300 s, the claim is moved, or Lost where none has room",
    )
    nodes = [raws.a_node("n1", ready="False", since=ago(300)), raws.a_node("n2")]
    assert told(a_scene(a_hold("x"), nodes=nodes)) == ["place x n2"]


def test_a_node_that_is_well_again_takes_the_word_back():
    nodes = [raws.a_node("n1"), raws.a_node("n2")]
    assert told(a_scene(a_hold("x", **degraded(Cause.NODE_NOT_READY)), nodes=nodes)) == ["clear x"]


def test_what_a_torn_set_says_is_not_taken_back_here():
    nodes = [raws.a_node("n1"), raws.a_node("n2")]
    assert told(a_scene(a_hold("x", **degraded(Cause.SET_TORN)), nodes=nodes)) == []


def test_a_cordon_makes_no_claim_say_degraded():
    assert told(one(CORDONED, "running")) == []
    assert told(one(CORDONED, "off", room=False)) == []


@pytest.mark.parametrize("cause", HARD)
def test_what_is_said_once_is_not_said_again(cause):
    scene = one(cause, "running", config=KEEP)
    for change in moves.changes_of(scene):
        claim = scene.draft.claim(change.claim.key)
    again = replace(scene.world, claims=(claim,))
    assert told(replace(scene, world=again, draft=Draft.of(again.snapshot))) == []


def test_a_device_plugin_that_restarts_moves_nothing():
    nodes = [raws.a_node("n1", units=0), raws.a_node("n2")]
    assert told(a_scene(a_hold("x"), nodes=nodes)) == ["mark x UnitsMissing"]
    said = degraded(Cause.UNITS_MISSING, since=299)
    assert done(a_scene(a_hold("x", **said), nodes=nodes)) == []
    back = [raws.a_node("n1"), raws.a_node("n2")]
    assert told(a_scene(a_hold("x", **said), nodes=back)) == ["clear x"]


def test_the_clock_of_one_cause_is_not_the_clock_of_another():
    """A node that reboots: NotReady for five minutes, then its device plugin needs a moment."""
    nodes = [raws.a_node("n1", units=0), raws.a_node("n2")]
    scene = a_scene(a_hold("x", **degraded(Cause.NODE_NOT_READY, since=290)), nodes=nodes)
    assert told(scene) == ["mark x UnitsMissing"]
    (condition,) = scene.draft.claim(ObjectKey("tenant-a", "x")).conditions
    assert (condition.reason, condition.since) == ("UnitsMissing", NOW)


def test_only_as_many_sets_go_as_the_shortage_needs():
    said = degraded(Cause.UNITS_MISSING)
    claims = [a_hold(name, at=at, **said) for at, name in enumerate("abcd")]
    scene = a_scene(*claims, nodes=[raws.a_node("n1", units=2), raws.a_node("n2")])
    assert told(scene) == ["place c n2", "place d n2", "clear a", "clear b"]
