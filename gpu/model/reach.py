"""Reach: which nodes a set may be placed on at all, whatever is free on them.

A set whose guest runs, or may still run, belongs where that guest is: the same units must not be
given out on one node while they are used on another. Any other set may go wherever it is not
refused.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from gpu.config import Grace
from gpu.model import bind_requests, evidence, guests, rejections, witness
from gpu.model.draft import Draft
from gpu.model.rejections import Rejections
from gpu.model.sets import ClaimSet
from gpu.model.sightings import Sightings
from gpu.model.signs import Lack, Missing, Proof
from gpu.model.snapshot import Snapshot
from gpu.model.witness import Witness
from gpu.objects import meta
from gpu.objects.kubevirt import VMI
from gpu.units import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Where one set may be placed."""

    is_tied: bool = False
    """Its guest runs or may still run: no node but `home` will do."""
    home: NodeName | None = None
    """The one node that guest is on; None when it may be on several, or nobody knows where."""
    is_seen: bool = False
    """A live pod of it is on that node: it is there, whether or not the node takes others."""
    without: frozenset[NodeName] = frozenset()
    """Nodes that refused its pod a short while ago."""
    proof: Proof | None = None
    """Of a set that is not tied: that its pods have ended, to be read past the cache."""


Reaches = Callable[[ClaimSet], Reach]


def by_evidence(looking: Witness) -> Reaches:
    """Judge by all that the leader knows of guests and of pods that are over.

    A pod at our gate ties a set to no node: it runs nowhere, and only the leader lets it through. Nor
    does a VMI that cannot come before its request is answered; once it has a promise it does.
    """

    def reach(found: ClaimSet) -> Reach:
        memory = looking.sightings.rejections
        without = rejected(found, looking.snapshot, memory, looking.now)
        look = evidence.look(looking, found.claims)
        gated = frozenset(
            lack.pod
            for lack in look.missing
            if lack.pod and guests.is_gated(looking.snapshot, look.namespace, lack.pod)
        )
        lacks = [lack for lack in look.missing if lack.pod not in gated]
        if found.has_request and _is_awaited(found):
            lacks = [lack for lack in lacks if lack.lack is not Lack.START_PENDING]
        vmi = guests.vmi_of(looking.snapshot, found)
        is_promised = guests.is_promised(looking.snapshot, found)
        if lacks or is_promised or (vmi is not None and vmi.started):
            nodes = {node for lack in lacks for node in _where(looking, found, lack)}
            nodes |= {vmi.node} if vmi is not None and vmi.started and vmi.node else set()
            nodes |= found.nodes if is_promised else set()
            home = nodes.pop() if len(nodes) == 1 else None
            is_seen = home is not None and home in _of_live_pods(looking, found, vmi)
            return Reach(is_tied=True, home=home, is_seen=is_seen, without=without)
        proof = look.proof_of(one.pod for one in look.found)
        # A start that is about to come is no guest of before; what has its name may be another's.
        unnoted = frozenset((vm, uid) for vm, uid in look.unnoted if uid)
        whole = replace(proof, vmis=look.vmis, known=proof.known | gated, unnoted=unnoted)
        return Reach(without=without, proof=whole)

    return reach


def _is_awaited(found: ClaimSet) -> bool:
    """Say whether no VMI that the set was attached to can come before a request of it is answered.

    It is answered when the last of its claims is.
    """
    starting = [it for it in found.claims if it.attached_to is not None and not it.attached_to.uid]
    ids = {
        it.bind_request.id for it in starting if it.bind_request and bind_requests.is_awaited(it)
    }
    return len(ids) == 1 and all(it.bind_request and it.bind_request.id in ids for it in starting)


def by_record(draft: Draft) -> Reaches:
    """Judge by what objects say and nothing else: a recorded pod may run until it is seen to end.

    For answers that have no clock and saw nothing before now. The leader, which did, knows of more
    pods that they have ended; what it knows it writes down, so the two agree before long.
    """
    return by_evidence(witness.of(draft.snapshot, (), Sightings(), Grace(), meta.EPOCH))


def rejected(
    found: ClaimSet, snapshot: Snapshot, memory: Rejections, now: datetime
) -> frozenset[NodeName]:
    """Return the nodes that refused the set's launcher a short while ago and are as they were then."""
    noted = rejections.skipped(found.claims, snapshot.nodes, now)
    return noted | memory.of(found.vm) if found.vm else noted


def _of_live_pods(looking: Witness, found: ClaimSet, vmi: VMI | None) -> set[NodeName]:
    uids = {pod.uid for attachment in found.attachments for pod in attachment.pods}
    uids |= set(vmi.active_pods) if vmi is not None else set()
    namespace = found.claims[0].meta.namespace
    pods = (looking.snapshot.pods.get((namespace, uid)) for uid in uids)
    return {pod.node for pod in pods if pod is not None and pod.live and pod.node is not None}


def _where(looking: Witness, found: ClaimSet, lack: Missing) -> Iterator[NodeName]:
    """Yield where a pod may run; the nodes of its claims stand in for what nobody knows."""
    pod = looking.snapshot.pods.get((found.claims[0].meta.namespace, lack.pod))
    known = lack.node or (pod.pinned if pod is not None else None)
    if known is not None:
        yield known
        return
    yield from (claim.node for claim in found.claims if claim.attached_to and claim.node)
