"""Snapshot: everything one decision may look at, frozen; a Draft is a working copy of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpu.model import booking, coverage, indexes, ledger, names, pod_units
from gpu.model.given import Objects
from gpu.model.indexes import Index, Indexed
from gpu.model.ledger import Ledger
from gpu.model.pod_units import Known, PodId, PodUnits
from gpu.model.records import Records
from gpu.model.refusals import Refusal
from gpu.model.restless import Restless
from gpu.model.standing_pods import StandingPods
from gpu.model.tenancy import Tree
from gpu.objects.claims import GPUClaim
from gpu.objects.classes import GPUClass
from gpu.objects.kubevirt import VM, VMI, KubeVirt
from gpu.objects.meta import ObjectKey
from gpu.objects.nodes import GPUNode, Node
from gpu.objects.pods import Pod
from gpu.objects.tenants import Namespace, TenantQuota, TenantRelease
from gpu.settings import Settings
from gpu.units import ClassName, NodeName, QuotaKey, ResourceName, Units

Capacities = Mapping[ResourceName, Mapping[NodeName, Units]]


@dataclass(slots=True, eq=False)
class Memo:
    """What later questions to one snapshot need again; each entry is computed once, then read."""

    eligible: dict[ClassName, frozenset[NodeName]] = field(default_factory=dict)
    counted: Ledger | None = None
    queued: object = None
    """For `orders`: the draft in which all orders are worked through."""
    refused: dict[ObjectKey, tuple[Refusal, ...]] = field(default_factory=dict)
    """Of `queued`: why each order that waits on was refused when it had its turn."""
    ordered: Mapping[str, Mapping[ClassName, int]] | None = None
    """For `pools`: units of claims by namespace and class."""
    waiters: object = None
    """For `waiters`: everything that waits, and how its place is told."""
    targets: dict[str, tuple[Pod, ...]] | None = None
    """For `attaching`: pods of live migrations by namespace."""
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
