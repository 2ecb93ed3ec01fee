"""Uninstall: namespaces with claims delete, holds stay; install again: they are found, policies hold."""

import pytest
import pytest_asyncio

from devcluster import chart
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with sites.opened(
        tmp_path_factory.mktemp("uninstall"), values=chart.ORDERS_WAIT
    ) as opened:
        await opened.node("gpu-1", 8)
        await opened.offer("h100")
        await opened.tenant("tenant-stays")
        await opened.tenant("tenant-goes")
        yield opened


async def test_uninstalled_a_namespace_with_claims_deletes_and_other_holds_stay(site):
    await site.order("tenant-stays", "held", "h100", 2)
    await site.order("tenant-goes", "held", "h100", 1)
    await site.order("tenant-goes", "waiting", "h100", 99)
    assert await site.bound("tenant-stays", "held") == "gpu-1"
    await site.bound("tenant-goes", "held")
    await site.waits("tenant-goes", "waiting", "NoFreeUnits")

    await site.product.uninstall()
    with pytest.raises(errors.NotFound):
        await site.admin.get(kinds.API_SERVICES, chart.API_SERVICE)
    await site.admin.delete(kinds.NAMESPACES, "tenant-goes")

    async def gone():
        try:
            await site.admin.get(kinds.NAMESPACES, "tenant-goes")
        except errors.NotFound:
            return True
        return False

    await sites.until(gone, sites.LATE, "namespace tenant-goes gone")
    held = await site.claim("tenant-stays", "held")
    assert (held["status"]["phase"], held["status"]["nodeName"]) == ("Bound", "gpu-1")
    assert "finalizers" not in held["metadata"]


async def test_installed_again_the_holds_count_and_the_policies_hold(site):
    await chart.install(site.cp, port=site.product.port, values=chart.ORDERS_WAIT)
    await site.product.start(flags=sites.FAST)
    await site.product.available()
    await site.order("tenant-stays", "more", "h100", 6)
    await site.bound("tenant-stays", "more")
    assert await site.booked() == {"gpu-1": 8}

    async def finalizer_back():
        found = (await site.claim("tenant-stays", "held"))["metadata"].get("finalizers")
        return found == ["gpu.cozystack.io/claim"]

    await sites.until(finalizer_back, sites.LATE, "finalizer on the hold found again")

    async def refused():
        forged = {"status": {"phase": "Bound", "nodeName": "gpu-9", "term": 999}}
        try:
            await site.admin.patch(
                kinds.GPU_CLAIMS,
                "held",
                forged,
                "tenant-stays",
                subresource="status",
                dry_run=True,
            )
        except errors.ApiError as error:
            return "cozystack-gpu" in str(error)
        return False

    await sites.until(refused, sites.LATE, "a forged placement is refused")
