"""What the stored changes of a phase come to beyond their own objects: starts answered, units freed, others' reasons."""

from collections import Counter
from collections.abc import Container, Iterable

from gpu.binder import changes
from gpu.binder.answer_changes import Answer
from gpu.binder.changes import Attach, Change, Degrade, Detach, Place
from gpu.binder.rejection_changes import DeletePod
from gpu.objects.meta import ObjectKey


def answers(wanted: Iterable[Change], complete: Iterable[str]) -> Counter[str]:
    """Count starts whose answer is stored on all of their claims, by result."""
    stored = frozenset(complete)
    told: dict[str, str] = {}
    for change in wanted:
        request = change.request if isinstance(change, Answer) else None
        request = change.answer if isinstance(change, Place) else request
        if request is not None and request.result and changes.set_of(change) in stored:
            told[changes.set_of(change)] = request.result.value
    return Counter(told.values())


def uses(change: Change, vms: Container[ObjectKey]) -> bool:
    """Say whether a claim that one of these VMs uses notes another use of it."""
    if not isinstance(change, Attach) or change.claim.attached_to is None:
        return False
    return ObjectKey(change.claim.meta.namespace, change.claim.attached_to.vmi) in vms


def leaves_to_say(change: Change) -> bool:
    """Say whether more is to say of a claim than this pass says, which goes by what stood before.

    One that is degraded no more kept back what else there is; one that is deleted is kept by the pods noted now.
    """
    if isinstance(change, Attach):
        return change.claim.meta.deleting
    return isinstance(change, Degrade) and change.cause is None


def frees(change: Change) -> bool:
    """Say whether units are known to be free now, of a pod that ended or never ran: the next snapshot frees them."""
    if isinstance(change, Attach) and change.claim.attached_to is not None:
        open_before = {pod.uid for pod in change.claim.attached_to.pods if not pod.ended}
        return any(pod.ended and pod.uid in open_before for pod in change.attachment.pods)
    return isinstance(change, Detach) or (isinstance(change, DeletePod) and change.pod.live)
