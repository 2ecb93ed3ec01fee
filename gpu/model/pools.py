"""What a tenant's use of a quota key is made of: its own claims and raw pods, and what is below it.

The three parts add up to what its budget counts. A tenant sees its own claims and pods each, and of
the tenants below one sum: of one that declares the key the larger of what it declares and uses, of
any other what it uses.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from gpu import keys
from gpu.model.ledger import Ledger
from gpu.model.snapshot import Snapshot
from gpu.units import ClassName, QuotaKey, TenantName, Units


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Units of one key that one tenant uses, by what uses them."""

    claims: Units
    """Its own claims of every phase, deleted ones too."""
    pods: Units
    """Its own pods that name a resource directly, beyond what claims of their VM account for."""
    below: Units
    """In use by the tenants below it or promised to them, all together."""

    @property
    def total(self) -> Units:
        """What a budget of the tenant counts."""
        return Units(self.claims + self.pods + self.below)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """What one tenant uses of every key, with every Pending claim counted."""

    tenant: TenantName
    book: Ledger
    claims: Mapping[QuotaKey, int]
    pods: Mapping[QuotaKey, int]

    def use(self, key: QuotaKey) -> Use:
        """Return what the tenant uses of a key."""
        claims, pods = self.claims.get(key, 0), self.pods.get(key, 0)
        below = self.book.used(self.tenant, key) - claims - pods
        return Use(claims=Units(claims), pods=Units(pods), below=Units(below))


def of(snapshot: Snapshot, tenant: TenantName) -> Pool:
    """Add up a tenant's own claims and pods."""
    claims: Counter[QuotaKey] = Counter()
    for name, units in _ordered(snapshot).get(tenant, {}).items():
        for key in snapshot.quota_keys(name):
            claims[key] += units
    pods: Counter[QuotaKey] = Counter()
    for resource in snapshot.resources:
        units = snapshot.pod_units.raw.get((tenant, resource), 0)
        if units:
            pods[QuotaKey(resource)] += units
            pods[QuotaKey(keys.QUOTA_TOTAL)] += units
    return Pool(tenant=tenant, book=snapshot.counted(), claims=claims, pods=pods)


def _ordered(snapshot: Snapshot) -> Mapping[str, Mapping[ClassName, int]]:
    if snapshot.memo.ordered is None:
        found: dict[str, dict[ClassName, int]] = {}
        for claim in snapshot.claims.values():
            own = found.setdefault(claim.meta.namespace, {})
            own[claim.class_name] = own.get(claim.class_name, 0) + claim.count
        snapshot.memo.ordered = found
    return snapshot.memo.ordered
