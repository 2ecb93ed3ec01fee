"""Phase release: World in, changes out."""

import pytest

from gpu.binder.changes import DropFinalizer
from gpu.binder.phases import release
from gpu.objects.kinds import GPU_CLAIMS
from gpu.objects.meta import ObjectKey
from tests.binder import raws
from tests.binder.scenes import a_scene

ATTACHED = {"attachedTo": {"name": "vm"}}


def the_release(finalizers: tuple[str, ...] = ()) -> DropFinalizer:
    return DropFinalizer(
        kind=GPU_CLAIMS,
        key=ObjectKey("tenant-a", "x"),
        uid="uid-1",
        version="1",
        finalizers=finalizers,
    )


@pytest.mark.parametrize(
    "status",
    [None, {"phase": "Pending", "term": 1}, raws.bound(), raws.bound() | {"phase": "Lost"}],
    ids=["never looked at", "Pending", "Bound", "Lost"],
)
def test_a_deleted_claim_attached_to_nothing_is_let_go(status):
    scene = a_scene(claims=[raws.a_claim(meta=raws.DELETED, status=status)])
    assert tuple(release.changes_of(scene)) == (the_release(),)
    assert release.is_awaited(scene.world)


def test_the_finalizers_of_others_stay():
    meta = raws.DELETED | {"finalizers": ["gpu.cozystack.io/claim", "somebody.else/one"]}
    scene = a_scene(claims=[raws.a_claim(meta=meta)])
    assert tuple(release.changes_of(scene)) == (the_release(("somebody.else/one",)),)


def test_a_deleted_claim_that_is_attached_waits():
    scene = a_scene(claims=[raws.a_claim(meta=raws.DELETED, status=raws.bound(**ATTACHED))])
    assert tuple(release.changes_of(scene)) == ()
    assert release.is_awaited(scene.world)


def test_a_claim_that_is_not_deleted_is_kept():
    scene = a_scene(claims=[raws.a_claim(status=raws.bound())])
    assert tuple(release.changes_of(scene)) == ()
    assert not release.is_awaited(scene.world)


def test_a_deleted_claim_without_our_finalizer_is_not_ours_to_hold():
    meta = raws.DELETED | {"finalizers": ["somebody.else/one"]}
    scene = a_scene(claims=[raws.a_claim(meta=meta)])
    assert tuple(release.changes_of(scene)) == ()
    assert not release.is_awaited(scene.world)


def test_a_set_in_quarantine_is_left_alone():
    scene = a_scene(claims=[raws.a_claim(meta=raws.DELETED)], skip={"tenant-a/x"})
    assert tuple(release.changes_of(scene)) == ()
