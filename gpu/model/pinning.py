"""What the checker asks of launchers that are let through: they are whole, and stand with their claims.

Part of `invariants`, and like it shares nothing with what plans: it reads objects only.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpu.model import naive
from gpu.model.naive import Claims, Cluster, vm_of
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.kubevirt import VMI
from gpu.objects.meta import ObjectKey
from gpu.units import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A launcher that a plan lets through."""

    vm: ObjectKey
    pod: str
    """Its uid."""
    node: NodeName | None
    """None: anywhere."""


def is_made_for_a_start(cluster: Cluster, claim: GPUClaim) -> bool:
    """Say whether a claim that is not there yet is a template claim of a VMI that lives."""
    vmi = _vmi(cluster, claim.meta.namespace, {owner.uid for owner in claim.meta.owners})
    return (
        vmi is not None
        and claim.is_template
        and not claim.meta.uid
        and claim.phase is Phase.PENDING
        and vmi.template_units.get(claim.class_name) == claim.count
    )


def astray(cluster: Cluster, after: Claims, pins: Iterable[Pinned]) -> Iterator[str]:
    """Yield in words what is wrong with each launcher, once claims are as `after` has them."""
    for pin in pins:
        for words in _astray(cluster, after, pin):
            yield f"launcher {pin.pod} of VM {pin.vm}: {words}"


def _astray(cluster: Cluster, after: Claims, pin: Pinned) -> Iterator[str]:
    namespace = pin.vm.namespace
    vmi = cluster.found.vmis_in.get(namespace, {}).get(pin.vm)
    pod = cluster.pod(namespace, pin.pod)
    if pod is None or not naive.is_at_gate(pod):
        yield "does not wait at the gate"
        return
    if vmi is None or vmi.ended or vmi.meta.deleting or pin.pod not in vmi.active_pods:
        yield "its VMI is over or does not list it"
        return
    if pin.node is None:
        if vmi.admissions or vmi.template_units:
            yield "its VM has claims, and it is let go anywhere"
        return
    node = cluster.by_node.get(pin.node)
    if node is None or node.meta.deleting or node.cordoned or not node.ready:
        yield f"node {pin.node} is not there, going, not Ready or cordoned"
    yield from _apart(vmi, pin, _claims(cluster, after, pin))


def _claims(cluster: Cluster, after: Claims, pin: Pinned) -> list[GPUClaim]:
    found = {
        claim.key: claim
        for claim in cluster.living({pin.vm.namespace}, after)
        if vm_of(claim) == pin.vm and not claim.meta.deleting
    }
    return list(found.values())


def _apart(vmi: VMI, pin: Pinned, mine: list[GPUClaim]) -> Iterator[str]:
    """Yield which of its claims are not where it goes, or not there."""
    for claim in mine:
        noted = claim.attached_to.pods if claim.attached_to else ()
        if (claim.phase, claim.node) != (Phase.BOUND, pin.node):
            yield f"claim {claim.key} is {claim.phase.value} on {claim.node}, not on {pin.node}"
        elif not any((one.uid, one.node) == (pin.pod, pin.node) for one in noted):
            yield f"claim {claim.key} does not note it"
    for name in sorted(vmi.admissions.keys() - {claim.meta.name for claim in mine}):
        yield f"claim {name} is not held for it"
    for class_name, units in vmi.template_units.items():
        made = [claim for claim in mine if claim.is_template and claim.class_name == class_name]
        held = sum(claim.count for claim in made)
        if held != units:
            yield f"{held} units of class {class_name} are held for it, of {units}"


def _vmi(cluster: Cluster, namespace: str, uids: set[str]) -> VMI | None:
    there = cluster.found.vmis_in.get(namespace, {}).values()
    return next((vmi for vmi in there if vmi.meta.uid in uids and not vmi.ended), None)
