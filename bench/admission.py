"""What webhooks add: orders taken and refused, one by one and many at once; quotas of a new tenant."""

import asyncio
import functools
import itertools
from typing import Any, Final

from bench import forest
from bench.flight import in_flight
from bench.stage import Stage
from devcluster import chart, tenants
from gpu import keys
from gpu.cluster import client, errors
from gpu.objects import kinds
from gpu.units import TenantName

SECONDS: Final = "cozystack_gpu_admission_duration_seconds"
TAKEN: Final = "order taken, dry run"
REFUSED: Final = "order refused, dry run"
ANCHOR: Final = "order where no webhook is asked, dry run"
"""What the same request waits for without us: a busy API server makes everybody wait."""
CROWD: Final = 50
"""Orders in flight at a time."""
CROWDED: Final = f"order taken, dry run, {CROWD} in flight"
CROWDED_ANCHOR: Final = f"order where no webhook is asked, dry run, {CROWD} in flight"
GRANTED: Final = "quotas of a new tenant granted"
NOT_GRANTED: Final = "quotas of a new tenant refused"
_TOO_MANY: Final = 10**6
_UNITS: Final = 1


async def timed(stage: Stage, count: int) -> dict[str, list[float]]:
    """Send each kind of order `count` times in turn, storing none; returns seconds by figure."""
    took: dict[str, list[float]] = {TAKEN: [], REFUSED: [], ANCHOR: []}
    for _ in range(count):
        took[TAKEN].append(await _order(stage.tenant, stage, stage.namespace, 1))
        took[REFUSED].append(await _order(stage.tenant, stage, stage.namespace, _TOO_MANY))
        took[ANCHOR].append(await _order(stage.api, stage, chart.NAMESPACE, 1))
    return took


async def crowded(stage: Stage, count: int) -> dict[str, list[float]]:
    """Send `count` orders of tenants of the tree, as the administrator, many at a time."""
    owners = list(itertools.islice(itertools.cycle(forest.deepest()), count))
    took: dict[str, list[float]] = {}
    for name, places in ((CROWDED, owners), (CROWDED_ANCHOR, [chart.NAMESPACE] * count)):
        jobs = (functools.partial(_order, stage.api, stage, place, _UNITS) for place in places)
        took[name] = list(await in_flight(CROWD, jobs))
    return took


async def quotas(stage: Stage, count: int) -> dict[str, list[float]]:
    """Create tenants below those of the tree, one by one, and ask for some that are refused."""
    took: dict[str, list[float]] = {GRANTED: [], NOT_GRANTED: []}
    for number, above in enumerate(itertools.islice(forest.deepest(), count)):
        took[GRANTED].append(await _tenant(stage, above, number, _UNITS))
        took[NOT_GRANTED].append(await _tenant(stage, above, number, _TOO_MANY))
    return took


async def _tenant(stage: Stage, above: TenantName, number: int, units: int) -> float:
    name = f"new{number}" if units == _UNITS else f"more{number}"
    body: dict[str, Any] = {
        "metadata": {"name": name, "namespace": above},
        "spec": {"resourceQuotas": {keys.QUOTA_TOTAL: units}},
    }
    loop = asyncio.get_running_loop()
    started = loop.time()
    try:
        await stage.api.create(tenants.TENANTS, body, deadline=30)
    except errors.Invalid:
        if units == _UNITS:
            raise
    return loop.time() - started


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
