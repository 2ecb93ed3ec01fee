"""Phase attachments: World in, changes out."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpu.binder.changes import Attach, DeleteClaim, Detach, Detached, How, Place
from gpu.binder.confirms import (
    NodeLooked,
    NoOtherPods,
    PodsAbsent,
    PodsEnded,
    VMIEnded,
    VMINeverCame,
)
from gpu.binder.phases import attachments
from gpu.model.sightings import Sightings
from gpu.objects.claims import AttachedPod
from gpu.objects.meta import ObjectKey
from tests.binder import raws
from tests.binder.scenes import NOW, a_scene, only

VM = ObjectKey("tenant-a", "vm")
OVER = VMIEnded(key=VM, uid="vmi-1")
ENDED_P = PodsEnded(namespace="tenant-a", uids=frozenset({"p"}))
LISTED = NoOtherPods(key=VM, uid="vmi-1", pods=frozenset({"p"}))
LONG_AGO = "2026-01-01T11:59:00Z"
JUST_NOW = "2026-01-01T11:59:30Z"


def a_user(name="x", *, node="n1", template=False, meta=None, at=0, **attached):
    """A claim that VMI vmi-1 uses with pod p on n1, unless told otherwise."""
    labels = {"gpu.cozystack.io/template-claim": "true"} if template else {}
    found = raws.attached(**{"uid": "vmi-1", "pods": {"p": "n1"}, **attached})
    status = (raws.bound(node) if node else {"phase": "Pending", "term": 1}) | found
    return raws.a_claim(name, at=at, meta={"labels": labels, **(meta or {})}, status=status)


def of(*claims, **objects):
    good = {"classes": [raws.a_class()], "nodes": [raws.a_node(), raws.a_node("n2")]}
    return a_scene(claims=list(claims), **{**good, **objects})


def decided(scene):
    return tuple(attachments.changes_of(scene))


def noted(scene):
    """Name and pods of each claim that is noted anew."""
    found = decided(scene)
    assert all(isinstance(change, Attach) for change in found), found
    return {change.claim.meta.name: change.attachment for change in found}


def test_a_vmi_that_runs_as_noted_causes_nothing():
    assert decided(of(a_user(), vmis=[raws.a_vmi(pods={"p": "n1"})], pods=[raws.a_pod("p")])) == ()


def test_a_vmi_that_carries_the_claims_admission_is_adopted_with_its_pods():
    vmi = raws.a_vmi(uid="vmi-7", pods={"b": "", "a": "n1"}, admissions={"x": "adm-vm"})
    found = noted(of(a_user(uid="", pods={}), vmis=[vmi]))["x"]
    assert (found.uid, found.admission) == ("vmi-7", "adm-vm")
    assert found.pods == (AttachedPod(uid="a", node="n1"), AttachedPod(uid="b", node=""))


@pytest.mark.parametrize(
    "vmi",
    [
        raws.a_vmi(uid="vmi-7", pods={"a": "n1"}),
        raws.a_vmi(uid="vmi-7", pods={"a": "n1"}, admissions={"x": "of-an-earlier-start"}),
        raws.a_vmi(uid="vmi-7", pods={"a": "n1"}, admissions={"y": "adm-vm"}),
        raws.a_vmi("other", uid="vmi-7", pods={"a": "n1"}, admissions={"x": "adm-vm"}),
        raws.a_vmi(tenant="tenant-b", pods={"a": "n1"}, admissions={"x": "adm-vm"}),
    ],
    ids=["none", "another id", "of another claim", "of another name", "of another tenant"],
)
def test_a_vmi_without_the_admission_of_this_claim_is_not_adopted(vmi):
    assert decided(of(a_user(uid="", pods={}, since=JUST_NOW), vmis=[vmi])) == ()


def test_a_pod_is_noted_with_its_node_as_soon_as_that_is_known():
    vmi = raws.a_vmi(pods={"p": "", "q": "n2"})
    scene = of(a_user(pods={"p": ""}), vmis=[vmi], pods=[raws.a_pod("p", node="n1")])
    assert noted(scene)["x"].pods == (
        AttachedPod(uid="p", node="n1"),
        AttachedPod(uid="q", node="n2"),
    )


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_end_is_noted_while_the_vmi_lives(phase):
    vmi = raws.a_vmi(pods={"p": "n1", "q": "n2"})
    pods = [raws.a_pod("p", phase=phase), raws.a_pod("q", node="n2")]
    scene = of(a_user(pods={"p": "n1", "q": "n2"}), vmis=[vmi], pods=pods)
    assert noted(scene)["x"].pods == (
        AttachedPod(uid="p", node="n1", ended=True),
        AttachedPod(uid="q", node="n2"),
    )


def test_a_pod_that_only_says_it_belongs_to_the_vmi_is_not_noted():
    owner = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "name": "vm",
        "uid": "vmi-1",
        "controller": True,
    }
    forged = raws.a_pod("forged", node="n2")
    forged["metadata"]["ownerReferences"] = [owner]
    scene = of(a_user(), vmis=[raws.a_vmi(pods={"p": "n1"})], pods=[raws.a_pod("p"), forged])
    assert decided(scene) == ()


def test_of_too_many_pods_the_oldest_that_ended_are_forgotten_and_stay_so():
    uids = [f"p{number:03}" for number in range(256)]
    old = a_user(pods=dict.fromkeys(uids, "n1"), ended=uids[1:])
    vmi = raws.a_vmi(pods=dict.fromkeys([*uids, "new"], "n1"))
    live = [raws.a_pod("p000"), raws.a_pod("new")]
    over = [raws.a_pod(uid, phase="Succeeded") for uid in uids[1:]]
    scene = of(old, vmis=[vmi], pods=[*live, *over])
    pods = noted(scene)["x"].pods
    assert (len(pods), pods[0].uid, pods[1].uid, pods[-1].uid) == (256, "p000", "p002", "new")
    assert decided(scene) == ()


def test_every_member_of_a_set_is_noted_in_the_order_of_the_set():
    vmi = raws.a_vmi(pods={"p": "n1", "q": "n1"})
    scene = of(a_user("x", at=2), a_user("y", at=1), vmis=[vmi])
    assert [(change.claim.meta.name, change.set_id) for change in decided(scene)] == [
        ("y", "tenant-a/y"),
        ("x", "tenant-a/y"),
    ]


def the_end(scene, why=Detached.ENDED, *, confirm, words):
    return Detach(
        claim=scene.world.claims[0],
        why=why,
        at=NOW,
        set_id="tenant-a/x",
        confirm=confirm,
        evidence=words,
    )


ENDS = {
    "gone": [],
    "Succeeded": [raws.a_vmi(phase="Succeeded", pods={"p": "n1"})],
    "Failed": [raws.a_vmi(phase="Failed", pods={"p": "n1"})],
    "made anew under the same name": [raws.a_vmi(uid="vmi-2", pods={"q": "n2"})],
}


@pytest.mark.parametrize("vmis", ENDS.values(), ids=ENDS)
def test_a_vmi_that_is_over_is_detached_from_once_its_pods_have_ended(vmis):
    scene = of(a_user(), vmis=vmis, pods=[raws.a_pod("p", phase="Succeeded")])
    words = ("pod p was seen to have ended",)
    assert decided(scene) == (the_end(scene, confirm=(OVER, LISTED, ENDED_P), words=words),)
    assert scene.draft.claim(ObjectKey("tenant-a", "x")).attached_to is None


@pytest.mark.parametrize("vmis", ENDS.values(), ids=ENDS)
def test_a_vmi_that_is_over_is_not_detached_from_while_its_pod_runs(vmis):
    assert decided(of(a_user(), vmis=vmis, pods=[raws.a_pod("p")])) == ()


def test_a_pod_that_ended_unseen_is_known_to_have_by_its_node_that_looked():
    gone = Sightings(absent={"p": NOW - timedelta(seconds=180)})
    scene = of(a_user(), sightings=gone)
    looked = (
        PodsAbsent(namespace="tenant-a", uids=frozenset({"p"})),
        NodeLooked(node="n1", ready_since=NOW - timedelta(seconds=180), at_or_after=NOW),
    )
    words = ("pod p went, and node n1 was Ready until 2026-01-01T12:00:00+00:00",)
    assert decided(scene) == (the_end(scene, confirm=(OVER, LISTED, *looked), words=words),)
    assert decided(of(a_user(), sightings=Sightings(absent={"p": NOW}))) == ()


def test_a_set_is_detached_together_or_not_at_all():
    """What one member noted counts for all: q runs, though only y knows of it."""
    both = [a_user("x", ended=["p"]), a_user("y", pods={"p": "n1", "q": "n1"}, ended=["p"])]
    assert decided(of(*both, pods=[raws.a_pod("q")])) == ()
    ends = decided(of(*both, pods=[raws.a_pod("q", phase="Succeeded")]))
    assert [(type(one), one.claim.meta.name) for one in ends] == [(Detach, "x"), (Detach, "y")]


def test_a_deleted_member_keeps_its_set_attached_and_is_left_to_phase_release():
    gone = a_user("y", meta=raws.DELETED, pods={"q": "n1"})
    assert decided(of(a_user("x", ended=["p"]), gone, pods=[raws.a_pod("q")])) == ()


def test_a_vmi_that_never_came_is_detached_from_after_the_grace():
    scene = of(a_user(uid="", pods={}, since=LONG_AGO))
    never = VMINeverCame(key=VM, claim="x", admission="adm-vm")
    assert decided(scene) == (the_end(scene, Detached.EXPIRED, confirm=(never,), words=()),)
    assert decided(of(a_user(uid="", pods={}, since=JUST_NOW))) == ()


def test_a_vmi_of_the_next_start_does_not_keep_an_attachment_that_never_came():
    vmi = raws.a_vmi(uid="vmi-2", admissions={"x": "another"})
    scene = of(a_user(uid="", pods={}, since=LONG_AGO), vmis=[vmi])
    assert only(decided(scene)).why is Detached.EXPIRED


def test_what_an_earlier_start_left_in_an_attachment_needs_evidence_too():
    """The webhook took the attachment over while pod p of the last start still ended."""
    claim = a_user(uid="", since=LONG_AGO)
    assert decided(of(claim, pods=[raws.a_pod("p")])) == ()
    assert isinstance(only(decided(of(claim, pods=[raws.a_pod("p", phase="Failed")]))), Detach)


def test_a_vmi_made_anew_that_carries_the_admission_takes_the_attachment_on():
    vmi = raws.a_vmi(uid="vmi-2", pods={"q": "n1"}, admissions={"x": "adm-vm"})
    found = noted(of(a_user(), vmis=[vmi], pods=[raws.a_pod("p"), raws.a_pod("q")]))["x"]
    assert (found.uid, [pod.uid for pod in found.pods]) == ("vmi-2", ["p", "q"])


MOVED = {"completed": True, "targetNode": "n2"}


def a_migrated(**more):
    good = {"node": "n2", "pods": {"p": "n1", "q": "n2"}, "migration": MOVED}
    return raws.a_vmi(**{**good, **more})


PODS = [raws.a_pod("p"), raws.a_pod("q", node="n2")]


def test_a_completed_migration_takes_all_claims_to_the_target_though_the_source_lives():
    set_of_two = [a_user(name, pods={"p": "n1", "q": "n2"}) for name in ("x", "y")]
    pods = [raws.a_pod("p", units=2), raws.a_pod("q", node="n2", units=2)]
    scene = of(*set_of_two, vmis=[a_migrated()], pods=pods)
    assert decided(scene) == tuple(
        Place(claim=claim, node="n2", at=NOW, set_id="tenant-a/x", how=How.MIGRATED)
        for claim in scene.world.claims
    )
    free = {node: scene.draft.ledger.free(node, raws.RESOURCE) for node in ("n1", "n2")}
    assert free == {"n1": 6, "n2": 6}
    assert decided(scene) == ()


@pytest.mark.parametrize(
    "vmi",
    [
        a_migrated(migration={"targetNode": "n2"}),
        a_migrated(migration={**MOVED, "failed": True}),
        a_migrated(node="n1"),
        a_migrated(node=""),
    ],
    ids=["under way", "failed", "virt-handler says otherwise", "nobody says where it runs"],
)
def test_a_migration_that_is_not_completed_changes_nothing(vmi):
    scene = of(a_user(pods={"p": "n1", "q": "n2"}), vmis=[vmi], pods=PODS)
    assert decided(scene) == ()


@pytest.mark.parametrize(
    "source", ["n1", "n2"], ids=["the only one", "one that nobody saw before it"]
)
def test_where_a_migration_failed_its_source_is_where_the_guest_is(source):
    """Two migrations may pass while nobody leads: the first took the guest, and the last failed."""
    failed = {"completed": True, "failed": True, "sourceNode": source, "targetNode": "n3"}
    scene = of(a_user(), vmis=[a_migrated(node=source, migration=failed)], pods=PODS)
    moves = [it.node for it in decided(scene) if isinstance(it, Place)]
    assert moves == [node for node in ("n2",) if node == source]


def test_a_migration_is_not_followed_once_the_target_has_ended():
    """Nothing runs there, and the node may be cordoned by now: the VMI is about to be over."""
    pods = [raws.a_pod("p", phase="Succeeded"), raws.a_pod("q", node="n2", phase="Failed")]
    scene = of(a_user(pods={"p": "n1", "q": "n2"}), vmis=[a_migrated()], pods=pods)
    assert {name: it.pods for name, it in noted(scene).items()} == {
        "x": (
            AttachedPod(uid="p", node="n1", ended=True),
            AttachedPod(uid="q", node="n2", ended=True),
        )
    }


def test_a_migration_to_a_node_without_room_for_what_the_pod_does_not_ask_for_is_not_followed():
    holder = raws.a_claim("full", status=raws.bound("n2"), count=7)
    claim = a_user(pods={"p": "n1", "q": "n2"})
    claim["spec"]["count"] = 3
    scene = of(claim, holder, vmis=[a_migrated()], pods=PODS)
    assert decided(scene) == ()
    assert scene.draft.claim(ObjectKey("tenant-a", "x")).node == "n1"


@pytest.mark.parametrize("nodes", [[raws.a_node("n2", units=0)], []], ids=["no plugin", "no Node"])
def test_a_migration_is_not_followed_before_the_target_serves_what_the_claims_hold(nodes):
    """The checker would refuse the plan, and nothing at all would be placed as long as that lasts."""
    found = a_user(pods={"p": "n1", "q": "n2"})
    there = [raws.a_node(), *nodes]
    assert decided(of(found, nodes=there, vmis=[a_migrated()], pods=PODS)) == ()


def test_nothing_is_placed_while_a_claim_cannot_be_read():
    scene = of(a_user(pods={"p": "n1", "q": "n2"}), vmis=[a_migrated()], pods=PODS)
    odd = replace(scene.world, unreadable_claims=frozenset({ObjectKey("tenant-a", "odd")}))
    assert decided(replace(scene, world=odd)) == ()


def test_the_source_of_a_migration_that_went_unseen_is_noted_as_ended_by_evidence():
    """The claims have moved on: the pod alone stands for what it may still use at the source."""
    vmi = a_migrated(pods={"q": "n2"})
    seen = Sightings(absent={"p": NOW - timedelta(seconds=180)})
    claim = a_user(node="n2", pods={"p": "n1", "q": "n2"})
    change = only(decided(of(claim, vmis=[vmi], pods=PODS[1:], sightings=seen)))
    assert change.attachment.pods[0] == AttachedPod(uid="p", node="n1", ended=True)
    assert change.confirm == (
        PodsAbsent(namespace="tenant-a", uids=frozenset({"p"})),
        NodeLooked(node="n1", ready_since=NOW - timedelta(seconds=180), at_or_after=NOW),
    )


TEMPLATES = {
    "its VMI is over": ({}, (OVER,)),
    "its VMI never came": (
        {"uid": "", "pods": {}, "since": LONG_AGO},
        (VMINeverCame(key=VM, claim="x", admission="adm-vm"),),
    ),
}


@pytest.mark.parametrize(("attached", "confirm"), TEMPLATES.values(), ids=TEMPLATES)
def test_a_template_claim_goes_with_its_vmi(attached, confirm):
    scene = of(a_user(template=True, **attached), pods=[raws.a_pod("p")])
    claim = scene.world.claims[0]
    # One whose VM never came may be taken up by its next start in the same moment.
    version = "" if OVER in confirm else claim.meta.resource_version
    gone = DeleteClaim(claim=claim, set_id="tenant-a/x", version=version, confirm=confirm)
    assert decided(scene) == (gone,)


@pytest.mark.parametrize(("created", "goes"), [(LONG_AGO, True), (JUST_NOW, False)])
def test_a_template_claim_that_was_never_attached_goes_after_the_grace(created, goes):
    labels = {"gpu.cozystack.io/template-claim": "true"}
    meta = {"labels": labels, "creationTimestamp": created}
    scene = of(raws.a_claim(meta=meta, status=raws.bound()))
    claim = scene.world.claims[0]
    version = claim.meta.resource_version
    gone = DeleteClaim(claim=claim, set_id="tenant-a/x", version=version)
    assert decided(scene) == ((gone,) if goes else ())


def test_a_deleted_claim_is_left_to_phase_release():
    assert decided(of(a_user(meta=raws.DELETED), pods=[raws.a_pod("p", phase="Failed")])) == ()
    deleted = raws.DELETED | {"labels": {"gpu.cozystack.io/template-claim": "true"}}
    assert decided(of(a_user(meta=deleted))) == ()
    assert decided(of(raws.a_claim(meta=deleted | {"creationTimestamp": LONG_AGO}))) == ()


def test_a_set_in_quarantine_is_left_alone():
    scene = of(a_user(ended=["p"]), skip={"tenant-a/x"})
    assert decided(scene) == ()


@pytest.mark.parametrize(
    ("phase", "goes"), [("Scheduling", False), ("Failed", True), ("Running", True)]
)
def test_a_template_claim_of_a_start_that_lives_is_that_starts(phase, goes):
    """Phase gates takes it up, or deletes it when the start does not fit any more."""
    owner = {"kind": "VirtualMachineInstance", "name": "vm", "uid": "vmi-1", "controller": True}
    labels = {"gpu.cozystack.io/template-claim": "true"}
    meta = {"labels": labels, "creationTimestamp": LONG_AGO, "ownerReferences": [owner]}
    scene = a_scene(claims=[raws.a_claim(meta=meta)], vmis=[raws.a_vmi(phase=phase)])
    assert bool(decided(scene)) is goes
