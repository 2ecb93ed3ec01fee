"""A snapshot made of the one before it and of the objects that changed: what `build` gives, sooner.

Which objects changed is told by identity: the stores keep an object for as long as its version
stands. Costs in proportion to what changed, but for copies of tables. Where a change is about
everything (which resource serves a class, tenants and their budgets, what KubeVirt permits) or
about most claims, all is built anew.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from gpu import keys
from gpu.model import booking, coverage, eligibility, names, ordered, pod_units, snapshot
from gpu.model.given import Objects
from gpu.model.indexes import Move
from gpu.model.ledger import Ledger
from gpu.model.pod_units import Known, PodUnits
from gpu.model.snapshot import Capacities, Snapshot
from gpu.objects.claims import GPUClaim
from gpu.objects.classes import GPUClass
from gpu.objects.kubevirt import VM, VMI
from gpu.objects.meta import ObjectKey
from gpu.objects.nodes import GPUNode, Node
from gpu.settings import Settings
from gpu.units import ZERO, ClassName, NodeName, QuotaKey, ResourceName, TenantName, Units

K = TypeVar("K", bound=str | ObjectKey)
V = TypeVar("V")

_MOST: Final = 4
"""More than one claim in so many changed: building anew is no dearer."""
_TOTAL: Final = QuotaKey(keys.QUOTA_TOTAL)


def advance(old: Snapshot, given: Objects, settings: Settings) -> Snapshot:
    """Return the snapshot of the objects given; `old` is left as it is and may be of any age."""
    step = _step(old, given)
    if step is None:
        return snapshot.of(given, settings)
    index = old.index.moved(step.moves, _named(old, given))
    if len(index.claims) != len(given.claims):  # two of one key, which no store has
        return snapshot.of(given, settings)
    capacities = _capacities(old, step)
    units = _pod_units(old, given, step, index.marked["attached"])
    made = Snapshot(
        classes=step.classes,
        nodes=step.nodes,
        inventory=step.inventory,
        vmis=step.vmis,
        settings=settings,
        tree=old.tree,
        permitted=old.permitted,
        resources=old.resources,
        capacities=capacities,
        ledger=_ledger(old, step, capacities, units),
        pending=_pending(old, step.moves),
        index=index,
        pod_units=units,
        given=given,
    )
    _carry_eligible(old, made, step)
    made.memo.records = old.memo.records
    made.memo.restless = old.memo.restless
    made.memo.unseen = old.memo.unseen
    made.memo.standing = old.memo.standing
    return made


# What changed.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """A change that is not about everything; a table in which nothing changed is the old one."""

    classes: Mapping[ClassName, GPUClass]
    moves: tuple[Move, ...]
    nodes: Mapping[NodeName, Node]
    inventory: Mapping[NodeName, GPUNode]
    vmis: Mapping[ObjectKey, VMI]
    changed: frozenset[NodeName]
    """Nodes that changed, they or their inventory."""


def _step(old: Snapshot, given: Objects) -> _Step | None:
    """Return what changed; None when it is about everything."""
    before = old.given
    classes = old.classes
    if given.classes is not before.classes:
        classes = {item.name: item for item in sorted(given.classes, key=lambda item: item.name)}
    if not _is_same_frame(old, given, classes):
        return None
    moves = _moves(before.claims, given.claims)
    if len(moves) * _MOST > len(given.claims):
        return None
    nodes, changed = _followed(old.nodes, before.nodes, given.nodes, lambda node: node.name)
    inventory, seen = _followed(
        old.inventory, before.inventory, given.inventory, lambda node: node.name
    )
    vmis, _ = _followed(old.vmis, before.vmis, given.vmis, lambda vmi: vmi.meta.key)
    return _Step(
        classes=classes,
        moves=moves,
        nodes=nodes,
        inventory=inventory,
        vmis=vmis,
        changed=changed | seen,
    )


def _is_same_frame(old: Snapshot, given: Objects, classes: Mapping[ClassName, GPUClass]) -> bool:
    """Say whether everything else can be told by single objects."""
    before = old.given
    if given.kubevirts is not before.kubevirts and (
        names.permitted(given.kubevirts) != old.permitted
        or names.gpus(given.kubevirts) != names.gpus(before.kubevirts)
    ):
        return False
    if _resources(classes) != _resources(old.classes):
        return False
    same_tenants = not any(
        (
            *ordered.changes(before.namespaces, given.namespaces),
            *ordered.changes(before.releases, given.releases),
            *ordered.changes(before.quotas, given.quotas),
        )
    )
    return same_tenants or given.tree() == old.tree


def _resources(classes: Mapping[ClassName, GPUClass]) -> dict[ClassName, ResourceName]:
    return {name: offer.resource for name, offer in classes.items()}


def _moves(old: tuple[GPUClaim, ...], new: tuple[GPUClaim, ...]) -> tuple[Move, ...]:
    gone, come = ordered.changes(old, new)
    before = {claim.meta.key: claim for claim in gone}
    found: list[Move] = [(before.pop(claim.meta.key, None), claim) for claim in come]
    found += [(claim, None) for claim in before.values()]
    return tuple(found)


def _followed(
    table: Mapping[K, V], old: tuple[V, ...], new: tuple[V, ...], key: Callable[[V], K]
) -> tuple[Mapping[K, V], frozenset[K]]:
    """Return the table of all new items, in key order, and the keys of those that changed."""
    gone, come = ordered.changes(old, new)
    if not gone and not come:
        return table, frozenset()
    fresh = {key(item): item for item in come}
    lost = {key(item) for item in gone} - fresh.keys()
    found = {**table, **fresh}
    for name in lost:
        del found[name]
    if not fresh.keys() <= table.keys():
        found = {name: found[name] for name in sorted(found)}
    return found, frozenset((*fresh, *map(key, gone)))


def _named(old: Snapshot, given: Objects) -> Mapping[ObjectKey, ObjectKey]:
    gone, come = ordered.changes(old.given.vms, given.vms)
    if _naming(gone) == _naming(come):
        return old.named
    named = coverage.named(given.vms)
    return old.named if named == old.named else named


def _naming(vms: Iterable[VM]) -> dict[ObjectKey, tuple[str, ...]]:
    return {vm.meta.key: vm.claims for vm in vms if vm.claims}


# What follows from it.


def _capacities(old: Snapshot, step: _Step) -> Capacities:
    """Return what nodes serve; the very same table where nothing changed."""
    serving = {
        name: booking.serves(step.nodes[name], step.inventory.get(name))
        if name in step.nodes
        else {}
        for name in step.changed
    }
    found: dict[ResourceName, Mapping[NodeName, Units]] = dict(old.capacities)
    for resource, before in old.capacities.items():
        fresh = {name: amounts.get(resource, ZERO) for name, amounts in serving.items()}
        if all(before.get(name, ZERO) == units for name, units in fresh.items()):
            continue
        now = {**before, **fresh}
        found[resource] = {name: now[name] for name in sorted(now) if now[name]}
    return found


def _pod_units(
    old: Snapshot, given: Objects, step: _Step, attached: tuple[GPUClaim, ...]
) -> PodUnits:
    gone, come = ordered.changes(old.given.pods, given.pods)
    known = Known(
        classes=step.classes,
        resources=frozenset(old.resources),
        attached=attached,
        vmis=step.vmis,
    )
    if not any(map(_is_reattached, step.moves)) and not _relisted(old, step):
        followed = old.pod_units.moved(gone, come, known)
        if followed is not None:
            return followed
    return pod_units.again(old.pod_units, gone, come, known)


def _is_reattached(move: Move) -> bool:
    """Say whether a claim accounts for the units of other pods than it did."""
    told = [
        None
        if claim is None or claim.attached_to is None
        else (claim.attached_to, claim.class_name, claim.count)
        for claim in move
    ]
    return told[0] != told[1]


def _relisted(old: Snapshot, step: _Step) -> bool:
    """Say whether a VMI lists other pods than it did."""
    if step.vmis is old.vmis:
        return False
    return {key: vmi.active_pods for key, vmi in old.vmis.items() if vmi.active_pods} != {
        key: vmi.active_pods for key, vmi in step.vmis.items() if vmi.active_pods
    }


def _ledger(old: Snapshot, step: _Step, capacities: Capacities, units: PodUnits) -> Ledger:
    book = old.ledger.copy()
    for resource, before in old.capacities.items():
        now = capacities[resource]
        if now is not before:
            for name in step.changed:
                more = now.get(name, ZERO) - before.get(name, ZERO)
                book.serve(name, resource, more)
    for before_claim, claim in step.moves:
        _book(book, step, before_claim, -1)
        _book(book, step, claim, +1)
    _book_pods(book, old.pod_units, units)
    book.tidy()
    return book


def _book(book: Ledger, step: _Step, claim: GPUClaim | None, sign: int) -> None:
    """Add a claim's units to nodes and budgets, or take them back."""
    if claim is None:
        return
    units = sign * claim.count
    node, offer = coverage.node_held(claim), step.classes.get(claim.class_name)
    if node is not None and offer is not None:
        book.hold(node, offer.resource, units, coverage.holder_of(claim))
    if booking.is_settled(claim):
        for key in booking.quota_keys(step.classes, claim.class_name):
            book.charge(claim.tenant, key, units)


