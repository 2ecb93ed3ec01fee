"""Explanations on a real control plane: an order and a VM wait, their tenant reads why, and does what is told."""

import asyncio
import contextlib

import pytest
import pytest_asyncio

from devcluster import chart, examples
from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from tests.real import site as sites
from tests.real.test_gates import Stage

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

EXPLANATIONS = Kind(keys.CATALOG_GROUP, keys.CATALOG_VERSION, "explanations", "Explanation")
MINE, THEIRS = "tenant-a", "tenant-b"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    values = {**chart.ORDERS_WAIT, **chart.STARTS_UNJUDGED}
    async with sites.opened(tmp_path_factory.mktemp("explanations"), values=values) as opened:
        await opened.node("gpu-1", 4)
        await opened.offer("h100")
        for tenant in (MINE, THEIRS):
            await opened.tenant(tenant)
        await opened.order(THEIRS, "theirs", "h100", 3)
        await opened.bound(THEIRS, "theirs")
        await opened.cp.namespace_ready(MINE)
        yield opened


async def told(site, name, reason):
    """The explanation as the tenant with the least rights reads it, once it gives a reason."""
    person = site.person(MINE, "view")

    async def found():
        with contextlib.suppress(errors.NotFound):
            one = await person.get(EXPLANATIONS, name, MINE)
            return one if one["status"]["reason"] == reason else None

    return await sites.until(found, sites.BEFORE_RESYNC, f"{name} explained by {reason}")


async def its_end(site, name, version, within=sites.BEFORE_RESYNC):
    """Watch as the tenant does until a row is gone; returns what was seen of it."""
    events = []
    async with (
        asyncio.timeout(within),
        contextlib.aclosing(
            site.person(MINE, "view").watch(EXPLANATIONS, MINE, resource_version=version)
        ) as watch,
    ):
        async for event in watch:
            if (event.object.get("metadata") or {}).get("name") == name:
                events.append(event.type)
                if event.type == "DELETED":
                    return events
    raise AssertionError(f"{name} never went: {events}")


async def let_in(site, like):
    """The VMs that the hoster is told one more node would let in, once there are any."""
    body = {"metadata": {"name": "more"}, "spec": {"addNodes": {"like": like, "count": 1}}}

    async def found():
        told = await site.admin.create(examples.WHAT_IFS, body)
        return told["status"]["vmsLetIn"]["items"]

    return await sites.until(found, sites.BEFORE_RESYNC, f"a VM let in by a node like {like}")


async def test_an_order_waits_the_change_it_names_is_made_and_its_row_goes(site):
    await site.order(MINE, "mine", "h100", 2)
    found = await told(site, "mine", "NoFreeUnits")
    assert found["status"]["place"] == "first"
    assert [one["change"] for one in found["status"]["wouldHelp"]] == ["RoomOnANode", "OrderLess"]
    text = str(found)
    for secret in ("gpu-1", THEIRS, "theirs"):
        assert secret not in text
    (help_, _) = found["status"]["wouldHelp"]
    assert (help_["key"], help_["units"]) == (sites.H100, 2)
    listing = await site.person(MINE, "view").list(EXPLANATIONS, MINE)
    async with asyncio.TaskGroup() as group:
        watched = group.create_task(its_end(site, "mine", listing.resource_version))
        await site.node("gpu-2", help_["units"])
        assert await site.bound(MINE, "mine") == "gpu-2"
    assert watched.result()[-1] == "DELETED"
    with pytest.raises(errors.NotFound):
        await site.person(MINE, "view").get(EXPLANATIONS, "mine", MINE)


async def test_a_vm_that_waits_and_has_no_claim_is_told_under_its_name_until_it_is_let_through(
    site,
):
    gated = await Stage(site).start("vm", units={"h100": 4})
    found = await told(site, "vmi:vm", "NoFreeUnits")
    assert found["spec"] == {
        "kind": "VirtualMachineInstance",
        "name": "vm",
        "units": [{"className": "h100", "count": 4}],
    }
    assert [one["change"] for one in found["status"]["wouldHelp"]] == ["RoomOnANode"]
    assert await let_in(site, "gpu-1") == [
        {"tenant": MINE, "name": "vm", "units": 4, "to": "added-1", "reason": "LetIn"}
    ]
    await site.node("gpu-3", 4)
    assert await Stage(site).runs_on(gated) == "gpu-3"

    async def gone():
        return not (await site.person(MINE, "view").list(EXPLANATIONS, MINE)).items

    await sites.until(gone, sites.BEFORE_RESYNC, "nothing explained any more")


async def test_another_tenant_may_not_read_it_and_sees_nothing_of_it(site):
    await site.order(MINE, "large", "h100", 100)
    await told(site, "large", "NoFreeUnits")
    with pytest.raises(errors.Forbidden):
        await site.person(THEIRS, "super-admin").list(EXPLANATIONS, MINE)
    assert (await site.person(THEIRS, "view").list(EXPLANATIONS, THEIRS)).items == ()
    await site.person(MINE).delete(kinds.GPU_CLAIMS, "large", MINE)
    await site.gone(MINE, "large")
