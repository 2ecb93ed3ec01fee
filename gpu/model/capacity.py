"""Free units of a resource on a node, and what a class has in all (domain contract 5)."""

from dataclasses import dataclass

from gpu.model import eligibility, ledger
from gpu.model.draft import View, snapshot_of
from gpu.objects.nodes import NodeUnits
from gpu.units import ClassName, NodeName, ResourceName, Units


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassUnits:
    """Units of one class over the cluster."""

    capacity: Units
    """On every node that serves the resource, Ready or not."""
    allocatable: Units
    """On nodes that take sets of the class now."""
    held: Units
    """By Bound claims of this very class."""
    free: Units
    """On nodes that take sets of the class now; classes of one resource share them."""
    nodes: tuple[NodeName, ...]
    """Nodes that serve the resource, by name."""


def free(view: View, node: NodeName, resource: ResourceName) -> int:
    """Return units not in use; below zero where a node serves less than is in use.

    In use are: per VM the larger of what its Bound claims hold there and its live pods there
    request; Bound claims attached to nothing; live pods of no VM with claims.
    """
    return view.ledger.free(node, resource)


def of_classes(view: View) -> dict[ClassName, ClassUnits]:
    """Return the units of every class, by class name."""
    base = snapshot_of(view)
    found: dict[ClassName, ClassUnits] = {}
    for name, offer in base.classes.items():
        served = base.capacities.get(offer.resource, {})
        eligible = eligibility.nodes(base, name)
        found[name] = ClassUnits(
            capacity=Units(sum(served.values())),
            allocatable=Units(sum(served[node] for node in eligible)),
            held=view.held_of(name),
            free=ledger.total(view.ledger.free(node, offer.resource) for node in eligible),
            nodes=tuple(served),
        )
    return found


def of_nodes(view: View) -> dict[NodeName, tuple[NodeUnits, ...]]:
    """Return units held and free of every GPU resource a node serves or holds, by resource name."""
    base = snapshot_of(view)
    found: dict[NodeName, list[NodeUnits]] = {}
    for resource in base.resources:
        held = view.ledger.held.get(resource, {})
        served = base.capacities.get(resource, {})
        for node in served.keys() | {node for node, units in held.items() if units}:
            units = NodeUnits(
                name=resource,
                held=held.get(node, 0),
                free=max(0, view.ledger.free(node, resource)),
            )
            found.setdefault(node, []).append(units)
    return {node: tuple(found[node]) for node in sorted(found)}
