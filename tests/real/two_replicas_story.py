"""The story of test_kept_safe.py: namespaces come and go while one of two replicas restarts or hangs."""

import asyncio
import contextlib
import time

import pytest
import pytest_asyncio

from devcluster import chart, control_plane, product, simulator
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECOND = "replica-2"
SECONDS = 20.0
"""The namespace controller itself waits 5 s between its looks."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    directory = tmp_path_factory.mktemp("plane")
    async with (
        control_plane.control_plane(directory, aggregator_routing=True) as cp,
        product.running(cp, values=chart.ORDERS_WAIT, flags=sites.FAST) as gpu,
    ):
        await gpu.start(SECOND, flags=sites.FAST)
        site = sites.Site(cp, gpu, gpu.admin, simulator.Simulator(gpu.admin))
        await site.node("gpu-1", 8)
        await site.offer("h100")
        yield site


async def comes_and_goes(site, tenant):
    """Make a tenant with a claim that is held and one that waits, and delete it; the seconds it took."""
    await site.tenant(tenant)
    await site.order(tenant, "held", "h100", 1)
    await site.order(tenant, "waiting", "h100", 99)
    await site.bound(tenant, "held", within=30)
    began = time.monotonic()
    await site.admin.delete(kinds.NAMESPACES, tenant)

    async def gone():
        with contextlib.suppress(errors.NotFound):
            await site.admin.get(kinds.NAMESPACES, tenant)
            return False
        return True

    await sites.until(gone, SECONDS, f"namespace {tenant} gone")
    return time.monotonic() - began


@contextlib.asynccontextmanager
async def beside(work):
    """Run something over and over for the length of the block."""
    task = asyncio.ensure_future(work())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_with_one_of_two_that_restarts_in_a_loop(site):
    async def restarting():
        while True:
            site.product.kill(SECOND)
            # As kubelet has it: an endpoint is gone a moment after its process.
            await asyncio.sleep(0.2)
            await site.product.route(SECOND, ready=False)
            await site.product.stop(SECOND)
            await site.product.start(SECOND, flags=sites.FAST)

    async with beside(restarting):
        assert await comes_and_goes(site, "tenant-loop") < SECONDS
    await site.product.stop(SECOND)
    await site.product.start(SECOND, flags=sites.FAST)


@pytest.mark.parametrize("noticed", [False, True], ids=["not-noticed", "taken-out"])
async def test_with_one_of_two_that_accepts_and_never_answers(site, noticed):
    site.product.freeze(SECOND)
    try:
        if noticed:
            await site.product.route(SECOND, ready=False)
        assert await comes_and_goes(site, f"tenant-hung{noticed:d}") < SECONDS
    finally:
        site.product.thaw(SECOND)
        await site.product.route(SECOND, ready=True)
    await site.product.available()
