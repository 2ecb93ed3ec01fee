"""Rejections: nodes that refused a VM's launcher, skipped for its set for a while, or until they change.

Only a launcher whose node the leader has chosen counts: its term says so, which nobody else may write, or
its VMI's claims were promised that node (`binding: request`). What is known here is of one leader. Claims
carry it too, for the next one; template claims go with their VMI, so of them, and of a VM without claims,
only this leader knows.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from gpu.config import Grace
from gpu.model.promises import Promises
from gpu.model.snapshot import Snapshot
from gpu.objects.claims import GPUClaim, RejectedNode
from gpu.objects.meta import ObjectKey
from gpu.objects.nodes import Node
from gpu.objects.pods import Pod
from gpu.units import NodeName

MOST: Final = 1024
"""Rejections remembered; the oldest are forgotten first."""
_OUT_OF: Final = "OutOf"
_UNEXPECTED: Final = "UnexpectedAdmissionError"
_DIGITS: Final = 32

Nodes = Mapping[NodeName, Node]


class Why(StrEnum):
    """How a node refused a launcher."""

    REFUSED = "LauncherRefused"
    """kubelet did not take it, for lack of resources."""
    STUCK = "LauncherUnschedulable"
    """The scheduler did not bind it there within the grace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """One launcher that its node refused."""

    vm: ObjectKey
    """Its VMI bears the VM's name."""
    vmi: str
    """Uid of its VMI."""
    pod: str
    """Its uid."""
    node: RejectedNode
    why: Why
    reason: str = ""
    """As kubelet or the scheduler has it."""
    claims: tuple[tuple[str, str], ...] = ()
    """Name and uid of the claims that noted it, template claims left out."""

    @property
    def words(self) -> str:
        """What happened and what is next; the node is that of the tenant's own claims."""
        node, until = self.node.node, f"{self.node.until:%H:%M:%S} UTC"
        after = (
            f"it is skipped for this VM until {until}, or until its allocatable, taints or readiness "
            "change; the VM starts elsewhere where there is room, or waits"
        )
        if self.why is Why.REFUSED:
            return f"node {node} did not take the launcher ({self.reason}): {after}"
        return f"node {node} had no room for the launcher in time, which is deleted: {after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejections:
    """What one leader knows of them; `observe` makes the next."""

    kept: tuple[Rejection, ...] = ()
    """Those that stand, the oldest first."""
    judged: Mapping[str, str] = field(default_factory=dict)
    """Launchers that are refused now, uid to namespace: each is judged once, however long it is seen."""
    stuck: Mapping[str, datetime] = field(default_factory=dict)
    """Since when this leader has seen a launcher Unschedulable, by uid."""

    def of(self, vm: ObjectKey) -> frozenset[NodeName]:
        """Return the nodes that are skipped for a VM."""
        return frozenset(one.node.node for one in self.kept if one.vm == vm)

    def due(self, now: datetime, grace: Grace) -> datetime | None:
        """Return when something of it changes by time alone, if nothing else happens before."""
        stuck = (at + timedelta(seconds=grace.pin) for at in self.stuck.values())
        ends = (one.node.until for one in self.kept)
        return min((at for at in (*stuck, *ends) if at > now), default=None)


