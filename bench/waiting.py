"""Orders while thousands wait: claims per second beside them, and how soon a freed unit is taken."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from typing import Any, Final

from apiserver import teardown
from bench import bare, catalogue, orders, watching
from bench.flight import in_flight
from bench.orders import Burst
from bench.stage import Stage
from gpu.objects import kinds

WAITERS: Final = 2_000
_TOLD: Final = 300.0
"""Seconds within which each waiter must have been told why it waits."""
_IN_FORCE: Final = 3.0
"""Seconds until kube-apiserver goes by webhooks that came or went."""


async def fill(stage: Stage) -> list[str]:
    """Take every unit of the tight class, then have WAITERS orders wait; returns who holds."""
    held = [f"tight-{index:05d}" for index in range(catalogue.TIGHT_UNITS)]
    waiters = [f"waits-{index:05d}" for index in range(WAITERS)]
    async with watching.watching(
        stage.api, kinds.GPU_CLAIMS, catalogue.TIGHT_TENANT, watching.is_bound
    ) as seen:
        await _order(stage, held)
        await seen.all_of(held, within=60)
    async with watching.watching(
        stage.api, kinds.GPU_CLAIMS, catalogue.TIGHT_TENANT, watching.is_told
    ) as seen:
        async with _unasked(stage):
            await _order(stage, waiters)
        await seen.all_of(waiters, within=_TOLD)
    return held


@contextlib.asynccontextmanager
async def _unasked(stage: Stage) -> AsyncIterator[None]:
    """Take the webhooks away for the length of the block: they refuse what would have to wait."""
    name, kind = teardown.WEBHOOKS, kinds.VALIDATING_WEBHOOKS
    found = await stage.api.get(kind, name)
    await stage.api.delete(kind, name)
    await asyncio.sleep(_IN_FORCE)
    try:
        yield
    finally:
        kept = {key: found["metadata"].get(key) or {} for key in ("labels", "annotations")}
        await stage.api.create(kind, {**found, "metadata": {"name": name, **kept}})
        await asyncio.sleep(_IN_FORCE)


async def burst(stage: Stage, count: int) -> Burst:
    """Order `count` times at once, of a class with room, beside those that wait."""
    return await orders.at_once(stage, count)


async def reuse(stage: Stage, held: list[str], count: int) -> tuple[float, ...]:
    """Give back one unit at a time; returns seconds from its DELETE to another claim seen Bound."""
    loop = asyncio.get_running_loop()
    took = []
    holders = list(held)
    async with watching.watching(
        stage.api, kinds.GPU_CLAIMS, catalogue.TIGHT_TENANT, watching.is_bound
    ) as seen:
        for name in holders:
            seen.see(name, 0.0)  # one that is given back is seen Bound once more, being deleted
        for _ in range(count):
            known = len(seen.at)
            started = loop.time()
            await stage.api.delete(kinds.GPU_CLAIMS, holders.pop(0), catalogue.TIGHT_TENANT)
            name, at = await seen.next_after(known, within=60)
            took.append(at - started)
            holders.append(name)
            await asyncio.sleep(orders.BREATH)
    return tuple(took)


async def clear(stage: Stage) -> None:
    """Give all of it back; the waiters first, so that nobody takes what is freed."""
    await bare.delete_all(stage.api, kinds.GPU_CLAIMS, catalogue.TIGHT_TENANT, within=300)


async def _order(stage: Stage, names: list[str]) -> None:
    await in_flight(bare.CREATORS, (functools.partial(_one, stage, name) for name in names))


async def _one(stage: Stage, name: str) -> None:
    body: dict[str, Any] = {
        "metadata": {"name": name, "namespace": catalogue.TIGHT_TENANT},
        "spec": {"className": catalogue.TIGHT_CLASS, "count": 1},
    }
    await stage.api.create(kinds.GPU_CLAIMS, body, deadline=30)
