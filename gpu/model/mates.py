"""Mates: the claims of the VM that names an order. It is bound where they are, or they go with it.

An order that a VM names joins that VM's set the moment it is bound, and no set is ever split: it
goes to the node of the others when that has room, else all of them together to a node that has, if
none of them is in use: a launcher at the gate uses nothing. Where neither can be, it waits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gpu.model import bind_requests, coverage, placement, rejections, sets
from gpu.model.draft import Draft
from gpu.model.ledger import Holder
from gpu.model.sets import ClaimSet
from gpu.objects.claims import GPUClaim
from gpu.objects.meta import ObjectKey
from gpu.units import ClassName, NodeName, Units


@dataclass(frozen=True, slots=True)
class Spot:
    """Where an order goes, and the mates that go with it."""

    node: NodeName
    gathered: tuple[GPUClaim, ...] = ()


def set_of(draft: Draft, claim: GPUClaim) -> ClaimSet | None:
    """Return the set that an order joins once it is bound; None when it has no other claim.

    Who is in it is read once for a draft: when orders are bound, attachments do not change any more.
    """
    vm = sets.vm_of(claim, draft.snapshot.named)
    return None if vm is None else _shared(draft).get(vm)


def of(draft: Draft, claim: GPUClaim) -> tuple[GPUClaim, ...]:
    """Return the other claims of its VM that are Bound or Lost now, oldest first."""
    found = set_of(draft, claim)
    if found is None:
        return ()
    now = tuple(filter(None, (draft.claim(one.key) for one in found.claims)))
    return tuple(one for one in ClaimSet(claims=now).kept if one.key != claim.key)


def spot(draft: Draft, mates: Sequence[GPUClaim], asked: placement.Wants) -> Spot | None:
    """Return where an order with such mates goes, or None when it has to wait."""
    homes = {coverage.node_held(one) for one in mates}
    home = homes.pop() if len(homes) == 1 else None
    if home is None:
        return None  # some are Lost, or the set is torn: that is put right first
    if placement.has_room(draft, asked, home):
        return Spot(home)
    if not all(_is_idle(draft, one) for one in mates):
        return None
    with draft.savepoint():
        for one in mates:
            draft.lift(one)
        refused = rejections.skipped(mates, draft.snapshot.nodes, None)
        node = placement.choose(draft, together(mates, asked), refused | {home})
    return Spot(node, tuple(mates)) if node is not None else None


def together(mates: Sequence[GPUClaim], asked: placement.Wants) -> dict[ClassName, Units]:
    """Return the units of each class that one node must have for all of them."""
    found = sets.wants(mates)
    for name, units in asked.items():
        found[name] = found.get(name, 0) + units
    return {name: Units(units) for name, units in found.items()}


def _is_idle(draft: Draft, mate: GPUClaim) -> bool:
    """Say whether no pod can use a claim: its VM is off, or waits at the gate and never ran."""
    attachment = mate.attached_to
    if attachment is None:
        return True
    if bind_requests.is_promised(mate):
        return False
    vmi = draft.snapshot.vmis.get(ObjectKey(mate.meta.namespace, attachment.vmi))
    if vmi is None or vmi.meta.uid != attachment.uid or vmi.started or vmi.ended:
        return False
    noted = [pod for pod in attachment.pods if not pod.ended]
    if any(pod.node for pod in noted):
        return False  # it is on its way there: the leader notes the node before it lets one through
    recorded = {pod.uid for pod in noted} | vmi.active_pods.keys()
    pods = (draft.snapshot.pods.get((mate.meta.namespace, uid)) for uid in recorded)
    return all(pod is not None and (coverage.is_at_gate(pod) or not pod.live) for pod in pods)


def _shared(draft: Draft) -> dict[Holder, ClaimSet]:
    if draft.shared is None:
        draft.shared = {item.vm: item for item in draft.sets if item.vm and len(item.claims) > 1}
    return draft.shared
