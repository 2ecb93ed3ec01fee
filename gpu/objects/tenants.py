"""Tenant namespaces, and the quotas declared for them by HelmRelease or by ResourceQuota.

Naming of tenants and their namespaces: research/upstream 1.7 (cozystack's computeTenantNamespace).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gpu import keys
from gpu.errors import UnitsError
from gpu.objects import meta
from gpu.objects.decode import Fields, Raw
from gpu.objects.meta import ObjectMeta
from gpu.units import QuotaKey, TenantName, Units, parse_units

_HOST_GROUP: Final = keys.APPLICATION_GROUP_LABEL.partition("/")[0]
_REQUESTS: Final = "requests."
_LIMITS: Final = "limits."


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A namespace; it is a tenant's when its name starts with `tenant-`."""

    meta: ObjectMeta
    raw: Raw = field(default_factory=dict, compare=False, repr=False)

    @property
    def tenant(self) -> TenantName | None:
        """The tenant it is, or None."""
        if self.meta.name.startswith(keys.TENANT_NAMESPACE_PREFIX):
            return TenantName(self.meta.name)
        return None

    @property
    def entitled(self) -> bool:
        """Its own vGPU entitlement label; ancestors are the model's business."""
        return self.meta.labels.get(keys.VGPU_ENTITLED_LABEL) == "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """Quotas as declared: whole units, and the keys whose value could not be read (counted as 0)."""

    units: Mapping[QuotaKey, Units] = field(default_factory=dict)
    unreadable: Mapping[QuotaKey, str] = field(default_factory=dict)
    """By key, what is wrong with its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRelease:
    """The HelmRelease that makes a tenant, and what its values declare."""

    meta: ObjectMeta
    tenant: TenantName
    declared: Declared = field(default_factory=Declared)
    raw: Raw = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_hosts(self) -> bool:
        """Say whether it is of the host's kind Tenant: another group's kind may have that name."""
        return self.meta.labels.get(keys.APPLICATION_GROUP_LABEL, _HOST_GROUP) == _HOST_GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantQuota:
    """The `tenant-quota` ResourceQuota of a namespace: asked only where no HelmRelease exists."""

    meta: ObjectMeta
    tenant: TenantName
    declared: Declared = field(default_factory=Declared)
    raw: Raw = field(default_factory=dict, compare=False, repr=False)


def parent_of(tenant: TenantName) -> TenantName | None:
    """Return the tenant above: `tenant-a-b` is under `tenant-a`, that under `tenant-root`."""
    if tenant == keys.TENANT_ROOT:
        return None
    above, _, _ = tenant.rpartition("-")
    if above == keys.TENANT_NAMESPACE_PREFIX.rstrip("-"):
        return TenantName(keys.TENANT_ROOT)
    return TenantName(above)


def tenant_of_release(namespace: str, release: str) -> TenantName:
    """Return the tenant a release named `tenant-<name>` in a tenant's namespace makes."""
    name = release.removeprefix(keys.TENANT_NAMESPACE_PREFIX)
    if namespace == keys.TENANT_ROOT:
        return TenantName(keys.TENANT_ROOT if name == "root" else f"tenant-{name}")
    return TenantName(f"{namespace}-{name}")


def decode_namespace(raw: Raw) -> Namespace:
    """Read a Namespace."""
    return Namespace(meta=replace(meta.decode_meta(Fields(raw)), annotations={}), raw=raw)


def decode_release(raw: Raw) -> TenantRelease:
    """Read a Tenant's HelmRelease; a value that is no quantity is listed, never fatal.

    What `spec.valuesFrom` would add is not read: the host puts no quotas there.
    """
    fields = Fields(raw)
    head = replace(meta.decode_meta(fields), annotations={})
    values = fields.child("spec").raw.get("values")
    quotas = values.get("resourceQuotas") if isinstance(values, dict) else values
    return TenantRelease(
        meta=head,
        tenant=tenant_of_release(head.namespace, head.name),
        declared=declared(quotas) if isinstance(quotas, dict) else _no_table(quotas),
        raw=raw,
    )


def decode_quota(raw: Raw) -> TenantQuota:
    """Read the `tenant-quota` ResourceQuota: `requests.<raw name>` and bare keys with a slash.

    Where both spellings are there, the smaller counts, as in Kubernetes.
    """
    fields = Fields(raw)
    head = replace(meta.decode_meta(fields), annotations={})
    hard = fields.child("spec").child("hard").raw
    bare = declared({key: value for key, value in hard.items() if not _is_prefixed(key)})
    asked = declared(
        {
            key.removeprefix(_REQUESTS): value
            for key, value in hard.items()
            if key.startswith(_REQUESTS)
        }
    )
    return TenantQuota(
        meta=head,
        tenant=TenantName(head.namespace),
        declared=Declared(
            units={
                **bare.units,
                **{
                    key: min(units, bare.units.get(key, units))
                    for key, units in asked.units.items()
                },
            },
            unreadable={**bare.unreadable, **asked.unreadable},
        ),
        raw=raw,
    )


def declared(quotas: Mapping[str, object]) -> Declared:
    """Keep the keys that can be GPU keys (a slash in them); others are the host's business."""
    units: dict[QuotaKey, Units] = {}
    unreadable: dict[QuotaKey, str] = {}
    for name, value in quotas.items():
        if "/" not in name or name.startswith("count/"):
            continue
        key = QuotaKey(name)
        try:
            units[key] = parse_units(value)
        except UnitsError as error:
            units[key] = Units(0)
            unreadable[key] = str(error)
    return Declared(units=units, unreadable=unreadable)


def _no_table(quotas: object) -> Declared:
    """Read quotas that have no keys: null is none; anything else leaves nothing to be ordered."""
    if quotas is None:
        return Declared()
    total = QuotaKey(keys.QUOTA_TOTAL)
    words = f"resourceQuotas is {type(quotas).__name__}, not a table of keys"
    return Declared(units={total: Units(0)}, unreadable={total: words})


def _is_prefixed(key: str) -> bool:
    return key.startswith((_REQUESTS, _LIMITS))
