"""Launchers that kubelet refuses and guests that fail at every start, on the real KubeVirt.

Each VM has a name of its own: the leader remembers by it who was refused where, for ten minutes.
"""

import asyncio
import contextlib

import pytest
import pytest_asyncio

from devcluster import kubevirt, machines
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites
from tests.real import vm_site as vms
from tests.real.vm_site import ACME, GLOBEX, H100, held, unit

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

OUT_OF = machines.out_of(H100, requested=1, used=2, capacity=2)
UNSEEN = "unseen"
UNAVAILABLE = machines.unavailable(H100, requested=2, available=1, healthy=2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(binaries_built, tmp_path_factory):
    async with vms.opened(tmp_path_factory.mktemp("vm-rejections")) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def site(plane):
    yield plane
    for node in vms.NODES:
        plane.sim.machine(node).refusals.clear()
    plane.sim.let_go(ACME, UNSEEN)
    await plane.clear()


async def refused_on(site, name, node):
    """Wait until an Event of some instance of a VM tells of its refusal by a node; return its words."""

    async def note():
        found = (await site.admin.list(kinds.EVENTS, ACME)).items
        return next(
            (
                it["note"]
                for it in found
                if (it["reason"], it["regarding"]["name"]) == ("LauncherRefused", name)
                and f"node {node} " in it["note"]
            ),
            "",
        )

    return str(await sites.until(note, vms.LATE, f"{name} refused by {node}"))


async def again(site, name):
    """Start a VM anew at once, as its owner: KubeVirt would wait for its own back-off.

    Where that is over already, as its node's refusal was heard of late, KubeVirt has started it anew.
    """
    said = {}

    async def failed():
        said.clear()
        said.update((await site.found(kinds.VMS, name)).get("status") or {})
        vmi = await site.found(kinds.VMIS, name)
        last = (said.get("startFailure") or {}).get("lastFailedVMIUID")
        is_anew = vmi and last and vmi["metadata"]["uid"] != last
        if is_anew or said.get("printableStatus") == "Running":
            return "started anew"
        return "waits" if said.get("printableStatus") == "CrashLoopBackOff" else ""

    what = f"KubeVirt counts a failed start of {name}"
    if await sites.until(failed, vms.LATE, lambda: f"{what}: {said}") == "waits":
        await site.stop(name)
        await site.start(name)


async def test_a_vm_that_its_node_refuses_starts_elsewhere_by_itself_and_the_node_takes_others(
    site,
):
    site.sim.refuse("gpu-1", OUT_OF)
    await site.make("by-class", [unit()])
    assert OUT_OF.reason in await refused_on(site, "by-class", "gpu-1")
    await site.make("other", [unit()])
    assert (await site.runs("other"))["status"]["nodeName"] == "gpu-1"
    assert (await site.runs("by-class"))["status"]["nodeName"] == "gpu-2"

    async def once_each():  # the claim of the start that was refused goes with its instance
        return await site.booked() == {"gpu-1": 1, "gpu-2": 1}

    await sites.until(once_each, vms.LATE, "one unit held on each node")


async def test_a_held_claim_moves_away_from_the_node_whose_plugin_refused_and_notes_it(site):
    assert await site.hold("c", "h100", 2) == "gpu-1"
    site.sim.refuse("gpu-1", UNAVAILABLE)
    await site.make("by-claim", [held("c")])
    assert machines.UNEXPECTED in await refused_on(site, "by-claim", "gpu-1")
    await again(site, "by-claim")
    assert (await site.runs("by-claim"))["status"]["nodeName"] == "gpu-2"
    status = (await site.claim(ACME, "c"))["status"]
    assert (status["phase"], status["nodeName"]) == ("Bound", "gpu-2")
    assert [it["node"] for it in status["rejectedNodes"]] == ["gpu-1"]


async def test_a_refusal_is_known_though_pod_and_instance_went_while_the_leader_stood_still(site):
    site.sim.hold(ACME, UNSEEN)
    await site.make(UNSEEN, [unit()])
    before = await bound(site, UNSEEN)
    assert before["spec"]["nodeName"] == "gpu-1"
    site.sim.refuse("gpu-1", OUT_OF)
    site.product.freeze()
    try:
        site.sim.let_go(ACME, UNSEEN)
        await site.ended(UNSEEN)
    finally:
        site.product.thaw()
    assert OUT_OF.reason in await refused_on(site, UNSEEN, "gpu-1")
    await again(site, UNSEEN)
    assert (await site.runs(UNSEEN))["status"]["nodeName"] == "gpu-2"


async def bound(site, name):
    """Wait until a VM's launcher is bound; return it."""

    async def there():
        return next((it for it in await site.pods(name) if it["spec"].get("nodeName")), {})

    return dict(await sites.until(there, vms.LATE, f"launcher of {name} bound"))


async def test_a_vm_that_is_started_by_hand_starts_elsewhere_when_it_is_started_again(site):
    assert await site.hold("c", "h100", 1) == "gpu-1"
    body = vms.a_vm("by-hand", [held("c")])
    body["spec"]["runStrategy"] = "Manual"
    await site.owner().create(kinds.VMS, body)
    site.sim.refuse("gpu-1", OUT_OF)
    await kubevirt.command(site.admin, "start", "by-hand", ACME)
    await refused_on(site, "by-hand", "gpu-1")

    async def failed():
        return (await site.found(kinds.VMIS, "by-hand"))["status"]["phase"] == "Failed"

    await sites.until(failed, vms.LATE, "the instance Failed, and there")
    first = await site.found(kinds.VMIS, "by-hand")
    await kubevirt.command(site.admin, "start", "by-hand", ACME)
    after = await site.runs("by-hand", but=first["metadata"]["uid"])
    assert after["status"]["nodeName"] == "gpu-2"
    assert (await site.claim(ACME, "c"))["status"]["nodeName"] == "gpu-2"


async def test_a_vm_that_every_node_refuses_waits_and_says_so_until_one_changes(site):
    for node in ("gpu-1", "gpu-2"):
        site.sim.refuse(node, OUT_OF)
    await site.hold("c", "h100", 1)
    await site.make("nowhere", [held("c")])
    for node in ("gpu-1", "gpu-2"):
        await refused_on(site, "nowhere", node)
        await again(site, "nowhere")
    await site.told("nowhere", "NoNodeAccepts")
    await site.gated("nowhere")
    await site.nodes.set_allocatable("gpu-2", {H100: 5})
    try:
        assert (await site.runs("nowhere"))["status"]["nodeName"] == "gpu-2"
    finally:
        await site.nodes.set_allocatable("gpu-2", {H100: 4})


@contextlib.asynccontextmanager
async def crashing(site, name):
    """Have each guest of a VM crash as soon as it runs; KubeVirt starts such a VM anew at once."""
    ended = []

    async def again_and_again():
        while True:
            with contextlib.suppress(LookupError, errors.Unreachable):  # then the next time
                vmi = await site.found(kinds.VMIS, name)
                uid = vmi["metadata"]["uid"] if vmi else ""
                if (vmi.get("status") or {}).get("phase") == "Running" and uid not in ended:
                    site.sim.end_guest(ACME, name, crashed=True)
                    ended.append(uid)
            await asyncio.sleep(0.05)

    task = asyncio.get_running_loop().create_task(again_and_again())
    try:
        yield ended
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_vm_that_fails_at_every_start_comes_after_others_and_says_so(site):
    await site.hold("rest", "l40s", 3)
    async with crashing(site, "bad") as ended:
        await site.make("bad", [unit("l40s")])
        words = await site.told("bad", "StartsFail")
        assert "starts in a row" in words or "failed" in words
        assert len(ended) >= 2
        await site.make("good", [unit("l40s")], tenant=GLOBEX)
        await site.runs("good", GLOBEX)
        await site.gated("bad")
        await site.told("bad", "NoFreeUnits")
        assert await site.booked() == {"gpu-3": 4}
    await site.delete("good", GLOBEX)
    assert (await site.runs("bad"))["status"]["nodeName"] == "gpu-3"


async def test_the_claims_of_one_that_fails_at_every_start_say_so_and_stay_held(site):
    node = await site.hold("c", "l40s", 2)
    async with crashing(site, "worse"):
        await site.make("worse", [held("c")])

        async def says():
            status = (await site.claim(ACME, "c"))["status"]
            found = {
                it["type"]: it["reason"] for it in status["conditions"] if it["status"] == "True"
            }
            return found.get("Waiting") == "StartsFail" and status

        status = await sites.until(says, vms.LATE, "c waits since starts fail")
    assert (status["phase"], status["nodeName"]) == ("Bound", node)
    assert (await site.runs("worse"))["status"]["nodeName"] == node
