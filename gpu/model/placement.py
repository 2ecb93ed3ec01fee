"""Choose a node for a set: the fullest with room for all of it, deterministic tie-break.

Fullest: fewest units left after placing, summed over the set's distinct resource names, then node
name. A set needs one node that is eligible for every class in it.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from gpu.model import coverage, eligibility, refusals, sets
from gpu.model.draft import Draft
from gpu.model.refusals import Refusal
from gpu.model.rooms import Rooms
from gpu.objects.claims import GPUClaim
from gpu.units import ClassName, NodeName, ResourceName, Units

Wants = Mapping[ClassName, int]
"""Units of each class that one node must have room for."""


def choose(
    draft: Draft,
    wants: Wants,
    without: AbstractSet[NodeName] = frozenset(),
    prefer: Iterable[NodeName] = (),
) -> NodeName | None:
    """Return the node for a set, or None when no node has room for all of it now.

    The first of `prefer` that has room comes before the fullest. Nodes kept for an older Lost set
    are left alone, and so are units reserved for one; `without` are nodes that refused the set's
    pod a short while ago, or that it leaves.
    """
    names = list(wants)
    if any(name not in draft.snapshot.classes for name in names):
        return None
    for node in prefer:
        if node not in without and has_room(draft, wants, node):
            return node
    if len(names) == 1:
        rooms = _rooms(draft, names[0])
        return rooms.fullest(wants[names[0]], _kept(draft, names) | without)
    asked = by_resource(draft, wants)
    best: tuple[int, NodeName] | None = None
    for node in _eligible(draft, names) - _kept(draft, names) - without:
        left = [draft.ledger.room(node, resource) - units for resource, units in asked.items()]
        if min(left) >= 0:
            rank = (sum(left), node)
            best = rank if best is None else min(best, rank)
    return best[1] if best else None


def with_room(
    draft: Draft, wants: Wants, without: AbstractSet[NodeName] = frozenset()
) -> frozenset[NodeName]:
    """Return every node that `choose` may return for a set of classes that are all known."""
    names = list(wants)
    asked = by_resource(draft, wants)
    return frozenset(
        node
        for node in _eligible(draft, names) - _kept(draft, names) - without
        if all(draft.ledger.room(node, resource) >= units for resource, units in asked.items())
    )


def stays(draft: Draft, claims: Iterable[GPUClaim], node: NodeName, *, holding: bool) -> bool:
    """Say whether a node can hold claims whose guest runs there, or may: nothing is overdrawn then.

    The pod's units are in use already and the claims share them. Units beyond the pod's are asked
    for as any others are. `holding`: a live pod is there, so that a cordon does not matter.
    """
    claims = tuple(claims)
    snapshot = draft.snapshot
    names = list(sets.wants(claims))
    for name in names:
        offer = snapshot.classes.get(name)
        if offer is None or eligibility.why_not(snapshot, offer, node, holding=holding) is not None:
            return False
    book = draft.ledger
    before = {resource: book.free(node, resource) for resource in _resources(draft, names)}
    is_kept = node in _kept(draft, names)
    with draft.savepoint():
        for claim in claims:
            if coverage.node_held(claim) != node:
                draft.bind(claim, node)
        return all(
            book.free(node, resource) >= 0
            and (
                book.free(node, resource) == free
                or (book.room(node, resource) >= 0 and not is_kept)
            )
            for resource, free in before.items()
        )


def largest(draft: Draft, name: ClassName) -> Units:
    """Return the most units of a class that one node has room for now."""
    return Units(_rooms(draft, name).largest(_kept(draft, [name])))


def free(draft: Draft, name: ClassName) -> Units:
    """Return units of a class free to order: on eligible nodes, neither reserved nor kept."""
    return Units(_rooms(draft, name).free(_kept(draft, [name])))


def why_not(draft: Draft, name: ClassName, wanted: Units) -> Refusal:
    """Return why no node takes so many units of a class; asked once none was found."""
    offer = draft.snapshot.classes.get(name)
    if offer is None:
        return refusals.NoSuchClass(name)
    if not draft.snapshot.capacities.get(offer.resource):
        return refusals.NoNodeServes(name, offer.resource)
    if not eligibility.nodes(draft.snapshot, name):
        return refusals.NoNodeEligible(name)
    found = free(draft, name)
    if found < wanted:
        return refusals.NoFreeUnits(name, wanted, found)
    return refusals.NoNodeAccepts(name, wanted, found, largest(draft, name))


def why_not_set(draft: Draft, claims: Iterable[GPUClaim]) -> tuple[Refusal, ...]:
    """Return why no node takes all these claims at once; asked once none was found."""
    claims = tuple(claims)
    return why_not_wants(draft, sets.wants(claims), len(claims))


def why_not_wants(draft: Draft, asked: Wants, claims: int) -> tuple[Refusal, ...]:
    """Return why no node takes so many units of each class, of `claims` claims, at once."""
    if claims == 1:
        ((only, count),) = asked.items()
        return (why_not(draft, only, Units(count)),)
    never = tuple(
        refusal
        for refusal in (why_not(draft, name, Units(units)) for name, units in sorted(asked.items()))
        if not isinstance(refusal, refusals.NoFreeUnits | refusals.NoNodeAccepts)
    )
    units = tuple((name, Units(asked[name])) for name in sorted(asked))
    return never or (refusals.NoNodeForSet(claims, units),)


def keep_nearest(draft: Draft, wants: Wants) -> None:
    """Keep the node nearest to having room for a set, for those of its resources none is kept yet.

    Of those large enough for it at all: nothing younger is placed there.
    """
    asked = by_resource(draft, wants)
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


def by_resource(draft: Draft, wants: Wants) -> dict[ResourceName, int]:
    """Return the same units by resource name; every class is known."""
    asked: dict[ResourceName, int] = {}
    for name, units in wants.items():
        resource = draft.snapshot.classes[name].resource
        asked[resource] = asked.get(resource, 0) + units
    return asked


def has_room(draft: Draft, wants: Wants, node: NodeName) -> bool:
    """Say whether a node takes a set of classes that are all known, and has room for all of it."""
    names = list(wants)
    return (
        node in _eligible(draft, names)
        and node not in _kept(draft, names)
        and all(
            draft.ledger.room(node, resource) >= units
            for resource, units in by_resource(draft, wants).items()
        )
    )


def _eligible(draft: Draft, names: list[ClassName]) -> frozenset[NodeName]:
    first, *rest = (eligibility.nodes(draft.snapshot, name) for name in names)
    return first.intersection(*rest)


def _kept(draft: Draft, names: list[ClassName]) -> frozenset[NodeName]:
    if not draft.earmarks:
        return frozenset()
    resources = _resources(draft, names)
    return frozenset(node for name, node in draft.earmarks.items() if name in resources)


def _resources(draft: Draft, names: Iterable[ClassName]) -> frozenset[ResourceName]:
    return frozenset(draft.snapshot.classes[name].resource for name in names)


def _rooms(draft: Draft, name: ClassName) -> Rooms:
    found = draft.indexes.get(name)
    if not isinstance(found, Rooms):
        offer = draft.snapshot.classes[name]
        found = Rooms(draft.ledger, offer.resource, eligibility.nodes(draft.snapshot, name))
        draft.indexes[name] = found
    return found
