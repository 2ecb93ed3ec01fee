"""kill -9 of the product: in the middle of 200 orders, and at each write in turn.

Between the product and kube-apiserver stands a proxy that counts writes of ours and cuts the line at
one of them, before it is forwarded or after it was executed; the process is killed at that moment.
"""

import asyncio
import random

import pytest
import pytest_asyncio

from devcluster import chart
from gpu.objects import kinds
from tests.real import site as sites
from tests.real.cutting_proxy import When, between

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

# The binder's own way to put the finalizer on: more writes to be killed at.
UNATTENDED = {**chart.UNATTENDED, "claimFinalizerPolicy": {"enabled": False}}
UNITS = 150
ORDERS = 200
POINTS = 8
SURE = 6  # four finalizers and the first placements
"""Kill points of a sampled run; `--full` takes every write of the pass, before and after."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with sites.opened(
        tmp_path_factory.mktemp("crashes"), start=False, values=UNATTENDED
    ) as opened:
        await opened.offer("h100")
        await opened.tenant("tenant-a")
        await opened.tenant("tenant-b", total=40)
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(site):
    async with between(site) as opened:
        yield opened


async def killed_at(site, proxy, at, when, orders, *, within=20):
    """Start, order, and die at the `at`-th write of ours; False when there were fewer writes in time."""
    dead = asyncio.Event()

    async def kill():
        site.product.kill()
        dead.set()

    await site.product.start(flags=sites.FAST, login=proxy.login)
    proxy.cut(at, when, kill)
    await asyncio.gather(*(site.order(tenant, name, "h100") for tenant, name in orders))
    try:
        async with asyncio.timeout(within):
            await dead.wait()
    except TimeoutError:
        return False
    finally:
        proxy.cut_at = None
    return True


async def all_that_fits(site, units):
    """Wait until as many units as fit are held by orders of one unit each, and judge the books."""

    async def full():
        return sum((await site.booked()).values()) == units

    await sites.until(full, 60, f"{units} units bound")


async def cleared(site):
    for claim in await site.claims():
        meta = claim["metadata"]
        await site.admin.delete(kinds.GPU_CLAIMS, meta["name"], meta["namespace"])

    async def empty():
        return not await site.claims()

    await sites.until(empty, 60, "all claims gone")


async def test_killed_amid_200_orders_all_that_fits_is_bound_and_nothing_twice(site, proxy, seed):
    dice = random.Random(seed)
    for number in range(15):
        await site.node(f"gpu-{number}", UNITS // 15)
    orders = [("tenant-a", f"order-{number}") for number in range(ORDERS - 50)]
    orders += [("tenant-b", f"order-{number}") for number in range(50)]
    at = dice.randrange(20, ORDERS)
    assert await killed_at(site, proxy, at, dice.choice(list(When)), orders, within=90)
    await site.product.start(flags=sites.FAST)
    await all_that_fits(site, UNITS)
    bound = [c for c in await site.claims() if (c.get("status") or {}).get("phase") == "Bound"]
    of_b = sum(1 for claim in bound if claim["metadata"]["namespace"] == "tenant-b")
    assert of_b <= 40
    await cleared(site)
    await site.product.stop()


def sampled(points: list[tuple[int, When]], seed: int) -> list[tuple[int, When]]:
    """Half of the sample from the writes that every run makes, half from those that may not come."""
    dice = random.Random(seed)
    early = [point for point in points if point[0] <= SURE]
    late = [point for point in points if point[0] > SURE]
    return dice.sample(early, POINTS // 2) + dice.sample(late, POINTS - POINTS // 2)


async def test_killed_at_each_write_in_turn_the_next_start_puts_all_right(site, proxy, seed, full):
    """Three units on one node, four orders: each kill point leaves three Bound and one waiting."""
    for node in [n["metadata"]["name"] for n in (await site.admin.list_all(kinds.NODES)).items]:
        await site.admin.delete(kinds.NODES, node)
    await site.node("small", 3)
    points = [(at, when) for at in range(1, 13) for when in When]
    if not full:
        points = sampled(points, seed)
    reached = 0
    for at, when in points:
        orders = [("tenant-a", f"point-{number}") for number in range(4)]
        reached += await killed_at(site, proxy, at, when, orders)
        await site.product.stop()
        await site.product.start(flags=sites.FAST)
        await all_that_fits(site, 3)
        assert (await site.booked()) == {"small": 3}
        await cleared(site)
        await site.product.stop()
    assert reached >= len(points) // 2  # a point past the last write cannot be reached
