"""Guest: what the VM of a set does now, told from its VMI and from pods that are its for certain.

Only pods that the VMI lists in `status.activePods` or that an attachment has recorded count: anyone
can write an owner reference. A pod of which nobody knows that it ended may run.
"""

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum

from gpu.model import bind_requests, coverage, evidence
from gpu.model.sets import ClaimSet
from gpu.model.signs import Proof
from gpu.model.snapshot import Snapshot
from gpu.model.witness import Witness
from gpu.objects.claims import GPUClaim
from gpu.objects.kubevirt import VMI


class Guest(StrEnum):
    """What a set's guest does; of several things at once, the one that binds the set most."""

    OFF = "Off"
    """Attached to nothing, or its VMI never came or is over and every pod has ended."""
    GATED = "Gated"
    """Its VMI is there, and no pod of it has passed our gate; nor is it pinned to a node itself."""
    PROVISIONING = "Provisioning"
    """Its volumes are made where a temporary pod of it is, or was, and its launcher has not come."""
    STARTING = "Starting"
    """A pod has passed the gate, or the VMI was promised its node; the guest does not run yet."""
    RUNNING = "Running"
    """The guest runs, or may: a phase nobody knows counts."""
    ENDING = "Ending"
    """Its VMI is going, over or gone, and a pod is not known to have ended."""


def of(snapshot: Snapshot, item: ClaimSet) -> Guest:
    """Return what the guest of a set does."""
    vmi = vmi_of(snapshot, item)
    if vmi is None or vmi.ended or vmi.meta.deleting:
        return Guest.ENDING if open_pods(snapshot, item) else Guest.OFF
    if vmi.started:
        return Guest.RUNNING
    passed = any(
        is_open(snapshot, vmi.meta.namespace, uid)
        and not is_gated(snapshot, vmi.meta.namespace, uid)
        for uid in vmi.active_pods
    )
    if passed:
        return Guest.PROVISIONING if vmi.provisioning else Guest.STARTING
    if _is_provisioned(snapshot, item, vmi):
        return Guest.PROVISIONING
    return Guest.STARTING if is_promised(snapshot, item) else Guest.GATED


def is_promised(snapshot: Snapshot, item: ClaimSet) -> bool:
    """Say whether the VMI is there, pinned to the node that its request was answered with, without a pod.

    It goes to no other node. Once it lists a pod, that says where it is.
    """
    if not item.has_request:
        return False
    vmi = vmi_of(snapshot, item)
    if vmi is None or vmi.ended or vmi.meta.deleting:
        return False
    pods = (is_open(snapshot, vmi.meta.namespace, uid) for uid in vmi.active_pods)
    return not any(pods) and any(map(bind_requests.is_promised, item.claims))


def _is_provisioned(snapshot: Snapshot, item: ClaimSet, vmi: VMI) -> bool:
    """Say whether a temporary pod is over and the launcher has not come (WaitForFirstConsumer)."""
    if any(is_open(snapshot, vmi.meta.namespace, uid) for uid in vmi.active_pods):
        return False
    used = (pod for attachment in item.attachments for pod in attachment.pods)
    return any(pod.ended and pod.node for pod in used)


def vmi_of(snapshot: Snapshot, item: ClaimSet) -> VMI | None:
    """Return the VMI that uses the set, if it is there; one of the same name that does not is none."""
    found = (evidence.vmi_of(snapshot, claim) for claim in item.claims)
    return next((vmi for vmi in found if vmi is not None), None)


def open_pods(snapshot: Snapshot, item: ClaimSet) -> frozenset[str]:
    """Return the uids of the set's pods that are not known to have ended, gated ones included."""
    vmi = vmi_of(snapshot, item)
    recorded = {pod.uid: pod.ended for attachment in item.attachments for pod in attachment.pods}
    listed = () if vmi is None else vmi.active_pods
    namespace = item.claims[0].meta.namespace
    return frozenset(
        uid
        for uid in {*recorded, *listed}
        if not recorded.get(uid, False) and is_open(snapshot, namespace, uid)
    )


def has_just_ended(snapshot: Snapshot, claims: Iterable[GPUClaim]) -> bool:
    """Say whether a pod of these claims is known to have ended since the snapshot was taken.

    Its units count in it still, on the node where it was: the claims may find room there in the next.
    """
    for claim in claims:
        before, now = snapshot.claim(claim.key), claim.attached_to
        if before is None or before.attached_to is None or now is None:
            continue
        ended = {pod.uid for pod in now.pods if pod.ended}
        if any(pod.uid in ended and not pod.ended for pod in before.attached_to.pods):
            return True
    return False


def is_open(snapshot: Snapshot, namespace: str, uid: str) -> bool:
    """Say whether a pod is not seen to have ended; one that is not there may run all the same."""
    pod = snapshot.pods.get((namespace, uid))
    return pod is None or pod.live


def is_gated(snapshot: Snapshot, namespace: str, uid: str) -> bool:
    """Say whether a pod stands at our gate: it has no node, and only the leader lets it through."""
    pod = snapshot.pods.get((namespace, uid))
    return pod is not None and coverage.is_at_gate(pod)


def proof(looking: Witness, item: ClaimSet) -> Proof | None:
    """Return the proof that no pod of a set may run anywhere, or None.

    A pod at our gate runs nowhere, and only the leader lets it through; that no other has come is
    part of the proof. It says nothing of a guest whose VMI is on a node that is gone.
    """
    look = evidence.look(looking, item.claims)
    gated = frozenset(
        lack.pod
        for lack in look.missing
        if lack.pod and is_gated(looking.snapshot, look.namespace, lack.pod)
    )
    if any(lack.pod not in gated for lack in look.missing):
        return None
    found = look.proof_of(look.ended)
    return replace(found, vmis=look.vmis, known=found.known | gated, unnoted=look.unnoted)
