"""What is to be noted on a claim of the VMI that uses it: its uid, its pods, and their ends.

Only pods that the VMI lists in `status.activePods` are its pods: an owner reference anyone can write.
"""

import hashlib
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

from gpu import keys
from gpu.model import bind_requests, coverage
from gpu.model.signs import UNSEEN
from gpu.model.snapshot import Snapshot
from gpu.objects import meta
from gpu.objects.claims import AttachedPod, Attachment, GPUClaim
from gpu.objects.kinds import VMIS
from gpu.objects.kubevirt import VMI
from gpu.objects.meta import ObjectKey
from gpu.objects.pods import LAUNCHER_LABEL, LAUNCHER_VALUE, MIGRATION_LABEL, Pod
from gpu.units import NodeName

MOST_PODS: Final = 256
"""As the CRD has it."""
_DIGITS: Final = 20
_ADOPTED_WITHIN: Final = timedelta(seconds=2)
"""A launcher mostly comes sooner, and is noted in the same write."""


class Use(Enum):
    """What becomes of an attachment when another start wants the claim."""

    LIVES = auto()
    """Its VMI is there, and neither ended nor about to go."""
    STARTING = auto()
    """Its VMI has not come, and may come yet."""
    OVER = auto()
    """Nobody uses the claim by it any more, whatever pods of it still end."""


def use(claim: GPUClaim, vmi: VMI | None, now: datetime, grace: float) -> Use:
    """Judge the attachment of a claim by the VMI of its name, which is None where there is none.

    `grace` are the seconds a VMI is waited for. `claim` is attached.
    """
    attachment = claim.attached_to
    if attachment is None:
        return Use.OVER
    if vmi is not None and coverage.is_user(claim, vmi):
        return Use.OVER if vmi.meta.deleting or vmi.ended else Use.LIVES
    since = attachment.since or meta.EPOCH
    may_come = not attachment.uid and now - since < timedelta(seconds=grace)
    return Use.STARTING if may_come else Use.OVER


def adopted_by(attachment: Attachment) -> datetime:
    """Return when the VMI of an attachment is to be noted at the latest, if it came."""
    return (attachment.since or meta.EPOCH) + _ADOPTED_WITHIN


def left_behind(
    claim: GPUClaim, vmi: VMI | None, pods: Iterable[Pod] = (), *, is_anew: bool = True
) -> tuple[AttachedPod, ...]:
    """Return the pods that the next attachment of a claim takes over: each needs evidence of its end.

    To those recorded come those that only its VMI lists yet, those of its namespace's `pods` that are its VMI's
    though nobody noted them, and one that nobody saw. Not `is_anew`: the same start is attached again, of
    which no VMI has come.
    """
    attachment = claim.attached_to
    if attachment is None:
        return ()
    user = vmi if vmi is not None and coverage.is_user(claim, vmi) else None
    listed = user.active_pods if user else {}
    known = tuple(
        replace(pod, node=pod.node or listed.get(pod.uid, pod.node))
        for pod in _known(attachment, user)
    )
    known = _and(known, unnoted_of(claim, pods))
    known = _with(known, unseen(claim, user) if is_anew else None)
    return _capped(known, {pod.uid for pod in attachment.pods})


def has_launched(claim: GPUClaim, vmi: VMI | None) -> bool:
    """Say whether a launcher of the start that a claim was promised a node for is noted, or about to be.

    A temporary pod for a volume is listed as well, by a VMI that stays Pending until the launcher comes.
    """
    if claim.attached_to is None or claim.attached_to.launched:
        return True
    if vmi is None or not vmi.active_pods or vmi.provisioning or not coverage.is_user(claim, vmi):
        return False
    return vmi.phase not in {"", "Pending"}


def unseen(claim: GPUClaim, vmi: VMI | None) -> AttachedPod | None:
    """Return the pod that stands for a launcher nobody saw; `vmi` is over, if it is there at all.

    A start that was promised a node may have run there, and been forced away, pod and VMI, before any
    leader noted it: a webhook pins its launcher. Where one was noted that one is asked about.
    """
    request = claim.bind_request
    if request is None or not bind_requests.is_promised(claim) or has_launched(claim, vmi):
        return None
    digest = hashlib.sha256(request.id.encode()).hexdigest()[:_DIGITS]
    return AttachedPod(uid=f"{UNSEEN}{digest}", node=claim.node or NodeName(""))


