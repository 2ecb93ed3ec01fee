"""Storage: what the volumes of a pod ask of a node, as kube-scheduler asks it of what is bound.

A claim that is bound at once keeps its pod waiting until it is; one that is bound where its first pod
goes is asked about the topologies of its class and a node chosen already. Whether a volume can be
provisioned there, or one without a provisioner is free there, is not asked (decision 27).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from gpu.model import matching
from gpu.model.matching import Labels
from gpu.model.misfits import Cause, Misfit
from gpu.objects.meta import ObjectKey
from gpu.objects.nodes import Node
from gpu.objects.pod_needs import NodeTerm
from gpu.objects.pods import Pod
from gpu.objects.storage import CSINode, StorageClass
from gpu.objects.volumes import Claim, Volume

_ZONES: Final = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
"""Labels of a volume that bind it to a place of nodes."""
Attached = tuple[str, str]
"""A driver, and what it knows a volume by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Claims, volumes, their classes and drivers at one instant."""

    claims: Mapping[ObjectKey, Claim] = field(default_factory=dict)
    volumes: Mapping[str, Volume] = field(default_factory=dict)
    classes: Mapping[str, StorageClass] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By node and driver: most volumes."""

    def attached(self, pod: Pod) -> Iterator[Attached]:
        """Yield what a pod has attached to its node, or will have; a volume shared is one."""
        for name in pod.volumes:
            key = ObjectKey(pod.meta.namespace, name)
            claim = self.claims.get(key)
            if claim is None:
                continue
            volume = self.volumes.get(claim.volume)
            if volume is not None:
                if volume.driver:
                    yield volume.driver, volume.handle
            elif claim.class_name in self.classes:
                yield self.classes[claim.class_name].driver, f"claim {key}"


def of(
    claims: Iterable[Claim],
    volumes: Iterable[Volume],
    classes: Iterable[StorageClass],
    csi_nodes: Iterable[CSINode],
) -> Storage:
    """Look at one instant."""
    return Storage(
        claims={item.meta.key: item for item in claims},
        volumes={item.meta.name: item for item in volumes},
        classes={item.meta.name: item for item in classes},
        limits={item.meta.name: item.limits for item in csi_nodes if item.limits},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Disks:
    """What the volumes of a pod ask, whatever the node."""

    missing: Misfit | None = None
    """No node will do."""
    reach: tuple[tuple[str, Volume], ...] = ()
    """Volumes that not every node reaches, with the claim's name."""
    unbound: tuple[tuple[Claim, StorageClass], ...] = ()
    """Those that are bound where the pod goes."""
    alone: tuple[str, ...] = ()
    """Claims that one pod at a time may use."""
    attached: tuple[Attached, ...] = ()


def look(pod: Pod, seen: Storage) -> Disks:
    """Find out what its volumes ask."""
    found: list[Claim] = []
    for name in pod.volumes:
        claim = seen.claims.get(ObjectKey(pod.meta.namespace, name))
        if claim is None or claim.meta.deleting or claim.phase == "Lost":
            return Disks(missing=Misfit(cause=Cause.VOLUME_MISSING, what=name))
        found.append(claim)
    reach: list[tuple[str, Volume]] = []
    unbound: list[tuple[Claim, StorageClass]] = []
    for claim in found:
        if not claim.bound:
            storage_class = seen.classes.get(claim.class_name)
            if claim.volume or storage_class is None or not storage_class.waits:
                return Disks(missing=Misfit(cause=Cause.VOLUME_UNBOUND, what=claim.meta.name))
            unbound.append((claim, storage_class))
            continue
        volume = seen.volumes.get(claim.volume)
        if volume is None:
            return Disks(missing=Misfit(cause=Cause.VOLUME_MISSING, what=claim.meta.name))
        if volume.terms is not None or any(key in volume.meta.labels for key in _ZONES):
            reach.append((claim.meta.name, volume))
    return Disks(
        reach=tuple(reach),
        unbound=tuple(unbound),
        alone=tuple(claim.meta.name for claim in found if claim.alone),
        attached=tuple(dict.fromkeys(seen.attached(pod))) if seen.limits else (),
    )


def why_not(disks: Disks, node: Node) -> Misfit | None:
    """Return what keeps the volumes from a node, whatever else is there."""
    labels = node.meta.labels
    for name, volume in disks.reach:
        if not _reaches(volume.terms, labels) or not _in_zone(volume, labels):
            return Misfit(cause=Cause.VOLUME_ELSEWHERE, what=name)
    for claim, storage_class in disks.unbound:
        elsewhere = claim.chosen and claim.chosen != node.name
        if elsewhere or not _can_be_made(storage_class, labels):
            return Misfit(cause=Cause.VOLUME_ELSEWHERE, what=claim.meta.name)
    return None


def why_full(disks: Disks, used: AbstractSet[Attached], limits: Mapping[str, int]) -> Misfit | None:
    """Return the driver that takes no more volumes on a node, beside those that other pods use there."""
    new = Counter(one[0] for one in disks.attached if one not in used)
    for driver, count in new.items():
        most = limits.get(driver)
        if most is not None and count + sum(1 for one in used if one[0] == driver) > most:
            return Misfit(cause=Cause.VOLUMES_FULL, what=driver)
    return None


def _reaches(terms: tuple[NodeTerm, ...] | None, labels: Labels) -> bool:
    # kube-scheduler asks with the node's labels alone: a field of the node matches nothing.
    return terms is None or matching.node_matches(terms, labels, "")


def _in_zone(volume: Volume, labels: Labels) -> bool:
    """Compare zone and region by label; a node that has none of these labels is nowhere in particular."""
    if not any(key in labels for key in _ZONES):
        return True
    return all(
        labels.get(key) in volume.meta.labels[key].split("__")
        for key in _ZONES
        if key in volume.meta.labels
    )


def _can_be_made(storage_class: StorageClass, labels: Labels) -> bool:
    terms = storage_class.topologies
    return not terms or any(term and matching.selects(term, labels) for term in terms)
