"""Which pod's units a claim already accounts for (Lost counts for budget, not for capacity).

A pod belongs to a VM when the VMI lists it in `status.activePods` or a claim attached to the VM has
recorded it; an owner reference proves nothing, anyone can write one. For nodes, claims and pods of
one VM share units on the same node only. For budgets, a VM's attached claims, whatever their phase
and node, account for as many units of each of its pods: a guest that migrates or starts anew has two
for a while, and its tenant ordered its units once. A claim that another VM took over while a pod ends
that it has recorded accounts for its units of that pod: they are its new VM's by now.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Final

from gpu import keys
from gpu.model.ledger import Holder
from gpu.objects.claims import Attachment, GPUClaim, Phase
from gpu.objects.kubevirt import VM, VMI
from gpu.objects.meta import ObjectKey
from gpu.objects.pods import Pod
from gpu.units import ClaimName, ClassName, NodeName, ResourceName, TenantName, Units

Sums = dict[tuple[Holder, ResourceName], int]
_UNKNOWN: Final = ""
"""The VMI of an attachment that none has adopted."""
TakenOver = dict[tuple[str, str], Sums]
"""Of pods by namespace and uid: units that claims of other VMs than its own account for."""


def holder_of(claim: GPUClaim) -> Holder | None:
    """Return the VM a claim is attached to."""
    if claim.attached_to is None:
        return None
    return Holder(claim.meta.namespace, claim.attached_to.vmi)


def is_user(claim: GPUClaim, vmi: VMI) -> bool:
    """Say whether a VMI of the attachment's name is the one that uses the claim.

    It is the one whose uid was adopted or that carries its id; a VMI of the same name that carries
    neither is another start. An attachment without an id is nobody's in particular: while it has no
    uid, any VMI of the name may use the claim.
    """
    attachment = claim.attached_to
    if attachment is None:
        return False
    if attachment.uid and vmi.meta.uid == attachment.uid:
        return True
    if not attachment.admission:
        return not attachment.uid
    return vmi.admissions.get(ClaimName(claim.meta.name)) == attachment.admission


def node_held(claim: GPUClaim) -> NodeName | None:
    """Return the node where the claim holds units: only Bound claims do, deleted or not."""
    return claim.node if claim.phase is Phase.BOUND else None


def owners(claims: Iterable[GPUClaim], vmis: Iterable[VMI]) -> dict[tuple[str, str], Holder]:
    """Return the VM of each known launcher pod, by namespace and pod uid; a VMI's word comes first."""
    found: dict[tuple[str, str], Holder] = {}
    for claim in claims:
        if claim.attached_to is not None:
            vm = Holder(claim.meta.namespace, claim.attached_to.vmi)
            for pod in claim.attached_to.pods:
                found.setdefault((claim.meta.namespace, pod.uid), vm)
    for vmi in vmis:
        for uid in vmi.active_pods:
            found[vmi.meta.namespace, uid] = vmi.meta.key
    return found


def taken_over(
    attached: Iterable[GPUClaim],
    resources: Mapping[ClassName, ResourceName],
    owned: Mapping[tuple[str, str], Holder],
) -> TakenOver:
    """Return what other VMs took over of the claims of pods that are not known to have ended."""
    found: TakenOver = {}
    for claim in attached:
        vm, resource = holder_of(claim), resources.get(claim.class_name)
        if vm is None or resource is None or claim.attached_to is None:
            continue
        for pod in claim.attached_to.pods:
            key = (claim.meta.namespace, pod.uid)
            if not pod.ended and owned.get(key, vm) != vm:
                sums = found.setdefault(key, {})
                sums[vm, resource] = sums.get((vm, resource), 0) + claim.count
    return found


def shares(
    pod: Pod, resource: ResourceName, units: int, vm: Holder | None, taken: TakenOver
) -> Iterator[tuple[Holder | None, int]]:
    """Yield for whom a pod asks for its units: VMs that took over claims of it, then its own."""
    for (other, of), amount in taken.get((pod.meta.namespace, pod.meta.uid), {}).items():
        part = min(units, amount) if of == resource else 0
        if part:
            yield other, part
            units -= part
    if units:
        yield vm, units


def named(vms: Iterable[VM]) -> dict[ObjectKey, ObjectKey]:
    """Return for each claim the one VM whose template names it; several name nobody's."""
    found: dict[ObjectKey, ObjectKey] = {}
    disputed: set[ObjectKey] = set()
    for vm in vms:
        for name in vm.claims:
            claim = ObjectKey(vm.meta.namespace, name)
            if found.setdefault(claim, vm.meta.key) != vm.meta.key:
                disputed.add(claim)
    return {claim: vm for claim, vm in found.items() if claim not in disputed}


