"""Effective resource names, and KubeVirt's permitted-devices table read as names."""

from collections.abc import Iterable

from gpu.objects.classes import GPUClass
from gpu.objects.kubevirt import KubeVirt
from gpu.units import ResourceName


def permitted(kubevirts: Iterable[KubeVirt]) -> frozenset[ResourceName] | None:
    """Return the names KubeVirt lets a VM have; None means any: no KubeVirt has such a table."""
    tables = [item.permitted for item in kubevirts if item.permitted is not None]
    if not tables:
        return None
    return frozenset(name for table in tables for name in table)


def is_permitted(resource: ResourceName, table: frozenset[ResourceName] | None) -> bool:
    """Say whether KubeVirt lets a VM have the resource."""
    return table is None or resource in table


def effective(
    classes: Iterable[GPUClass], table: frozenset[ResourceName] | None
) -> tuple[ResourceName, ...]:
    """Return every class's resource and every permitted name, sorted: what counts as a GPU."""
    names = {item.resource for item in classes}
    return tuple(sorted(names | (table or frozenset())))
