"""Rejections: noted on the claims of a VM whose node refused its launcher, and that launcher deleted.

Noted first, so that it is known to the next leader whatever is cut off. A launcher at the gate is never
deleted, nor any VMI: KubeVirt sees a launcher go, and starts the VM anew in its own time.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from gpu.binder.changes import Attach, Change
from gpu.binder.confirms import PodsAbsent, Refused
from gpu.binder.phase import Scene
from gpu.binder.rejection_changes import DeletePod, Reject
from gpu.model import rejections
from gpu.model.rejections import Rejection
from gpu.objects.claims import AttachedPod, GPUClaim, RejectedNode
from gpu.objects.kinds import VMIS
from gpu.objects.meta import ObjectKey
from gpu.objects.pods import Pod

MOST: Final = 512
"""Nodes noted on a claim, as the CRD has it; those that end first are left out."""
PRUNED: Final = 64
"""Claims of which nothing but what is over is taken off, in one pass."""


def changes_of(scene: Scene) -> Iterator[Change]:
    """Yield what claims note of rejections, and launchers to be deleted, of each set in this order."""
    notes = list(_notes(scene))
    refused = list(_refused(scene))
    if not notes and not refused:
        return
    ids = {claim.key: found.id for found in scene.draft.sets for claim in found.claims}
    for note in notes:
        if not scene.leaves_alone(ids[note.claim.key]):
            yield scene.plan(replace(note, set_id=ids[note.claim.key]))
    for pod in refused:
        yield from _deleted(scene, pod, ids)


def _notes(scene: Scene) -> Iterator[Reject]:
    """Yield what each claim shall note that does not note it yet, and what is over."""
    draft, pruned = scene.draft, 0
    for key, known in _wanted(scene).items():
        claim = draft.claim(key)
        if claim is None or claim.meta.deleting:
            continue
        stands = rejections.standing(claim.rejected_nodes, draft.snapshot.nodes, scene.now)
        fresh = tuple(one for one in known if not _is_noted(one, stands))
        is_over = len(stands) < len(claim.rejected_nodes)
        if not fresh and is_over:
            pruned += 1
        if fresh or (is_over and pruned <= PRUNED):
            yield Reject(
                claim=claim, nodes=_merged(stands, fresh), news=fresh, at=scene.now, set_id=""
            )


def _wanted(scene: Scene) -> dict[ObjectKey, list[Rejection]]:
    """Return the claims to look at, with the rejections that this leader knows of each."""
    draft = scene.draft
    wanted: dict[ObjectKey, list[Rejection]] = {claim.key: [] for claim in draft.rejected}
    for one in scene.sightings.rejections.kept:
        for name, uid in one.claims:
            claim = draft.claim(ObjectKey(one.vm.namespace, name))
            if claim is not None and claim.meta.uid == uid:
                wanted.setdefault(claim.key, []).append(one)
    return wanted


def _is_noted(one: Rejection, stands: Iterable[RejectedNode]) -> bool:
    return any(item.node == one.node.node and item.until >= one.node.until for item in stands)


def _merged(stands: Iterable[RejectedNode], fresh: Iterable[Rejection]) -> tuple[RejectedNode, ...]:
    by_node = {item.node: item for item in stands} | {one.node.node: one.node for one in fresh}
    newest = sorted(by_node.values(), key=lambda item: (item.until, item.node))[-MOST:]
    return tuple(sorted(newest, key=lambda item: item.node))


def _refused(scene: Scene) -> Iterator[Pod]:
    """Yield launchers that are refused still, and that nobody else has deleted.

    One that has ended stays until that is noted wherever it counts: it is the evidence for it.
    """
    pods = scene.draft.snapshot.pods
    for uid, namespace in sorted(scene.sightings.rejections.judged.items()):
        pod = pods.get((namespace, uid))
        if pod is None or pod.meta.deleting:
            continue
        if rejections.is_unschedulable(pod) or (
            rejections.is_refused(pod) and not any(_is_open(it, uid) for it in _users(scene, pod))
        ):
            yield pod


def _deleted(scene: Scene, pod: Pod, ids: dict[ObjectKey, str]) -> Iterator[Change]:
    """Yield what deletes a launcher, and notes of one that never was bound that it has ended.

    It goes in the version that was looked at, in which it had no node: so it never ran.
    """
    set_id = _set_id(scene, pod, ids)
    if scene.leaves_alone(set_id):
        return
    meta = pod.meta
    gone = PodsAbsent(namespace=meta.namespace, uids=frozenset({meta.uid}))
    seen = Refused(key=meta.key, uid=meta.uid)
    yield DeletePod(pod=pod, set_id=set_id, confirm=(seen,))
    for claim in tuple(_users(scene, pod)) if pod.live else ():
        found = claim.attached_to
        if found is None or claim.meta.deleting or not _is_open(claim, meta.uid):
            continue
        pods = tuple(_ended(used, meta.uid) for used in found.pods)
        yield scene.plan(
            Attach(
                claim=claim,
                attachment=replace(found, pods=pods),
                at=scene.now,
                set_id=set_id,
                confirm=(gone,),
            )
        )


def _set_id(scene: Scene, pod: Pod, ids: dict[ObjectKey, str]) -> str:
    """Return the set of a launcher: of the claims that note it, or noted it before it ended."""
    noted = [
        ObjectKey(one.vm.namespace, name)
        for one in scene.sightings.rejections.kept
        if one.pod == pod.meta.uid
        for name, _ in one.claims
    ]
    users = [*(claim.key for claim in _users(scene, pod)), *noted]
    owner = scene.draft.snapshot.pod_units.owned.get((pod.meta.namespace, pod.meta.uid))
    own = f"{VMIS.kind} {owner or pod.meta.key}"
    return next((ids[key] for key in users if key in ids), own)


def _is_open(claim: GPUClaim, uid: str) -> bool:
    """Say whether a claim notes a pod and not that it has ended."""
    found = claim.attached_to
    return found is not None and any(it.uid == uid and not it.ended for it in found.pods)


def _users(scene: Scene, pod: Pod) -> Iterator[GPUClaim]:
    """Yield the claims that note a pod, as the draft has them."""
    for claim in scene.draft.attached:
        if claim.meta.namespace != pod.meta.namespace or claim.attached_to is None:
            continue
        if any(used.uid == pod.meta.uid for used in claim.attached_to.pods):
            yield claim


def _ended(used: AttachedPod, uid: str) -> AttachedPod:
    return replace(used, ended=True) if used.uid == uid else used
