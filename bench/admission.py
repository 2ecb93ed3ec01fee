"""What the order webhook adds to an order: dry runs one by one, taken and refused, and where none is asked."""

import asyncio
from typing import Any, Final

from bench.stage import Stage
from devcluster import chart
from gpu.cluster import client, errors
from gpu.objects import kinds

TAKEN: Final = "order taken, dry run"
REFUSED: Final = "order refused, dry run"
ANCHOR: Final = "order where no webhook is asked, dry run"
"""What the same request waits for without us: a busy API server makes everybody wait."""
_TOO_MANY: Final = 10**6


async def timed(stage: Stage, count: int) -> dict[str, list[float]]:
    """Send each kind of order `count` times in turn, storing none; returns seconds by figure."""
    took: dict[str, list[float]] = {TAKEN: [], REFUSED: [], ANCHOR: []}
    for _ in range(count):
        took[TAKEN].append(await _order(stage.tenant, stage, stage.namespace, 1))
        took[REFUSED].append(await _order(stage.tenant, stage, stage.namespace, _TOO_MANY))
        took[ANCHOR].append(await _order(stage.api, stage, chart.NAMESPACE, 1))
    return took


async def _order(who: client.Client, stage: Stage, namespace: str, units: int) -> float:
    body: dict[str, Any] = {
        "metadata": {"name": "asked", "namespace": namespace},
        "spec": {"className": stage.class_name, "count": units},
    }
    loop = asyncio.get_running_loop()
    started = loop.time()
    try:
        await who.create(kinds.GPU_CLAIMS, body, dry_run=True, deadline=30)
    except errors.Forbidden:
        if units == 1:
            raise
    return loop.time() - started