def fingerprint(node: Node | None) -> str:
    """Return a digest of what a node takes pods by: allocatable, taints, readiness. Empty without a node.

    A cordon is a taint as well: whoever drains a node and puts it back has mended it, perhaps.
    """
    if node is None:
        return ""
    seen = [
        sorted(node.amounts.items()),
        sorted((taint.key, taint.value, taint.effect) for taint in node.taints),
        node.ready,
    ]
    text = json.dumps(seen, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def standing(
    items: Iterable[RejectedNode], nodes: Nodes, now: datetime | None
) -> tuple[RejectedNode, ...]:
    """Return those that still count: not over, and their node as it was. None is no clock: none is over.

    One without a fingerprint is over by time alone.
    """
    return tuple(
        item
        for item in items
        if (now is None or item.until > now)
        and (not item.fingerprint or item.fingerprint == fingerprint(nodes.get(item.node)))
    )


def skipped(claims: Iterable[GPUClaim], nodes: Nodes, now: datetime | None) -> frozenset[NodeName]:
    """Return the nodes that claims of one set are kept from, as their status has it."""
    return frozenset(
        item.node
        for claim in claims
        if claim.rejected_nodes
        for item in standing(claim.rejected_nodes, nodes, now)
    )


def is_refused(pod: Pod) -> bool:
    """Say whether the node that the leader pinned a pod to did not take it, for lack of resources."""
    if pod.live or not _is_pinned(pod) or pod.node != pod.pinned:
        return False
    reason = pod.reason
    return reason == _UNEXPECTED or (reason.startswith(_OUT_OF) and reason != _OUT_OF)


def is_unschedulable(pod: Pod) -> bool:
    """Say whether the scheduler finds no room for a pod on the node that the leader pinned it to."""
    return (
        pod.live
        and pod.node is None
        and not pod.gates
        and not pod.meta.deleting
        and _is_pinned(pod)
        and pod.scheduled is not None
        and (pod.scheduled.status, pod.scheduled.reason) == ("False", "Unschedulable")
    )


def _is_pinned(pod: Pod) -> bool:
    return pod.pinned is not None


def _is_ours(snapshot: Snapshot, pod: Pod, promises: Promises) -> bool:
    """Say whether the leader has chosen the node that a pod is pinned to.

    It has pinned the pod, or promised its VMI that node: then a webhook has pinned it.
    """
    return pod.term is not None or promises.is_kept(pod, _vm_of(snapshot, pod))


def observe(old: Rejections, snapshot: Snapshot, grace: Grace, now: datetime) -> Rejections:
    """Return what is known after one more look at all launchers.

    The clock of one that is Unschedulable stands still while its node is cordoned, or while a pod of its
    own VM is on its way out there.
    """
    refused, waiting = _looked(snapshot)
    nodes = snapshot.nodes
    stuck = _stuck(old, snapshot, waiting, now)
    late = [pod for pod in waiting if now - stuck[pod.meta.uid] >= timedelta(seconds=grace.pin)]
    found = [(pod, Why.REFUSED) for pod in refused] + [(pod, Why.STUCK) for pod in late]
    # As it is stored, in whole seconds: what is noted must not seem to be older than what is known.
    until = (now + timedelta(seconds=grace.rejection)).replace(microsecond=0)
    fresh = [
        _rejection(snapshot, pod, why, until)
        for pod, why in found
        if pod.meta.uid not in old.judged
    ]
    again = {(one.vm, one.node.node) for one in fresh}
    kept = (
        one
        for one in old.kept
        if (one.vm, one.node.node) not in again and standing([one.node], nodes, now)
    )
    return Rejections(
        kept=(*kept, *fresh)[-MOST:],
        judged={pod.meta.uid: pod.meta.namespace for pod, _ in found},
        stuck=stuck,
    )


def _looked(snapshot: Snapshot) -> tuple[list[Pod], list[Pod]]:
    """Return the launchers that were refused, and those that are Unschedulable."""
    refused: list[Pod] = []
    waiting: list[Pod] = []
    promises = Promises(snapshot.attached)
    for pod in snapshot.given.pods:
        if pod.pinned is None or (pod.live and pod.node is not None):
            continue
        if is_refused(pod):
            if _is_ours(snapshot, pod, promises):
                refused.append(pod)
        elif (
            is_unschedulable(pod)
            and _is_wanted(snapshot, pod)
            and _is_ours(snapshot, pod, promises)
        ):
            waiting.append(pod)
    return refused, waiting


def _is_wanted(snapshot: Snapshot, pod: Pod) -> bool:
    """Say whether a VMI that stays lists the pod: else KubeVirt takes it away by itself."""
    vmi = snapshot.vmis.get(_vm_of(snapshot, pod))
    return (
        vmi is not None
        and not vmi.ended
        and not vmi.meta.deleting
        and pod.meta.uid in vmi.active_pods
    )


def _vm_of(snapshot: Snapshot, pod: Pod) -> ObjectKey:
    """Return the VM of a launcher that the leader has pinned: whose it was, it has made sure of then."""
    namespace = pod.meta.namespace
    vm = snapshot.pod_units.owned.get((namespace, pod.meta.uid))
    if vm is not None:
        return vm
    name = next((owner.name for owner in pod.meta.owners if owner.controller), "")
    return ObjectKey(namespace, name)


def _stuck(
    old: Rejections, snapshot: Snapshot, waiting: list[Pod], now: datetime
) -> dict[str, datetime]:
    if not waiting:
        return {}
    leaving = set(_leaving(snapshot))
    return {
        pod.meta.uid: now
        if _is_excused(snapshot, pod, leaving)
        else old.stuck.get(pod.meta.uid, now)
        for pod in waiting
    }


def _is_excused(
    snapshot: Snapshot, pod: Pod, leaving: AbstractSet[tuple[ObjectKey, NodeName]]
) -> bool:
    node = snapshot.nodes.get(pod.pinned) if pod.pinned is not None else None
    if node is None:
        return False
    return node.cordoned or (_vm_of(snapshot, pod), node.name) in leaving


def _leaving(snapshot: Snapshot) -> Iterator[tuple[ObjectKey, NodeName]]:
    """Yield VMs with a pod that is on its way out, and its node."""
    for (namespace, uid), vm in snapshot.pod_units.owned.items():
        pod = snapshot.pods.get((namespace, uid))
        if pod is not None and pod.live and pod.meta.deleting and pod.node is not None:
            yield vm, pod.node


def _rejection(snapshot: Snapshot, pod: Pod, why: Why, until: datetime) -> Rejection:
    assert pod.pinned is not None
    node = snapshot.nodes.get(pod.pinned)
    vm = _vm_of(snapshot, pod)
    return Rejection(
        vm=vm,
        vmi=pod.vmi_uid,
        pod=pod.meta.uid,
        node=RejectedNode(node=pod.pinned, until=until, fingerprint=fingerprint(node)),
        why=why,
        reason=pod.reason or (pod.scheduled.reason if pod.scheduled else ""),
        claims=tuple(
            (claim.meta.name, claim.meta.uid)
            for claim in snapshot.attached
            # By the VM's name: its next start may have taken them over already.
            if claim.meta.namespace == vm.namespace
            and not claim.is_template
            and claim.attached_to is not None
            and claim.attached_to.vmi == vm.name
        ),
    )
