"""Eligible: may a node take sets of a class at all, whatever is free on it.

It exists, is Ready, not cordoned, serves the resource, and the class tolerates its every NoSchedule
and NoExecute taint: a claim binds before any pod exists, so only the class can be asked.
"""

from enum import StrEnum
from typing import Final

from gpu.model.snapshot import Snapshot
from gpu.objects.classes import GPUClass, Toleration
from gpu.objects.nodes import Node, Taint
from gpu.units import ClassName, NodeName

CORDON_TAINT: Final = "node.kubernetes.io/unschedulable"
"""What Kubernetes puts on a cordoned node beside spec.unschedulable."""


class Ineligible(StrEnum):
    """The first thing that keeps a node from taking sets of a class."""

    GONE = "Gone"
    NOT_READY = "NotReady"
    CORDONED = "Cordoned"
    TAINTED = "Tainted"
    NOT_SERVED = "NotServed"


def nodes(snapshot: Snapshot, name: ClassName) -> frozenset[NodeName]:
    """Return the eligible nodes of a class; none for an unknown one."""
    known = snapshot.memo.eligible
    if name not in known:
        offer = snapshot.classes.get(name)
        served = snapshot.capacities.get(offer.resource, {}) if offer else {}
        known[name] = frozenset(
            node for node in served if offer and why_not(snapshot, offer, node) is None
        )
    return known[name]


def why_not(
    snapshot: Snapshot, offer: GPUClass, name: NodeName, *, holding: bool = False
) -> Ineligible | None:
    """Return why a node takes no sets of a class, or None when it does.

    `holding` asks for a set whose guest is there already: a cordon and its taint do not matter.
    """
    node = snapshot.nodes.get(name)
    if node is None or node.meta.deleting:
        return Ineligible.GONE
    if name not in snapshot.capacities.get(offer.resource, {}):
        return Ineligible.NOT_SERVED
    if not node.ready:
        return Ineligible.NOT_READY
    if node.cordoned and not holding:
        return Ineligible.CORDONED
    return None if _tolerates(offer, node, holding=holding) else Ineligible.TAINTED


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Say whether a toleration matches a taint, as kube-scheduler does for Exists and Equal.

    A limit in seconds matters for eviction only, not here.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def _tolerates(offer: GPUClass, node: Node, *, holding: bool) -> bool:
    return all(
        any(tolerates(toleration, taint) for toleration in offer.tolerations)
        for taint in node.taints
        if taint.effect in {"NoSchedule", "NoExecute"}
        and not (holding and taint.key == CORDON_TAINT)
    )
