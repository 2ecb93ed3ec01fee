"""Lost and torn sets on a real control plane: bound anew before orders, gathered, healed after a cut."""

import asyncio

import pytest
import pytest_asyncio

from devcluster import chart, guests
from gpu.objects import kinds
from tests.real import site as sites
from tests.real.cutting_proxy import When, between

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(200)]

TENANT = "tenant-a"
SOON = 25.0
"""Seconds for what an event brings, on however busy a machine."""
LATE = 60.0
"""Seconds for what a leader brings that first waits for its lease."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with sites.opened(
        tmp_path_factory.mktemp("lost"), start=False, values=chart.ORDERS_WAIT
    ) as opened:
        await opened.offer("h100")
        await opened.tenant(TENANT)
        yield opened


def status_writes(_method, path):
    """Count writes of a claim's status and nothing else."""
    return "/gpuclaims/" in path and path.endswith("/status")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(site):
    async with between(site, status_writes) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def running(site, proxy):
    """The site with the product running; its claims, VMs and nodes go at the end."""
    await site.product.start(flags=sites.FAST, login=proxy.login)
    yield site
    for kind in (kinds.VMS, kinds.GPU_CLAIMS):
        for item in (await site.admin.list_all(kind)).items:
            await site.admin.delete(kind, item["metadata"]["name"], TENANT)

    async def empty():
        return not await site.claims()

    await sites.until(empty, LATE, "all claims gone")
    await site.product.stop()
    for node in (await site.admin.list_all(kinds.NODES)).items:
        await site.nodes.remove(node["metadata"]["name"])


async def stands(site, name):
    """Return phase, node and the reasons of Lost, Degraded and Bound that are True."""
    status = (await site.claim(TENANT, name)).get("status") or {}
    told = {c["type"]: c["reason"] for c in status.get("conditions", []) if c["status"] == "True"}
    return status.get("phase"), status.get("nodeName"), told


async def comes_to(site, name, wanted, within=SOON):
    async def stood():
        return await stands(site, name) == wanted

    async def last():
        return await stands(site, name)

    try:
        await sites.until(stood, within, f"{name} stands {wanted}")
    except AssertionError as error:
        raise AssertionError(f"{error}; it stands {await last()}") from None


def define(site, *claims):
    return guests.Guests(site.admin, TENANT).define("vm", claims)


async def test_a_lost_claim_is_bound_anew_before_a_younger_order_gets_the_units(running):
    await running.node("old", 4)
    await running.order(TENANT, "held", "h100", 4)
    await running.bound(TENANT, "held")
    await running.nodes.remove("old")
    lost = {"Lost": "NodeGone", "Waiting": "NoNodeServes"}
    await comes_to(running, "held", ("Lost", "old", lost))
    await running.order(TENANT, "younger", "h100", 4)
    await running.waits(TENANT, "younger", "NoNodeServes")
    await running.node("new", 4)
    await comes_to(running, "held", ("Bound", "new", {"Bound": "Rebound"}))
    await running.waits(TENANT, "younger", "NoFreeUnits")


async def test_claims_that_one_vm_names_are_gathered_as_soon_as_a_node_has_room(running):
    await running.node("one", 4)
    await running.node("two", 4)
    for name in ("a", "b"):
        await running.order(TENANT, name, "h100", 3)
    assert {await running.bound(TENANT, name) for name in ("a", "b")} == {"one", "two"}
    await define(running, "a", "b")
    for name in ("a", "b"):
        node = (await stands(running, name))[1]
        told = {"Bound": "Placed", "Degraded": "SetTorn"}
        await comes_to(running, name, ("Bound", node, told))
    await running.node("large", 6)
    for name in ("a", "b"):
        await comes_to(running, name, ("Bound", "large", {"Bound": "Gathered"}))
    assert await running.booked() == {"large": 6}


async def test_a_set_torn_by_a_cut_write_is_made_whole_by_the_next_leader(running, proxy):
    await running.node("old", 4)
    for name in ("a", "b"):
        await running.order(TENANT, name, "h100", 2)
        await running.bound(TENANT, name)
    await define(running, "a", "b")
    await running.node("new", 4)
    dead = asyncio.Event()

    async def kill():
        running.product.kill()
        dead.set()

    proxy.cut(2, When.BEFORE, kill)
    await running.nodes.remove("old")
    async with asyncio.timeout(60):
        await dead.wait()
    proxy.cut_at = None
    # Which of the two was written first is the uids' business where both were ordered in one second.
    torn = {(await stands(running, name))[:2]: name for name in ("a", "b")}
    assert set(torn) == {("Bound", "new"), ("Bound", "old")}
    await running.product.start(flags=sites.FAST, login=proxy.login)
    await comes_to(running, torn["Bound", "old"], ("Bound", "new", {"Bound": "Gathered"}), LATE)
    await comes_to(running, torn["Bound", "new"], ("Bound", "new", {"Bound": "Moved"}), LATE)
