"""Finalizers on classes and claims, feature on or off.

Every class and claim that is not being deleted gets ours; a new claim mostly has it from the chart's
MutatingAdmissionPolicy, which may be missing, fail, or not be served (decision 24). A deleted class's goes when no claim
names it; a deleted claim's is the business of phase `release`.
"""

from collections.abc import Iterator

from gpu import keys
from gpu.binder import changes
from gpu.binder.changes import AddFinalizer, Change, DropFinalizer
from gpu.binder.phase import Scene
from gpu.objects.kinds import GPU_CLAIMS, GPU_CLASSES, Kind
from gpu.objects.meta import ObjectMeta


def changes_of(scene: Scene) -> Iterator[Change]:
    """Yield the finalizers to put on, and those of deleted classes that nobody names any more.

    A claim that cannot be read may name any class, so while there is one no class is let go.
    """
    world = scene.world
    is_any_deleted = any(offer.meta.deleting for offer in world.classes)
    named = {claim.class_name for claim in world.claims} if is_any_deleted else frozenset()
    for offer in world.classes:
        if not offer.meta.deleting:
            yield from _add(scene, GPU_CLASSES, offer.meta, keys.CLASS_FINALIZER)
        elif offer.name not in named and not world.unreadable_claims:
            yield from _drop(scene, GPU_CLASSES, offer.meta, keys.CLASS_FINALIZER)
    for claim in scene.draft.unfinalized:
        yield from _add(scene, GPU_CLAIMS, claim.meta, keys.CLAIM_FINALIZER)


def _add(scene: Scene, kind: Kind, meta: ObjectMeta, finalizer: str) -> Iterator[Change]:
    if finalizer in meta.finalizers or scene.leaves_alone(changes.object_set(kind, meta.key)):
        return
    yield AddFinalizer(
        kind=kind,
        key=meta.key,
        uid=meta.uid,
        version=meta.resource_version,
        finalizers=(*meta.finalizers, finalizer),
    )


def _drop(scene: Scene, kind: Kind, meta: ObjectMeta, finalizer: str) -> Iterator[Change]:
    if finalizer not in meta.finalizers or scene.leaves_alone(changes.object_set(kind, meta.key)):
        return
    yield DropFinalizer(
        kind=kind,
        key=meta.key,
        uid=meta.uid,
        version=meta.resource_version,
        finalizers=tuple(name for name in meta.finalizers if name != finalizer),
    )