def is_at_gate(pod: Pod) -> bool:
    """Say whether a pod waits at our gate: it has no node, and only the leader lets it through."""
    return pod.node is None and keys.PLACEMENT_GATE in pod.gates


def wants(
    pods: Iterable[Pod], resources: frozenset[ResourceName]
) -> Iterator[tuple[Pod, ResourceName, Units]]:
    """Yield each GPU resource a live pod requests, on a node or not yet."""
    for pod in pods:
        if pod.requests and pod.live:
            for resource, units in pod.requests.items():
                if units and resource in resources:
                    yield pod, resource, units


def unseen(
    attached: Iterable[GPUClaim],
    resources: Mapping[ClassName, ResourceName],
    there: Container[tuple[str, str]],
    vmis: Mapping[ObjectKey, VMI],
) -> Iterator[tuple[NodeName, ResourceName, Units, Holder]]:
    """Yield what pods may use whose object is gone and of which nobody knows that they ended.

    A pod that a claim has recorded, or that its VMI lists on a node, asks for all that the claims of its
    start hold: of the VMIs that those are attached to which recorded or list it, and of one that is not known.
    Where they are still held there this adds nothing; where they moved on or were Lost, it
    stands for the guest that may run on. One that is listed is to be recorded by the very next pass,
    which must not give its units away meanwhile. `there` are pods by namespace and uid.
    """
    wanted: dict[Holder, dict[str, dict[ResourceName, int]]] = {}
    open_pods: dict[tuple[Holder, str, NodeName], set[str]] = {}
    ended: set[tuple[Holder, str]] = set()
    for claim in attached:
        if claim.attached_to is None:
            continue
        vm = Holder(claim.meta.namespace, claim.attached_to.vmi)
        start = _start_of(claim, claim.attached_to, vmis.get(vm))
        resource = resources.get(claim.class_name)
        if resource is not None:
            units = wanted.setdefault(vm, {}).setdefault(start, {})
            units[resource] = units.get(resource, 0) + claim.count
        for uid, node in _pods_of(claim, claim.attached_to, vmis.get(vm)):
            if node is None:
                ended.add((vm, uid))
            elif node and (claim.meta.namespace, uid) not in there:
                open_pods.setdefault((vm, uid, node), {_UNKNOWN}).add(start)
    for (vm, uid, node), of in open_pods.items():
        if (vm, uid) not in ended:
            known = of if len(of) > 1 else None  # nobody knows whose pod it is
            for resource, amount in _of_starts(wanted.get(vm, {}), known):
                yield node, resource, Units(amount), vm


def _of_starts(
    wanted: Mapping[str, Mapping[ResourceName, int]], of: Container[str] | None
) -> Iterator[tuple[ResourceName, int]]:
    """Yield what the claims of these starts hold; None is all of them."""
    for start, asked in wanted.items():
        if of is None or start in of:
            yield from asked.items()


def _start_of(claim: GPUClaim, attachment: Attachment, vmi: VMI | None) -> str:
    """Return the uid of the VMI that a claim is attached to, adopted already or not."""
    if attachment.uid:
        return attachment.uid
    return vmi.meta.uid if vmi is not None and is_user(claim, vmi) else _UNKNOWN


def _pods_of(
    claim: GPUClaim, attachment: Attachment, vmi: VMI | None
) -> Iterator[tuple[str, NodeName | None]]:
    """Yield uid and node of each pod a claim has recorded or its VMI lists; None is one that ended."""
    recorded = {pod.uid: None if pod.ended else pod.node for pod in attachment.pods}
    yield from recorded.items()
    if vmi is not None and is_user(claim, vmi):
        for uid, node in vmi.active_pods.items():
            if uid not in recorded:
                yield uid, node


def raw_units(
    wanted: Iterable[tuple[Pod, ResourceName, Units]],
    owned: Mapping[tuple[str, str], Holder],
    covered: Mapping[tuple[Holder, ResourceName], int],
    taken: TakenOver,
) -> dict[tuple[TenantName, ResourceName], int]:
    """Return pod units per namespace that no attached claim accounts for; budgets count them raw.

    A launcher that waits at our gate uses up no budget: it holds nothing before it is let through.
    """
    raw: dict[tuple[TenantName, ResourceName], int] = {}
    for pod, resource, units in wanted:
        if is_at_gate(pod):
            continue
        vm = owned.get((pod.meta.namespace, pod.meta.uid))
        own = next((rest for one, rest in shares(pod, resource, units, vm, taken) if one == vm), 0)
        bare = own if vm is None else own - covered.get((vm, resource), 0)
        if bare > 0:
            place = (TenantName(pod.meta.namespace), resource)
            raw[place] = raw.get(place, 0) + bare
    return raw
