"""What the objects of one instant amount to in units, summed once when a snapshot is built."""

from collections.abc import Iterable, Mapping

from gpu import keys
from gpu.model import coverage
from gpu.model.ledger import Charge, Ledger
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.classes import GPUClass
from gpu.objects.nodes import GPUNode, Node
from gpu.units import ClassName, NodeName, QuotaKey, ResourceName, TenantName, Units

Classes = Mapping[ClassName, GPUClass]
_TOTAL = QuotaKey(keys.QUOTA_TOTAL)


def quota_keys(classes: Classes, name: ClassName) -> tuple[QuotaKey, ...]:
    """Return the keys a unit of a class counts under at once: class, total, raw resource name."""
    found = classes.get(name)
    own = QuotaKey(keys.quota_key_of_class(name))
    return (own, _TOTAL) if found is None else (own, _TOTAL, QuotaKey(found.resource))


def is_settled(claim: GPUClaim) -> bool:
    """Say whether the claim counts in budgets whatever its age: Bound, Lost, or being deleted."""
    return claim.phase is not Phase.PENDING or claim.meta.deleting


def capacities(
    nodes: Iterable[Node],
    inventory: Mapping[NodeName, GPUNode],
    resources: Iterable[ResourceName],
) -> dict[ResourceName, dict[NodeName, Units]]:
    """Return what each node serves of each resource: min(allocatable, inventory when known).

    Inventory is known of a resource when it lists a device of it, healthy or not; else the agent
    did not look, and allocatable stands. A node that serves none is left out.
    """
    served: dict[ResourceName, dict[NodeName, Units]] = {name: {} for name in resources}
    for node in nodes:
        for resource, units in serves(node, inventory.get(node.name)).items():
            if resource in served:
                served[resource][node.name] = units
    return served


def serves(node: Node, inventory: GPUNode | None) -> dict[ResourceName, Units]:
    """Return what one node serves of each resource, none of them 0; whatever counts as a GPU."""
    seen = _seen(inventory)
    found = {
        resource: Units(min(units, seen.get(resource, units)))
        for resource, units in node.allocatable.items()
    }
    return {resource: units for resource, units in found.items() if units}


def hold_claims(book: Ledger, claims: Iterable[GPUClaim], classes: Classes) -> None:
    """Put the units of Bound claims on their nodes; those of an unknown class have no resource."""
    plain: dict[tuple[NodeName, ClassName], int] = {}
    for claim in claims:
        node = coverage.node_held(claim)
        if node is None or claim.class_name not in classes:
            continue
        if claim.attached_to is None:
            place = (node, claim.class_name)
            plain[place] = plain.get(place, 0) + claim.count
        else:
            resource = classes[claim.class_name].resource
            book.hold(node, resource, claim.count, coverage.holder_of(claim))
    for (node, name), units in plain.items():
        book.hold(node, classes[name].resource, units)


def covered(claims: Iterable[GPUClaim], classes: Classes) -> coverage.Sums:
    """Return units per VM and resource that attached claims account for in budgets, in any phase."""
    sums: coverage.Sums = {}
    for claim in claims:
        vm = coverage.holder_of(claim)
        found = classes.get(claim.class_name)
        if vm is not None and found is not None:
            sums[vm, found.resource] = sums.get((vm, found.resource), 0) + claim.count
    return sums


def own_units(
    claims: Iterable[GPUClaim],
    raw: Mapping[tuple[TenantName, ResourceName], int],
    classes: Classes,
) -> dict[Charge, int]:
    """Return each namespace's own units per quota key: settled claims, and raw pod units.

    A raw unit counts under its resource name and under total; which class it is nobody can say.
    """
    ordered: dict[tuple[str, ClassName], int] = {}
    for claim in claims:
        if is_settled(claim):
            place = (claim.meta.namespace, claim.class_name)
            ordered[place] = ordered.get(place, 0) + claim.count
    own: dict[Charge, int] = {}
    for (namespace, name), units in ordered.items():
        for key in quota_keys(classes, name):
            charge = (TenantName(namespace), key)
            own[charge] = own.get(charge, 0) + units
    for (tenant, resource), units in raw.items():
        for key in (QuotaKey(resource), _TOTAL):
            own[tenant, key] = own.get((tenant, key), 0) + units
    return own


def charge(book: Ledger, claims: Iterable[GPUClaim], classes: Classes, sign: int) -> None:
    """Add units of claims to the budgets of their tenants, or (-1) take them back.

    What a tenant uses depends on their sum alone, so equal ones are charged at once.
    """
    sums: dict[tuple[TenantName, ClassName], int] = {}
    for claim in claims:
        place = claim.tenant, claim.class_name
        sums[place] = sums.get(place, 0) + sign * claim.count
    for (tenant, name), units in sums.items():
        for key in quota_keys(classes, name):
            book.charge(tenant, key, units)


def charge_raw(
    book: Ledger, tenant: TenantName, raw: Mapping[ResourceName, Units], sign: int
) -> None:
    """Add to a tenant's budgets what a launcher that is let through asks for beyond claims, or take it back."""
    book.more |= bool(raw)
    for resource, units in raw.items():
        for key in (QuotaKey(resource), _TOTAL):
            book.charge(tenant, key, sign * units)


def _seen(inventory: GPUNode | None) -> dict[ResourceName, int]:
    seen: dict[ResourceName, int] = {}
    for device in inventory.devices if inventory else ():
        seen[device.resource] = seen.get(device.resource, 0) + (
            device.units if device.healthy else 0
        )
    return seen
