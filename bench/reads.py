"""GET and LIST of options and gpuoffers through kube-apiserver, as a tenant, one request at a time."""

import asyncio
from collections.abc import Mapping
from typing import Final

from bench.stage import Stage
from gpu import keys

_BASE: Final = f"/apis/{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}"
ANCHOR: Final = "first claim, by kube-apiserver alone"
"""What the same reader waits for without us: a busy API server makes everybody wait."""
OK: Final = 200


def paths(stage: Stage) -> Mapping[str, str]:
    """Return what is read, by the name of its figure."""
    place = f"{_BASE}/namespaces/{stage.namespace}"
    return {
        "LIST options": f"{place}/options",
        "GET option": f"{place}/options/gpuclass",
        "LIST gpuoffers": f"{place}/gpuoffers",
        "GET gpuoffer": f"{place}/gpuoffers/{stage.class_name}",
        ANCHOR: f"/apis/{keys.GROUP}/{keys.VERSION}/namespaces/{stage.namespace}/gpuclaims?limit=1",
    }


async def timed(stage: Stage, count: int) -> dict[str, list[float]]:
    """Read each path `count` times in turn; returns seconds by figure."""
    took: dict[str, list[float]] = {name: [] for name in paths(stage)}
    for _ in range(count):
        await _round(stage, took)
    return took


async def during(stage: Stage, busy: asyncio.Event) -> dict[str, list[float]]:
    """Read each path in turn until `busy` is set; returns seconds by figure."""
    took: dict[str, list[float]] = {name: [] for name in paths(stage)}
    while not busy.is_set():
        await _round(stage, took)
        await asyncio.sleep(PAUSE)
    return took


PAUSE: Final = 0.02
"""Seconds between rounds of reading: a dashboard, not an attack."""


async def _round(stage: Stage, took: dict[str, list[float]]) -> None:
    loop = asyncio.get_running_loop()
    for name, path in paths(stage).items():
        started = loop.time()
        answer = await stage.tenant.raw("GET", path, deadline=30)
        took[name].append(loop.time() - started)
        if answer.status != OK:
            raise RuntimeError(f"{path}: {answer.status} {answer.body[:300]!r}")
