"""How one pod that used a claim is known to have ended: by its object, by its node, or by its node's agent.

Of a pod whose object is gone each node is asked where it may have been.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gpu.model import sightings
from gpu.model.signs import UNSEEN, Found, Lack, Missing, Sign
from gpu.model.snapshot import Snapshot
from gpu.model.witness import Witness
from gpu.objects.claims import AttachedPod, GPUClaim
from gpu.objects.nodes import Node
from gpu.objects.pods import Pod
from gpu.units import NodeName, ResourceName

APART: Final = timedelta(seconds=10)
"""How far clocks of leader and node may be apart; also what kubelet takes to see that a pod went."""


@dataclass(frozen=True, slots=True)
class Used:
    """A pod that used some claims, as far as attachments and VMI know it."""

    pod: AttachedPod
    vm: str


def signs(looking: Witness, used: Used, claims: Iterable[GPUClaim]) -> Iterator[Found | Missing]:
    """Yield what is known of one pod; of one that is gone, for each node where it may have been."""
    pod = used.pod
    namespace = next(iter(claims)).meta.namespace
    seen = looking.snapshot.pods.get((namespace, pod.uid))
    if pod.ended or (seen is not None and not seen.live):
        yield Found(pod=pod.uid, sign=Sign.ENDED, node=pod.node or None)
        return
    if seen is not None:
        yield _alive(looking, used, seen)
        return
    resources = _resources(looking.snapshot, claims)
    if sightings.never_placed(looking.sightings, namespace, pod):
        nodes = set()
    elif pod.node:
        nodes = {pod.node}
    else:  # nobody knows where it was; what it may have used of the claims is where they are
        nodes = {claim.node for claim in claims if claim.node}
    for node in sorted(nodes):
        yield _gone(looking, used, node, resources)
    if not nodes:
        yield Found(pod=pod.uid, sign=Sign.NEVER_PLACED)


def _alive(looking: Witness, used: Used, seen: Pod) -> Found | Missing:
    """Judge a pod whose object lives. One that is pinned and not bound may start yet.

    Its node may come back: that it is off says something of pods that were bound to it only.
    """
    name = seen.node or used.pod.node or None
    node = looking.snapshot.nodes.get(name) if name else None
    if seen.node and _is_off(node):
        return Found(pod=used.pod.uid, sign=Sign.NODE_OFF, node=seen.node)
    lack = Lack.NODE_UNKNOWN if node and not node.ready else Lack.POD_NOT_ENDED
    return Missing(lack=lack, vm=used.vm, pod=used.pod.uid, node=name)


def _gone(
    looking: Witness, used: Used, name: NodeName, resources: frozenset[ResourceName] | None
) -> Found | Missing:
    uid = used.pod.uid
    node = looking.snapshot.nodes.get(name)
    if node is None or node.out_of_service:
        return Found(pod=uid, sign=Sign.NODE_OFF, node=name)
    since = looking.sightings.absent.get(uid)
    if since is not None:
        at = _agent_looked(looking, uid, name, resources, since)
        if at is not None:
            return Found(pod=uid, sign=Sign.NOT_HELD, node=name, at=at)
        began = settles_from(node, since)
        if began is not None:
            until = began + timedelta(seconds=looking.grace.release_settle)
            if looking.now >= until:
                return Found(pod=uid, sign=Sign.NODE_LOOKED, node=name, at=until, since=began)
    seconds = int(looking.grace.release_settle)
    lack = Lack.NODE_SETTLING if node.ready else Lack.NODE_UNKNOWN
    return Missing(lack=lack, vm=used.vm, pod=uid, node=name, seconds=seconds)


def settles_from(node: Node, since: datetime) -> datetime | None:
    """Return from when on a node counts that lost a pod at `since`; None while it is not Ready."""
    if not node.ready or node.ready_since is None:
        return None
    return max(since, node.ready_since)


def _agent_looked(
    looking: Witness,
    uid: str,
    name: NodeName,
    resources: frozenset[ResourceName] | None,
    since: datetime,
) -> datetime | None:
    """Return when the agent saw the node's devices, none of them held by a pod gone since then.

    Stale inventory, one from the future, and one without a device of every resource prove nothing.
    """
    seen = looking.inventory.get(name)
    if seen is None or seen.observed_at is None or resources is None:
        return None
    at = seen.observed_at
    oldest = looking.now - timedelta(seconds=looking.grace.inventory_stale)
    if not max(since + APART, oldest) <= at <= looking.now + APART:
        return None
    if not resources <= {device.resource for device in seen.devices}:
        return None
    holders = {holder for device in seen.devices for holder in device.held_by}
    return None if _is_among(looking, uid, holders) else at


def _is_among(looking: Witness, uid: str, holders: AbstractSet[str]) -> bool:
    """Say whether a pod may be one of those; one that nobody saw may be any of which there is no object."""
    if not uid.startswith(UNSEEN):
        return uid in holders
    there = {pod for _, pod in looking.snapshot.pod_units.pods} if holders else set()
    return not holders <= there


def _resources(snapshot: Snapshot, claims: Iterable[GPUClaim]) -> frozenset[ResourceName] | None:
    """Return the resources of the claims; None when a class is not known."""
    offers = [snapshot.classes.get(claim.class_name) for claim in claims]
    known = frozenset(offer.resource for offer in offers if offer is not None)
    return known if None not in offers else None


def _is_off(node: Node | None) -> bool:
    return node is None or node.out_of_service
