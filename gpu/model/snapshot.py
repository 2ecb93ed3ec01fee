"""Snapshot: everything one decision may look at, frozen; Snapshot.draft() opens a working copy.

A Draft is what a pass plans in: claims bound so far, and the units that go with them. What was
undone is exactly as before, nodes, budgets and claims alike.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

from gpu.model import booking, coverage, indexes, ledger, names, pod_units
from gpu.model.given import Objects
from gpu.model.indexes import Index, Indexed
from gpu.model.ledger import Holder, Ledger
from gpu.model.pod_units import Known, PodId, PodUnits
from gpu.model.records import Records
from gpu.model.refusals import Refusal
from gpu.model.restless import Restless
from gpu.model.sets import ClaimSet
from gpu.model.standing_pods import StandingPods
from gpu.model.tenancy import Tree
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.classes import GPUClass
from gpu.objects.kubevirt import VM, VMI, KubeVirt
from gpu.objects.meta import ObjectKey
from gpu.objects.nodes import GPUNode, Node
from gpu.objects.pods import Pod
from gpu.objects.tenants import Namespace, TenantQuota, TenantRelease
from gpu.settings import Settings
from gpu.units import ClassName, NodeName, QuotaKey, ResourceName, Units

Age = tuple[datetime, str]
"""Creation time and uid: how orders are told older from younger."""
Capacities = Mapping[ResourceName, Mapping[NodeName, Units]]


@dataclass(slots=True, eq=False)
class Memo:
    """What later questions to one snapshot need again; each entry is computed once, then read."""

    eligible: dict[ClassName, frozenset[NodeName]] = field(default_factory=dict)
    counted: Ledger | None = None
    queued: "Draft | None" = None
    refused: dict[ObjectKey, tuple[Refusal, ...]] = field(default_factory=dict)
    """Of `queued`: why each order that waits on was refused when it had its turn."""
    ordered: Mapping[str, Mapping[ClassName, int]] | None = None
    """For `pools`: units of claims by namespace and class."""
    waiters: object = None
    """For `waiters`: everything that waits, and how its place is told."""
    records: Records = field(default_factory=Records)
    restless: Restless = field(default_factory=Restless)
    unseen: Restless = field(default_factory=Restless)
    standing: StandingPods = field(default_factory=StandingPods)
    """These four are handed on from pass to pass: for `usage`, `attachments`, `sightings`, and for `gates`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot(Indexed):
    """One instant of the cluster, indexed. Build it with `build`; nothing in it may be changed."""

    classes: Mapping[ClassName, GPUClass]
    nodes: Mapping[NodeName, Node]
    inventory: Mapping[NodeName, GPUNode]
    vmis: Mapping[ObjectKey, VMI]
    settings: Settings
    tree: Tree
    permitted: frozenset[ResourceName] | None
    """What KubeVirt lets a VM have; None is anything."""
    resources: tuple[ResourceName, ...]
    """Effective GPU resource names, sorted."""
    capacities: Capacities
    """Units each node has of each resource in use by a class: min(allocatable, inventory if known)."""
    ledger: Ledger
    """Units in use on nodes and of budgets; of Pending claims only deleting ones are in it."""
    pending: tuple[GPUClaim, ...]
    """Pending claims that are not being deleted, oldest first, whatever they are for."""
    index: Index
    """Its claims by what phases ask for."""
    pod_units: PodUnits
    given: "Objects" = field(repr=False)
    """What it was made of; the next one is made of it and of what changed."""
    memo: Memo = field(default_factory=Memo, repr=False)

    @property
    def claims(self) -> Mapping[ObjectKey, GPUClaim]:
        """By key, in key order."""
        return self.index.claims

    @property
    def named(self) -> Mapping[ObjectKey, ObjectKey]:
        """Claim to the one VM whose template names it; one that several name is not in it."""
        return self.index.named

    @property
    def pods(self) -> Mapping[PodId, Pod]:
        """By namespace and uid: those that VMIs list as theirs or attachments have recorded."""
        return self.pod_units.known

    def indexed(self) -> Index:
        """Return the index of its claims."""
        return self.index

    def claim(self, key: ObjectKey) -> GPUClaim | None:
        """Return a claim, if it exists."""
        return self.claims.get(key)

    def draft(self) -> "Draft":
        """Open a working copy; several of one snapshot do not see each other."""
        return Draft(snapshot=self, ledger=self.ledger.copy(), _index=self.index)

    def counted(self) -> Ledger:
        """Return the ledger with every Pending claim counted in the budgets; do not change it."""
        if self.memo.counted is None:
            counted = self.ledger.copy()
            booking.charge(counted, self.pending, self.classes, +1)
            self.memo.counted = counted
        return self.memo.counted

    def quota_keys(self, name: ClassName) -> tuple[QuotaKey, ...]:
        """Return the keys a unit of a class counts under at once."""
        return booking.quota_keys(self.classes, name)


