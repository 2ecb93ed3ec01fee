"""Choose a node for a set: the fullest with room for all of it, deterministic tie-break.

Fullest: fewest units left after placing, summed over the set's distinct resource names, then node
name. A set needs one node that is eligible for every class in it.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from gpu.model import eligibility
from gpu.model.rooms import Rooms
from gpu.model.sets import group
from gpu.model.snapshot import Draft
from gpu.objects.claims import Phase
from gpu.units import ClassName, NodeName, ResourceName, Units

Wants = Mapping[ClassName, int]
"""Units of each class that one node must have room for."""


def choose(
    draft: Draft, wants: Wants, without: AbstractSet[NodeName] = frozenset()
) -> NodeName | None:
    """Return the node for a set, or None when no node has room for all of it now.

    Nodes kept for an older Lost set are left alone, and so are units reserved for one; `without`
    are nodes that refused the set's pod a short while ago, or that it leaves.
    """
    names = list(wants)
    if any(name not in draft.snapshot.classes for name in names):
        return None
    if len(names) == 1:
        rooms = _rooms(draft, names[0])
        return rooms.fullest(wants[names[0]], _kept(draft, names) | without)
    asked = _by_resource(draft, wants)
    best: tuple[int, NodeName] | None = None
    for node in _eligible(draft, names) - _kept(draft, names) - without:
        left = [draft.ledger.room(node, resource) - units for resource, units in asked.items()]
        if min(left) >= 0:
            rank = (sum(left), node)
            best = rank if best is None else min(best, rank)
    return best[1] if best else None


def largest(draft: Draft, name: ClassName) -> Units:
    """Return the most units of a class that one node has room for now."""
    return Units(_rooms(draft, name).largest(_kept(draft, [name])))


def free(draft: Draft, name: ClassName) -> Units:
    """Return units of a class free to order: on eligible nodes, neither reserved nor kept."""
    return Units(_rooms(draft, name).free(_kept(draft, [name])))


def serve_lost(draft: Draft) -> None:
    """Put Lost sets ahead of new orders: reserve what each could take now, oldest first; once.

    The oldest that fits nowhere keeps the one node nearest to having room for it, of those large
    enough for it at all: nothing younger is placed there.
    """
    if draft.lost_served:
        return
    draft.lost_served = True
    draft.ledger.on_undo(lambda: setattr(draft, "lost_served", False))
    lost = (item for item in draft.claims() if item.phase is Phase.LOST and not item.meta.deleting)
    for item in group(lost, draft.snapshot.named):
        if any(name not in draft.snapshot.classes for name in item.wants):
            continue
        node = choose(draft, item.wants)
        if node is None:
            _keep(draft, item.wants)
            continue
        for resource, units in _by_resource(draft, item.wants).items():
            draft.ledger.reserve(node, resource, units)


def _keep(draft: Draft, wants: Wants) -> None:
    """Keep the nearest node for a set, for those of its resources none is kept for yet."""
    asked = _by_resource(draft, wants)
    capacities = draft.snapshot.capacities
    shortage = [
        (
            sum(max(0, n - draft.ledger.room(node, resource)) for resource, n in asked.items()),
            node,
        )
        for node in _eligible(draft, list(wants)) - _kept(draft, list(wants))
        if all(capacities[resource][node] >= units for resource, units in asked.items())
    ]
    if not shortage:
        return
    before = dict(draft.earmarks)
    for resource in asked:
        draft.earmarks.setdefault(resource, min(shortage)[1])
    draft.ledger.on_undo(lambda: setattr(draft, "earmarks", before))


def _eligible(draft: Draft, names: list[ClassName]) -> frozenset[NodeName]:
    first, *rest = (eligibility.nodes(draft.snapshot, name) for name in names)
    return first.intersection(*rest)


def _kept(draft: Draft, names: list[ClassName]) -> frozenset[NodeName]:
    if not draft.earmarks:
        return frozenset()
    resources = {draft.snapshot.classes[name].resource for name in names}
    return frozenset(node for name, node in draft.earmarks.items() if name in resources)


def _by_resource(draft: Draft, wants: Wants) -> dict[ResourceName, int]:
    asked: dict[ResourceName, int] = {}
    for name, units in wants.items():
        resource = draft.snapshot.classes[name].resource
        asked[resource] = asked.get(resource, 0) + units
    return asked


def _rooms(draft: Draft, name: ClassName) -> Rooms:
    found = draft.indexes.get(name)
    if not isinstance(found, Rooms):
        offer = draft.snapshot.classes[name]
        found = Rooms(draft.ledger, offer.resource, eligibility.nodes(draft.snapshot, name))
        draft.indexes[name] = found
    return found
