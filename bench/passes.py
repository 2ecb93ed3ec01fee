"""What a full house costs: event-loop lag, order to Bound and lists while passes go over many claims."""

import asyncio
import functools
from dataclasses import dataclass
from typing import Any, Final

from bench import bare, catalogue, forest, orders, reads, scrape, stats
from bench.flight import in_flight
from bench.scrape import Counters
from bench.stage import Stage
from devcluster import tenants
from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from gpu.units import TenantName

TRIGGERS: Final = 100
"""Orders that each start a pass."""
LAG: Final = "cozystack_gpu_event_loop_lag_seconds"
_WIDTH: Final = 16


@dataclass(frozen=True, slots=True)
class FullHouse:
    """What was seen while `held` claims were Bound and orders came one by one."""

    held: int
    lag_p99: float | None
    """Upper bound in seconds, from the product's own histogram."""
    bound_in: tuple[float, ...]
    first_lists: dict[str, list[float]]
    """Of each path the first read, when nobody had read for a while."""
    lists: dict[str, list[float]]
    pass_seconds: dict[str, float]
    """Mean seconds of deciding and writing by phase."""


async def fill(stage: Stage, held: int) -> None:
    """Make `held` Bound claims of a deep tree of tenants, as a former leader would have left them.

    Call it while the product is stopped: it would bind them itself, which takes minutes.
    """
    await in_flight(_WIDTH, (functools.partial(_plant, stage, name) for name in forest.every()))
    owners = forest.every()
    places = [
        (owners[index % len(owners)], index, catalogue.node_name(index // catalogue.UNITS))
        for index in range(held)
    ]
    await in_flight(_WIDTH, (functools.partial(_hold, stage, *place) for place in places))


async def measure(stage: Stage, held: int) -> FullHouse:
    """Order one by one and read lists meanwhile."""
    first = await reads.timed(stage, 1)
    before = await stage.product_counters()
    busy = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(reads.during(stage, busy))
        try:
            bound_in = await orders.one_by_one(stage, TRIGGERS)
        finally:
            busy.set()
    after = await stage.product_counters()
    return FullHouse(
        held=held,
        lag_p99=lag_p99(before, after),
        bound_in=bound_in,
        first_lists=first,
        lists=reading.result(),
        pass_seconds={
            phase: seconds / count
            for phase, (count, seconds) in scrape.gained_by(
                orders.PASS, "phase", before, after
            ).items()
        },
    )


def lag_p99(before: Counters | None, after: Counters) -> float | None:
    """Return the bound of the p99 in seconds between two readings, or since the process began."""
    gained = stats.difference(after.buckets(LAG), before.buckets(LAG) if before else {})
    return stats.bucket_bound(gained, 0.99)


async def _plant(stage: Stage, tenant: TenantName) -> None:
    """Make a tenant of the tree: its namespace, and the HelmRelease that declares its budgets."""
    units = forest.share(tenant)
    quotas = {keys.QUOTA_TOTAL: units, keys.quota_key_of_class(catalogue.CLASS): units}
    namespace, *_, release = tenants.objects(tenant, quotas)
    for kind, body in ((kinds.NAMESPACES, namespace), (kinds.HELM_RELEASES, release)):
        await _made(stage, kind, body)


async def _made(stage: Stage, kind: Kind, body: dict[str, Any]) -> None:
    """Create an object; one whose parent's namespace is being made still is tried again."""
    while True:
        try:
            await stage.api.create(kind, body, deadline=30)
        except errors.NotFound:
            await asyncio.sleep(0.1)
        else:
            return


async def _hold(stage: Stage, tenant: str, index: int, node: str) -> None:
    name = f"held-{index:05d}"
    body: dict[str, Any] = {
        "metadata": {"name": name, "namespace": tenant, "finalizers": [keys.CLAIM_FINALIZER]},
        "spec": {"className": catalogue.CLASS, "count": 1},
    }
    made = await stage.api.create(kinds.GPU_CLAIMS, body, deadline=30)
    patch = bare.placement(made["metadata"]["resourceVersion"], node)
    await stage.controller.patch(
        kinds.GPU_CLAIMS, name, patch, tenant, subresource="status", deadline=30
    )
