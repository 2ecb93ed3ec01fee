"""The main story: a VM started through a held claim, stopped, started again; one that waits; one by class."""

import pytest
import pytest_asyncio

from gpu.cluster import errors
from tests.real import vm_site as vms
from tests.real.vm_site import ACME, GLOBEX, H100, L40S, gates, held, pins, to_node, unit

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(binaries_built, tmp_path_factory):
    async with vms.opened(tmp_path_factory.mktemp("vm-story")) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def site(plane):
    yield plane
    await plane.clear()


def amount(pod, resource=H100):
    """How many units of a resource a launcher asks for."""
    compute = next(it for it in pod["spec"]["containers"] if it["name"] == "compute")
    return int(compute["resources"]["requests"][resource])


async def test_a_held_claim_stays_with_its_tenant_while_the_vm_is_off(site):
    node = await site.hold("training", "l40s", 3)
    await site.make("web", [held("training")])
    first = await site.runs("web")
    pod = await site.launcher("web")
    assert (first["status"]["nodeName"], pod["spec"]["nodeName"]) == (node, node)
    assert (gates(pod), amount(pod, L40S)) == ([], 3)
    assert pins(pod) == [to_node(node)]
    assert await site.user("training") == "web"

    await site.stop("web")
    status = (await site.claim(ACME, "training"))["status"]
    assert (status["phase"], status["nodeName"]) == ("Bound", node)
    with pytest.raises(errors.Forbidden, match="2 units of class l40s"):
        await site.order(GLOBEX, "theirs", "l40s", 2)
    assert await site.hold("rest", "l40s", 1, tenant=GLOBEX) == node
    assert await site.booked() == {node: 4}

    await site.start("web")
    again = await site.runs("web", but=first["metadata"]["uid"])
    assert again["status"]["nodeName"] == node
    assert (await site.claim(ACME, "training"))["status"]["nodeName"] == node
    assert await site.user("training") == "web"


async def test_a_second_vm_of_the_same_claim_is_refused_until_the_first_stops(site):
    await site.hold("training", "h100", 1)
    await site.make("first", [held("training")])
    await site.runs("first")
    await site.make("second", [held("training")])
    await site.refused("second", "claim training is used by VM first")
    await site.stop("first")
    await site.stop("second")  # KubeVirt tries ever more slowly; a start is tried at once
    await site.start("second")
    await site.runs("second")
    assert await site.user("training") == "second"


async def test_units_of_a_class_are_held_from_start_to_end(site):
    await site.make("lab", [unit(entry="a"), unit(entry="b")])
    vmi = await site.runs("lab")
    (claim,) = await site.of_templates()
    assert (claim["spec"]["className"], claim["spec"]["count"]) == ("h100", 2)
    assert claim["status"]["nodeName"] == vmi["status"]["nodeName"]
    assert claim["metadata"]["ownerReferences"][0]["uid"] == vmi["metadata"]["uid"]
    await site.delete("lab")
    await site.gone(ACME, claim["metadata"]["name"], vms.LATE)
    assert await site.booked() == {}


async def test_a_vm_that_fits_nowhere_waits_and_says_why_until_units_are_given_back(site):
    node = await site.hold("big", "h100", 4)
    await site.hold("small", "h100", 2, tenant=GLOBEX)
    await site.make("late", [unit()])
    pod = await site.gated("late")
    assert not pod["spec"].get("nodeName")
    words = await site.told("late", "OverBudget")
    assert "h100" in words
    assert await site.of_templates() == []
    await site.give_back("big")
    vmi = await site.runs("late")
    assert vmi["status"]["nodeName"] == node


async def test_a_held_claim_and_units_of_a_class_come_together_on_one_node(site):
    node = await site.hold("pair", "h100", 2)
    await site.make("both", [held("pair"), unit(entry="more")])
    vmi = await site.runs("both")
    assert amount(await site.launcher("both")) == 3
    where = {(await site.claim(ACME, "pair"))["status"]["nodeName"]}
    where |= {it["status"]["nodeName"] for it in await site.of_templates()}
    assert where == {vmi["status"]["nodeName"]}
    assert node
