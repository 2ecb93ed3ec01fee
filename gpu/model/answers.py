"""Answers to bind requests: the node for all claims of a start at once, or every reason why there is none.

Where its claims are held and can be used comes first, then the fullest node with room for all. Two cases
stay on a node that is cordoned and wait there for that to be over: a set with a class that keeps its node
through a cordon, and one for which no other node has room.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from gpu.model import (
    cases,
    coverage,
    eligibility,
    gate_reasons,
    guests,
    misfits,
    placement,
    refusals,
    sets,
    template_units,
)
from gpu.model.bind_requests import Asked
from gpu.model.draft import Age, Draft
from gpu.model.eligibility import Ineligible
from gpu.model.foreseen import Launchers
from gpu.model.gate_reasons import GateReason
from gpu.model.misfits import Misfit
from gpu.model.reach import Reach
from gpu.model.sets import ClaimSet
from gpu.objects.claims import Cause, GPUClaim, Phase
from gpu.objects.classes import OnCordon
from gpu.objects.meta import ObjectKey
from gpu.units import ClaimName, ClassName, NodeName, TenantName, Units

MOST_TOLD: Final = 50
"""Claims that a message names; more are counted."""
_FEW: Final = 4
"""Nodes that are asked about one by one, the best first; then all at once, which costs as much for each."""
_CAUSES: Final = {
    Ineligible.GONE: Cause.NODE_GONE,
    Ineligible.NOT_READY: Cause.NODE_NOT_READY,
    Ineligible.CORDONED: Cause.NODE_CORDONED,
    Ineligible.TAINTED: Cause.NODE_TAINTED,
    Ineligible.NOT_SERVED: Cause.UNITS_MISSING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A request, and the set that its claims are of."""

    asked: Asked
    along: tuple[GPUClaim, ...]
    """Claims that are not of this start, but go where its VM's set goes: its VM names them."""
    barred: tuple[GateReason, ...]
    """Why it is refused whatever is free."""
    found: ClaimSet
    """All of these, and whatever else is attached to the VM."""

    @property
    def claims(self) -> tuple[GPUClaim, ...]:
        """Claims that are placed together."""
        return (*self.asked.claims, *self.along)

    @property
    def age(self) -> Age:
        """What its turn goes by: an order that it brings keeps its own."""
        request = self.asked.request
        orders = (claim.age for claim in self.asked.claims if claim.phase is Phase.PENDING)
        return min(orders, default=(request.requested_at, request.id))

    @property
    def has_lost(self) -> bool:
        """Say whether something of it was held and is Lost."""
        return any(claim.phase is Phase.LOST for claim in self.claims)

    @property
    def home(self) -> NodeName | None:
        """The one node that holds all of it; None when there is none."""
        nodes = {coverage.node_held(claim) for claim in self.claims}
        return nodes.pop() if len(nodes) == 1 else None


@dataclass(frozen=True, slots=True)
class Granted:
    """All claims can be held on this node."""

    node: NodeName
    is_cordoned: bool = False
    """They are held there already, and the VM waits there until the cordon is lifted."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Every reason why the start is refused; never empty."""

    reasons: tuple[GateReason, ...]


def cases_of(draft: Draft, found: Iterable[Asked]) -> tuple[Case, ...]:
    """Return requests as they are judged, in turn: those begun, those with something Lost, the oldest."""
    asked = tuple(found)
    if not asked:
        return ()
    by_vm: dict[ObjectKey, ClaimSet] = {item.vm: item for item in draft.sets if item.vm}
    made = (_case(one, by_vm[one.vm]) for one in asked)
    return tuple(sorted(made, key=lambda it: (not it.asked.is_begun, not it.has_lost, it.age)))


def decide(
    launchers: Launchers, case: Case, where: Reach, without: AbstractSet[NodeName]
) -> Granted | Refused:
    """Return the node for a request, or why it is refused; changes nothing.

    Draft and facts of `launchers` count what comes before it. `without` are nodes that refused its pod a
    short while ago.
    """
    draft = launchers.draft
    barred = [*case.barred, *_unknown(draft, case)]
    if where.is_tied:
        barred += _in_use(draft, case)
    if barred:
        return Refused(tuple(dict.fromkeys(barred)))
    refused = _refused(draft, case)
    seat = _seat(launchers, case, without)
    if isinstance(seat, Granted) and not refused:
        return seat
    room = () if isinstance(seat, Granted) else seat
    return Refused(tuple(dict.fromkeys((*refused, *room))))


