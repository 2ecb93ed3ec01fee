"""The cluster as the checker sees it: typed objects, added up as the contract words it.

Nothing is shared with what plans: ledger, booking, coverage, placement, sets and budgets have their
own sums, and an error in them must not be here too. Sums are made of the nodes and namespaces that a
plan is about; `ground` says what is there.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property

from gpu import keys
from gpu.model import ground
from gpu.model.ground import Ground
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.classes import GPUClass
from gpu.objects.kubevirt import VM, VMI, KubeVirt
from gpu.objects.meta import ObjectKey
from gpu.objects.nodes import GPUNode, Node
from gpu.objects.pods import Pod
from gpu.objects.tenants import Namespace, TenantQuota, TenantRelease, parent_of
from gpu.units import ClassName, NodeName, QuotaKey, ResourceName, TenantName

Claims = Mapping[ObjectKey, GPUClaim]
Place = tuple[NodeName, ResourceName]
PodId = tuple[str, str]
"""Namespace and uid."""
Amounts = Counter[ObjectKey | None]
"""Units by VM; None is whatever belongs to no VM."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What a plan is judged in. Indexes are built when asked for, once."""

    stood: Claims
    """Claims as the pass found them: they say whose pods are whose."""
    claims: Claims
    """Claims as stored by now: earlier phases of the pass have written."""
    classes: tuple[GPUClass, ...] = ()
    nodes: tuple[Node, ...] = ()
    inventory: tuple[GPUNode, ...] = ()
    """Without what is stale."""
    pods: tuple[Pod, ...] = ()
    vmis: tuple[VMI, ...] = ()
    vms: tuple[VM, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    releases: tuple[TenantRelease, ...] = ()
    quotas: tuple[TenantQuota, ...] = ()
    kubevirts: tuple[KubeVirt, ...] = ()
    unreadable: frozenset[ObjectKey] = frozenset()
    ground: Ground | None = None
    """`stood`, pods, VMIs and VMs sorted, with `changed` over them; sorted here when not given."""
    changed: Claims = field(default_factory=dict)
    """What `claims` has otherwise than `ground`."""
    pinned: Mapping[PodId, NodeName] = field(default_factory=dict)
    """Launchers that the pass has let through, and where to."""

    @cached_property
    def found(self) -> Ground:
        """What stood when the pass began, pods and VMs with it."""
        return self.ground or Ground().follow(
            claims=tuple(self.stood.values()), pods=self.pods, vmis=self.vmis, vms=self.vms
        )

    @cached_property
    def base(self) -> Ground:
        """Claims as stored by now, but for `changed`."""
        return self.ground or Ground().follow(claims=tuple(self.claims.values()))

    @cached_property
    def by_class(self) -> dict[ClassName, GPUClass]:
        """Classes by name."""
        return {item.name: item for item in self.classes}

    @cached_property
    def by_node(self) -> dict[NodeName, Node]:
        """Nodes by name."""
        return {item.name: item for item in self.nodes}

    @cached_property
    def by_inventory(self) -> dict[NodeName, GPUNode]:
        """What agents saw, by node."""
        return {item.name: item for item in self.inventory}

    @cached_property
    def permitted(self) -> set[ResourceName] | None:
        """What KubeVirt lets a VM have; None is anything."""
        tables = [item.permitted for item in self.kubevirts if item.permitted is not None]
        return {name for table in tables for name in table} if tables else None

    @cached_property
    def counted(self) -> set[ResourceName]:
        """What counts as a GPU in a pod's requests."""
        named = {name for item in self.kubevirts for name in item.gpus}
        return {item.resource for item in self.classes} | named

    def is_gpu_pod(self, pod: Pod) -> bool:
        """Say whether a pod asks for what counts as a GPU, and has not ended."""
        return pod.live and not self.counted.isdisjoint(pod.requests)

    def gpu_pods(self, nodes: AbstractSet[NodeName]) -> list[Pod]:
        """Return such pods on nodes."""
        found = [pod for _, pod in ground.of(self.found.pods_on, nodes) if self.is_gpu_pod(pod)]
        for (namespace, uid), node in self.pinned.items():
            pod = self.pod(namespace, uid)
            is_new = pod is not None and not any(one is pod for one in found)
            if node in nodes and pod is not None and is_new and self.is_gpu_pod(pod):
                found.append(pod)
        return found

    def pod(self, namespace: str, uid: str) -> Pod | None:
        """Return a pod that has not ended, by uid."""
        there = self.found.pods_in.get(namespace, {}).values()
        return next((pod for pod in there if pod.meta.uid == uid), None)

    def node_of(self, pod: Pod) -> NodeName | None:
        """Return the node a pod is on, or a launcher past our gate is pinned to."""
        if pod.node is not None or self.owner(pod) is None:
            return pod.node
        if is_at_gate(pod):
            return self.pinned.get((pod.meta.namespace, pod.meta.uid))
        return pod.pinned

    def standing(self, nodes: AbstractSet[NodeName], after: Claims) -> Iterator[GPUClaim]:
        """Yield claims that may be Bound to nodes, as stored by now and as `after` has them."""
        over = {**self.changed, **after}
        for key, claim in ground.of(self.base.on_node, nodes):
            if key not in over:
                yield claim
        yield from over.values()

    def living(self, namespaces: AbstractSet[str], after: Claims) -> Iterator[GPUClaim]:
        """Yield the claims of namespaces, and perhaps others, as `after` has them."""
        over = {**self.changed, **after}
        for key, claim in ground.of(self.base.in_namespace, namespaces):
            if key not in over:
                yield claim
        yield from over.values()

    @property
    def named(self) -> dict[ObjectKey, ObjectKey]:
        """The VM that alone names a claim in its template."""
        if self.found.named is None:
            several: dict[ObjectKey, set[ObjectKey]] = defaultdict(set)
            for vm in self.vms:
                for name in vm.claims:
                    several[ObjectKey(vm.meta.namespace, name)].add(vm.meta.key)
            self.found.named = {
                claim: next(iter(vms)) for claim, vms in several.items() if len(vms) == 1
            }
        return self.found.named

    @cached_property
    def declared(self) -> dict[TenantName, Mapping[QuotaKey, int]]:
        """What each tenant declares: by HelmRelease, else by ResourceQuota."""
        return _declared(self)

    def owner(self, pod: Pod) -> ObjectKey | None:
        """Return the VM a pod belongs to; an owner reference proves nothing."""
        namespace = pod.meta.namespace
        if namespace not in self.found.owners:
            self.found.owners[namespace] = _owners(self.found, namespace)
        return self.found.owners[namespace].get(pod.meta.uid)

    def noting(self, pod: Pod) -> list[GPUClaim]:
        """Return the claims that have noted a pod of which they do not know that it ended, by name."""
        namespace = pod.meta.namespace
        if namespace not in self.found.noted:
            self.found.noted[namespace] = _noted(self.found, namespace)
        return self.found.noted[namespace].get(pod.meta.uid, [])

    def resource(self, claim: GPUClaim) -> ResourceName | None:
        """Return what a claim's units are units of; None when its class is gone."""
        offer = self.by_class.get(claim.class_name)
        return offer.resource if offer else None

    def quota_keys(self, name: ClassName) -> set[QuotaKey]:
        """Return what a unit of a class counts under at once."""
        found = {QuotaKey(f"{keys.QUOTA_PREFIX}{name}"), QuotaKey(keys.QUOTA_TOTAL)}
        if offer := self.by_class.get(name):
            found.add(QuotaKey(offer.resource))
        return found

    def set_of(self, claim: GPUClaim) -> ObjectKey | None:
        """Return the VM a claim shares with others; None is a claim by itself."""
        return vm_of(claim) or self.named.get(claim.key)


def _owners(found: Ground, namespace: str) -> dict[str, ObjectKey]:
    """Return the VM of each pod, by uid: as its VMI lists it, else as a claim recorded."""
    vmis = found.vmis_in.get(namespace, {})
    owners = {uid: key for key in sorted(vmis) for uid in vmis[key].active_pods}
    claims = found.in_namespace.get(namespace, {})
    for key in sorted(claims):
        claim = claims[key]
        for pod in claim.attached_to.pods if claim.attached_to else ():
            owners.setdefault(pod.uid, vm_of(claim) or key)
    return owners


def _noted(found: Ground, namespace: str) -> dict[str, list[GPUClaim]]:
    noted: dict[str, list[GPUClaim]] = defaultdict(list)
    for _, claim in sorted(found.in_namespace.get(namespace, {}).items()):
        for pod in claim.attached_to.pods if claim.attached_to else ():
            if not pod.ended:
                noted[pod.uid].append(claim)
    return noted


def held(cluster: Cluster, after: Claims, places: AbstractSet[Place]) -> dict[Place, Amounts]:
    """Return units of Bound claims on each of the places, once claims are as `after` has them."""
    sums: dict[Place, Amounts] = {place: Counter() for place in places}
    nodes = {node for node, _ in places}
    for claim in cluster.standing(nodes, after):
        if claim.node in nodes and claim.phase is Phase.BOUND and claim.node is not None:
            resource = cluster.resource(claim)
            if resource is not None and (claim.node, resource) in sums:
                sums[claim.node, resource][vm_of(claim)] += claim.count
    return sums


def asked(cluster: Cluster, places: AbstractSet[Place]) -> dict[Place, Amounts]:
    """Return units that live pods request on each of the places."""
    sums: dict[Place, Amounts] = {place: Counter() for place in places}
    for pod in cluster.gpu_pods({node for node, _ in places}):
        node = cluster.node_of(pod)
        for resource in pod.requests:
            if node is not None and (node, resource) in sums:
                sums[node, resource].update(for_whom(cluster, pod, resource))
    return sums


def for_whom(cluster: Cluster, pod: Pod, resource: ResourceName) -> Amounts:
    """Return a pod's units by VM: what others took over of its claims while it ends is theirs."""
    own, left = cluster.owner(pod), int(pod.requests[resource])
    others: Amounts = Counter()
    for claim in cluster.noting(pod):
        if vm_of(claim) != own and cluster.resource(claim) == resource:
            others[vm_of(claim)] += claim.count
    found: Amounts = Counter()
    for vm, units in others.items():
        found[vm] = min(left, units)
        left -= found[vm]
    found[own] += left
    return found


def serves(cluster: Cluster, name: NodeName, resource: ResourceName) -> int:
    """Return what a node has of a resource: the lesser of allocatable and inventory, if known."""
    node = cluster.by_node.get(name)
    allocatable = node.allocatable.get(resource, 0) if node else 0
    inventory = cluster.by_inventory.get(name)
    seen = [item for item in inventory.devices if item.resource == resource] if inventory else []
    if not seen:
        return allocatable
    return min(allocatable, sum(item.units for item in seen if item.healthy))


def is_at_gate(pod: Pod) -> bool:
    """Say whether a pod waits at our gate: it runs nowhere and uses nothing."""
    return pod.node is None and keys.PLACEMENT_GATE in pod.gates


def _declared(cluster: Cluster) -> dict[TenantName, Mapping[QuotaKey, int]]:
    """Read what each tenant declares: by HelmRelease, else by ResourceQuota."""
    found: dict[TenantName, Mapping[QuotaKey, int]] = {}
    at_home: list[TenantRelease] = []
    elsewhere: list[TenantRelease] = []
    for release in cluster.releases:
        if not release.is_hosts:
            continue
        above = parent_of(release.tenant) if release.tenant != keys.TENANT_ROOT else None
        (at_home if release.meta.namespace == above else elsewhere).append(release)
    for part in (at_home, elsewhere):
        for release in sorted(part, key=lambda item: item.meta.key):
            found.setdefault(release.tenant, release.declared.units)
    for quota in sorted(cluster.quotas, key=lambda item: item.meta.key):
        if quota.meta.name == keys.TENANT_QUOTA_NAME:
            found.setdefault(quota.tenant, quota.declared.units)
    return found


def line(tenant: TenantName) -> Iterator[TenantName]:
    """Yield the tenant and every one above it; a namespace that is no tenant's stands alone."""
    above: TenantName | None = tenant
    while above is not None:
        yield above
        is_tenant = above.startswith(keys.TENANT_NAMESPACE_PREFIX)
        above = parent_of(above) if is_tenant else None


def vm_of(claim: GPUClaim) -> ObjectKey | None:
    """Return the VM a claim is attached to."""
    if claim.attached_to is None:
        return None
    return ObjectKey(claim.meta.namespace, claim.attached_to.vmi)