@dataclass(slots=True)
class Savepoint:
    """What `Draft.savepoint` gives: keep what is done under it, or it is undone at the end."""

    kept: bool = False

    def keep(self) -> None:
        """Let what was done stand."""
        self.kept = True


@dataclass(slots=True, kw_only=True, eq=False)
class Draft(Indexed):
    """A working copy of one Snapshot. It belongs to one pass, in one thread at a time."""

    snapshot: Snapshot
    ledger: Ledger
    earmarks: dict[ResourceName, NodeName] = field(default_factory=dict)
    """Nodes kept for the oldest Lost set of a resource, which fits nowhere yet."""
    lost_served: bool = False
    """Units of Lost sets have been reserved."""
    waiting_sets: set[str] = field(default_factory=set)
    """Lost sets, by id, that units are reserved for, or a node is kept."""
    shared: dict[ObjectKey, ClaimSet] | None = field(default=None, repr=False)
    """For `mates`: sets of more than one claim, by VM, once somebody asked for them."""
    changed: dict[ObjectKey, GPUClaim] = field(default_factory=dict)
    indexes: dict[ClassName, object] = field(default_factory=dict, repr=False)
    """For `placement`: what it knows of rooms, kept up to date from ledger.touched."""
    cases: dict[tuple[str, ClassName, int], object] = field(default_factory=dict, repr=False)
    """For `cases`: what it found out about orders of one tenant, class and count."""
    _index: Index
    _moved: dict[ObjectKey, None] = field(default_factory=dict)
    """Claims put since `_index` was made."""
    _counted: set[ObjectKey] = field(default_factory=set)
    """Pending claims of the snapshot that are in the budgets now."""
    _horizon: int = 0
    """Pending claims before this index are counted in the budgets."""

    def indexed(self) -> Index:
        """Return the index of the claims as the draft has them.

        The first question after a claim was put costs a copy: ask once, not in a loop that puts.
        """
        if self._moved:
            held, shown = self._index.claims, self.changed
            self._index = self._index.moved(
                (held.get(key), shown.get(key))
                for key in self._moved
                if held.get(key) is not shown.get(key)
            )
            self._moved.clear()
        return self._index

    def claim(self, key: ObjectKey) -> GPUClaim | None:
        """Return a claim as the draft has it, if it exists."""
        return self.changed.get(key) or self.snapshot.claims.get(key)

    def claims(self) -> Iterator[GPUClaim]:
        """Yield every claim as the draft has it: those of the snapshot in key order, then added ones."""
        stored = self.snapshot.claims
        for key, claim in stored.items():
            yield self.changed.get(key, claim)
        yield from (claim for key, claim in self.changed.items() if key not in stored)

    def add(self, claim: GPUClaim) -> None:
        """Have the draft show a Pending claim that is still to be created."""
        self._show(claim.key, claim)
        self.ledger.more = True
        self.ledger.on_undo(lambda: self._hide(claim.key))

    def drop(self, claim: GPUClaim) -> None:
        """Take back an added claim that was not created; it holds nothing by then."""
        self._discount((claim,))
        self._hide(claim.key)

    def seat(self, pod: Pod, node: NodeName, holder: Holder, sign: int = +1) -> None:
        """Have a pod of a VM use what it requests on a node (-1: no more)."""
        for resource, units in pod.requests.items():
            if units and resource in self.snapshot.capacities:
                self.ledger.occupy(node, resource, sign * units, holder)

    def bind(self, claim: GPUClaim, node: NodeName) -> GPUClaim:
        """Have the claim hold its units on a node; returns it as Bound. Checks nothing."""
        bound = replace(self._now(claim), phase=Phase.BOUND, node=node)
        self.put(bound)
        return bound

    def lift(self, claim: GPUClaim) -> GPUClaim:
        """Have the claim hold no units and count for budgets still; returns it as Lost."""
        lifted = replace(self._now(claim), phase=Phase.LOST)
        self.put(lifted)
        return lifted

    def unbind(self, claim: GPUClaim) -> None:
        """Put a claim back as the snapshot has it: its write was refused for good.

        What was decided meanwhile on the strength of it stands.
        """
        if claim.key in self.changed:
            self.put(self.snapshot.claims[claim.key])

    def count_older(self, than: Age | None) -> None:
        """Have the budgets count Pending claims older than an age, and no others; None is all."""
        pending = self.snapshot.pending
        old = new = self._horizon
        while new < len(pending) and (than is None or pending[new].age < than):
            new += 1
        while new and than is not None and pending[new - 1].age >= than:
            new -= 1
        if new == old:
            return
        self._horizon = new
        if new > old:
            self._count(pending[old:new])
        else:
            self._discount(pending[new:old])
        self.ledger.on_undo(lambda: setattr(self, "_horizon", old))

    @contextmanager
    def savepoint(self) -> Iterator[Savepoint]:
        """Undo everything done under it at the end, unless `keep` was called; also on an error."""
        mark = self.ledger.mark()
        point = Savepoint()
        try:
            yield point
        except BaseException:
            self.ledger.close(mark, keep=False)
            raise
        self.ledger.close(mark, keep=point.kept)

    def _now(self, claim: GPUClaim) -> GPUClaim:
        return self.changed.get(claim.key) or self.snapshot.claims[claim.key]

    def put(self, claim: GPUClaim) -> None:
        """Have the draft show a claim as given: its units move with it. Checks nothing."""
        old = self._now(claim)
        self._hold(old, -1)
        self._hold(claim, +1)
        key = claim.key
        self._show(key, claim)
        self.ledger.on_undo(lambda: self._show(key, old))
        if not booking.is_settled(claim) and not self._is_older(claim):
            self._discount((claim,))
        else:
            self._count((claim,))

    def _show(self, key: ObjectKey, claim: GPUClaim) -> None:
        self.changed[key] = claim
        self._moved[key] = None

    def _hide(self, key: ObjectKey) -> None:
        self.changed.pop(key, None)
        self._moved[key] = None

    def _hold(self, claim: GPUClaim, sign: int) -> None:
        node = coverage.node_held(claim)
        found = self.snapshot.classes.get(claim.class_name)
        if node is not None and found is not None:
            self.ledger.hold(node, found.resource, sign * claim.count, coverage.holder_of(claim))

    def _is_older(self, claim: GPUClaim) -> bool:
        """Say whether a Pending claim lies before the horizon."""
        pending = self.snapshot.pending
        return self._horizon > 0 and claim.age <= pending[self._horizon - 1].age

    def _count(self, claims: Collection[GPUClaim]) -> None:
        """Count claims that were Pending in the snapshot; all others always are."""
        stored, counted = self.snapshot.claims, self._counted
        fresh = [
            claim
            for claim in claims
            if claim.key not in counted
            and not (claim.key in stored and booking.is_settled(stored[claim.key]))
        ]
        found = {claim.key for claim in fresh}
        counted |= found
        self.ledger.on_undo(lambda: counted.difference_update(found))
        booking.charge(self.ledger, fresh, self.snapshot.classes, +1)

    def _discount(self, claims: Collection[GPUClaim]) -> None:
        counted = self._counted
        gone = [
            claim
            for claim in claims
            if claim.key in counted and not booking.is_settled(self._now(claim))
        ]
        found = {claim.key for claim in gone}
        counted -= found
        self.ledger.on_undo(lambda: counted.update(found))
        booking.charge(self.ledger, gone, self.snapshot.classes, -1)


