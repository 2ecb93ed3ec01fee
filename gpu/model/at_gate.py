"""At the gate: launchers that wait there, each with its VMI; those it lists, and those it is about to list.

A launcher is what its VMI lists in `status.activePods`: an owner reference anyone can write. Targets
of a migration are never at the gate.
"""

from collections.abc import Iterable, Iterator

from gpu import keys
from gpu.model.draft import Age, Draft
from gpu.objects import pods
from gpu.objects.kinds import VMIS
from gpu.objects.kubevirt import VMI
from gpu.objects.meta import ObjectKey
from gpu.objects.pods import Pod

Waits = tuple[VMI, Pod]


def listed(draft: Draft) -> list[Waits]:
    """Return the launchers that may be let through, one of each VMI, with their VMIs."""
    return _oldest((owner_of(draft, pod), pod) for pod in _gated(draft))


def coming(draft: Draft) -> list[Waits]:
    """Return the first launchers of VMIs that list no pod yet; what is held may be made ready for them.

    Where policies are kept our gate is on no pod but one that KubeVirt's controller made (policy gate), and that
    lists it a moment later. It is let through no earlier.
    """
    return _oldest((_claimed(draft, pod), pod) for pod in _gated(draft))


def owner_of(draft: Draft, pod: Pod) -> VMI | None:
    """Return the VMI that lists a pod as its own, if it is there."""
    snapshot = draft.snapshot
    vm = snapshot.pod_units.owned.get((pod.meta.namespace, pod.meta.uid))
    vmi = snapshot.vmis.get(vm) if vm is not None else None
    return vmi if vmi is not None and pod.meta.uid in vmi.active_pods else None


def is_launcher(pod: Pod) -> bool:
    """Say whether a pod is a launcher, and no target of a migration; its labels are KubeVirt's."""
    labels = pod.meta.labels
    return (
        labels.get(pods.LAUNCHER_LABEL) == pods.LAUNCHER_VALUE
        and pods.MIGRATION_LABEL not in labels
    )


def _gated(draft: Draft) -> Iterator[Pod]:
    for pod in draft.snapshot.given.pods:
        if not pod.gates or keys.PLACEMENT_GATE not in pod.gates:
            continue
        if pod.node is None and pod.live and not pod.meta.deleting and is_launcher(pod):
            yield pod


def _claimed(draft: Draft, pod: Pod) -> VMI | None:
    """Return the VMI that a pod names as its owner, while that lists no pod."""
    for owner in pod.meta.owners:
        if owner.controller and owner.kind == VMIS.kind:
            vmi = draft.snapshot.vmis.get(ObjectKey(pod.meta.namespace, owner.name))
            if vmi is not None and vmi.meta.uid == owner.uid and not vmi.active_pods:
                return vmi
    return None


def _oldest(found: Iterable[tuple[VMI | None, Pod]]) -> list[Waits]:
    """Return the oldest pod of each VMI that is there and neither ended nor going."""
    by_vmi: dict[str, Waits] = {}
    for vmi, pod in found:
        if vmi is None or vmi.ended or vmi.meta.deleting:
            continue
        known = by_vmi.get(vmi.meta.uid)
        if known is None or _age(pod) < _age(known[1]):
            by_vmi[vmi.meta.uid] = (vmi, pod)
    return list(by_vmi.values())


def _age(pod: Pod) -> Age:
    return (pod.meta.created, pod.meta.uid)
