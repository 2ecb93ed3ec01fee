"""The process alone, no control plane: event-loop lag, and lists read while orders are bound one by one."""

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import aiohttp

from bench import lone
from bench.figures import Collected, Goal, Sense, Take
from devcluster import children
from gpu import keys

SECONDS: Final = 20.0
"""Of one round."""
_PAUSE: Final = 0.02
"""Seconds between rounds of reading: a dashboard, not an attack."""
_BASE: Final = f"/apis/{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}/namespaces/{lone.READER}"
_PATHS: Final = {
    "LIST options": f"{_BASE}/options",
    "GET option": f"{_BASE}/options/gpuclass",
    "LIST gpuoffers": f"{_BASE}/gpuoffers",
    "/healthz": "/healthz",
}
_LAG: Final = Goal(take=Take.P99, sense=Sense.AT_MOST, value=20)
_LIST: Final = Goal(take=Take.P99, sense=Sense.AT_MOST, value=100)
_ALONE: Final = (
    "caches, binder, lists and their HTTP face in one process over an API server in memory; no TLS, no "
    "access reviews, no requests to kube-apiserver; orders one by one, each when the last is Bound"
)


async def measure(
    rounds: int, held: int, say: Callable[[str], None], got: Collected, seconds: float = SECONDS
) -> None:
    """Add the figures of so many rounds, each of a process of its own."""
    among = f"process alone, {held:,} claims held"
    for number in range(1, rounds + 1):
        say(f"round {number} of {rounds}: {among}")
        async with _started(held) as (process, port):
            took = await _read(port, seconds)
            seen = await _ended(process)
        got.add(f"event-loop lag, {among}", "ms", _ms(seen["lag"]), goal=_LAG, note=_ALONE)
        for name, values in took.items():
            goal = _LIST if name.startswith("LIST") else None
            got.add(f"{name}, {among}", "ms", _ms(values), goal=goal)
        got.add(f"order to Bound, {among}", "ms", _ms(seen["bound_in"]))
        got.add(f"pass, {among}", "ms", _ms(seen["passes"]))


@contextlib.asynccontextmanager
async def _started(held: int) -> AsyncIterator[tuple[Process, int]]:
    async with children.running(sys.executable, "-m", lone.__name__, str(held)) as process:
        yield process, (await _told(process))["port"]


async def _ended(process: Process) -> dict[str, list[float]]:
    assert process.stdin is not None
    process.stdin.close()
    found: dict[str, list[float]] = await _told(process)
    return found


async def _told(process: Process) -> dict[str, Any]:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise RuntimeError(f"{lone.__name__} ended early, with status {await process.wait()}")
    found: dict[str, Any] = json.loads(line)
    return found


async def _read(port: int, seconds: float) -> dict[str, list[float]]:
    """Read each path in turn; returns seconds by figure."""
    loop = asyncio.get_running_loop()
    took: dict[str, list[float]] = {name: [] for name in _PATHS}
    until = loop.time() + seconds
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", raise_for_status=True) as session:
        while loop.time() < until:
            for name, path in _PATHS.items():
                began = loop.time()
                async with session.get(path) as answer:
                    await answer.read()
                took[name].append(loop.time() - began)
            await asyncio.sleep(_PAUSE)
    return took


def _ms(seconds: list[float]) -> list[float]:
    return [1000 * value for value in seconds]
