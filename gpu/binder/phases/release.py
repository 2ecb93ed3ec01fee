"""Let go of deleted claims; never depends on a placement, and runs with the feature off too.

A deleted claim attached to nothing is let go, whatever its phase. One that is attached is let go
once there is evidence that each of its pods has ended, and says until then what it waits for. What
is learnt of its pods is noted here and not in phase `attachments`, which may not have run.
"""

from collections.abc import Iterable, Iterator

from gpu import keys
from gpu.binder import changes, conditions, confirms
from gpu.binder.changes import Attach, Change, DropFinalizer, ExplainKept
from gpu.binder.confirms import Confirm, VMINeverCame
from gpu.binder.phase import Scene
from gpu.model import attaching, evidence
from gpu.model.signs import Proof
from gpu.model.witness import Witness
from gpu.objects.claims import Attachment, GPUClaim
from gpu.objects.kinds import GPU_CLAIMS
from gpu.objects.meta import ObjectKey
from gpu.world import World


def changes_of(scene: Scene) -> Iterator[Change]:
    """Yield the finalizers of deleted claims that nothing uses, and what the others shall say."""
    deleted = [claim for claim in scene.draft.deleting if _is_held_back(claim)]
    if not deleted:
        return
    looking = scene.witness()
    users: dict[tuple[ObjectKey, str], list[GPUClaim]] = {}
    for claim in scene.draft.attached:
        users.setdefault(_use_of(claim), []).append(claim)
    for claim in deleted:
        if not scene.leaves_alone(changes.object_set(GPU_CLAIMS, claim.key)):
            yield from _of(scene, looking, claim, users.get(_use_of(claim), []))


def is_awaited(world: World) -> bool:
    """Say whether any deleted claim waits for its release."""
    return any(_is_held_back(claim) for claim in world.snapshot.deleting)


def _is_held_back(claim: GPUClaim) -> bool:
    return claim.meta.deleting and keys.CLAIM_FINALIZER in claim.meta.finalizers


def _use_of(claim: GPUClaim) -> tuple[ObjectKey, str]:
    """Return what claims of one start share: what one of them has noted of its pods goes for all."""
    found = claim.attached_to
    name, uid = (found.vmi, found.uid) if found else ("", "")
    return ObjectKey(claim.meta.namespace, name), uid


def _of(
    scene: Scene, looking: Witness, claim: GPUClaim, users: Iterable[GPUClaim]
) -> Iterator[Change]:
    attachment = claim.attached_to
    if attachment is None:
        yield _let_go(claim)
        return
    found = evidence.look(looking, users)
    proof = found.proof
    if proof is not None:
        yield _let_go(claim, _confirms(claim, attachment, proof), proof.words)
        return
    own = changes.object_set(GPU_CLAIMS, claim.key)
    vmi = evidence.vmi_of(scene.draft.snapshot, claim)
    is_over = evidence.is_over(looking, claim, vmi)
    noted = attaching.noted(scene.draft.snapshot, claim, vmi, found.ended, is_over=is_over)
    if noted is not None and noted != attachment:
        relied = confirms.of(found.proof_of(found.ended))
        change = Attach(claim=claim, attachment=noted, at=scene.now, set_id=own, confirm=relied)
        yield scene.plan(change)
        claim = scene.draft.claim(claim.key) or claim
    if not conditions.says(claim, conditions.kept(claim, found.missing, scene.now)):
        yield scene.plan(ExplainKept(claim=claim, missing=found.missing, at=scene.now, set_id=own))


def _confirms(claim: GPUClaim, attachment: Attachment, proof: Proof) -> tuple[Confirm, ...]:
    relied = confirms.of(proof)
    if proof.vmis:
        return relied
    key = ObjectKey(claim.meta.namespace, attachment.vmi)
    came = VMINeverCame(key=key, claim=claim.meta.name, admission=attachment.admission)
    return (*relied, came)


def _let_go(
    claim: GPUClaim, confirm: tuple[Confirm, ...] = (), words: tuple[str, ...] = ()
) -> DropFinalizer:
    return DropFinalizer(
        kind=GPU_CLAIMS,
        key=claim.key,
        uid=claim.meta.uid,
        version=claim.meta.resource_version,
        finalizers=tuple(name for name in claim.meta.finalizers if name != keys.CLAIM_FINALIZER),
        confirm=confirm,
        evidence=words,
    )
