"""A namespace with claims deletes within seconds: product up, disabled, and right after its start."""

import asyncio

import pytest
import pytest_asyncio

from devcluster import chart
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECONDS = 25.0
"""The namespace controller itself waits 5 s between its looks."""
LATE = 45.0
"""Seconds from the API's availability on, where a start came first: while a kind cannot be asked for, the namespace controller
looks after 5, 15, 35 and 75 s, so that its next look is 40 s away at most. kube-apiserver is told to look at us, as a slice that
turns ready would tell it. The wait is the controller's own; nothing of ours is in it."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with sites.opened(
        tmp_path_factory.mktemp("namespaces"), values=chart.ORDERS_WAIT
    ) as opened:
        await opened.node("gpu-1", 8)
        await opened.offer("h100")
        yield opened


async def with_claims(site, tenant):
    await site.tenant(tenant)
    await site.order(tenant, "held", "h100", 1)
    await site.order(tenant, "waiting", "h100", 99)
    await site.bound(tenant, "held")
    await site.waits(tenant, "waiting", "NoFreeUnits")


async def deleted(site, tenant):
    """Delete a tenant's namespace, and see it gone."""
    await site.admin.delete(kinds.NAMESPACES, tenant)
    await is_gone(site, tenant, SECONDS)


async def is_gone(site, tenant, within):
    last = {}

    async def gone():
        try:
            found = await site.admin.get(kinds.NAMESPACES, tenant)
        except errors.NotFound:
            return True
        last.update(found["status"])
        return False

    await sites.until(gone, within, lambda: f"namespace {tenant} gone: {last}")


async def test_with_the_product_up(site):
    await with_claims(site, "tenant-up")
    await deleted(site, "tenant-up")


async def test_right_after_its_start(site):
    await with_claims(site, "tenant-fresh")
    await site.product.stop()
    starting = asyncio.ensure_future(site.product.start(flags=sites.FAST))
    await site.admin.delete(kinds.NAMESPACES, "tenant-fresh")
    await starting
    await site.product.available()
    await is_gone(site, "tenant-fresh", LATE)


async def test_disabled(site):
    await with_claims(site, "tenant-off")
    await site.product.stop()
    await site.product.start(flags=(*sites.FAST, "--no-enabled"))
    await deleted(site, "tenant-off")


async def test_disabled_it_places_nothing_and_its_lists_are_empty(site):
    await site.tenant("tenant-idle")
    await site.order("tenant-idle", "unplaced", "h100")
    await asyncio.sleep(2)
    assert (await site.claim("tenant-idle", "unplaced")).get("status") is None
    for resource in ("options", "gpuoffers", "quotagates"):
        assert (await site.served("tenant-idle", resource))["items"] == []
