"""The tree of tenants: who is above whom, what each declares, who is entitled to vGPU classes."""

import functools
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from gpu import keys
from gpu.objects import tenants
from gpu.objects.tenants import Declared, Namespace, TenantQuota, TenantRelease
from gpu.units import QuotaKey, TenantName, Units

_NOTHING: Final[Mapping[QuotaKey, Units]] = MappingProxyType({})
_NO_WORDS: Final[Mapping[QuotaKey, str]] = MappingProxyType({})

Declaring = TenantRelease | TenantQuota
"""What a tenant's budgets are read from."""


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

    def unreadable(self, tenant: TenantName) -> Mapping[QuotaKey, str]:
        """Return the keys a tenant declares with a value that is no whole number, and why."""
        found = self.declarations.get(tenant)
        return found.unreadable if found else _NO_WORDS

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
    """Read declarations and entitlements."""
    return Tree(
        declarations={
            tenant: found.declared for tenant, found in declaring(releases, quotas).items()
        },
        entitled_namespaces=frozenset(
            TenantName(item.meta.name) for item in namespaces if item.entitled
        ),
    )


def declaring(
    releases: Iterable[TenantRelease], quotas: Iterable[TenantQuota]
) -> dict[TenantName, Declaring]:
    """Return the object that declares for each tenant: its HelmRelease, else its `tenant-quota`.

    Where two HelmReleases make one tenant (names with a dash), the one in its parent's namespace
    counts, then the first by key. One of another group's kind Tenant makes none.
    """
    found: dict[TenantName, Declaring] = {}
    for release in sorted(
        (item for item in releases if item.is_hosts),
        key=lambda item: (item.meta.namespace != parent(item.tenant), item.meta.key),
    ):
        found.setdefault(release.tenant, release)
    for quota in sorted(quotas, key=lambda item: item.meta.key):
        if quota.meta.name == keys.TENANT_QUOTA_NAME:
            found.setdefault(quota.tenant, quota)
    return found


def unreadable(
    found: Mapping[TenantName, Declaring], resources: Container[str]
) -> Iterator[tuple[Declaring, Mapping[QuotaKey, str]]]:
    """Yield each object that declares a GPU key in no readable way, and what is wrong, by key.

    Of the host's own keys it is the host that complains. `resources` are what counts as a GPU.
    """
    for item in found.values():
        bad = {
            key: why
            for key, why in item.declared.unreadable.items()
            if key.startswith(keys.QUOTA_PREFIX) or key in resources
        }
        if bad:
            yield item, bad
