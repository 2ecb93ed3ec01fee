"""Derived state: class and node status, the settings ConfigMap, and GPUBinder's own conditions.

Computed from the draft, so that it tells of what this pass placed; each is yielded only when it
differs from what is stored, whenever that began.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gpu import keys, settings
from gpu.binder import changes, conditions, standing
from gpu.binder.changes import Change, ReportBinder, ReportClass, ReportNode, WriteSettings
from gpu.binder.phase import Scene
from gpu.model import capacity, eligibility, guard, holds, names
from gpu.model.capacity import ClassUnits
from gpu.model.snapshot import Snapshot
from gpu.objects.classes import GPUClass
from gpu.objects.kinds import CONFIG_MAPS, GPU_BINDERS, GPU_CLASSES, GPU_NODES
from gpu.objects.meta import Condition
from gpu.settings import Settings

READY: Final = "Ready"
PERMITTED: Final = "Permitted"
NODES_MOST: Final = 512
"""As many node names as the schema of a class takes."""


def changes_of(scene: Scene) -> Iterator[Change]:
    """Yield what is stored otherwise than it should be."""
    enforced = standing.enforced(holds.gaps(scene.config, scene.world.webhooks))
    yield from _classes(scene, enforced)
    yield from _nodes(scene)
    yield from _settings(scene, enforced)


def _classes(scene: Scene, enforced: Condition) -> Iterator[Change]:
    units = capacity.of_classes(scene.draft)
    named: Counter[str] = Counter()
    if any(offer.meta.deleting for offer in scene.world.classes):
        named.update(claim.class_name for claim in scene.draft.claims())
    for offer in scene.world.classes:
        if scene.leaves_alone(changes.object_set(GPU_CLASSES, offer.meta.key)):
            continue
        ready = _ready_or_not(scene, offer, units[offer.name], named[offer.name])
        told = (ready, _permitted(scene, offer), enforced)
        report = _of_class(scene, offer, units[offer.name], told)
        if not _is_published(report):
            yield report


def _ready_or_not(scene: Scene, offer: GPUClass, units: ClassUnits, named: int) -> Condition:
    if offer.meta.deleting:
        return _deleting(named)
    return _ready(scene.draft.snapshot, offer, units)


def _of_class(
    scene: Scene, offer: GPUClass, units: ClassUnits, told: tuple[Condition, ...]
) -> ReportClass:
    shown = offer.status.conditions
    for condition in told:
        fresh = replace(condition, observed_generation=offer.meta.generation)
        shown = conditions.put(shown, fresh, scene.now)
    return ReportClass(
        offer=offer,
        capacity=units.capacity,
        allocatable=units.allocatable,
        held=units.held,
        free=units.free,
        nodes=units.nodes[:NODES_MOST],
        node_count=len(units.nodes),
        conditions=shown,
    )


def _is_published(report: ReportClass) -> bool:
    stored = report.offer.status
    told = replace(
        stored,
        observed_generation=report.offer.meta.generation,
        capacity=report.capacity,
        allocatable=report.allocatable,
        held=report.held,
        free=report.free,
        nodes=report.nodes,
        node_count=report.node_count,
    )
    return stored == told and conditions.same(stored.conditions, report.conditions)


def _ready(snapshot: Snapshot, offer: GPUClass, units: ClassUnits) -> Condition:
    """Say whether the class takes orders, and if not, the first reason why."""
    if offer.retired:
        return _is(READY, "False", "Retired", "retired: takes no new order, holders stay")
    if not units.nodes:
        return _is(READY, "False", "NoNodeServes", f"no node serves {offer.resource}")
    takes = len(eligibility.nodes(snapshot, offer.name))
    if not takes:
        return _is(
            READY,
            "False",
            "NoNodeEligible",
            f"each node that serves {offer.resource} is not Ready, cordoned, or has a taint that "
            "the class does not tolerate",
        )
    return _is(READY, "True", "Served", f"nodes that serve {offer.resource} take its sets")


def _deleting(named: int) -> Condition:
    """Say what a class that is being deleted waits for."""
    waits = "it goes now"
    if named == 1:
        waits = "1 claim names it: it goes when that is deleted"
    elif named:
        waits = f"{named} claims name it: it goes when they are deleted"
    return _is(READY, "False", "Deleting", f"being deleted, takes no order; {waits}")


def _permitted(scene: Scene, offer: GPUClass) -> Condition:
    table = scene.draft.snapshot.permitted
    if table is None:
        return _is(
            PERMITTED, "True", "NoTable", "KubeVirt has no permittedHostDevices: nothing is barred"
        )
    if names.is_permitted(offer.resource, table):
        return _is(PERMITTED, "True", "Listed", f"permittedHostDevices has {offer.resource}")
    return _is(
        PERMITTED,
        "False",
        "NotListed",
        f"permittedHostDevices lacks {offer.resource}: no VM can use a claim of this class",
    )


def _nodes(scene: Scene) -> Iterator[Change]:
    units = capacity.of_nodes(scene.draft)
    for node in scene.world.inventory:
        resources = units.get(node.name, ())
        if resources == node.resources:
            continue
        stored = {item.name: item for item in node.resources}
        is_skipped = scene.leaves_alone(changes.object_set(GPU_NODES, node.meta.key))
        if stored != {item.name: item for item in resources} and not is_skipped:
            yield ReportNode(node=node, resources=resources)


def _settings(scene: Scene, enforced: Condition) -> Iterator[Change]:
    wanted = Settings.of(scene.draft.snapshot.resources, scene.config.raw_names)
    stored = scene.world.settings_map
    problem = _problem(scene, wanted)
    is_refused = scene.leaves_alone(changes.object_set(CONFIG_MAPS, changes.SETTINGS_KEY))
    if problem and not is_refused:
        yield WriteSettings(settings=wanted, exists=stored is not None, problem=problem)
    yield from _binder(scene, wanted, problem if is_refused else "", enforced)


def _problem(scene: Scene, wanted: Settings) -> str:
    """Return how the stored settings differ from those wanted; empty when they do not."""
    stored = scene.world.settings_map
    if stored is None:
        return "the settings ConfigMap does not exist"
    data = settings.format_data(wanted)
    for name, text in data.items():
        found = stored.data.get(name)
        if found != text:
            return f"data.{name} is {_short(found)}, not {_short(text)}"
    return ""


def _binder(scene: Scene, wanted: Settings, problem: str, enforced: Condition) -> Iterator[Change]:
    """Say on GPUBinder which settings are in force and how things stand; only what changed."""
    in_force = scene.world.settings if problem else wanted
    if scene.findings.held_back:
        # Later phases placed more, or let go: told is what the next pass counts.
        limit = guard.limit(scene.draft.sets, scene.now, scene.config.guard)
        scene.findings.guard_limit = limit
    for binder in scene.world.binders:
        is_skipped = scene.leaves_alone(changes.object_set(GPU_BINDERS, binder.meta.key))
        if binder.meta.name != keys.BINDER_NAME or is_skipped:
            continue
        current = (
            _is(
                conditions.SETTINGS_CURRENT, "False", "WriteRefused", f"cannot be healed: {problem}"
            )
            if problem
            else _is(conditions.SETTINGS_CURRENT, "True", "Written", "as the leader wants them")
        )
        shown = binder.conditions
        ours = (
            current,
            standing.switched_on(),
            enforced,
            *standing.of(scene.findings, scene.silent),
        )
        for condition in ours:
            shown = conditions.put(shown, condition, scene.now)
        if binder.settings != in_force or not conditions.same(binder.conditions, shown):
            names = {condition.type for condition in ours}
            yield ReportBinder(
                binder=binder,
                settings=in_force,
                conditions=tuple(item for item in shown if item.type in names),
            )


def _is(kind: str, status: str, reason: str, message: str) -> Condition:
    return Condition(type=kind, status=status, reason=reason, message=message)


def _short(text: str | None) -> str:
    if text is None:
        return "missing"
    return repr(text) if len(text) <= 80 else repr(text[:79] + "…")  # noqa: PLR2004 -- a line
