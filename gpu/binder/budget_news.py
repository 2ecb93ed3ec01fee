"""Budgets that cannot be read, as Events on the object that declares them; each change told once.

Nothing is stored of it, so unlike other news it follows no change of a pass: a new leader tells of
what stands anew. The tenant itself sees it on its quota gate, everybody by a metric.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpu.binder.news import News
from gpu.model import tenancy
from gpu.model.snapshot import Snapshot
from gpu.model.tenancy import Declaring, Tree
from gpu.objects.kinds import HELM_RELEASES, RESOURCE_QUOTAS
from gpu.objects.tenants import TenantRelease
from gpu.units import QuotaKey, ResourceName, TenantName

UNREADABLE: Final = "QuotaUnreadable"
READABLE: Final = "QuotaReadable"
REASONS: Final = (UNREADABLE, READABLE)


@dataclass(slots=True)
class BudgetNews:
    """What one leader has told. Not for several threads at a time."""

    _looked: tuple[Tree, tuple[ResourceName, ...]] | None = None
    _told: dict[TenantName, Mapping[QuotaKey, str]] = field(default_factory=dict)

    def of(self, snapshot: Snapshot) -> tuple[News, ...]:
        """Return what changed since the last look; costs nothing while declarations stand."""
        seen = (snapshot.tree, snapshot.resources)
        if self._looked is not None and all(
            new is old for new, old in zip(seen, self._looked, strict=True)
        ):
            return ()
        self._looked = seen
        declared = tenancy.declaring(snapshot.given.releases, snapshot.given.quotas)
        found = {
            item.tenant: bad
            for item, bad in tenancy.unreadable(declared, frozenset(snapshot.resources))
        }
        turned = [
            *(
                _unreadable(declared[tenant], bad)
                for tenant, bad in found.items()
                if self._told.get(tenant) != bad
            ),
            *(
                _readable(declared[tenant])
                for tenant in self._told.keys() - found.keys()
                if tenant in declared
            ),
        ]
        self._told = found
        return tuple(turned)


def _unreadable(item: Declaring, bad: Mapping[QuotaKey, str]) -> News:
    told = "; ".join(f"{key}: {why}" for key, why in sorted(bad.items()))
    return _about(
        item,
        UNREADABLE,
        f"GPU quotas of {item.tenant} cannot be read and count as 0, write whole numbers: {told}",
        warning=True,
    )


def _readable(item: Declaring) -> News:
    return _about(item, READABLE, f"all GPU quotas of {item.tenant} can be read again")


def _about(item: Declaring, reason: str, note: str, *, warning: bool = False) -> News:
    return News(
        regarding=HELM_RELEASES if isinstance(item, TenantRelease) else RESOURCE_QUOTAS,
        key=item.meta.key,
        uid=item.meta.uid,
        reason=reason,
        note=note,
        warning=warning,
    )
