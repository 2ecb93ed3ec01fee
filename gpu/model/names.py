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


def gpus(kubevirts: Iterable[KubeVirt]) -> frozenset[ResourceName]:
    """Return the names of KubeVirt's tables that count as GPUs."""
    return frozenset(name for item in kubevirts for name in item.gpus)


def is_permitted(resource: ResourceName, table: frozenset[ResourceName] | None) -> bool:
    """Say whether KubeVirt lets a VM have the resource."""
    return table is None or resource in table


def effective(
    classes: Iterable[GPUClass], kubevirts: Iterable[KubeVirt]
) -> tuple[ResourceName, ...]:
    """Return every class's resource and every GPU that KubeVirt permits, sorted: what counts as a GPU."""
    return tuple(sorted({item.resource for item in classes} | gpus(kubevirts)))
