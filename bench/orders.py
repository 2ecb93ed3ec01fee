"""Order to Bound: one at a time on the idle plane, many at once, and a backlog met all at once."""

import asyncio
import functools
from dataclasses import dataclass
from typing import Any, Final

from bench import bare, scrape, watching
from bench.flight import in_flight
from bench.stage import Stage
from gpu.objects import kinds

PASS: Final = "cozystack_gpu_pass_duration_seconds"
CALLS: Final = "rest_client_request_duration_seconds"
SETTLE: Final = 1.0
"""Seconds after the last claim was seen Bound: the pass that bound it is counted at its end."""
BREATH: Final = 0.05
"""Seconds between single orders, so that the derived status of the one before is written."""


@dataclass(frozen=True, slots=True)
class Burst:
    """Many orders: how long until the last was Bound, each one's way, and who computed how long."""

    seconds: float
    latencies: tuple[float, ...]
    cpu: dict[str, float]
    """Seconds of CPU by process."""
    phases: dict[str, float]
    """Seconds of deciding and writing by phase, all passes together; of the product's own metrics."""
    passes: float
    patch: float
    """Mean seconds of a patch as the product's client saw it."""


async def one_by_one(stage: Stage, count: int) -> tuple[float, ...]:
    """Return seconds from sending an order to seeing it Bound in a watch, `count` times."""
    loop = asyncio.get_running_loop()
    took = []
    async with watching.watching(
        stage.api, kinds.GPU_CLAIMS, stage.namespace, watching.is_bound
    ) as seen:
        for index in range(count):
            name = f"one-{index:05d}"
            started = loop.time()
            await _order(stage, name)
            took.append((await seen.all_of([name], within=30))[name] - started)
            await asyncio.sleep(BREATH)
    await clear(stage)
    return tuple(took)


async def at_once(stage: Stage, count: int) -> Burst:
    """Order `count` times as fast as the API server takes them; ends when all are Bound."""
    return await _burst(stage, count, frozen=False)


async def backlog(stage: Stage, count: int) -> Burst:
    """Order `count` times while our process is stopped, wake it, and time from there to all Bound.

    Then nobody but the binder writes, which is what the bare writes are comparable with.
    """
    return await _burst(stage, count, frozen=True)


async def clear(stage: Stage) -> None:
    """Give every claim back and wait until the binder has let go of all."""
    await bare.delete_all(stage.api, kinds.GPU_CLAIMS, stage.namespace)
    await asyncio.sleep(0.3)  # derived status follows


async def _burst(stage: Stage, count: int, *, frozen: bool) -> Burst:
    loop = asyncio.get_running_loop()
    names = [f"many-{index:05d}" for index in range(count)]
    sent: dict[str, float] = {}

    async def order(name: str) -> None:
        sent[name] = loop.time()
        await _order(stage, name)

    counted = await stage.product_counters()
    async with watching.watching(
        stage.api, kinds.GPU_CLAIMS, stage.namespace, watching.is_bound
    ) as seen:
        if frozen:
            stage.product.freeze()
        try:
            before, started = stage.cpu(), loop.time()
            await in_flight(bare.CREATORS, (functools.partial(order, name) for name in names))
            if frozen:
                before, started = stage.cpu(), loop.time()
                sent = dict.fromkeys(names, started)
        finally:
            if frozen:
                stage.product.thaw()
        at = await seen.all_of(names, within=180)
        after = stage.cpu()
    await asyncio.sleep(SETTLE)
    recounted = await stage.product_counters()
    await clear(stage)
    phases = scrape.gained_by(PASS, "phase", counted, recounted)
    patches = scrape.gained_by(CALLS, "verb", counted, recounted).get("patch", (0.0, 0.0))
    return Burst(
        seconds=max(at.values()) - started,
        latencies=tuple(at[name] - sent[name] for name in names),
        cpu={name: after[name] - before[name] for name in after},
        phases={name: seconds for name, (_, seconds) in phases.items()},
        passes=max((count for count, _ in phases.values()), default=0.0),
        patch=patches[1] / patches[0] if patches[0] else 0.0,
    )


async def _order(stage: Stage, name: str) -> None:
    body: dict[str, Any] = {
        "metadata": {"name": name, "namespace": stage.namespace},
        "spec": {"className": stage.class_name, "count": 1},
    }
    await stage.tenant.create(kinds.GPU_CLAIMS, body, deadline=30)
