"""Foreseen: launchers of starts that are answered before KubeVirt makes them (`binding: request`).

Each is judged by what its request says it will ask, as a launcher at the gate is by what it asks. From the
answer until KubeVirt's own pod stands on the node, the foreseen one counts there in its place.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from gpu.model import bind_requests, fit
from gpu.model.bind_requests import Asked
from gpu.model.draft import Draft
from gpu.model.fit_facts import Facts
from gpu.model.misfits import Misfit
from gpu.model.snapshot import Snapshot
from gpu.objects import foreseen
from gpu.objects.claims import BindRequest, BindResult, GPUClaim
from gpu.objects.classes import Toleration
from gpu.objects.meta import ObjectKey
from gpu.objects.pods import Pod
from gpu.units import ClaimName, NodeName

Seat = tuple[Pod, NodeName]
"""A launcher, and the node it is on or will be."""
_ANYTHING: Final = Toleration(operator="Exists")


@dataclass(slots=True, kw_only=True)
class Launchers:
    """Judges launchers that are foreseen, each beside all that are there and all that were promised."""

    draft: Draft
    facts: Facts
    _asked: dict[tuple[str, bool], fit.Asked | None] = field(default_factory=dict)

    def why_not(self, asked: Asked, node: NodeName, *, waits: bool = False) -> Misfit | None:
        """Return what keeps the launcher of a start from a node that is there, or None.

        Nothing does where its request tells of no launcher. `waits`: it is held there already and waits,
        so that cordon and taints, which come and go, are not looked at.
        """
        needs = self._needs(asked, waits=waits)
        found = self.draft.snapshot.nodes.get(node)
        if needs is None or found is None:
            return None
        return fit.why_not(needs, found, self.facts)

    def refused(self, asked: Asked, nodes: Iterable[NodeName]) -> dict[NodeName, Misfit]:
        """Return those of the nodes that do not take the launcher of a start, and why."""
        found = ((node, self.why_not(asked, node)) for node in nodes)
        return {node: misfit for node, misfit in found if misfit is not None}

    def grant(self, asked: Asked, node: NodeName) -> None:
        """Have the launcher count on the node it is promised."""
        pod = launcher(asked.request, asked.vm.namespace)
        if pod is not None:
            self.facts.pin(pod, node)

    def _needs(self, asked: Asked, *, waits: bool) -> fit.Asked | None:
        key = (asked.request.id, waits)
        if key not in self._asked:
            pod = launcher(asked.request, asked.vm.namespace)
            more = (*_of_classes(self.draft.snapshot, asked), *([_ANYTHING] if waits else ()))
            self._asked[key] = fit.asked(pod, more) if pod else None
        return self._asked[key]


def launchers(draft: Draft, facts: Facts, seats: Iterable[Seat] = ()) -> Launchers:
    """Judge by these facts, and have promised launchers and `seats` count in them."""
    for pod, node in (*outstanding(draft, facts), *seats):
        facts.pin(pod, node)
    return Launchers(draft=draft, facts=facts)


def beside(draft: Draft, facts: Facts, waiting: AbstractSet[ObjectKey]) -> Facts:
    """Have promised launchers count in these facts, but those of VMs that are `waiting` at the gate.

    Their launchers are judged themselves, and would be counted twice. Returns the facts.
    """
    for pod, node in outstanding(draft, facts, waiting):
        facts.pin(pod, node)
    return facts


def launcher(request: BindRequest, namespace: str) -> Pod | None:
    """Return the launcher that a request tells of, if it does."""
    return foreseen.launcher(request.launcher, namespace, request.id)


def seat(claim: GPUClaim, request: BindRequest | None, node: NodeName | None) -> Seat | None:
    """Return the launcher that an answer on a claim promises a node, if it does."""
    if request is None or request.result is not BindResult.SUCCEEDED or node is None:
        return None
    pod = launcher(request, claim.meta.namespace)
    return (pod, node) if pod else None


def outstanding(
    draft: Draft, facts: Facts, without: AbstractSet[ObjectKey] = frozenset()
) -> Iterator[Seat]:
    """Yield the launchers that were promised a node and do not stand on it yet, each once.

    `without`: of no such VM.
    """
    seen: set[tuple[str, str]] = set()
    for claim in draft.requested:
        request = claim.bind_request
        if request is None or not request.launcher or not bind_requests.is_promised(claim):
            continue
        key = (claim.meta.namespace, request.id)
        if ObjectKey(claim.meta.namespace, request.vmi) in without:
            continue
        if key in seen or _has_come(draft.snapshot, claim, facts):
            continue
        found = seat(claim, request, claim.node)
        if found is not None:
            seen.add(key)
            yield found


def _has_come(snapshot: Snapshot, claim: GPUClaim, facts: Facts) -> bool:
    """Say whether the VMI of a claim has a pod that counts on a node, or is over."""
    attachment = claim.attached_to
    if attachment is None:
        return True
    namespace = claim.meta.namespace
    own = {pod.uid for pod in attachment.pods if attachment.uid}
    vmi = snapshot.vmis.get(ObjectKey(namespace, attachment.vmi))
    if vmi is not None and vmi.admissions.get(ClaimName(claim.meta.name)) == attachment.admission:
        if vmi.ended:
            return True
        own |= vmi.active_pods.keys()
    pods = (snapshot.pods.get((namespace, uid)) for uid in own)
    return any(pod is not None and facts.node_of(pod) is not None for pod in pods)


def _of_classes(snapshot: Snapshot, asked: Asked) -> Iterator[Toleration]:
    """Yield what the launcher webhook adds: the tolerations of all classes of the start."""
    for claim in asked.claims:
        offer = snapshot.classes.get(claim.class_name)
        if offer is not None:
            yield from offer.tolerations
