"""PodUnits: what pods hold and ask for at one instant, and whose they are; summed, and carried along.

Whose a pod is, is `coverage`'s business. The sums are made anew only when a pod that counts, a VMI
or an attachment changed; everything else that happens in a cluster leaves them as they are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpu.model import booking, coverage
from gpu.model.booking import Classes
from gpu.model.ledger import Holder
from gpu.objects.claims import GPUClaim
from gpu.objects.kubevirt import VMI
from gpu.objects.meta import ObjectKey
from gpu.objects.pods import Pod
from gpu.units import NodeName, ResourceName, TenantName

PodId = tuple[str, str]
"""Namespace and uid."""
Place = tuple[NodeName, ResourceName, Holder | None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PodUnits:
    """Nothing in it may be changed."""

    pods: Mapping[PodId, Pod]
    """All there are."""
    wanting: Mapping[PodId, Pod]
    """Live ones that request a GPU resource, on a node or not yet."""
    owned: Mapping[PodId, Holder]
    """The VM of each known launcher pod, there or not."""
    known: Mapping[PodId, Pod]
    """Pods that have such an owner."""
    occupied: Mapping[Place, int]
    """Units live pods request, by node, resource and VM, None is nobody's: of a VM's pods also those
    that are pinned and not bound yet, and those that are gone and not known to have ended."""
    raw: Mapping[tuple[TenantName, ResourceName], int]
    """Units per namespace that no attached claim accounts for."""

    def moved(self, gone: Iterable[Pod], come: Iterable[Pod], known: "Known") -> "PodUnits | None":
        """Return the same after pods went and came; None when its sums are not true any more.

        The owners of pods must be as they were.
        """
        gone, come = tuple(gone), tuple(come)
        if not gone and not come:
            return self
        if any(id_of(pod) in self.owned or _wants(pod, known.resources) for pod in (*gone, *come)):
            return None
        return replace(self, pods=_moved(self.pods, gone, come))


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the units of pods depend on beside the pods."""

    classes: Classes
    resources: frozenset[ResourceName]
    attached: tuple[GPUClaim, ...]
    """Claims with an attachment, in key order."""
    vmis: Mapping[ObjectKey, VMI]


def of(pods: Iterable[Pod], known: Known) -> PodUnits:
    """Sum up all pods."""
    by_id = {id_of(pod): pod for pod in pods}
    return _summed(
        by_id, {key: pod for key, pod in by_id.items() if _wants(pod, known.resources)}, known
    )


def again(old: PodUnits, gone: Iterable[Pod], come: Iterable[Pod], known: Known) -> PodUnits:
    """Sum up anew the pods that count, after pods went and came, or their owners changed."""
    gone, come = tuple(gone), tuple(come)
    wanting = [pod for pod in come if _wants(pod, known.resources)]
    return _summed(_moved(old.pods, gone, come), _moved(old.wanting, gone, wanting), known)


def id_of(pod: Pod) -> PodId:
    """Return what tells a pod from every other, also from a later one of its name."""
    return (pod.meta.namespace, pod.meta.uid)


def _summed(pods: Mapping[PodId, Pod], wanting: Mapping[PodId, Pod], known: Known) -> PodUnits:
    wanted = tuple(coverage.wants(wanting.values(), known.resources))
    owned = coverage.owners(known.attached, known.vmis.values())
    made_of = {name: offer.resource for name, offer in known.classes.items()}
    taken = coverage.taken_over(known.attached, made_of, owned) if wanted else {}
    occupied: dict[Place, int] = {}
    for pod, resource, units in wanted:
        vm = owned.get(id_of(pod))
        is_pinned = vm is not None and not coverage.is_at_gate(pod)
        node = pod.node or (pod.pinned if is_pinned else None)
        if node is not None:
            for one, part in coverage.shares(pod, resource, units, vm, taken):
                occupied[node, resource, one] = occupied.get((node, resource, one), 0) + part
    for node, resource, units, vm in coverage.unseen(known.attached, made_of, pods, known.vmis):
        where = (node, resource, vm)
        occupied[where] = occupied.get(where, 0) + units
    covered = booking.covered(known.attached, known.classes) if wanted else {}
    return PodUnits(
        pods=pods,
        wanting=wanting,
        owned=owned,
        known={key: pods[key] for key in owned if key in pods},
        occupied=occupied,
        raw=coverage.raw_units(wanted, owned, covered, taken),
    )


def _wants(pod: Pod, resources: frozenset[ResourceName]) -> bool:
    return pod.live and any(units and name in resources for name, units in pod.requests.items())


def _moved(
    pods: Mapping[PodId, Pod], gone: Iterable[Pod], come: Iterable[Pod]
) -> Mapping[PodId, Pod]:
    found = dict(pods)
    for pod in gone:
        found.pop(id_of(pod), None)
    found.update((id_of(pod), pod) for pod in come)
    return found