def _book_pods(book: Ledger, old: PodUnits, new: PodUnits) -> None:
    for place, more in _differences(old.occupied, new.occupied):
        node, resource, vm = place
        book.occupy(node, resource, more, vm)
    for (tenant, resource), more in _differences(old.raw, new.raw):
        for key in (QuotaKey(resource), _TOTAL):
            book.charge(TenantName(tenant), key, more)


P = TypeVar("P")


def _differences(old: Mapping[P, int], new: Mapping[P, int]) -> list[tuple[P, int]]:
    if old is new:
        return []
    places = {place for place, _ in old.items() ^ new.items()}
    return [(place, new.get(place, 0) - old.get(place, 0)) for place in places]


def _pending(old: Snapshot, moves: tuple[Move, ...]) -> tuple[GPUClaim, ...]:
    gone = [was for was, _ in moves if was is not None and not booking.is_settled(was)]
    come = [now for _, now in moves if now is not None and not booking.is_settled(now)]
    return ordered.resort(old.pending, gone, come, lambda claim: claim.age)


def _carry_eligible(old: Snapshot, made: Snapshot, step: _Step) -> None:
    """Ask again only of nodes that changed, for classes that tolerate what they did."""
    for name, nodes in old.memo.eligible.items():
        before, offer = old.classes.get(name), made.classes.get(name)
        if before is None or offer is None or before.tolerations != offer.tolerations:
            continue
        fresh = {node for node in step.changed if eligibility.why_not(made, offer, node) is None}
        kept = nodes - step.changed
        made.memo.eligible[name] = nodes if kept | fresh == nodes else kept | fresh
