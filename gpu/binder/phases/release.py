"""Let go of deleted claims; never depends on a placement, and runs with the feature off too.

A deleted claim attached to nothing is let go, whatever its phase. One that is attached waits until
its pods are known to have ended; that evidence is looked at elsewhere (domain contract 6).
"""

from collections.abc import Iterator

from gpu import keys
from gpu.binder import changes
from gpu.binder.changes import Change, DropFinalizer
from gpu.binder.phase import Scene
from gpu.objects.claims import GPUClaim
from gpu.objects.kinds import GPU_CLAIMS
from gpu.world import World


def changes_of(scene: Scene) -> Iterator[Change]:
    """Yield the finalizers of deleted claims that nothing uses."""
    for claim in scene.world.claims:
        if not _is_held_back(claim) or claim.attached_to is not None:
            continue
        if scene.leaves_alone(changes.object_set(GPU_CLAIMS, claim.key)):
            continue
        yield DropFinalizer(
            kind=GPU_CLAIMS,
            key=claim.key,
            uid=claim.meta.uid,
            version=claim.meta.resource_version,
            finalizers=tuple(
                name for name in claim.meta.finalizers if name != keys.CLAIM_FINALIZER
            ),
        )


def is_awaited(world: World) -> bool:
    """Say whether any deleted claim waits for its release."""
    return any(_is_held_back(claim) for claim in world.claims)


def _is_held_back(claim: GPUClaim) -> bool:
    return claim.meta.deleting and keys.CLAIM_FINALIZER in claim.meta.finalizers
