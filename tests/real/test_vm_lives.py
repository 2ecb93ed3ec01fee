"""Lives of VMs as their owners have them: made anew, restarted, raced for, edited, made by sets."""

import asyncio

import pytest
import pytest_asyncio

from devcluster import kubevirt
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites
from tests.real import start_site as starts
from tests.real import vm_site as vms
from tests.real.vm_site import ACME, REPLICA_SETS, held, unit

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(binaries_built, tmp_path_factory):
    async with vms.opened(tmp_path_factory.mktemp("vm-lives"), late=True) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def site(plane):
    yield plane
    await plane.clear()


async def attached(site, name):
    return (await site.claim(ACME, name))["status"]["attachedTo"]


async def taken_by(site, claim, uid):
    """Wait until a claim is with an instance, and no launcher of another is noted on it."""

    async def with_it():
        found = (await site.claim(ACME, claim))["status"].get("attachedTo") or {}
        return found.get("uid") == uid and len(found.get("pods") or []) == 1

    await sites.until(with_it, vms.LATE, f"{claim} with the instance {uid} alone")


async def test_kubevirt_came_after_the_product_and_its_vms_are_judged_and_run(site):
    await site.make("raw", [starts.gpu(vms.H100)])
    await site.refused("raw", "is a raw GPU resource name")
    await site.make("web", [unit()])
    await site.runs("web")


async def test_a_vm_that_is_deleted_and_made_anew_at_once_has_its_claim_again(site):
    node = await site.hold("c", "h100", 2)
    await site.make("web", [held("c")])
    before = await site.runs("web")
    await site.owner().delete(kinds.VMS, "web", ACME)

    async def made():
        try:
            return await site.make("web", [held("c")])
        except (errors.AlreadyExists, errors.Conflict):
            return {}

    await sites.until(made, vms.LATE, "the name web free again")
    after = await site.runs("web", but=before["metadata"]["uid"])
    assert after["status"]["nodeName"] == node
    await taken_by(site, "c", after["metadata"]["uid"])
    assert await site.booked() == {node: 2}


async def test_a_restart_keeps_node_and_claim_under_a_new_instance(site):
    node = await site.hold("c", "h100", 2)
    await site.make("web", [held("c")])
    before = await site.runs("web")
    first = (await attached(site, "c"))["admission"]
    await kubevirt.command(site.admin, "restart", "web", ACME)
    after = await site.runs("web", but=before["metadata"]["uid"])
    assert after["status"]["nodeName"] == node
    await taken_by(site, "c", after["metadata"]["uid"])
    assert (await attached(site, "c"))["admission"] != first


async def test_a_guest_that_crashes_starts_again_on_the_same_node(site):
    node = await site.hold("c", "h100", 2)
    await site.make("web", [held("c")])
    before = await site.runs("web")
    site.sim.end_guest(ACME, "web", crashed=True)
    after = await site.runs("web", but=before["metadata"]["uid"])
    assert after["status"]["nodeName"] == node
    await taken_by(site, "c", after["metadata"]["uid"])


async def test_one_of_two_vms_that_race_for_a_claim_gets_it(site):
    await site.hold("c", "h100", 1)
    names = ("left", "right")
    await asyncio.gather(*(site.make(name, [held("c")]) for name in names))

    async def running():
        found = [await site.found(kinds.VMIS, name) for name in names]
        return [one for one in found if one.get("status", {}).get("phase") == "Running"]

    (winner,) = await sites.until(running, vms.LATE, "one of the two Running")
    (loser,) = set(names) - {winner["metadata"]["name"]}
    first = winner["metadata"]["name"]
    said = await site.refused(loser, f" VM {first}")
    assert f"claim c is used by VM {first}" in said or f"claim c is kept for VM {first}" in said
    assert (await attached(site, "c"))["uid"] == winner["metadata"]["uid"]


async def test_a_replica_set_has_units_of_a_class_for_each_of_its_instances(site):
    await site.admin.create(REPLICA_SETS, a_set("farm", [unit()]))

    async def running():
        found = (await site.admin.list(kinds.VMIS, ACME)).items
        live = [one for one in found if one.get("status", {}).get("phase") == "Running"]
        return live if len(live) == 2 else []

    found = await sites.until(running, vms.LATE, "two instances Running")
    owners = {it["metadata"]["ownerReferences"][0]["uid"] for it in await site.of_templates()}
    assert owners == {one["metadata"]["uid"] for one in found}
    await site.admin.delete(REPLICA_SETS, "farm", ACME)
    for one in found:
        await site.ended(one["metadata"]["name"])

    async def none_left():
        return not await site.of_templates()

    await sites.until(none_left, vms.LATE, "no claim of a template left")


async def test_a_replica_set_cannot_name_a_claim_and_says_why(site):
    await site.hold("c", "h100", 1)
    await site.admin.create(REPLICA_SETS, a_set("farm", [held("c")]))

    last = []

    async def said():
        found = (await site.found(REPLICA_SETS, "farm")).get("status") or {}
        last[:] = [it["message"] for it in found.get("conditions") or []]
        return any("it has no name yet (generateName)" in words for words in last)

    await sites.until(said, vms.LATE, lambda: f"the refusal; the set says {last}")
    assert await site.user("c") == ""


async def test_a_vm_whose_name_is_generated_can_name_a_claim(site):
    node = await site.hold("c", "h100", 1)
    body = vms.a_vm("x", [held("c")])
    body["metadata"] = {"generateName": "job-", "namespace": ACME}
    made = await site.owner().create(kinds.VMS, body)
    name = made["metadata"]["name"]
    assert (await site.runs(name))["status"]["nodeName"] == node
    assert await site.user("c") == name


async def test_an_edit_of_a_running_vm_counts_from_its_next_start(site):
    await site.hold("c", "h100", 1)
    await site.make("web", [held("c")])
    before = await site.runs("web")
    spec = vms.a_template([unit("l40s")])["spec"]
    await site.owner().patch(kinds.VMS, "web", {"spec": {"template": {"spec": spec}}}, ACME)

    async def warned():
        vm = await site.found(kinds.VMS, "web")
        return "RestartRequired" in {it["type"] for it in vm["status"].get("conditions") or []}

    await sites.until(warned, vms.LATE, "the VM says RestartRequired")
    assert await site.user("c") == "web"
    assert await site.of_templates() == []
    await kubevirt.command(site.admin, "restart", "web", ACME)
    after = await site.runs("web", but=before["metadata"]["uid"])
    assert after["status"]["nodeName"] == "gpu-3"

    async def free():
        return await site.user("c") == ""

    await sites.until(free, vms.LATE, "c used by nobody")


def a_set(name, gpus, replicas=2):
    """A replica set of guests."""
    labels = {"set": name}
    template = {"metadata": {"labels": labels}, **vms.a_template(gpus)}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name, "namespace": ACME}, "spec": spec}
