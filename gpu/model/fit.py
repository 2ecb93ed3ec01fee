"""Fit: may a pod run on a node, units of GPUs apart: asked before a pin, which cannot be undone.

The rules are kube-scheduler's filters: cordon, taints, nodeSelector, node affinity, amounts, host ports,
required pod (anti-)affinity both ways, and what its volumes ask (`storage`). Not asked: topology spread,
which a pin leaves only one node to spread over.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from gpu.model import eligibility, matching, pod_units, storage, weight
from gpu.model.fit_facts import PODS, Facts
from gpu.model.misfits import Cause, Misfit
from gpu.model.storage import Disks
from gpu.objects.classes import Toleration
from gpu.objects.nodes import Node, Taint
from gpu.objects.pod_needs import EVERY_ADDRESS, PodTerm
from gpu.objects.pods import Pod
from gpu.units import NodeName

_CORDON: Final = Taint(key=eligibility.CORDON_TAINT, effect="NoSchedule")
Places = frozenset[tuple[str, str]]
"""Labels of nodes by name and value: those that have one are one place."""


@dataclass(slots=True, eq=False)
class Asked:
    """A pod that is asked about, with the tolerations it has or will have; keeps what is node-free."""

    pod: Pod
    tolerations: tuple[Toleration, ...]
    is_heavy: bool
    """Its rules have so many parts that nobody looks at them."""
    _found: "tuple[Facts, int, _Found] | None" = None

    def found(self, seen: Facts) -> "_Found":
        """Return what does not depend on the node, found out once for each state of the facts."""
        known = self._found
        if known is None or known[0] is not seen or known[1] != seen.edits:
            known = self._found = (seen, seen.edits, _look(self.pod, seen))
        return known[2]


def asked(pod: Pod, tolerations: Iterable[Toleration] = ()) -> Asked:
    """Ask about a pod; `tolerations` are those of its classes, beside its own."""
    is_heavy = weight.is_heavy(pod.needs)
    own = () if is_heavy else pod.needs.tolerations
    return Asked(pod, tuple(dict.fromkeys((*own, *tolerations))), is_heavy)


def why_not(needs: Asked, node: Node, facts: Facts) -> Misfit | None:
    """Return the first thing that keeps a pod from a node, or None when kube-scheduler would take it.

    Readiness is told by taints, as for the scheduler. The pod itself, if it is there, does not count.
    """
    if needs.is_heavy:
        return Misfit(cause=Cause.TOO_HEAVY)
    found = needs.found(facts)
    return (
        _of_taints(needs, node)
        or _of_labels(needs, node)
        or found.missing
        or storage.why_not(found.disks, node)
        or _of_amounts(found, node, facts)
        or _of_ports(needs.pod, node, facts)
        or _of_volumes(found, needs.pod, node, facts)
        or _of_pods(found, node)
    )


def nodes_refused(needs: Asked, facts: Facts, names: Iterable[NodeName]) -> dict[NodeName, Misfit]:
    """Return those of the nodes that do not take a pod, and why."""
    refused: dict[NodeName, Misfit] = {}
    for name in names:
        node = facts.nodes.get(name)
        misfit = Misfit(cause=Cause.GONE) if node is None else why_not(needs, node, facts)
        if misfit is not None:
            refused[name] = misfit
    return refused


# What does not depend on the node.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    amounts: tuple[tuple[str, int], ...]
    """What it asks for, its place among the pods first."""
    stands: NodeName | None
    """Where it counts already."""
    missing: Misfit | None
    disks: Disks
    near: tuple[str, ...]
    """Labels of nodes that each term of its affinity is seen."""
    beside: Places
    """Where there are pods that it has to be beside."""
    is_first: bool
    """No pod matches its affinity but itself: it may be the first of its kind."""
    apart: Places
    """Where there are pods that it must not be beside."""
    kept_out: Places
    """Where there are pods that must not be beside it."""


def _look(pod: Pod, seen: Facts) -> _Found:
    disks = storage.look(pod, seen.storage)
    needs = pod.needs
    beside = _beside(pod, seen)
    return _Found(
        amounts=(
            (PODS, 1),
            *(
                (name, amount)
                for name, amount in needs.amounts.items()
                if amount and name not in seen.elsewhere
            ),
        ),
        stands=seen.node_of(pod),
        missing=disks.missing or _in_use(pod, disks, seen),
        disks=disks,
        near=tuple(term.topology for term in needs.affinity),
        beside=beside,
        is_first=not beside and all(_is_about(term, pod, pod, seen) for term in needs.affinity),
        apart=_apart(pod, seen),
        kept_out=_kept_out(pod, seen),
    )


def _in_use(pod: Pod, disks: Disks, seen: Facts) -> Misfit | None:
    if not disks.alone:
        return None
    others = (other for other, _ in seen.within(pod.meta.namespace) if not _is_same(other, pod))
    used = {name for other in others for name in other.volumes}
    name = next((name for name in disks.alone if name in used), None)
    return Misfit(cause=Cause.VOLUME_IN_USE, what=name) if name else None


def _is_about(term: PodTerm, pod: Pod, other: Pod, seen: Facts) -> bool:
    """Say whether a term of one pod is about another."""
    namespace = other.meta.namespace
    labels = seen.namespaces.get(namespace, {})
    return matching.pod_matches(term, pod.meta.namespace, namespace, other.meta.labels, labels)


def _place(term: PodTerm, node: NodeName, seen: Facts) -> Iterator[tuple[str, str]]:
    """Yield the place a node is in for a term, if it is in one."""
    found = seen.nodes.get(node)
    if found is not None and term.topology in found.meta.labels:
        yield term.topology, found.meta.labels[term.topology]


def _beside(pod: Pod, seen: Facts) -> Places:
    """Return where pods are that all terms of its affinity are about: one pod has to meet all."""
    terms = pod.needs.affinity
    if not terms:
        return frozenset()
    return frozenset(
        place
        for other, node in seen.near(terms, pod.meta.namespace)
        if not _is_same(other, pod) and all(_is_about(term, pod, other, seen) for term in terms)
        for term in terms
        for place in _place(term, node, seen)
    )


def _apart(pod: Pod, seen: Facts) -> Places:
    terms = pod.needs.anti_affinity
    if not terms:
        return frozenset()
    return frozenset(
        place
        for other, node in seen.near(terms, pod.meta.namespace)
        if not _is_same(other, pod)
        for term in terms
        if _is_about(term, pod, other, seen)
        for place in _place(term, node, seen)
    )


def _kept_out(pod: Pod, seen: Facts) -> Places:
    return frozenset(
        place
        for other, node, terms in seen.wary()
        if not _is_same(other, pod)
        for term in terms
        if _is_about(term, other, pod, seen)
        for place in _place(term, node, seen)
    )


def _is_same(one: Pod, other: Pod) -> bool:
    return pod_units.id_of(one) == pod_units.id_of(other)


# What depends on it.


def _of_taints(needs: Asked, node: Node) -> Misfit | None:
    if not node.taints and not node.cordoned:
        return None
    if node.cordoned and not _tolerated(needs, _CORDON):
        return Misfit(cause=Cause.CORDONED)
    for taint in node.taints:
        if taint.effect in {"NoSchedule", "NoExecute"} and not _tolerated(needs, taint):
            return Misfit(cause=Cause.TAINTED, what=taint.key)
    return None


def _tolerated(needs: Asked, taint: Taint) -> bool:
    return any(eligibility.tolerates(item, taint) for item in needs.tolerations)


def _of_labels(needs: Asked, node: Node) -> Misfit | None:
    labels = node.meta.labels
    asks = needs.pod.needs
    for key, value in asks.selector.items():
        if labels.get(key) != value:
            return Misfit(cause=Cause.SELECTOR, what=key)
    if asks.node_terms is not None and not matching.node_matches(
        asks.node_terms, labels, node.name
    ):
        return Misfit(cause=Cause.NODE_AFFINITY)
    return None


def _of_volumes(found: _Found, pod: Pod, node: Node, facts: Facts) -> Misfit | None:
    limits = facts.storage.limits.get(node.name)
    if limits is None or not found.disks.attached:
        return None
    used = facts.attached(node.name)
    if found.stands == node.name:
        others = (other for other in facts.on(node.name).values() if not _is_same(other, pod))
        used = {one for other in others for one in facts.storage.attached(other)}
    return storage.why_full(found.disks, used, limits)


def _of_amounts(found: _Found, node: Node, facts: Facts) -> Misfit | None:
    used = facts.used(node.name)
    is_there = found.stands == node.name
    for name, amount in found.amounts:
        free = node.amounts.get(name, 0) - used.get(name, 0) + (amount if is_there else 0)
        if amount > free:
            return Misfit(cause=Cause.AMOUNT, what=name, wanted=amount, free=max(free, 0))
    return None


def _of_ports(pod: Pod, node: Node, facts: Facts) -> Misfit | None:
    wanted = pod.needs.ports
    if not wanted:
        return None
    used: dict[tuple[int, str], set[str]] = {}
    for other in facts.on(node.name).values():
        if other.needs.ports and not _is_same(other, pod):
            for port in other.needs.ports:
                used.setdefault((port.port, port.protocol), set()).add(port.address)
    for port in wanted:
        taken = used.get((port.port, port.protocol))
        if taken and (
            port.address == EVERY_ADDRESS or not taken.isdisjoint((EVERY_ADDRESS, port.address))
        ):
            return Misfit(cause=Cause.PORT, what=f"{port.port}/{port.protocol}")
    return None


def _of_pods(found: _Found, node: Node) -> Misfit | None:
    labels = node.meta.labels
    if not (found.kept_out or found.near or found.apart):
        return None
    if any(labels.get(key) == value for key, value in found.kept_out):
        return Misfit(cause=Cause.KEPT_APART)
    if any(key not in labels for key in found.near):
        return Misfit(cause=Cause.POD_AFFINITY)
    if not found.is_first and any((key, labels[key]) not in found.beside for key in found.near):
        return Misfit(cause=Cause.POD_AFFINITY)
    if any(labels.get(key) == value for key, value in found.apart):
        return Misfit(cause=Cause.POD_ANTI_AFFINITY)
    return None
