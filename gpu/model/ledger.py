"""The one place units are added and removed, per node and per tenant; savepoint and rollback.

Nodes: free = capacity - in use. Units with a *holder* (the VM that claims and pods belong to) are in
use as the larger of what its claims hold and what its pods request on that node; all others add up.
Reserved units are free but promised: to Lost sets, ahead of new orders.

Tenants: used = own units + what the tenants below add. One that declares a key adds the larger of
what it declares and uses, so a declaration is a promise kept free for it.

The ledger refuses nothing: both may shrink below what is held, and free is negative then.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gpu.model import tenancy
from gpu.model.tenancy import Tree
from gpu.objects.meta import ObjectKey
from gpu.units import NodeName, QuotaKey, ResourceName, TenantName, Units

Holder = ObjectKey
"""Namespace and name of a VM: its claims and launcher pods share units."""
Charge = tuple[TenantName, QuotaKey]
Room = dict[NodeName, int]
_Undo = Callable[[], None]


@dataclass(slots=True, kw_only=True)
class Ledger:
    """Units per node and per tenant. `copy` before changing one that somebody else reads."""

    tree: Tree
    free_units: dict[ResourceName, Room] = field(default_factory=dict)
    reserved: dict[ResourceName, Room] = field(default_factory=dict)
    held: dict[ResourceName, Room] = field(default_factory=dict)
    """Units of Bound claims alone, whatever pods do."""
    shared: dict[tuple[ResourceName, NodeName, Holder], tuple[int, int]] = field(
        default_factory=dict
    )
    """Per holder: units its claims hold on the node, units its pods request there."""
    used_units: dict[Charge, int] = field(default_factory=dict)
    touched: dict[ResourceName, list[NodeName]] = field(default_factory=dict)
    """Every node whose room changed, in order, for indexes that follow."""
    withheld: list[tuple[NodeName, ResourceName, int]] = field(default_factory=list)
    """Free units kept back by `withhold` until `hand_out`."""
    more: bool = False
    """Something is charged that no stored claim or pod accounts for: what a draft has made itself."""
    _journal: list[_Undo] = field(default_factory=list)
    _depth: int = 0

    def copy(self) -> "Ledger":
        """Return an independent ledger with the same amounts and no savepoint."""
        return Ledger(
            tree=self.tree,
            free_units={name: dict(room) for name, room in self.free_units.items()},
            reserved={name: dict(room) for name, room in self.reserved.items()},
            held={name: dict(room) for name, room in self.held.items()},
            shared=dict(self.shared),
            used_units=dict(self.used_units),
        )

    def tidy(self) -> None:
        """Forget what comes to nothing, and which nodes were touched; the amounts stand."""
        for rooms in (self.held, self.reserved):
            for resource, room in rooms.items():
                rooms[resource] = {node: units for node, units in room.items() if units}
        self.shared = {place: units for place, units in self.shared.items() if any(units)}
        self.touched.clear()

    # Nodes.

    def free(self, node: NodeName, resource: ResourceName) -> int:
        """Return capacity less what is in use; negative when the node shrank below what is held."""
        return self.free_units.get(resource, {}).get(node, 0)

    def room(self, node: NodeName, resource: ResourceName) -> int:
        """Return free less reserved units: what a new order may take."""
        return self.free(node, resource) - self.reserved.get(resource, {}).get(node, 0)

    def rooms(
        self, resource: ResourceName
    ) -> tuple[Mapping[NodeName, int], Mapping[NodeName, int]]:
        """Return what is free and what is reserved, node by node: `room` for whoever asks of many."""
        return self.free_units.get(resource, {}), self.reserved.get(resource, {})

    def hold(
        self, node: NodeName, resource: ResourceName, units: int, holder: Holder | None = None
    ) -> None:
        """Add units of a Bound claim (negative: take them back)."""
        self._shift(self.held, resource, node, units)
        if holder is None:
            self._use(node, resource, units)
        else:
            self._share(node, resource, holder, (units, 0))

    def occupy(
        self, node: NodeName, resource: ResourceName, units: int, holder: Holder | None = None
    ) -> None:
        """Add units that a live pod on the node requests (negative: take them back)."""
        if holder is None:
            self._use(node, resource, units)
        else:
            self._share(node, resource, holder, (0, units))

    def serve(self, node: NodeName, resource: ResourceName, units: int) -> None:
        """Add capacity to a node (negative: take it back)."""
        self._use(node, resource, -units)

    def reserve(self, node: NodeName, resource: ResourceName, units: int) -> None:
        """Promise free units to somebody who comes before new orders."""
        self._shift(self.reserved, resource, node, units)
        self.touched.setdefault(resource, []).append(node)

    def withhold(self, node: NodeName, resource: ResourceName, units: int) -> None:
        """Keep free units from everybody until `hand_out`: what frees them is not stored yet."""
        self.reserve(node, resource, units)
        self.withheld.append((node, resource, units))
        self.on_undo(lambda: self.withheld.remove((node, resource, units)))

    def hand_out(self) -> bool:
        """Give out what was withheld; returns whether there was anything."""
        had = bool(self.withheld)
        for node, resource, units in self.withheld:
            self.reserve(node, resource, -units)
        self.withheld.clear()
        return had

    # Tenants.

    def used(self, tenant: TenantName, key: QuotaKey) -> int:
        """Return units of a key used by a tenant and used by or promised to those below it."""
        return self.used_units.get((tenant, key), 0)

    def charge(self, tenant: TenantName, key: QuotaKey, units: int) -> None:
        """Add units to a tenant (negative: take them back) and to everyone above, as it shows there."""
        above: TenantName | None = tenant
        while above is not None and units:
            old = self.used(above, key)
            self._set_used((above, key), old + units)
            hard = self.tree.declared(above).get(key)
            if hard is not None:
                units = max(hard, old + units) - max(hard, old)
            above = tenancy.parent(above)

    def load(self, own: Mapping[Charge, int]) -> None:
        """Set what every tenant uses from its own units and the tree; for a new ledger only."""
        pool: dict[TenantName, dict[QuotaKey, int]] = {}
        for (tenant, key), units in own.items():
            pool.setdefault(tenant, {})[key] = units
        for tenant in (*pool, *self.tree.declarations):
            for one in self.tree.line(tenant):
                pool.setdefault(one, {})
        for tenant in sorted(pool, key=tenancy.nesting, reverse=True):
            declared, above = self.tree.declared(tenant), tenancy.parent(tenant)
            amounts = pool[tenant]
            for key in declared:
                amounts.setdefault(key, 0)
            for key, amount in amounts.items():
                self.used_units[tenant, key] = amount
                if above is not None:
                    seen = max(declared.get(key, 0), amount)
                    pool[above][key] = pool[above].get(key, 0) + seen

    # Savepoints.

    def mark(self) -> int:
        """Open a savepoint; every one is closed by `close`, innermost first."""
        self._depth += 1
        return len(self._journal)

    def close(self, mark: int, *, keep: bool) -> None:
        """Close a savepoint: keep what was done since, or undo it."""
        if not keep:
            while len(self._journal) > mark:
                self._journal.pop()()
        self._depth -= 1
        if not self._depth:
            self._journal.clear()

    def on_undo(self, undo: _Undo) -> None:
        """Have something outside put back together with the units, if a savepoint is open."""
        if self._depth:
            self._journal.append(undo)

    def _use(self, node: NodeName, resource: ResourceName, units: int) -> None:
        self._shift(self.free_units, resource, node, -units)
        self.touched.setdefault(resource, []).append(node)

    def _share(
        self, node: NodeName, resource: ResourceName, holder: Holder, added: tuple[int, int]
    ) -> None:
        place = (resource, node, holder)
        old = self.shared.get(place, (0, 0))
        new = (old[0] + added[0], old[1] + added[1])
        self.shared[place] = new
        self.on_undo(lambda: self.shared.__setitem__(place, old))
        self._use(node, resource, max(new) - max(old))

    def _shift(
        self, amounts: dict[ResourceName, Room], resource: ResourceName, node: NodeName, by: int
    ) -> None:
        room = amounts.setdefault(resource, {})
        old = room.get(node, 0)
        room[node] = old + by
        if self._depth:
            touched = self.touched.setdefault(resource, [])

            def undo() -> None:
                room[node] = old
                touched.append(node)

            self._journal.append(undo)

    def _set_used(self, charge: Charge, amount: int) -> None:
        old = self.used_units.get(charge, 0)
        self.used_units[charge] = amount
        self.on_undo(lambda: self.used_units.__setitem__(charge, old))


def empty(tree: Tree, capacities: Mapping[ResourceName, Mapping[NodeName, Units]]) -> Ledger:
    """Return a ledger of nodes with nothing in use, and tenants with nothing used or promised."""
    return Ledger(
        tree=tree,
        free_units={name: dict(nodes) for name, nodes in capacities.items()},
    )


def total(rooms: Iterable[int]) -> Units:
    """Add up free units; a node below zero lends nothing to another."""
    return Units(sum(room for room in rooms if room > 0))
