"""Seat: the node for a start, with room for all its claims and for whatever else its pod asks.

Where its claims are held comes first, then the fullest node with room. The pod itself is asked about
last, since a pin cannot be undone and most starts wait for units alone.
"""

import heapq
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet

from gpu.model import coverage, eligibility, gate_reasons, placement, refusals
from gpu.model.draft import Draft
from gpu.model.gate_reasons import GateReason
from gpu.model.misfits import Misfit
from gpu.model.starts import Start
from gpu.objects.claims import GPUClaim
from gpu.units import NodeName, ResourceName, Units

WhyNot = Callable[[NodeName], Misfit | None]
"""What keeps the pod of a start from a node, units of GPUs apart."""


def choose(
    draft: Draft, start: Start, without: AbstractSet[NodeName], why_not: WhyNot
) -> NodeName | tuple[GateReason, ...]:
    """Return the node for a start, or why there is none.

    `without` are nodes that refused its pod a short while ago. Nodes kept for an older Lost set are
    left alone, and so are units reserved for one, unless its claims are held there already.
    """
    unknown = sorted(name for name in start.wants if name not in draft.snapshot.classes)
    if unknown:
        return tuple(map(refusals.NoSuchClass, unknown))
    with draft.savepoint():
        for claim in start.claims:
            if coverage.node_held(claim) is not None:
                draft.lift(claim)
        refused: list[Misfit] = []
        for node in _with_room(draft, start, without):
            why = why_not(node)
            if why is None:
                return node
            refused.append(why)
        if refused:
            return (gate_reasons.PodFitsNowhere(tuple(refused)),)
        return _no_room(draft, start)


def asked(draft: Draft, start: Start) -> dict[ResourceName, int]:
    """Return units of each resource in use by a start on its node: its claims', or its pod's if more."""
    found = placement.by_resource(draft, start.wants)
    for resource, units in start.pod.requests.items():
        if units and resource in draft.snapshot.capacities:
            found[resource] = max(found.get(resource, 0), units)
    return found


def home(start: Start) -> NodeName | None:
    """Return the one node that holds all its claims; None when there is none."""
    nodes = {coverage.node_held(claim) for claim in start.claims}
    return nodes.pop() if len(nodes) == 1 and not start.missing else None


def _with_room(draft: Draft, start: Start, without: AbstractSet[NodeName]) -> Iterator[NodeName]:
    """Yield the nodes with room, the best first.

    The loop is what a pass over thousands of starts comes to: it looks nothing up twice.
    """
    units = asked(draft, start)
    kept = {node for name, node in draft.earmarks.items() if name in units} - {home(start)}
    found: list[tuple[int, int, NodeName]] = []
    held = _by_units(start.claims)
    rooms = [(*draft.ledger.rooms(resource), count) for resource, count in units.items()]
    for node in _eligible(draft, start, units.keys()) - (kept | without):
        left = 0
        for free, reserved, count in rooms:
            spare = free.get(node, 0) - reserved.get(node, 0) - count
            if spare < 0:
                break
            left += spare
        else:
            found.append((-held.get(node, 0), left, node))
    heapq.heapify(found)  # mostly the first of them is taken
    while found:
        yield heapq.heappop(found)[-1]


def _eligible(
    draft: Draft, start: Start, resources: AbstractSet[ResourceName]
) -> AbstractSet[NodeName]:
    """Return nodes that take every class of it; a resource asked for by name has no class to ask."""
    snapshot = draft.snapshot
    found: AbstractSet[NodeName] | None = None
    for name in start.wants:
        nodes = eligibility.nodes(snapshot, name)
        found = nodes if found is None else found & nodes
    for resource in resources & start.raw.keys():
        serving = {name for name in snapshot.capacities[resource] if _takes_pods(draft, name)}
        found = serving if found is None else found & serving
    return found or frozenset()


def _takes_pods(draft: Draft, name: NodeName) -> bool:
    node = draft.snapshot.nodes.get(name)
    return node is not None and node.ready and not node.cordoned and not node.meta.deleting


def _by_units(claims: tuple[GPUClaim, ...]) -> dict[NodeName, int]:
    held: dict[NodeName, int] = {}
    for claim in claims:
        node = coverage.node_held(claim)
        if node is not None:
            held[node] = held.get(node, 0) + claim.count
    return held


def _no_room(draft: Draft, start: Start) -> tuple[GateReason, ...]:
    if start.raw:
        units = sorted(asked(draft, start).items())
        return (gate_reasons.NoRoomForPod(tuple((name, Units(count)) for name, count in units)),)
    return placement.why_not_wants(draft, start.wants, len(start.claims) + len(start.missing))