def unnoted(snapshot: Snapshot, claim: GPUClaim) -> tuple[Pod, ...]:
    """Return launchers that may run and that nobody noted before their VMI was over; asked of such a claim.

    A webhook pins the launcher of a start that was promised a node (decision 26), and the target of a
    migration passes no gate: no leader need have seen either. Now its owner reference is all that says
    whose it is.
    """
    namespace = claim.meta.namespace
    if asks_for_targets(claim):
        pods: Iterable[Pod] = _targets(snapshot).get(namespace, ())
    else:
        pods = (pod for pod in snapshot.given.pods if pod.meta.namespace == namespace)
    return unnoted_of(claim, pods)


def unnoted_of(claim: GPUClaim, pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Return those of some pods of a claim's namespace; see `unnoted`."""
    attachment, is_of_target = claim.attached_to, asks_for_targets(claim)
    if attachment is None or (is_of_target and not attachment.uid):
        return ()
    return tuple(
        pod
        for pod in pods
        if pod.live
        and (not is_of_target or MIGRATION_LABEL in pod.meta.labels)  # reserved by KubeVirt
        and is_launcher_of(pod, attachment.vmi, attachment.uid)
    )


def asks_for_targets(claim: GPUClaim) -> bool:
    """Say whether no pod but the target of a migration can have come past a leader unseen."""
    attachment = claim.attached_to
    return attachment is None or attachment.launched or not bind_requests.is_promised(claim)


def _targets(snapshot: Snapshot) -> dict[str, tuple[Pod, ...]]:
    """Return the targets of live migrations by namespace: few, and looked for once in a snapshot."""
    if snapshot.memo.targets is None:
        found: dict[str, tuple[Pod, ...]] = {}
        for pod in snapshot.given.pods:
            if MIGRATION_LABEL in pod.meta.labels:  # reserved by KubeVirt
                found[pod.meta.namespace] = (*found.get(pod.meta.namespace, ()), pod)
        snapshot.memo.targets = found
    return snapshot.memo.targets


def is_launcher_of(pod: Pod, name: str, uid: str) -> bool:
    """Say whether a pod says that it is past our gate and a launcher of the VMI; `uid` may be unknown."""
    if pod.meta.labels.get(LAUNCHER_LABEL) != LAUNCHER_VALUE or keys.PLACEMENT_GATE in pod.gates:
        return False
    return any(
        owner.controller
        and owner.kind == VMIS.kind
        and (owner.uid == uid if uid else owner.name == name)
        for owner in pod.meta.owners
    )


def is_settled(snapshot: Snapshot, claim: GPUClaim) -> bool:
    """Say whether a claim's VMI lives just as it is noted, and has not migrated; the common case.

    False does not mean that there is anything to do. `claim` is attached.
    """
    attachment, namespace = claim.attached_to, claim.meta.namespace
    if attachment is None:
        return True
    vmi = snapshot.vmis.get(ObjectKey(namespace, attachment.vmi))
    if vmi is None or vmi.meta.uid != attachment.uid or vmi.ended:
        return False
    is_away = vmi.migrated_to is not None and vmi.migrated_to != claim.node
    if is_away or _launches(claim, attachment, vmi):
        return False
    listed = 0
    for pod in attachment.pods:
        node = vmi.active_pods.get(pod.uid)
        listed += node is not None
        if not pod.ended:
            seen = snapshot.pods.get((namespace, pod.uid))
            if seen is None or not seen.live:
                return False
            if (seen.node or pod.node or node or _pinned(seen)) != pod.node:
                return False
    return listed == len(vmi.active_pods)


def noted(
    snapshot: Snapshot,
    claim: GPUClaim,
    vmi: VMI | None,
    ended: Container[str] = (),
    *,
    is_over: bool = False,
) -> Attachment | None:
    """Return the attachment as it should be; `vmi` uses the claim, `ended` are pods known to be over.

    None when the claim is attached to nothing. Pods stay in the order they came. Of too many, the
    oldest that ended are forgotten first. `is_over`: as `use` has it; then a pod stands for a launcher that
    nobody saw.
    """
    attachment = claim.attached_to
    if attachment is None:
        return None
    if vmi is not None and attachment.admission:
        attachment = replace(attachment, uid=vmi.meta.uid)
    namespace = claim.meta.namespace
    known = tuple(_known(attachment, vmi))
    if vmi is None or vmi.ended or vmi.meta.deleting:
        known = _and(known, unnoted(snapshot, claim))
    if is_over:
        known = _with(known, unseen(claim, vmi))
    pods = tuple(_seen(snapshot, namespace, pod, vmi, ended) for pod in known)
    return replace(
        attachment,
        pods=_capped(pods, {pod.uid for pod in attachment.pods}),
        launched=bind_requests.is_promised(claim) and has_launched(claim, vmi),
    )


def _launches(claim: GPUClaim, attachment: Attachment, vmi: VMI) -> bool:
    """Say whether it is to be noted that a promised start has its launcher."""
    if attachment.launched or not bind_requests.is_promised(claim):
        return False
    return has_launched(claim, vmi)


def adds_only(found: Attachment, noted: Attachment, vmi: VMI, launcher: str) -> bool:
    """Say whether all that is to be noted is the VMI's uid and one launcher of it, not bound yet.

    Phase `gates` notes it with its node; that one was noted goes with it.
    """
    if found.uid not in {"", vmi.meta.uid}:
        return False
    here = AttachedPod(uid=launcher, node=NodeName(""))
    found = replace(found, uid=vmi.meta.uid, pods=(*found.pods, here), launched=noted.launched)
    return noted == found


def _and(pods: tuple[AttachedPod, ...], more: Iterable[Pod]) -> tuple[AttachedPod, ...]:
    """Add pods that are not among these, with the node that they are on or pinned to."""
    known = {pod.uid for pod in pods}
    found = (AttachedPod(uid=pod.meta.uid, node=pod.node or _pinned(pod)) for pod in more)
    return (*pods, *(pod for pod in found if pod.uid not in known))


def _with(pods: tuple[AttachedPod, ...], hidden: AttachedPod | None) -> tuple[AttachedPod, ...]:
    """Add the pod that stands for one that nobody saw, once."""
    is_known = hidden is None or any(pod.uid == hidden.uid for pod in pods)
    return pods if hidden is None or is_known else (*pods, hidden)


def _known(attachment: Attachment, vmi: VMI | None) -> Iterator[AttachedPod]:
    yield from attachment.pods
    recorded = {pod.uid for pod in attachment.pods}
    for uid in sorted(vmi.active_pods) if vmi else ():
        if uid not in recorded:
            yield AttachedPod(uid=uid, node=NodeName(""))


def _seen(
    snapshot: Snapshot, namespace: str, pod: AttachedPod, vmi: VMI | None, ended: Container[str]
) -> AttachedPod:
    """Add what the VMI and the pod's object tell of it."""
    found = snapshot.pods.get((namespace, pod.uid))
    listed = vmi.active_pods.get(pod.uid) if vmi else None
    node = (found.node if found else None) or pod.node or listed
    node = node or (_pinned(found) if found else NodeName(""))
    over = pod.ended or pod.uid in ended or (found is not None and not found.live)
    if (pod.node, pod.ended) == (node, over):
        return pod
    return replace(pod, node=node, ended=over)


def _pinned(pod: Pod) -> NodeName:
    """Return where a pod is pinned that is past our gate and may be bound any moment, a webhook's too."""
    return NodeName("") if coverage.is_at_gate(pod) else pod.pinned or NodeName("")


def _capped(pods: tuple[AttachedPod, ...], recorded: Container[str]) -> tuple[AttachedPod, ...]:
    """Forget ended pods while there are too many; first those that never were recorded.

    A VMI lists finished pods on and on: one that was forgotten must not push out another again.
    """
    surplus = len(pods) - MOST_PODS
    if surplus <= 0:
        return pods
    over = [pod.uid for pod in pods if pod.ended]
    over.sort(key=lambda uid: uid in recorded)
    dropped = frozenset(over[:surplus])
    return tuple(pod for pod in pods if pod.uid not in dropped)[:MOST_PODS]