def cause_of(draft: Draft, claim: GPUClaim) -> Cause:
    """Return why a claim leaves the node it is held on: the node's fault, else that of its set."""
    node, offer = coverage.node_held(claim), draft.snapshot.classes.get(claim.class_name)
    if node is None or offer is None:
        return Cause.SET_TORN
    why = eligibility.why_not(draft.snapshot, offer, node)
    if why is not None:
        return _CAUSES[why]
    return Cause.UNITS_MISSING if draft.ledger.free(node, offer.resource) < 0 else Cause.SET_TORN


def granted(case: Case, seat: Granted) -> str:
    """Say what a start was granted, to its tenant."""
    if seat.is_cordoned:
        return (
            f"held on node {seat.node}, which is cordoned: the VM starts there once the cordon is "
            "lifted"
        )
    units = sum(claim.count for claim in case.asked.claims)
    return f"{refusals.plural(units)} held on node {seat.node}"


def refused(case: Case, found: Refused) -> str:
    """Say to its tenant why a start is refused, and where each of its claims is; those are his own."""
    told = [_stand(claim) for claim in case.asked.claims[:MOST_TOLD]]
    more = len(case.asked.claims) - MOST_TOLD
    if more > 0:
        told.append(f"and {more} more")
    why = "; ".join(map(_words, found.reasons))
    return f"{why}; nothing was changed: {', '.join(told)}"


def _words(reason: GateReason) -> str:
    """Say a reason; of amounts that nodes lack also how much was asked for: the tenant sees no launcher."""
    said = gate_reasons.words(reason)
    asked = misfits.asked(reason.why) if isinstance(reason, gate_reasons.PodFitsNowhere) else ""
    return f"{said}; with KubeVirt's own part it asks for {asked}" if asked else said


def _stand(claim: GPUClaim) -> str:
    name = f"claim {claim.meta.name} ({refusals.plural(claim.count)} of {claim.class_name})"
    match claim.phase:
        case Phase.BOUND:
            return f"{name} on node {claim.node}"
        case Phase.LOST:
            return f"{name} Lost, last on node {claim.node}"
        case Phase.PENDING:
            return f"{name} on no node"


def _case(asked: Asked, found: ClaimSet) -> Case:
    own = {claim.key for claim in asked.claims}
    others = [claim for claim in found.claims if claim.key not in own and not claim.meta.deleting]
    barred: list[GateReason] = [
        gate_reasons.ClaimDeleting(ClaimName(claim.meta.name))
        for claim in asked.claims
        if claim.meta.deleting
    ]
    barred += (  # an earlier guest of the VM has not let go of them
        gate_reasons.ClaimInUse(ClaimName(claim.meta.name)) for claim in others if claim.attached_to
    )
    return Case(
        asked=asked,
        along=tuple(
            claim
            for claim in others
            if claim.attached_to is None and claim.phase is not Phase.PENDING
        ),
        barred=tuple(barred),
        found=found,
    )


def _in_use(draft: Draft, case: Case) -> Iterator[GateReason]:
    """Yield the claims that a pod of an earlier run may use; all of them where none is noted on any."""
    noted = [
        claim
        for claim in case.claims
        if claim.attached_to
        and any(
            not pod.ended and guests.is_open(draft.snapshot, claim.meta.namespace, pod.uid)
            for pod in claim.attached_to.pods
        )
    ]
    for claim in noted or case.claims:
        yield gate_reasons.ClaimInUse(ClaimName(claim.meta.name))


def _unknown(draft: Draft, case: Case) -> Iterator[GateReason]:
    for name in sorted({claim.class_name for claim in case.claims}):
        if name not in draft.snapshot.classes:
            yield refusals.NoSuchClass(name)


# May it have them.