View = Snapshot | Draft
"""What a question may be asked of; a Draft answers for what is planned so far."""


def snapshot_of(view: View) -> Snapshot:
    """Return the snapshot behind a view."""
    return view.snapshot if isinstance(view, Draft) else view


def build(  # noqa: PLR0913 - one argument per kind of object, all by name
    *,
    classes: Iterable[GPUClass] = (),
    claims: Iterable[GPUClaim] = (),
    inventory: Iterable[GPUNode] = (),
    nodes: Iterable[Node] = (),
    pods: Iterable[Pod] = (),
    vmis: Iterable[VMI] = (),
    vms: Iterable[VM] = (),
    namespaces: Iterable[Namespace] = (),
    releases: Iterable[TenantRelease] = (),
    quotas: Iterable[TenantQuota] = (),
    kubevirts: Iterable[KubeVirt] = (),
    settings: Settings,
) -> Snapshot:
    """Index one instant; the order of the objects given does not matter.

    Inventory without devices is unknown. It is the caller, who has a clock, that leaves out stale
    inventory.
    """
    given = Objects(
        classes=tuple(classes),
        claims=tuple(claims),
        inventory=tuple(inventory),
        nodes=tuple(nodes),
        pods=tuple(pods),
        vmis=tuple(vmis),
        vms=tuple(vms),
        namespaces=tuple(namespaces),
        releases=tuple(releases),
        quotas=tuple(quotas),
        kubevirts=tuple(kubevirts),
    )
    return of(given, settings)


