"""Attachments: adopt the VMI that came, note its pods and their ends, let go of one that is over.

With the feature off what runs where is noted on, and nothing else is done: it is what an end needs evidence of later.
Claims that are being deleted are the business of phase `release`, which runs whatever happens here.
A launcher that waits at our gate is noted by phase `gates`, in the write that names its node too:
nothing but the leader lets it through, and that only once the note is stored.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from gpu.binder import changes, confirms
from gpu.binder.answer_changes import ForgetRequest
from gpu.binder.changes import (
    Attach,
    Change,
    DeleteClaim,
    Detach,
    Detached,
    How,
    Place,
    SetId,
)
from gpu.binder.confirms import Confirm, VMIEnded, VMINeverCame
from gpu.binder.phase import Scene
from gpu.model import at_gate, attaching, bind_requests, evidence, sightings
from gpu.model.sets import ClaimSet
from gpu.model.signs import Proof
from gpu.model.witness import Witness
from gpu.objects.claims import Attachment, GPUClaim, Phase
from gpu.objects.kinds import GPU_CLAIMS
from gpu.objects.kubevirt import VMI
from gpu.objects.meta import ObjectKey
from gpu.units import NodeName


def changes_of(scene: Scene) -> Iterator[Change]:
    """Yield what is to be noted, ended, followed to another node, and which template claims go."""
    snapshot = scene.draft.snapshot
    restless = snapshot.memo.restless.follow(
        scene.draft.attached,
        snapshot.given.vmis,
        snapshot.given.pods,
        lambda claim: not claim.meta.deleting and not attaching.is_settled(snapshot, claim),
    )
    if restless:
        yield from _of_sets(scene, restless)
    if scene.config.enabled:
        yield from _forgotten(scene)
        yield from _strays(scene)


def _of_sets(scene: Scene, restless: Container[ObjectKey]) -> Iterator[Change]:
    looking = scene.witness()
    # Phase gates looks at nothing while a claim cannot be read, or the feature is off.
    is_blind = scene.world.unreadable_claims or not scene.config.enabled
    at_gate = {} if is_blind else _at_gate(scene)
    for item in scene.draft.sets:
        if any(claim.key in restless for claim in item.claims) and not scene.leaves_alone(item.id):
            yield from _of_set(scene, looking, item, at_gate)


def _at_gate(scene: Scene) -> dict[str, str]:
    """Return uids of the launchers that phase `gates` looks at in this pass, by uid of their VMI."""
    return {vmi.meta.uid: pod.meta.uid for vmi, pod in at_gate.listed(scene.draft)}


@dataclass(slots=True)
class _Use:
    """Claims of a set that one VMI uses or used, deleted ones with them."""

    key: ObjectKey
    uid: str
    vmi: VMI | None
    claims: list[tuple[GPUClaim, Attachment]] = field(default_factory=list)
    launcher: str = ""
    """Uid of its pod that waits at the gate, where phase `gates` looks at it."""

    @property
    def all(self) -> list[GPUClaim]:
        return [claim for claim, _ in self.claims]

    @property
    def ours(self) -> list[tuple[GPUClaim, Attachment]]:
        """Those that are not being deleted."""
        return [(claim, found) for claim, found in self.claims if not claim.meta.deleting]


def _of_set(
    scene: Scene, looking: Witness, item: ClaimSet, at_gate: Mapping[str, str]
) -> Iterator[Change]:
    uses: dict[str, _Use] = {}
    for stored in item.claims:
        vmi = evidence.vmi_of(looking.snapshot, stored)
        claim = stored if vmi else sightings.known(scene.sightings, stored)
        found = claim.attached_to
        if found is None:
            continue
        uid = vmi.meta.uid if vmi else found.uid
        key = ObjectKey(claim.meta.namespace, found.vmi)
        uses.setdefault(uid, _Use(key, uid, vmi)).claims.append((claim, found))
    for use in uses.values():
        if use.vmi is not None and not use.vmi.ended:
            use.launcher = at_gate.get(use.vmi.meta.uid, "")
            yield from _living(scene, looking, use, use.vmi, item.id)
        elif use.uid:
            yield from _over(scene, looking, use, item.id)
        else:
            for claim, found in use.ours:
                yield from _awaited(scene, looking, (claim, found), item.id)


def _living(scene: Scene, looking: Witness, use: _Use, vmi: VMI, set_id: SetId) -> Iterator[Change]:
    ended: frozenset[str] = frozenset()
    relied: tuple[Confirm, ...] = ()
    if _has_absent(scene, use):
        look = evidence.look(looking, use.all)
        ended = look.ended
        relied = confirms.of(look.proof_of(ended))
    for claim, found in use.ours:
        is_over = evidence.is_over(looking, claim, vmi)
        noted = attaching.noted(looking.snapshot, claim, vmi, ended, is_over=is_over)
        if noted is not None and noted != found and not _is_left(scene, use, (claim, found), noted):
            yield scene.plan(
                Attach(claim=claim, attachment=noted, at=scene.now, set_id=set_id, confirm=relied)
            )
    if scene.config.enabled and vmi.migrated_to is not None and vmi.migrated_to == vmi.node:
        yield from _migrated(scene, use, vmi.migrated_to, set_id)


def _is_left(scene: Scene, use: _Use, one: tuple[GPUClaim, Attachment], noted: Attachment) -> bool:
    """Say whether what is to be noted of a VMI that lives is left to phase `gates`, or for a moment."""
    (claim, found), vmi = one, use.vmi
    if vmi is None:
        return False
    names_it = claim.meta.name in vmi.admissions
    if names_it and attaching.adds_only(found, noted, vmi, use.launcher):
        return True
    return _may_wait(scene, found, noted) and not vmi.meta.deleting


def _may_wait(scene: Scene, found: Attachment, noted: Attachment) -> bool:
    """Say whether what is to be noted of a VMI that has just come waits for a moment.

    Its uid alone does, so that one write notes its launcher too; all of it does while starts wait for an
    answer. Should the VMI go meanwhile, this leader knows that it was there (`sightings.known`).
    """
    if found.uid or scene.now >= attaching.adopted_by(found):
        return False
    if {pod for pod in noted.pods if pod.ended} - set(found.pods):
        return False
    is_its_uid = replace(found, uid=noted.uid) == noted
    return is_its_uid or any(map(bind_requests.is_open, scene.draft.requested))


def _has_absent(scene: Scene, use: _Use) -> bool:
    """Say whether a pod of the VMI is gone and not yet noted as ended."""
    absent = scene.sightings.absent
    return bool(absent) and any(
        pod.uid in absent for _, found in use.claims for pod in found.pods if not pod.ended
    )


def _migrated(scene: Scene, use: _Use, target: NodeName, set_id: SetId) -> Iterator[Change]:
    """Follow a live migration, all claims or none: the guest runs on the target already.

    Its pod there counts, so this takes no units; one that asks for less than its claims hold is
    not followed where the rest is not free, and none to a node that does not serve the resource now, nor
    where that pod has ended: the units would be taken anew, on a node that may not be eligible any more.
    What the source still holds is held by its pod.
    """
    draft = scene.draft
    held = [draft.claim(claim.key) for claim, _ in use.ours]
    moving = [claim for claim in held if claim and claim.phase is Phase.BOUND]
    moving = [claim for claim in moving if claim.node != target]
    if not moving or scene.world.unreadable_claims or _has_ended_on(target, held):
        return
    offers = [draft.snapshot.classes.get(claim.class_name) for claim in moving]
    resources = {offer.resource for offer in offers if offer is not None}
    node = draft.snapshot.nodes.get(target)
    if node is None or not all(node.allocatable.get(name) for name in resources):
        return  # a device plugin that is away: what is claimed there would be refused
    before = {name: draft.ledger.free(target, name) for name in resources}
    with draft.savepoint() as point:
        planned = [
            scene.plan(
                Place(claim=claim, node=target, at=scene.now, set_id=set_id, how=How.MIGRATED)
            )
            for claim in moving
        ]
        if all(draft.ledger.free(target, name) >= min(0, before[name]) for name in resources):
            point.keep()
        else:
            return
    yield from planned


def _has_ended_on(node: NodeName, held: Iterable[GPUClaim | None]) -> bool:
    """Say whether what these claims note of a node has all ended there."""
    pods = [
        pod
        for claim in held
        for pod in (claim.attached_to.pods if claim and claim.attached_to else ())
        if pod.node == node
    ]
    return bool(pods) and all(pod.ended for pod in pods)


def _over(scene: Scene, looking: Witness, use: _Use, set_id: SetId) -> Iterator[Change]:
    """End what a VMI used that is over, once each of its pods is known to have ended."""
    proof = evidence.judge(looking, use.all)
    over = VMIEnded(key=use.key, uid=use.uid)
    for one in use.ours:
        yield from _end(scene, one, over, proof, set_id) or _note(scene, use.vmi, one, set_id)


def _awaited(
    scene: Scene, looking: Witness, one: tuple[GPUClaim, Attachment], set_id: SetId
) -> Iterator[Change]:
    """End an attachment whose VMI never came; what an earlier one left in it needs evidence too."""
    claim, found = one
    if evidence.may_come(looking, found):
        return
    key = ObjectKey(claim.meta.namespace, found.vmi)
    never = VMINeverCame(key=key, claim=claim.meta.name, admission=found.admission)
    proof = evidence.judge(looking, [claim])
    yield from _end(scene, one, never, proof, set_id) or _note(scene, None, one, set_id)


def _end(
    scene: Scene,
    one: tuple[GPUClaim, Attachment],
    over: VMIEnded | VMINeverCame,
    proof: Proof | None,
    set_id: SetId,
) -> list[Change]:
    """Return what ends an attachment that is over; nothing while a pod of it may run, or the feature is off."""
    claim, _ = one
    if not scene.config.enabled:
        return []
    if claim.is_template:
        # The next start may take up a claim that notes no VMI in this moment.
        version = "" if _is_adopted(scene, claim) else claim.meta.resource_version
        return [DeleteClaim(claim=claim, set_id=set_id, version=version, confirm=(over,))]
    if proof is None:
        return []
    why = Detached.ENDED if isinstance(over, VMIEnded) else Detached.EXPIRED
    detach = Detach(
        claim=claim,
        why=why,
        at=scene.now,
        set_id=set_id,
        confirm=(over, *confirms.of(proof)),
        evidence=proof.words,
    )
    return [scene.plan(detach)]


def _is_adopted(scene: Scene, claim: GPUClaim) -> bool:
    """Say whether the attachment of a claim notes its VMI, as stored."""
    stored = scene.draft.claim(claim.key)
    return stored is not None and stored.attached_to is not None and bool(stored.attached_to.uid)


def _note(
    scene: Scene, vmi: VMI | None, one: tuple[GPUClaim, Attachment], set_id: SetId
) -> Iterator[Change]:
    claim, found = one
    noted = attaching.noted(scene.draft.snapshot, claim, vmi, is_over=True)
    if noted is not None and (noted != found or (found.uid and not _is_adopted(scene, claim))):
        yield scene.plan(Attach(claim=claim, attachment=noted, at=scene.now, set_id=set_id))


def _forgotten(scene: Scene) -> Iterator[Change]:
    """Take requests off claims that no attachment of their VM goes with: nobody waits for them."""
    forgotten = [
        claim
        for claim in scene.draft.requested
        if not claim.meta.deleting
        and bind_requests.is_forgotten(claim, scene.now, scene.config.grace.attachment)
    ]
    ids = {claim.key: item.id for item in scene.draft.sets for claim in item.claims if forgotten}
    for claim in forgotten:
        if not scene.leaves_alone(ids[claim.key]):
            yield scene.plan(ForgetRequest(claim=claim, at=scene.now, set_id=ids[claim.key]))


def _strays(scene: Scene) -> Iterator[Change]:
    """Delete template claims that were made for a start and never attached to it.

    Until their VMI has started they are that start's, which takes them up or deletes them (phase gates).
    One that comes later, by a write that was long on its way, is nobody's and would use up budget.
    """
    strays = scene.draft.strays
    if not strays:
        return
    oldest = scene.now - timedelta(seconds=scene.config.grace.attachment)
    starting = {
        vmi.meta.uid
        for vmi in scene.draft.snapshot.given.vmis
        if not vmi.ended and not vmi.started and not vmi.meta.deleting
    }
    for claim in strays:
        set_id = changes.object_set(GPU_CLAIMS, claim.key)
        if any(owner.uid in starting for owner in claim.meta.owners):
            continue
        if claim.meta.created <= oldest and not scene.leaves_alone(set_id):
            version = claim.meta.resource_version  # a start may take it up in this moment
            yield DeleteClaim(claim=claim, set_id=set_id, version=version)