def _refused(draft: Draft, case: Case) -> tuple[GateReason, ...]:
    """Return what bars the units that it would hold anew: those it holds are no order."""
    new = [claim for claim in case.asked.claims if claim.phase is Phase.PENDING]
    if not new:
        return ()
    tenant = TenantName(case.asked.vm.namespace)
    wanted: Counter[ClassName] = Counter()
    for claim in new:
        wanted[claim.class_name] += claim.count
    units = {name: Units(count) for name, count in wanted.items()}
    return (
        *cases.no_tenant(tenant),
        *_too_many(draft, new),
        *template_units.refused(draft, tenant, units),
    )


def _too_many(draft: Draft, new: Iterable[GPUClaim]) -> Iterator[GateReason]:
    for claim in new:
        most = cases.max_count(draft.snapshot.classes[claim.class_name])
        if most is not None and claim.count > most:
            yield refusals.OverMaxCount(claim.class_name, claim.count, most)


# Where.


def _seat(
    launchers: Launchers, case: Case, without: AbstractSet[NodeName]
) -> Granted | tuple[GateReason, ...]:
    draft, home, claims = launchers.draft, case.home, case.claims
    if home is not None and _keeps_through_cordon(draft, claims, home):
        misfit = launchers.why_not(case.asked, home, waits=True)
        return Granted(home, is_cordoned=True) if misfit is None else _nowhere([misfit])
    is_usable = home is not None and home not in without
    if (
        home is not None
        and is_usable
        and placement.stays(draft, claims, home, holding=False)
        and launchers.why_not(case.asked, home) is None
    ):
        return Granted(home)
    found = _elsewhere(launchers, case, without)
    if not isinstance(found, tuple):
        return Granted(found)
    if (
        home is not None
        and is_usable
        and placement.stays(draft, claims, home, holding=True)
        and draft.snapshot.nodes[home].cordoned
        and launchers.why_not(case.asked, home, waits=True) is None
    ):
        return Granted(home, is_cordoned=True)
    skipped = len(without & draft.snapshot.nodes.keys())
    return (*found, *((gate_reasons.NodesRefused(skipped),) if skipped else ()))


def _elsewhere(
    launchers: Launchers, case: Case, without: AbstractSet[NodeName]
) -> NodeName | tuple[GateReason, ...]:
    """Return the best node that has room for the whole set and takes its launcher, or why there is none."""
    draft, claims = launchers.draft, case.claims
    wants, prefer = sets.wants(claims), _by_units(claims)
    refused: dict[NodeName, Misfit] = {}
    with draft.savepoint():
        for claim in claims:
            if coverage.node_held(claim) is not None:
                draft.lift(claim)
        for _ in range(_FEW):
            node = placement.choose(draft, wants, without | refused.keys(), prefer)
            if node is None:
                break
            misfit = launchers.why_not(case.asked, node)
            if misfit is None:
                return node
            refused[node] = misfit
        else:
            rest = placement.with_room(draft, wants, without | refused.keys())
            refused |= launchers.refused(case.asked, rest)
            node = placement.choose(draft, wants, without | refused.keys(), prefer)
            if node is not None:
                return node
        if refused:
            return _nowhere(refused.values())
        return placement.why_not_wants(draft, wants, len(claims))


def _nowhere(why: Iterable[Misfit]) -> tuple[GateReason, ...]:
    return (gate_reasons.PodFitsNowhere(tuple(why)),)


def _keeps_through_cordon(draft: Draft, claims: Iterable[GPUClaim], home: NodeName) -> bool:
    """Say whether a set stays on its cordoned node whatever else is free: a class of it does.

    Not where the node is gone, serves a class of it no more, or fewer units than are in use there.
    """
    snapshot = draft.snapshot
    offers = [snapshot.classes[claim.class_name] for claim in claims]
    node = snapshot.nodes.get(home)
    if node is None or node.meta.deleting or not node.cordoned:
        return False
    return any(offer.on_cordon is OnCordon.STAY for offer in offers) and all(
        home in snapshot.capacities.get(offer.resource, {})
        and draft.ledger.free(home, offer.resource) >= 0
        for offer in offers
    )


def _by_units(claims: Iterable[GPUClaim]) -> list[NodeName]:
    """Return the nodes that hold some of a set, the one with most units first."""
    held: Counter[NodeName] = Counter()
    for claim in claims:
        node = coverage.node_held(claim)
        if node is not None:
            held[node] += claim.count
    return sorted(held, key=lambda node: (-held[node], node))