def of(given: Objects, settings: Settings) -> Snapshot:
    """Index objects from nothing: the reference that `advance` must equal."""
    by_class = {item.name: item for item in sorted(given.classes, key=lambda item: item.name)}
    keyed = {item.meta.key: item for item in given.claims}
    by_key = {key: keyed[key] for key in sorted(keyed)}
    by_node = {item.name: item for item in sorted(given.nodes, key=lambda item: item.name)}
    by_inventory = {item.name: item for item in given.inventory}
    by_vmi = {item.meta.key: item for item in sorted(given.vmis, key=lambda item: item.meta.key)}
    permitted = names.permitted(given.kubevirts)
    resources = names.effective(by_class.values(), given.kubevirts)
    capacities = booking.capacities(by_node.values(), by_inventory, resources)
    tree = given.tree()
    index = indexes.of(by_key, coverage.named(given.vms))
    attached = index.marked["attached"]
    known = Known(classes=by_class, resources=frozenset(resources), attached=attached, vmis=by_vmi)
    units = pod_units.of(given.pods, known)
    book = ledger.empty(tree, capacities)
    booking.hold_claims(book, by_key.values(), by_class)
    for (node, resource, vm), amount in units.occupied.items():
        book.occupy(node, resource, amount, vm)
    book.load(booking.own_units(by_key.values(), units.raw, by_class))
    book.touched.clear()
    waiting = (claim for claim in by_key.values() if not booking.is_settled(claim))
    return Snapshot(
        classes=by_class,
        nodes=by_node,
        inventory=by_inventory,
        vmis=by_vmi,
        settings=settings,
        tree=tree,
        permitted=permitted,
        resources=resources,
        capacities=capacities,
        ledger=book,
        pending=tuple(sorted(waiting, key=lambda claim: claim.age)),
        index=index,
        pod_units=units,
        given=given,
    )
