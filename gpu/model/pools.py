"""What a tenant's use of a quota key is made of: its own claims and raw pods, and what is below it.

The three parts add up to what its budget counts. A tenant sees its own claims and pods each, and of
the tenants below one sum: of one that declares the key the larger of what it declares and uses, of
any other what it uses.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gpu import keys
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


def use(snapshot: Snapshot, tenant: TenantName, key: QuotaKey) -> Use:
    """Return what a tenant uses of a key, with every Pending claim counted."""
    claims = sum(
        units
        for name, units in _ordered(snapshot).get(tenant, {}).items()
        if key in snapshot.quota_keys(name)
    )
    pods = sum(
        snapshot.pod_units.raw.get((tenant, resource), 0)
        for resource in snapshot.resources
        if key in {resource, keys.QUOTA_TOTAL}
    )
    used = snapshot.counted().used(tenant, key)
    return Use(claims=Units(claims), pods=Units(pods), below=Units(used - claims - pods))


def _ordered(snapshot: Snapshot) -> Mapping[str, Mapping[ClassName, int]]:
    if snapshot.memo.ordered is None:
        found: dict[str, dict[ClassName, int]] = {}
        for claim in snapshot.claims.values():
            own = found.setdefault(claim.meta.namespace, {})
            own[claim.class_name] = own.get(claim.class_name, 0) + claim.count
        snapshot.memo.ordered = found
    return snapshot.memo.ordered
