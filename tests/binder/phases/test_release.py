"""Phase release: World in, changes out."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpu.binder import changes, conditions
from gpu.binder.changes import Attach, DropFinalizer, ExplainKept
from gpu.binder.confirms import (
    NodeLooked,
    NodeOff,
    NoOtherPods,
    PodsAbsent,
    PodsEnded,
    VMINeverCame,
)
from gpu.binder.phases import release
from gpu.model.sightings import Sightings
from gpu.model.signs import Lack
from gpu.objects.claims import AttachedPod
from gpu.objects.kinds import GPU_CLAIMS
from gpu.objects.meta import ObjectKey
from tests.binder import raws
from tests.binder.scenes import NOW, a_scene, only

VM = ObjectKey("tenant-a", "vm")
USED = {"vm": "vm", "uid": "vmi-1", "pods": {"p": "n1"}}
LISTED = NoOtherPods(key=VM, uid="vmi-1", pods=frozenset({"p"}))


def the_release(finalizers=(), **more) -> DropFinalizer:
    return DropFinalizer(
        kind=GPU_CLAIMS,
        key=ObjectKey("tenant-a", "x"),
        uid="uid-1",
        version="1",
        finalizers=finalizers,
        **more,
    )


def a_user(name="x", *, meta=raws.DELETED, **attached):
    """A deleted claim that VMI vmi-1 used with pod p on n1, unless told otherwise."""
    return raws.a_claim(
        name, meta=meta, status=raws.bound() | raws.attached(**{**USED, **attached})
    )


def of(*claims, sightings=None, config=None, skip=(), **objects):
    good = {"classes": [raws.a_class()], "nodes": [raws.a_node()]}
    return a_scene(
        claims=list(claims), sightings=sightings, config=config, skip=skip, **{**good, **objects}
    )


def decided(scene):
    return tuple(release.changes_of(scene))


@pytest.mark.parametrize(
    "status",
    [None, {"phase": "Pending", "term": 1}, raws.bound(), raws.bound() | {"phase": "Lost"}],
    ids=["never looked at", "Pending", "Bound", "Lost"],
)
def test_a_deleted_claim_attached_to_nothing_is_let_go(status):
    scene = a_scene(claims=[raws.a_claim(meta=raws.DELETED, status=status)])
    assert decided(scene) == (the_release(),)
    assert release.is_awaited(scene.world)


def test_the_finalizers_of_others_stay():
    meta = raws.DELETED | {"finalizers": ["gpu.cozystack.io/claim", "somebody.else/one"]}
    scene = a_scene(claims=[raws.a_claim(meta=meta)])
    assert decided(scene) == (the_release(("somebody.else/one",)),)


def test_a_claim_that_is_not_deleted_is_kept():
    scene = of(a_user(meta={}, ended=["p"]))
    assert decided(scene) == ()
    assert not release.is_awaited(scene.world)


def test_a_deleted_claim_without_our_finalizer_is_not_ours_to_hold():
    meta = raws.DELETED | {"finalizers": ["somebody.else/one"]}
    scene = a_scene(claims=[raws.a_claim(meta=meta)])
    assert decided(scene) == ()
    assert not release.is_awaited(scene.world)


def test_a_set_in_quarantine_is_left_alone():
    scene = a_scene(claims=[raws.a_claim(meta=raws.DELETED)], skip={"tenant-a/x"})
    assert decided(scene) == ()


def ago(seconds):
    return NOW - timedelta(seconds=seconds)


GONE = Sightings(absent={"p": ago(300)})
EVIDENCE = {
    "noted as ended": (
        {"claim": {"ended": ["p"]}},
        PodsEnded(namespace="tenant-a", uids=frozenset({"p"})),
        "pod p was seen to have ended",
    ),
    "seen to have ended": (
        {"pods": [raws.a_pod("p", phase="Failed")]},
        PodsEnded(namespace="tenant-a", uids=frozenset({"p"})),
        "pod p was seen to have ended",
    ),
    "its node gone": (
        {"nodes": []},
        NodeOff(node="n1"),
        "pod p: node n1 is gone or out of service",
    ),
    "its node looked": (
        {"sightings": GONE},
        (
            PodsAbsent(namespace="tenant-a", uids=frozenset({"p"})),
            NodeLooked(node="n1", ready_since=ago(300), at_or_after=ago(120)),
        ),
        "pod p went, and node n1 was Ready until 2026-01-01T11:58:00+00:00",
    ),
}


@pytest.mark.parametrize(("given", "confirm", "words"), EVIDENCE.values(), ids=EVIDENCE)
def test_an_attached_claim_is_let_go_by_evidence_that_is_read_past_the_cache(given, confirm, words):
    given = dict(given)
    relied = confirm if isinstance(confirm, tuple) else (confirm,)
    scene = of(a_user(**given.pop("claim", {})), **given)
    assert decided(scene) == (the_release(confirm=(LISTED, *relied), evidence=(words,)),)


def test_a_claim_whose_vmi_never_came_is_let_go_after_the_grace():
    scene = of(a_user(uid="", pods={}, since="2026-01-01T11:59:00Z"))
    never = VMINeverCame(key=VM, claim="x", admission="adm-vm")
    assert decided(scene) == (the_release(confirm=(never,)),)


KEPT = {
    "its pod runs": ({"pods": [raws.a_pod("p")]}, Lack.POD_NOT_ENDED),
    "its pod was force-deleted on a dead node": (
        {"nodes": [raws.a_node(ready="Unknown")], "sightings": GONE},
        Lack.NODE_UNKNOWN,
    ),
    "a new leader has just begun to look": (
        {"sightings": Sightings(absent={"p": NOW})},
        Lack.NODE_SETTLING,
    ),
    "its VMI may still come": (
        {"claim": {"uid": "", "pods": {}, "since": "2026-01-01T11:59:30Z"}},
        Lack.START_PENDING,
    ),
}


@pytest.mark.parametrize(("given", "lack"), KEPT.values(), ids=KEPT)
def test_a_claim_without_evidence_is_kept_and_says_once_why(given, lack):
    given = dict(given)
    claim = a_user(**given.pop("claim", {}))
    scene = of(claim, **given)
    told = only(decided(scene))
    assert isinstance(told, ExplainKept)
    shown = scene.draft.claim(ObjectKey("tenant-a", "x"))
    assert conditions.reason_of(shown, "Releasing") == lack.value
    assert release.is_awaited(scene.world)
    again = replace(scene, now=NOW + timedelta(seconds=1))
    assert decided(again) == ()


def test_a_running_pod_that_only_its_vmi_lists_keeps_the_claim_and_is_noted():
    vmi = raws.a_vmi(pods={"q": "n1"})
    scene = of(a_user(ended=["p"]), vmis=[vmi], pods=[raws.a_pod("q")])
    noted, told = decided(scene)
    assert isinstance(noted, Attach)
    assert noted.attachment.pods == (
        AttachedPod(uid="p", node="n1", ended=True),
        AttachedPod(uid="q", node="n1"),
    )
    assert isinstance(told, ExplainKept)
    assert told.claim == scene.world.claims[0] or told.claim.attached_to == noted.attachment


def test_an_end_that_is_seen_while_another_pod_runs_is_noted_at_once():
    """A finished pod object may be there for 60 ms; without phase attachments, this is all there is."""
    pods = [raws.a_pod("p", phase="Succeeded"), raws.a_pod("q")]
    scene = of(a_user(pods={"p": "n1", "q": "n1"}), pods=pods)
    noted = decided(scene)[0]
    assert isinstance(noted, Attach)
    assert noted.attachment.pods == (
        AttachedPod(uid="p", node="n1", ended=True),
        AttachedPod(uid="q", node="n1"),
    )


def test_a_vmi_that_lives_without_a_pod_does_not_keep_a_claim():
    scene = of(a_user(ended=["p"]), vmis=[raws.a_vmi(phase="Pending")])
    assert only(decided(scene)).confirm[0] == LISTED


def test_a_pod_of_the_next_start_does_not_keep_the_claim_of_the_last():
    vmi = raws.a_vmi(uid="vmi-2", pods={"q": "n1"})
    scene = of(a_user(ended=["p"]), vmis=[vmi], pods=[raws.a_pod("q")])
    assert isinstance(only(decided(scene)), DropFinalizer)


def test_an_end_that_is_proven_while_another_pod_runs_is_noted_and_read_past_the_cache_first():
    """Or the pod that is gone would hold its units as long as the other runs."""
    claim = a_user(pods={"p": "n1", "q": "n1"})
    scene = of(
        claim,
        pods=[raws.a_pod("q")],
        vmis=[raws.a_vmi(pods={"q": "n1"})],
        sightings=Sightings(absent={"p": NOW - timedelta(seconds=600)}),
    )
    noted, told = decided(scene)
    assert isinstance(noted, Attach)
    assert noted.attachment.pods == (
        AttachedPod(uid="p", node="n1", ended=True),
        AttachedPod(uid="q", node="n1"),
    )
    assert {type(one) for one in noted.confirm} >= {PodsAbsent, NodeLooked}
    assert isinstance(told, ExplainKept)


def test_a_pod_that_another_member_of_the_set_has_noted_keeps_the_claim():
    other = a_user("y", meta={}, pods={"p": "n1", "q": "n1"}, ended=["p"])
    scene = of(a_user(ended=["p"]), other, pods=[raws.a_pod("q")])
    told = only(decided(scene))
    assert isinstance(told, ExplainKept)


def test_all_changes_of_a_deleted_claim_are_written_in_one_order():
    """Or its finalizer might be taken off beside the write of its status, which conflicts."""
    pods = [raws.a_pod("p", phase="Succeeded"), raws.a_pod("q")]
    scene = of(a_user(pods={"p": "n1", "q": "n1"}), pods=pods)
    assert {changes.set_of(change) for change in decided(scene)} == {"tenant-a/x"}
    assert changes.set_of(the_release()) == "tenant-a/x"
