"""The tree of tenants: who is above whom, what each declares, who is entitled to vGPU classes."""

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from gpu import keys
from gpu.objects import tenants
from gpu.objects.tenants import Declared, Namespace, TenantQuota, TenantRelease
from gpu.units import QuotaKey, TenantName, Units

_NOTHING: Final[Mapping[QuotaKey, Units]] = MappingProxyType({})


def is_tenant(namespace: str) -> bool:
    """Say whether a namespace is a tenant's; its name alone decides, as everywhere in the host."""
    return namespace.startswith(keys.TENANT_NAMESPACE_PREFIX)


@functools.lru_cache(maxsize=65536)
def parent(tenant: TenantName) -> TenantName | None:
    """Return the tenant above; None for the root and for what is no tenant."""
    return tenants.parent_of(tenant) if is_tenant(tenant) else None


def nesting(tenant: TenantName) -> int:
    """Return a number that is larger for a tenant than for the one above it."""
    return 0 if parent(tenant) is None else tenant.count("-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Budgets as declared, and own entitlements. A tenant without an object is in it by its name."""

    declarations: Mapping[TenantName, Declared] = field(default_factory=dict)
    entitled_namespaces: frozenset[TenantName] = frozenset()

    def declared(self, tenant: TenantName) -> Mapping[QuotaKey, Units]:
        """Return what a tenant declares; a key that is absent is unlimited."""
        found = self.declarations.get(tenant)
        return found.units if found else _NOTHING

    def line(self, tenant: TenantName) -> Iterator[TenantName]:
        """Yield the tenant, then every one above it up to the root."""
        above: TenantName | None = tenant
        while above is not None:
            yield above
            above = parent(above)

    def is_entitled(self, tenant: TenantName) -> bool:
        """Say whether the tenant or one above it carries the vGPU entitlement."""
        return any(one in self.entitled_namespaces for one in self.line(tenant))


def build(
    *,
    namespaces: Iterable[Namespace],
    releases: Iterable[TenantRelease],
    quotas: Iterable[TenantQuota],
) -> Tree:
    """Read declarations: the HelmRelease's, else `tenant-quota`'s.

    Where two HelmReleases make one tenant (names with a dash), the one in its parent's namespace
    counts, then the first by key.
    """
    declarations: dict[TenantName, Declared] = {}
    for release in sorted(
        releases, key=lambda item: (item.meta.namespace != parent(item.tenant), item.meta.key)
    ):
        declarations.setdefault(release.tenant, release.declared)
    for quota in sorted(quotas, key=lambda item: item.meta.key):
        if quota.meta.name == keys.TENANT_QUOTA_NAME:
            declarations.setdefault(quota.tenant, quota.declared)
    return Tree(
        declarations=declarations,
        entitled_namespaces=frozenset(
            TenantName(item.meta.name) for item in namespaces if item.entitled
        ),
    )
