"""VMs that want the same units: races for claims, for the last unit, for raw units; ends that take their time."""

import asyncio

import pytest
import pytest_asyncio

from gpu.objects import kinds
from tests.real import site as sites
from tests.real import start_site as starts
from tests.real import vm_site as vms
from tests.real.vm_site import ACME, GLOBEX, H100, held, pins, to_node, unit

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

RAW_ALLOWED = (*vms.FLAGS, "--raw-resource-names=allowed")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(binaries_built, tmp_path_factory):
    async with vms.opened(tmp_path_factory.mktemp("vm-races")) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def site(plane):
    yield plane
    for name in ("web", "next"):
        plane.sim.let_go(ACME, name)
    await plane.clear()


async def one_runs(site, *names):
    """Wait until one of two VMs runs; return its name and the other's."""

    async def running():
        found = [await site.found(kinds.VMIS, name) for name in names]
        return [it for it in found if it.get("status", {}).get("phase") == "Running"]

    (winner,) = await sites.until(running, vms.LATE, f"one of {names} Running")
    (loser,) = set(names) - {winner["metadata"]["name"]}
    return winner["metadata"]["name"], loser


async def live_pods(site, *names):
    """The launchers of these VMs that have not ended and are past the gate."""
    found = [pod for name in names for pod in await site.pods(name)]
    ended = {"Succeeded", "Failed"}
    return [it for it in found if it["status"]["phase"] not in ended and not vms.gates(it)]


async def test_one_of_two_vms_that_race_for_the_last_unit_gets_it_and_the_other_follows(site):
    await site.hold("most", "l40s", 3, tenant=GLOBEX)
    await asyncio.gather(*(site.make(name, [unit("l40s")]) for name in ("left", "right")))
    winner, loser = await one_runs(site, "left", "right")
    assert "0 free to order" in await site.told(loser, "NoFreeUnits")
    await site.gated(loser)
    assert len(await live_pods(site, "left", "right")) == 1
    assert await site.booked() == {"gpu-3": 4}
    await site.stop(winner)
    await site.runs(loser)
    assert await site.booked() == {"gpu-3": 4}


async def test_vms_that_name_two_claims_in_opposite_order_never_have_one_each(site):
    for name in ("a", "b"):
        await site.hold(name, "h100", 1)
    wants = {"left": ("a", "b"), "right": ("b", "a")}
    await asyncio.gather(
        *(site.make(vm, [held(one) for one in names]) for vm, names in wants.items())
    )
    winner, loser = await one_runs(site, *wants)
    words = await site.refused(loser, f" VM {winner}")
    assert f"is used by VM {winner}" in words or f"is kept for VM {winner}" in words
    assert [await site.user(name) for name in ("a", "b")] == [winner, winner]


async def test_a_vm_waits_for_a_claim_whose_user_takes_its_time_to_end_and_never_shares_it(site):
    node = await site.hold("c", "h100", 2)
    await site.make("web", [held("c")])
    await site.runs("web")
    site.sim.hold(ACME, "web")  # its guest is down, its pod stays
    await site.strategy("web", "Halted")

    async def ending():
        vmi = await site.found(kinds.VMIS, "web")
        return vmi["metadata"].get("deletionTimestamp", "") if vmi else ""

    await sites.until(ending, vms.LATE, "the instance of web ending")
    await site.make("next", [held("c")])
    await site.gated("next")
    assert "claim c is still used by another VM" in await site.told("next", "ClaimInUse")
    (pod,) = await live_pods(site, "web", "next")
    assert pod["metadata"]["labels"]["vm.kubevirt.io/name"] == "web"
    site.sim.let_go(ACME, "web")
    assert (await site.runs("next"))["status"]["nodeName"] == node
    assert await site.user("c") == "next"
    assert await site.booked() == {node: 2}


async def test_a_claim_that_is_deleted_under_a_running_vm_is_kept_until_its_guest_is_gone(site):
    node = await site.hold("c", "h100", 2)
    await site.make("web", [held("c")])
    before = await site.runs("web")
    await site.person(ACME).delete(kinds.GPU_CLAIMS, "c", ACME)
    await site.hold("rest", "h100", 2, tenant=GLOBEX)
    claim = await site.claim(ACME, "c")
    assert claim["metadata"]["deletionTimestamp"]
    assert (claim["status"]["phase"], claim["status"]["nodeName"]) == ("Bound", node)
    assert await site.booked() == {"gpu-1": 2, "gpu-2": 2}
    assert (await site.runs("web"))["metadata"]["uid"] == before["metadata"]["uid"]
    await site.strategy("web", "Halted")
    await site.gone(ACME, "c", vms.LATE)
    assert not await live_pods(site, "web")

    await site.start("web")
    await site.refused("web", "claim c does not exist")


async def test_a_vm_that_gives_up_its_wait_leaves_its_claim_to_the_next(site):
    node = await site.hold("c", "h100", 2)
    await site.make("web", [held("c"), unit("l40s", "more")])
    await site.gated("web")  # no node has cards of both kinds
    assert await site.user("c") == "web"
    assert await site.of_templates() == []
    await site.make("next", [held("c")])
    await site.refused("next", "claim c is used by VM web")
    await site.stop("web")
    await site.stop("next")  # a start is tried at once, a retry only after a while
    await site.start("next")
    assert (await site.runs("next"))["status"]["nodeName"] == node
    assert await site.user("c") == "next"


async def test_a_raw_vm_is_refused_while_raw_names_are_denied_also_among_host_devices(site):
    body = vms.a_vm("raw", [])
    devices = body["spec"]["template"]["spec"]["domain"]["devices"]
    devices["hostDevices"] = [starts.gpu(H100)]
    await site.owner().create(kinds.VMS, body)
    await site.refused("raw", f"{H100} is a raw GPU resource name")
    assert not await site.pods("raw")


async def test_one_of_two_raw_vms_that_race_for_the_last_unit_gets_it(site):
    await site.product.stop()
    await site.product.start(flags=RAW_ALLOWED)
    try:
        await site.hold("most", "h100", 4)
        node = await site.hold("one", "h100", 1, tenant=GLOBEX)
        names = ("left", "right")
        await asyncio.gather(*(site.make(name, [starts.gpu(H100)]) for name in names))
        winner, loser = await one_runs(site, *names)
        (pod,) = await live_pods(site, *names)
        assert (pod["spec"]["nodeName"], pins(pod)) == (node, [to_node(node)])
        await site.gated(loser)
        await site.no_order("more", "h100", 1, tenant=GLOBEX)
        await site.stop(winner)
        assert (await site.runs(loser))["status"]["nodeName"] == node
        await site.delete(loser)
    finally:
        await site.product.stop()
        await site.product.start(flags=vms.FLAGS)
