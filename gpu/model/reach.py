"""Reach: which nodes a set may be placed on at all, whatever is free on them.

A set whose guest runs, or may still run, belongs where that guest is: the same units must not be
given out on one node while they are used on another. Any other set may go wherever it is not
refused.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime

from gpu import keys
from gpu.model.sets import ClaimSet
from gpu.model.sightings import Sightings
from gpu.model.snapshot import Draft
from gpu.objects.claims import AttachedPod, GPUClaim
from gpu.objects.kubevirt import VMI
from gpu.objects.meta import ObjectKey
from gpu.units import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Where one set may be placed."""

    only: frozenset[NodeName] = frozenset()
    """Nodes where its guest runs or may still run; empty: it runs nowhere. On two, no node will do."""
    without: frozenset[NodeName] = frozenset()
    """Nodes that refused its pod a short while ago."""

    @property
    def home(self) -> NodeName | None:
        """The one node its guest is on; None when there is no guest, or it may be on several."""
        return next(iter(self.only)) if len(self.only) == 1 else None


Reaches = Callable[[ClaimSet], Reach]


def by_record(draft: Draft) -> Reaches:
    """Judge by what objects say and nothing else: a recorded pod may run until it is seen to end.

    For answers that have no clock and saw nothing before now. The leader, which did, knows of more
    pods that they have ended; what it knows it writes down, so the two agree before long.
    """

    def reach(found: ClaimSet) -> Reach:
        return Reach(only=guest_nodes(draft, found), without=rejected(found, None))

    return reach


def by_evidence(draft: Draft, seen: Sightings, now: datetime) -> Reaches:
    """Judge by all that the leader knows: recorded pods that are proven to have ended do not count."""
    del seen

    def reach(found: ClaimSet) -> Reach:
        return Reach(only=guest_nodes(draft, found), without=rejected(found, now))

    return reach


def guest_nodes(
    draft: Draft, found: ClaimSet, ended: AbstractSet[str] = frozenset()
) -> frozenset[NodeName]:
    """Return the nodes where a set's guest runs or may run; `ended` are uids of pods known to be over.

    A pod that waits at our gate runs nowhere yet.
    """
    nodes: set[NodeName | None] = set()
    for claim in found.claims:
        if claim.attached_to is None:
            continue
        for pod in claim.attached_to.pods:
            if not pod.ended and pod.uid not in ended:
                nodes.add(_node_of(draft, claim, pod))
        vmi = draft.snapshot.vmis.get(ObjectKey(claim.meta.namespace, claim.attached_to.vmi))
        if vmi is not None and claim.attached_to.uid in {"", vmi.meta.uid} and vmi.started:
            nodes |= _nodes_of(draft, vmi)
    return frozenset(node for node in nodes if node is not None)


def _node_of(draft: Draft, claim: GPUClaim, recorded: AttachedPod) -> NodeName | None:
    """Return where a recorded pod runs, or may; the claim's node stands in for what nobody knows."""
    pod = draft.snapshot.pods.get((claim.meta.namespace, recorded.uid))
    if pod is not None and (
        not pod.live or (pod.node is None and keys.PLACEMENT_GATE in pod.gates)
    ):
        return None
    seen = (pod.node or pod.pinned) if pod is not None else None
    return seen or recorded.node or claim.node


def _nodes_of(draft: Draft, vmi: VMI) -> set[NodeName]:
    """Return where a started guest is: what virt-handler says, else the nodes of its live pods."""
    if vmi.node is not None:
        return {vmi.node}
    pods = draft.snapshot.pods
    found = {uid: pods.get((vmi.meta.namespace, uid)) for uid in vmi.active_pods}
    return {pod.node for pod in found.values() if pod is not None and pod.live and pod.node}


def rejected(found: ClaimSet, now: datetime | None) -> frozenset[NodeName]:
    """Return the nodes that refused the set's pod and have not been forgiven by `now`."""
    return frozenset(
        item.node
        for claim in found.claims
        for item in claim.rejected_nodes
        if now is None or item.until > now
    )
