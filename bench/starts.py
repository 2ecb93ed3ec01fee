"""Starts at the gate: what it costs to judge hundreds of launchers that wait, or to let them through."""

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any, Final

from bench import house
from bench.figures import Collected, Goal, Sense, Take
from gpu import keys
from gpu.binder.checking import Checker
from gpu.binder.phase import Scene
from gpu.binder.phases import gates
from gpu.config import Config
from gpu.model.draft import Draft
from gpu.objects import kubevirt, pods
from gpu.objects.kubevirt import VMI
from gpu.objects.meta import HasMeta, ObjectKey
from gpu.objects.pods import Pod
from gpu.units import ClassName, Units
from gpu.world import World

WAITING: Final = 200
NODES: Final = 80
"""A quarter of them serve the class asked for."""
CLASS: Final = ClassName(house.CLASSES[0])
_GOAL: Final = Goal(take=Take.MIDDLE, sense=Sense.AT_MOST, value=300)
_NOTE: Final = "phase gates and the checker alone, in one process; template units of one class, which 20 nodes serve"
_CPU: Final = 1_000
"""More than any node has: units are free everywhere, and no node takes the pod."""


def measure(rounds: int, got: Collected) -> None:
    """Add the figures of starts."""
    cases: tuple[tuple[str, Callable[[], World]], ...] = (
        ("no node has the units free", lambda: gated(units=house.NODE_UNITS + 1)),
        ("units are free, no node has the CPU", lambda: gated(units=1, cpu=_CPU)),
        ("all are let through", lambda: gated(units=1)),
    )
    for what, made in cases:
        took = [_ms(made()) for _ in range(rounds)]
        name = f"model: {WAITING} starts at the gate, {NODES} nodes: {what}"
        got.add(name, "ms", took, goal=_GOAL, note=_NOTE)


def gated(*, units: int, cpu: int = 1) -> World:
    """Return a house without claims, and as many launchers at the gate, each of a VM of its own."""
    return waiting(house.full(0, NODES).world, WAITING, units=units, cpu=cpu)


def waiting(world: World, count: int, *, units: int, cpu: int = 1) -> World:
    """Return a house with `count` launchers at the gate, each of a VM of its own."""
    resource = house.resource_of(CLASS)
    machines = tuple(replace(node, amounts={"cpu": 64_000, "pods": 250}) for node in world.nodes)
    names = [f"vm-{number:05}" for number in range(count)]
    asked = {resource: str(units), "cpu": str(cpu)}
    return replace(
        world,
        nodes=machines,
        vmis=tuple(sorted((_vmi(name, units) for name in names), key=_key)),
        pods=tuple(sorted((_launcher(name, asked) for name in names), key=_key)),
    )


def _vmi(name: str, units: int) -> VMI:
    resolved = kubevirt.format_resolved({}, {CLASS: Units(units)})
    meta: dict[str, Any] = {
        "name": name,
        "namespace": _tenant(name),
        "uid": f"vmi-{name}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {keys.RESOLVED_CLAIMS_ANNOTATION: resolved},
    }
    status = {"phase": "Scheduling", "activePods": {f"pod-{name}": ""}}
    return kubevirt.decode_vmi({"metadata": meta, "spec": {}, "status": status})


def _launcher(name: str, amounts: dict[str, str]) -> Pod:
    meta = {
        "name": f"launcher-{name}",
        "namespace": _tenant(name),
        "uid": f"pod-{name}",
        "labels": {pods.LAUNCHER_LABEL: pods.LAUNCHER_VALUE},
    }
    spec = {
        "schedulingGates": [{"name": keys.PLACEMENT_GATE}],
        "containers": [{"name": "compute", "resources": {"requests": amounts}}],
    }
    return pods.decode({"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})


def _tenant(name: str) -> str:
    """Return one of the house's tenants."""
    return f"tenant-{int(name.removeprefix('vm-')) % house.TENANTS:03d}"


def _key(item: HasMeta) -> ObjectKey:
    return item.meta.key


def _ms(world: World) -> float:
    scene = Scene(world=world, draft=Draft.of(world.snapshot), config=Config(), now=house.START)
    began = perf_counter()
    wanted = tuple(gates.changes_of(scene))
    refused = Checker(world=world).judge(wanted)
    took = perf_counter() - began
    assert not refused, refused
    return took * 1000
