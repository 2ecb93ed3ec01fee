"""Drain plans and what-ifs on a real control plane: a hoster is told, cordons the node, and that is what happens."""

import pytest
import pytest_asyncio
import yaml

from devcluster import examples
from gpu import keys
from gpu.cluster import errors
from gpu.objects.kinds import Kind
from tests.real import site as sites

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

DRAIN_PLANS = Kind(
    keys.CATALOG_GROUP, keys.CATALOG_VERSION, "drainplans", "DrainPlan", namespaced=False
)
TENANT = "tenant-acme"
HOSTERS = "gpu-hosters"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    """Two claims on gpu-1, and room for one of them on gpu-2."""
    values = {"rbac": {"hosterGroups": [HOSTERS]}}
    async with sites.opened(tmp_path_factory.mktemp("drain-plans"), values=values) as opened:
        await opened.node("gpu-1", 4)
        await opened.offer("h100")
        await opened.tenant(TENANT, total=4)
        await opened.shown(TENANT, "h100", total=4)
        await opened.class_has("h100", 4)
        for name in ("first", "second"):
            await opened.order(TENANT, name, "h100", 2)
            assert await opened.bound(TENANT, name) == "gpu-1"
        await opened.node("gpu-2", 2)
        yield opened


def hoster(site):
    """Somebody of the hoster's group, with no right but what the chart gives it."""
    return site.admin.acting_as("somebody@hoster", (HOSTERS, "system:authenticated"))


async def plan_of(site, node, **told):
    """The plan of a node as the hoster lists it, once its sums are these."""

    async def found():
        plans = (await hoster(site).list_all(DRAIN_PLANS)).items
        for one in plans:
            sums = {field: one["status"][field]["sets"] for field in told}
            if one["metadata"]["name"] == node and sums == told:
                return one
        return None

    return await sites.until(found, sites.BEFORE_RESYNC, f"{node} planned as {told}")


async def asked(site, name, person):
    """The answer to a question of the examples."""
    (body,) = examples.load(f"whatifs/{name}.yaml")
    return await person.create(examples.WHAT_IFS, body)


async def answered(site, name, field, count):
    """The hoster's answer once it names so many claims: it may be of a view of a moment ago."""

    async def found():
        status = (await asked(site, name, hoster(site)))["status"]
        return status if len(status[field]["items"]) == count else None

    return await sites.until(found, sites.BEFORE_RESYNC, f"{name} answered with {count} {field}")


async def test_a_tenant_sees_neither(site):
    person = site.person(TENANT)
    with pytest.raises(errors.Forbidden):
        await person.list_all(DRAIN_PLANS)
    with pytest.raises(errors.Forbidden):
        await asked(site, "lose-node", person)


async def test_what_if_a_node_were_lost_and_what_if_a_budget_were_lower(site):
    await plan_of(site, "gpu-1", move=1, noRoom=1)
    told = await answered(site, "lose-node", "movable", 1)
    (moves,) = told["movable"]["items"]
    assert (moves["nodeName"], moves["to"], moves["reason"]) == ("gpu-1", "gpu-2", "AtOnce")
    assert {one["reason"] for one in told["lost"]["items"]} == {"NoRoom"}
    assert {one["name"] for one in (moves, *told["lost"]["items"])} == {"first", "second"}
    lower = await answered(site, "set-budget", "over", 1)
    assert lower["budget"] == {"was": 4, "to": 2, "used": 4, "excess": 2}
    assert {claim["status"]["phase"] for claim in await site.claims()} == {"Bound"}


async def test_what_is_told_is_what_a_cordon_comes_to(site):
    plan = await plan_of(site, "gpu-1", move=1, noRoom=1, moveWhenStopped=0, stay=0)
    shown = await site.cp.kubectl("get", "drainplans", "-o", "wide")
    assert shown.split()[:7] == [
        "NAME",
        "SETS",
        "MOVES",
        "WHEN-STOPPED",
        "STAY",
        "NO-ROOM",
        "TELLS",
    ]
    written = await site.cp.kubectl(
        "create", "-f", str(examples.FOLDER / "whatifs" / "lose-node.yaml"), "-o", "yaml"
    )
    assert yaml.safe_load(written)["status"]["movable"]["claims"] == 1
    to = {one["claims"][0]["name"]: one.get("to", "gpu-1") for one in plan["status"]["sets"]}
    assert sorted(to.values()) == ["gpu-1", "gpu-2"]
    await site.nodes.cordon("gpu-1")

    async def moved():
        held = {one["metadata"]["name"]: one["status"] for one in await site.claims()}
        return {name: status["nodeName"] for name, status in held.items()} == to

    await sites.until(moved, sites.BEFORE_RESYNC, f"claims held on {to}")
    left = await plan_of(site, "gpu-1", move=0, noRoom=1)
    assert left["spec"]["cordoned"] is True
    assert left["status"]["message"] == "it is cordoned: 1 set stays, as no other node has room"
