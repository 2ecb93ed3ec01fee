"""Nodes that cannot keep what is held on them, on a real control plane: moved, Lost, or held back."""

import asyncio
import re

import pytest
import pytest_asyncio

from devcluster import chart, guests
from devcluster.simulator import Taint
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites
from tests.real.site import H100

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

TENANT = "tenant-a"
SOON = 25.0
"""Seconds for what an event brings, on however busy a machine."""
LATE = 60.0
"""Seconds for what the end of a grace brings."""
FLAGS = (
    *sites.FAST,
    "--not-ready-grace=10",  # long enough for what is said meanwhile to be seen on a busy machine
    "--degraded-grace=60",  # nothing here waits for its end
    "--guard-share=0",
    "--guard-at-least=2",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(binaries_built, tmp_path_factory):
    # Unjudged: an order right after its node, by a replica too slow to prove a refusal, is refused.
    async with sites.opened(
        tmp_path_factory.mktemp("moves"), flags=FLAGS, values=chart.ORDERS_WAIT
    ) as opened:
        await opened.offer("h100")
        await opened.tenant(TENANT)
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def site(plane):
    """The site without nodes or claims: what was displaced before counts for no later test."""
    yield plane
    for claim in await plane.claims():
        await plane.admin.delete(kinds.GPU_CLAIMS, claim["metadata"]["name"], TENANT)
    for node in (await plane.admin.list_all(kinds.NODES)).items:
        await plane.nodes.remove(node["metadata"]["name"])
    for claim in await plane.claims():
        await plane.gone(TENANT, claim["metadata"]["name"], LATE)


async def hold(site, name, node, count=1):
    """Order, and see it held on the node; `older` than the next, which ages of a second tell."""
    await site.order(TENANT, name, "h100", count)
    assert await site.bound(TENANT, name) == node
    if name == "older":
        await asyncio.sleep(1.1)


async def status(site, name):
    return (await site.claim(TENANT, name))["status"]


def reason_of(found, kind):
    """The reason of one of a claim's or GPUBinder's conditions, when that is True."""
    conditions = found.get("conditions", [])
    return next((c["reason"] for c in conditions if (c["type"], c["status"]) == (kind, "True")), "")


async def at(site, name, node, within=SOON):
    """Wait until the claim is held on the node."""

    seen = {}

    async def there():
        seen.update(await status(site, name))
        return (seen["phase"], seen["nodeName"]) == ("Bound", node)

    await sites.until(there, within, lambda: f"{name} held on {node}, its status is {seen}")
    return await status(site, name)


async def lost(site, name, within=SOON):
    """Wait until the claim is Lost."""

    async def so():
        return (await status(site, name))["phase"] == "Lost"

    await sites.until(so, within, f"{name} Lost")
    return await status(site, name)


async def degraded(site, name, reason, within=SOON):
    """Wait until the claim is Degraded for a reason; "" is not at all."""

    async def so():
        return reason_of(await status(site, name), "Degraded") == reason

    await sites.until(so, within, f"{name} Degraded for {reason!r}")


async def test_a_cordon_moves_what_is_idle_and_has_room_and_an_uncordon_stops_it(site):
    await site.node("n1", 2)
    await hold(site, "older", "n1")
    await hold(site, "younger", "n1")
    await site.node("n2", 1)
    await site.nodes.cordon("n1")
    moved = await at(site, "older", "n2")
    assert (moved["displaced"]["node"], moved["displaced"]["cause"]) == ("n1", "NodeCordoned")
    assert reason_of(moved, "Bound") == "Moved"
    stays = await status(site, "younger")
    assert (stays["phase"], stays["nodeName"], reason_of(stays, "Degraded")) == ("Bound", "n1", "")
    await site.nodes.uncordon("n1")
    await site.node("n3", 8)
    await site.class_has("h100", 11)
    await hold(site, "later", "n1")
    assert (await status(site, "younger"))["nodeName"] == "n1"


async def test_a_node_that_is_gone_loses_nothing_where_there_is_room_and_else_says_why(site):
    await site.node("n1", 3)
    await hold(site, "older", "n1")
    await hold(site, "younger", "n1", 2)
    await site.node("n2", 2)
    await site.nodes.remove("n1")
    moved = await at(site, "older", "n2")
    assert moved["displaced"]["cause"] == "NodeGone"
    gone = await lost(site, "younger")
    assert reason_of(gone, "Lost") == "NodeGone"
    assert (gone["displaced"]["node"], gone["reasons"]) == ("n1", ["NoFreeUnits"])
    await site.node("n3", 2)
    assert reason_of(await at(site, "younger", "n3"), "Bound") == "Rebound"


async def test_a_node_that_is_not_ready_is_borne_for_its_grace(site):
    await site.node("n1", 1)
    await hold(site, "c", "n1")
    await site.node("n2", 1)
    await site.nodes.set_ready("n1", ready=False)
    await degraded(site, "c", "NodeNotReady")
    moved = await at(site, "c", "n2", LATE)
    assert (moved["displaced"]["cause"], reason_of(moved, "Degraded")) == ("NodeNotReady", "")


async def test_a_device_plugin_that_restarts_moves_nothing(site):
    await site.node("n1", 1)
    await hold(site, "c", "n1")
    await site.node("n2", 1)
    before = await status(site, "c")
    await site.nodes.set_allocatable("n1", {H100: 0})
    await degraded(site, "c", "UnitsMissing")
    await site.nodes.set_allocatable("n1", {H100: 1})
    await degraded(site, "c", "")
    after = await status(site, "c")
    kept = ("phase", "nodeName", "boundAt", "term", "conditions")
    assert [after[key] for key in kept] == [before[key] for key in kept]


async def test_a_guest_is_ended_where_its_set_finds_room_and_moves_once_its_pod_ended(site):
    vms = guests.Guests(site.admin, TENANT)
    await site.node("n1", 1)
    await hold(site, "c", "n1")
    start = await vms.start("vm", node="n1", claims=["c"], units={H100: 1})
    await site.nodes.set_taints("n1", [Taint(key="dedicated")])
    await lost(site, "c")
    assert (await status(site, "c"))["reasons"] == ["GuestMayRun"]
    assert await site.admin.get(kinds.VMIS, "vm", TENANT)
    await site.nodes.set_taints("n1", [])
    await at(site, "c", "n1", LATE)
    await site.node("n2", 1)
    await site.nodes.set_taints("n1", [Taint(key="dedicated")])

    async def ended():
        try:
            await site.admin.get(kinds.VMIS, "vm", TENANT)
        except errors.NotFound:
            return True
        return False

    await sites.until(ended, SOON, "the VMI gone")
    assert (await status(site, "c"))["nodeName"] == "n1"
    await degraded(site, "c", "NodeTainted")
    await vms.end_pod(start)
    assert (await at(site, "c", "n2", LATE))["displaced"]["cause"] == "NodeTainted"
    await vms.remove_pod(start)


async def test_the_second_of_two_nodes_is_held_back_until_a_person_lets_it_go(site):
    for node in ("n1", "n2"):
        await site.node(node, 4)
        for number in range(4):
            await hold(site, f"{node}-{number}", node)
    async with asyncio.TaskGroup() as both:
        both.create_task(site.nodes.remove("n1"))
        both.create_task(site.nodes.remove("n2"))

    async def phases():
        found = [claim["status"]["phase"] for claim in await site.claims()]
        return found.count("Lost") == 6

    async def told():
        binder = await site.admin.get(kinds.GPU_BINDERS, "binder")
        found = [c for c in binder["status"]["conditions"] if c["type"] == "LossesHeldBack"]
        return found[0] if found and found[0]["status"] == "True" else None

    await sites.until(phases, SOON, "one node's sets and two of the other's Lost")
    condition = await sites.until(told, SOON, "the guard said so")
    assert condition["reason"] == "HeldBack"
    assert condition["message"].startswith("2 sets of node n")
    command = re.search(r"kubectl annotate (\S+ \S+) (\S+)=(\S+) --overwrite", condition["message"])
    kind, annotation, guard_id = command.groups()
    assert (kind, annotation) == ("gpubinder binder", "gpu.cozystack.io/acknowledge-lost")
    held = {c["metadata"]["name"] for c in await site.claims() if c["status"]["phase"] == "Bound"}
    for name in held:
        await degraded(site, name, "NodeGone")
    (node,) = {name.split("-")[0] for name in held}
    await site.admin.create(kinds.GPU_NODES, {"metadata": {"name": node}})
    await site.admin.patch(
        kinds.GPU_NODES, node, {"metadata": {"annotations": {annotation: guard_id}}}
    )
    for name in held:
        await lost(site, name, LATE)

    async def calm():
        return await told() is None

    await sites.until(calm, SOON, "the guard says no more")
    await site.admin.delete(kinds.GPU_NODES, node)
