"""What tenants use, as the checker sees it: their claims, raw pods, and what is promised to those below.

As in `naive`, nothing is shared with what plans.
"""

import itertools
from collections import Counter, defaultdict

from gpu import keys
from gpu.model import ground
from gpu.model.naive import Claims, Cluster, for_whom, is_at_gate, line, vm_of
from gpu.objects.meta import ObjectKey
from gpu.units import ClassName, QuotaKey, ResourceName, TenantName


class Usage:
    """What tenants use, by recursion over the tree of tenants."""

    def __init__(self, cluster: Cluster, after: Claims) -> None:
        self._cluster = cluster
        self._ordered = _settled(cluster, {**cluster.changed, **after})
        self._raw = _raw(cluster)
        for tenant, units in let_through(cluster, after).items():
            self._raw[tenant] = self._raw.get(tenant, Counter()) + units
        self._declared = cluster.declared
        self._below: dict[TenantName, set[TenantName]] = defaultdict(set)
        for tenant in (*self._ordered, *self._raw, *self._declared):
            for below, above in itertools.pairwise(line(tenant)):
                self._below[above].add(below)
        self._known: dict[tuple[TenantName, QuotaKey], int] = {}

    def of(self, tenant: TenantName, key: QuotaKey) -> int:
        """Return what a tenant uses or has promised to those below it."""
        if (tenant, key) not in self._known:
            total = sum(
                units
                for name, units in self._ordered.get(tenant, {}).items()
                if key in self._cluster.quota_keys(name)
            )
            for resource, amount in self._raw.get(tenant, {}).items():
                total += amount if key in {resource, keys.QUOTA_TOTAL} else 0
            for child in self._below.get(tenant, ()):
                total += max(self.of(child, key), self._declared.get(child, {}).get(key, 0))
            self._known[tenant, key] = total
        return self._known[tenant, key]


def let_through(cluster: Cluster, after: Claims) -> dict[TenantName, Counter[ResourceName]]:
    """Return what launchers that the pass let through ask for beyond the claims of their VMs, by tenant."""
    pods = [
        pod
        for namespace, uid in cluster.pinned
        if (pod := cluster.pod(namespace, uid)) is not None and is_at_gate(pod)
    ]
    covered: Counter[tuple[ObjectKey | None, ResourceName | None]] = Counter()
    for claim in cluster.living({pod.meta.namespace for pod in pods}, after) if pods else ():
        covered[vm_of(claim), cluster.resource(claim)] += claim.count
    found: dict[TenantName, Counter[ResourceName]] = defaultdict(Counter)
    for pod in pods:
        for resource in cluster.counted & pod.requests.keys():
            bare = pod.requests[resource] - covered[cluster.owner(pod), resource]
            if bare > 0:
                found[TenantName(pod.meta.namespace)][resource] += bare
    return found


def _settled(cluster: Cluster, over: Claims) -> dict[TenantName, Counter[ClassName]]:
    """Return units of claims that count for budgets, by tenant, once claims are as `over` has them."""
    base = cluster.base
    found = {TenantName(namespace): units for namespace, units in base.settled.items()}
    own: set[TenantName] = set()
    for key, claim in over.items():
        for item, sign in ((base.claims.get(key), -1), (claim, +1)):
            if item is None or not ground.counts(item):
                continue
            tenant = TenantName(item.meta.namespace)
            if tenant not in own:
                found[tenant] = Counter(found.get(tenant, {}))
                own.add(tenant)
            found[tenant][item.class_name] += sign * item.count
    return found


def _raw(cluster: Cluster) -> dict[TenantName, Counter[ResourceName]]:
    """Units of pods that no claim of their VM accounts for, as things stood when the pass began."""
    found = cluster.found
    for namespace in found.pods_in.keys() - found.raw.keys():
        found.raw[namespace] = _raw_of(cluster, namespace)
    return {TenantName(namespace): found.raw[namespace] for namespace in found.pods_in}


def _raw_of(cluster: Cluster, namespace: str) -> Counter[ResourceName]:
    """Of each pod by itself: a VM that migrates has two, and its claims account for either."""
    pods = [
        one
        for one in cluster.found.pods_in[namespace].values()
        if cluster.is_gpu_pod(one) and not is_at_gate(one)
    ]
    covered: Counter[tuple[ObjectKey | None, ResourceName]] = Counter()
    for claim in cluster.found.in_namespace.get(namespace, {}).values() if pods else ():
        mine = cluster.resource(claim)
        if claim.attached_to is not None and mine is not None:
            covered[vm_of(claim), mine] += claim.count
    raw: Counter[ResourceName] = Counter()
    for pod in pods:
        own = cluster.owner(pod)
        for resource in pod.requests:
            if resource in cluster.counted:
                units = for_whom(cluster, pod, resource)[own]
                raw[resource] += max(0, units - covered[own, resource])
    return raw
