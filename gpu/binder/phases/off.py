"""While the feature is off: how many pods wait at the gate, and what lets them through."""

from collections.abc import Iterator

from gpu import keys
from gpu.binder import changes, conditions, standing
from gpu.binder.changes import Change, ReportBinder
from gpu.binder.phase import Scene
from gpu.model import coverage
from gpu.objects.kinds import GPU_BINDERS


def changes_of(scene: Scene) -> Iterator[Change]:
    """Yield the one condition that is said of the product while it is off; nothing while it is on."""
    if scene.config.enabled:
        return
    waiting = sum(1 for pod in scene.world.pods if pod.live and coverage.is_at_gate(pod))
    told = standing.switched_off(waiting)
    for binder in scene.world.binders:
        is_skipped = scene.leaves_alone(changes.object_set(GPU_BINDERS, binder.meta.key))
        if binder.meta.name != keys.BINDER_NAME or is_skipped:
            continue
        shown = conditions.put(binder.conditions, told, scene.now)
        if not conditions.same(binder.conditions, shown):
            mine = tuple(item for item in shown if item.type == told.type)
            yield ReportBinder(binder=binder, settings=scene.world.settings, conditions=mine)
