"""GPUNode inventory and core Node (taints, readiness, allocatable)."""

import contextlib
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from gpu.errors import UnitsError
from gpu.objects import meta
from gpu.objects.decode import Fields, Raw
from gpu.objects.meta import ObjectMeta
from gpu.units import ONE, NodeName, ResourceName, Units, parse_ceiling, parse_units

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """One taint of a node."""

    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A core Node: what placement looks at; heartbeats, images and annotations are left out."""

    meta: ObjectMeta
    ready: bool = False
    ready_since: datetime | None = None
    """When readiness last changed, either way."""
    cordoned: bool = False
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[ResourceName, Units] = field(default_factory=dict)
    """Extended resources only (a name with a slash)."""
    amounts: Mapping[str, int] = field(default_factory=dict)
    """All it can allocate: CPU in thousandths, anything else as it counts (bytes, pods, units)."""
    raw: Raw = field(default_factory=dict, compare=False, repr=False)

    @property
    def name(self) -> NodeName:
        """Its name."""
        return NodeName(self.meta.name)

    @property
    def out_of_service(self) -> bool:
        """Say whether somebody vouches that it is off: nothing runs there (KEP-2268)."""
        return any(taint.key == OUT_OF_SERVICE for taint in self.taints)


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device of a node's inventory; `units` as kubelet counts it allocatable."""

    id: str
    resource: ResourceName
    healthy: bool = True
    units: Units = ONE
    model: str = ""
    held_by: tuple[str, ...] = ()
    """UIDs of the pods that kubelet gave units of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUnits:
    """Derived units of one resource, as the leader last published them."""

    name: ResourceName
    held: int = 0
    free: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUNode:
    """What the node agent saw. Missing, stale or empty inventory is unknown, never zero."""

    meta: ObjectMeta
    devices: tuple[Device, ...] = ()
    observed_at: datetime | None = field(default=None, compare=False)
    resources: tuple[NodeUnits, ...] = ()
    raw: Raw = field(default_factory=dict, compare=False, repr=False)

    @property
    def name(self) -> NodeName:
        """The node it describes."""
        return NodeName(self.meta.name)


def decode(raw: Raw) -> Node:
    """Read a core Node. An unreadable quantity of one resource leaves that resource out."""
    fields = Fields(raw)
    spec = fields.child("spec")
    status = fields.child("status")
    allocatable = status.child("allocatable").raw
    ready = meta.condition(meta.decode_conditions(status), "Ready")
    return Node(
        meta=replace(meta.decode_meta(fields), annotations={}, generation=0),
        ready=ready is not None and ready.status == "True",
        ready_since=ready.since if ready else None,
        cordoned=spec.flag("unschedulable"),
        taints=tuple(
            Taint(key=t.text("key"), value=t.text_or("value"), effect=t.text_or("effect"))
            for t in spec.children("taints")
        ),
        allocatable=extended(allocatable),
        amounts=amounts(allocatable),
        raw=raw,
    )


def extended(quantities: Mapping[str, object]) -> dict[ResourceName, Units]:
    """Keep the extended resources of a quantity map, as whole units; others are not ours."""
    found: dict[ResourceName, Units] = {}
    for name, value in quantities.items():
        if "/" not in name:
            continue
        try:
            found[ResourceName(name)] = parse_units(value)
        except UnitsError:
            continue  # extended resources are whole by API validation; attachable-volumes are not
    return found


def amounts(quantities: Mapping[str, object]) -> dict[str, int]:
    """Read a quantity map as kube-scheduler does: `cpu` in thousandths, all rounded up."""
    found: dict[str, int] = {}
    for name, value in quantities.items():
        # TypeError: no text and no number. What cannot be read is left out, as of `extended`.
        with contextlib.suppress(UnitsError, TypeError):
            found[name] = _amount(value, 1000 if name == "cpu" else 1)
    return found


@functools.lru_cache(maxsize=4096, typed=True)
def _amount(value: str | float, per_unit: int) -> int:
    """Parse a text once: a cluster has few different ones."""
    return parse_ceiling(value, per_unit)


def decode_inventory(raw: Raw) -> GPUNode:
    """Read a GPUNode. Raises DecodeError where its schema is broken."""
    fields = Fields(raw)
    status = fields.child("status")
    return GPUNode(
        meta=meta.decode_meta(fields),
        devices=tuple(
            Device(
                id=d.text("id"),
                resource=ResourceName(d.text_or("resourceName")),
                healthy=d.flag("healthy"),
                units=d.units("units", 1),
                model=d.text_or("model"),
                held_by=d.texts("heldBy"),
            )
            for d in status.children("devices")
        ),
        observed_at=status.time("observedAt"),
        resources=tuple(
            NodeUnits(
                name=ResourceName(r.text("name")),
                held=r.whole("held", 0),
                free=r.whole("free", 0),
            )
            for r in status.children("resources")
        ),
        raw=raw,
    )
