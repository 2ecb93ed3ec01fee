"""Phase finalizers: World in, changes out."""

from dataclasses import replace

from gpu.binder.changes import AddFinalizer, DropFinalizer
from gpu.binder.phases import finalizers
from gpu.objects.kinds import GPU_CLAIMS, GPU_CLASSES
from gpu.objects.meta import ObjectKey
from tests.binder import raws
from tests.binder.scenes import a_scene, scene_of

BARE = {"finalizers": ["somebody.else/one"]}
GOING = {
    "deletionTimestamp": "2026-01-01T01:00:00Z",
    "finalizers": ["somebody.else/one", "gpu.cozystack.io/class"],
}


def test_a_class_and_a_claim_without_our_finalizer_get_it_behind_those_of_others():
    scene = a_scene(classes=[raws.a_class(meta=BARE)], claims=[raws.a_claim(meta=BARE)])
    assert tuple(finalizers.changes_of(scene)) == (
        AddFinalizer(
            kind=GPU_CLASSES,
            key=ObjectKey("", "h100"),
            uid="uid-1",
            version="1",
            finalizers=("somebody.else/one", "gpu.cozystack.io/class"),
        ),
        AddFinalizer(
            kind=GPU_CLAIMS,
            key=ObjectKey("tenant-a", "x"),
            uid="uid-2",
            version="2",
            finalizers=("somebody.else/one", "gpu.cozystack.io/claim"),
        ),
    )


def test_objects_that_have_it_are_left_alone():
    scene = a_scene(
        classes=[raws.a_class()],
        claims=[raws.a_claim(meta={"finalizers": ["gpu.cozystack.io/claim"]})],
    )
    assert tuple(finalizers.changes_of(scene)) == ()


def test_an_object_that_is_being_deleted_gets_none():
    going = {"deletionTimestamp": "2026-01-01T01:00:00Z", "finalizers": ["somebody.else/one"]}
    scene = a_scene(classes=[raws.a_class(meta=going)], claims=[raws.a_claim(meta=going)])
    assert tuple(finalizers.changes_of(scene)) == ()


def test_a_deleted_class_that_no_claim_names_is_let_go():
    scene = a_scene(
        classes=[raws.a_class(meta=GOING)],
        claims=[raws.a_claim(class_name="other", meta=raws.DELETED)],
    )
    assert tuple(finalizers.changes_of(scene)) == (
        DropFinalizer(
            kind=GPU_CLASSES,
            key=ObjectKey("", "h100"),
            uid="uid-1",
            version="1",
            finalizers=("somebody.else/one",),
        ),
    )


def test_a_deleted_class_waits_for_the_last_claim_that_names_it_even_a_deleted_one():
    scene = a_scene(classes=[raws.a_class(meta=GOING)], claims=[raws.a_claim(meta=raws.DELETED)])
    assert tuple(finalizers.changes_of(scene)) == ()


def test_a_deleted_class_waits_while_a_claim_cannot_be_read():
    world = raws.a_world(classes=[raws.a_class(meta=GOING)])
    world = replace(world, unreadable_claims=frozenset({ObjectKey("tenant-a", "odd")}))
    assert tuple(finalizers.changes_of(scene_of(world))) == ()


def test_a_set_in_quarantine_is_left_alone_and_the_others_are_not():
    scene = a_scene(
        classes=[raws.a_class(meta=BARE)],
        claims=[raws.a_claim("x"), raws.a_claim("y")],
        skip={"tenant-a/x", "GPUClass h100"},
    )
    assert [str(change.key) for change in finalizers.changes_of(scene)] == ["tenant-a/y"]
