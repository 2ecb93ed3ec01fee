"""Launchers that their node refuses, on a real API server with a real scheduler; no KubeVirt runs."""

import pytest
import pytest_asyncio

from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites
from tests.real.site import H100
from tests.real.test_gates import LATE, Stage, T, hold, now

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

FLAGS = (*sites.FAST, "--pin-grace=5", "--release-settle=2")
"""A scheduler that has not seen a node's units yet looks again after a second or two: that is no refusal."""
OUT_OF = f"OutOf{H100}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(binaries_built, tmp_path_factory):
    async with sites.opened(tmp_path_factory.mktemp("rejections"), flags=FLAGS) as opened:
        await opened.offer("h100")
        await opened.tenant(T)
        await opened.shown(T, "h100")
        await opened.cp.namespace_ready(T)
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def stage(plane):
    """Two nodes, n1 with 2 units and n2 with 4; everything else is gone afterwards."""
    await plane.node("n1", 2)
    await plane.node("n2", 4)
    await plane.class_has("h100", 6)
    made = Stage(plane)
    yield made
    admin = plane.admin
    for kind in (kinds.VMIS, kinds.PODS, kinds.GPU_CLAIMS):
        for item in (await admin.list_all(kind, T)).items:
            try:
                await admin.delete(kind, item["metadata"]["name"], T, grace_period=0)
            except errors.NotFound:
                continue  # the leader was faster
    for node in (await admin.list_all(kinds.NODES)).items:
        await plane.nodes.remove(node["metadata"]["name"])
    for claim in await plane.claims():
        await plane.gone(T, claim["metadata"]["name"], LATE)
    await plane.class_has("h100", 0)


async def refused(stage, vm, reason=OUT_OF):
    """Have kubelet refuse a launcher that is bound, and virt-controller say that its VMI is Failed."""
    told = {"phase": "Failed", "reason": reason, "message": "Pod was rejected: too few units"}
    admin = stage.site.admin
    await admin.patch(kinds.PODS, vm.pod, {"status": told}, T, subresource="status")
    await stage.report(vm, "Failed")


async def swept(stage, vm):
    """Take VMI and pod away at once, as KubeVirt does for a VM that is always on."""
    admin = stage.site.admin
    await admin.delete(kinds.VMIS, vm.name, T)
    try:
        await admin.delete(kinds.PODS, vm.pod, T, grace_period=0)
    except errors.NotFound:
        return


async def noted(stage, claim, *nodes):
    """Wait until a claim notes these nodes as having refused its launcher."""

    async def so():
        found = (await stage.status(claim)).get("rejectedNodes") or []
        return [item["node"] for item in found] == list(nodes)

    await sites.until(so, LATE, f"{claim} notes {nodes}")


async def ended(stage, claim, vm):
    """Wait until a claim notes that its one launcher, once at n1, has ended."""
    noted_pod = {"uid": vm.pod_uid, "node": "n1", "ended": True}

    async def so():
        return (await stage.status(claim))["attachedTo"].get("pods") == [noted_pod]

    await sites.until(so, LATE, f"{claim} notes the end of {vm.pod}")


async def detached(stage, claim):
    """Wait until it is stored that the guest is over: a leader that comes later has not seen its end."""

    async def so():
        return "attachedTo" not in await stage.status(claim)

    await sites.until(so, LATE, f"{claim} attached to nothing")


async def deleted(stage, vm, within=LATE):
    async def gone():
        try:
            await stage.pod(vm)
        except errors.NotFound:
            return True
        return False

    await sites.until(gone, within, f"launcher of {vm.name} deleted")


async def test_a_refused_launcher_is_deleted_and_the_next_one_goes_elsewhere(stage):
    await hold(stage, "a", "n1")
    vm = await stage.start("one", held=("a",), asks=1)
    assert await stage.runs_on(vm) == "n1"
    await refused(stage, vm)
    await noted(stage, "a", "n1")
    await deleted(stage, vm)
    assert OUT_OF in await stage.told(vm, "LauncherRefused")
    await swept(stage, vm)
    await detached(stage, "a")  # what stands for the webhook here takes over from nobody
    again = await stage.start("one", held=("a",), asks=1)
    assert await stage.runs_on(again) == "n2"
    assert (await stage.status("a"))["nodeName"] == "n2"


async def test_pod_and_vmi_may_be_gone_at_once_and_the_leader_knows_all_the_same(stage):
    vm = await stage.start("quick", units={"h100": 1})
    assert await stage.runs_on(vm) == "n1"
    await refused(stage, vm, "UnexpectedAdmissionError")
    await swept(stage, vm)
    assert "UnexpectedAdmissionError" in await stage.told(vm, "LauncherRefused")
    again = await stage.start("quick", units={"h100": 1})
    assert await stage.runs_on(again) == "n2"
    other = await stage.start("other", units={"h100": 1})
    assert await stage.runs_on(other) == "n1"


async def unschedulable(stage, vm):
    """Say of a launcher that was let through that the scheduler finds no room, as the scheduler would."""

    async def let_through():
        return not (await stage.pod(vm))["spec"].get("schedulingGates")

    await sites.until(let_through, LATE, f"launcher of {vm.name} let through")
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "none"}
    patch = {"status": {"conditions": [told | {"lastTransitionTime": now()}]}}
    await stage.site.admin.patch(kinds.PODS, vm.pod, patch, T, subresource="status")


async def test_a_launcher_that_is_not_bound_in_time_is_deleted_and_its_set_goes_at_once(stage):
    """Of what the scheduler asks and we do not; here nobody schedules it at all."""
    await hold(stage, "a", "n1")
    vm = await stage.start("late", held=("a",), asks=1, spec={"schedulerName": "nobody"})
    await unschedulable(stage, vm)
    await noted(stage, "a", "n1")
    await deleted(stage, vm)
    assert "had no room for the launcher in time" in await stage.told(vm, "LauncherUnschedulable")
    await ended(stage, "a", vm)
    await stage.report(vm, "Failed")
    await swept(stage, vm)
    again = await stage.start("late", held=("a",), asks=1)
    assert await stage.runs_on(again) == "n2"


async def test_a_vm_that_finds_no_other_node_waits_until_its_own_changes(stage):
    await hold(stage, "a", "n1")
    vm = await stage.start("only", held=("a",), asks=1)
    assert await stage.runs_on(vm) == "n1"
    await stage.site.nodes.set_allocatable("n2", {H100: 0})
    await refused(stage, vm)
    await noted(stage, "a", "n1")
    await swept(stage, vm)
    again = await stage.start("only", held=("a",), asks=1)
    await stage.told(again, "NoNodeAccepts")
    assert await stage.waits(again)
    await stage.site.nodes.set_allocatable("n1", {H100: 3})
    assert await stage.runs_on(again) == "n1"
    await noted(stage, "a")


async def test_the_next_leader_knows_what_claims_note(stage):
    await hold(stage, "a", "n1")
    vm = await stage.start("one", held=("a",), asks=1)
    assert await stage.runs_on(vm) == "n1"
    await refused(stage, vm)
    await noted(stage, "a", "n1")
    await detached(stage, "a")
    await swept(stage, vm)
    await stage.site.product.stop()
    await stage.site.product.start(flags=FLAGS)
    await stage.site.product.available()
    again = await stage.start("one", held=("a",), asks=1)
    assert await stage.runs_on(again) == "n2"
