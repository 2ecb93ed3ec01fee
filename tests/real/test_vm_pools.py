"""VMs by the number: KubeVirt's pools and replica sets, and worker pools of tenant clusters."""

import contextlib

import pytest
import pytest_asyncio

from devcluster import kubevirt
from gpu.cluster import errors
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from tests.real import machine_pool
from tests.real import site as sites
from tests.real import start_site as starts
from tests.real import vm_site as vms
from tests.real.vm_site import ACME, GLOBEX, L40S, REPLICA_SETS, held, unit

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

POOLS = Kind("pool.kubevirt.io", "v1beta1", "virtualmachinepools", "VirtualMachinePool")
CLASS = "gpu.cozystack.io/l40s"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(binaries_built, tmp_path_factory):
    async with vms.opened(tmp_path_factory.mktemp("vm-pools"), cdi=True) as opened:
        await machine_pool.installed(opened)
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def site(plane):
    yield plane
    for node in vms.NODES:
        await plane.nodes.uncordon(node)
    for pool in (await plane.admin.list(POOLS, ACME)).items:
        await plane.admin.delete(POOLS, pool["metadata"]["name"], ACME)

    async def none_left():
        return not (await plane.admin.list(POOLS, ACME)).items

    await sites.until(none_left, vms.LATE, "no pool left")
    await plane.clear()


def a_pool(gpus, replicas):
    """A pool of VMs farm-0, farm-1, …; the highest number goes first."""
    labels = {"pool": "farm"}
    template = {"metadata": {"labels": labels}, **vms.a_template(gpus)}
    spec = {"runStrategy": "Always", "template": template}
    last_first = {"proactive": {"selectionPolicy": {"sortPolicy": "DescendingOrder"}}}
    return {
        "metadata": {"name": "farm", "namespace": ACME},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "scaleInStrategy": last_first,
            "virtualMachineTemplate": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


async def scaled(site, replicas):
    await site.admin.patch(POOLS, "farm", {"spec": {"replicas": replicas}}, ACME)


async def owners(site):
    """The VMIs that claims of templates are made for."""
    return {it["metadata"]["ownerReferences"][0]["uid"] for it in await site.of_templates()}


async def test_each_vm_of_a_pool_has_units_of_its_own_as_the_pool_grows_and_shrinks(site):
    await site.admin.create(POOLS, a_pool([unit("l40s"), unit("l40s", "h")], 2))
    found = [await site.runs(name) for name in ("farm-0", "farm-1")]
    assert await owners(site) == {vmi["metadata"]["uid"] for vmi in found}
    assert await site.booked() == {"gpu-3": 4}

    await scaled(site, 3)
    assert "0 free to order" in await site.told("farm-2", "NoFreeUnits")
    await scaled(site, 1)
    for name in ("farm-2", "farm-1"):
        await site.ended(name)
    assert (await site.runs("farm-0"))["metadata"]["uid"] == found[0]["metadata"]["uid"]

    async def one():
        return await owners(site) == {found[0]["metadata"]["uid"]}

    await sites.until(one, vms.LATE, "the units of farm-0 alone held")
    assert await site.hold("theirs", "l40s", 2, tenant=GLOBEX) == "gpu-3"


async def test_a_claim_that_a_pool_names_is_used_by_one_of_its_vms(site):
    node = await site.hold("c", "h100", 1)
    await site.admin.create(POOLS, a_pool([held("c")], 2))

    async def user():
        name = await site.user("c")
        vmi = await site.found(kinds.VMIS, name) if name else {}
        return name if (vmi.get("status") or {}).get("phase") == "Running" else ""

    one = await sites.until(user, vms.LATE, "one VM of the pool running with c")
    (other,) = {"farm-0", "farm-1"} - {one}
    await site.refused(other, "claim c is ")
    assert (await site.found(kinds.VMIS, one))["status"]["nodeName"] == node


async def test_an_instance_too_many_of_a_replica_set_waits_for_another_to_go(site):
    labels = {"set": "farm"}
    template = {"metadata": {"labels": labels}, **vms.a_template([unit("l40s"), unit("l40s", "h")])}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    body = {"metadata": {"name": "farm", "namespace": ACME}, "spec": spec}
    await site.admin.create(REPLICA_SETS, body)

    async def phases():
        found = (await site.admin.list(kinds.VMIS, ACME)).items
        by_phase = {}
        for vmi in found:
            phase = (vmi.get("status") or {}).get("phase")
            by_phase.setdefault(phase, []).append(vmi["metadata"]["name"])
        counts = {phase: len(names) for phase, names in by_phase.items()}
        return by_phase if counts == {"Running": 2, "Scheduling": 1} else {}

    by_phase = await sites.until(phases, vms.LATE, "two of three Running")
    (late,) = by_phase["Scheduling"]
    await site.told(late, "NoFreeUnits")
    await site.admin.patch(REPLICA_SETS, "farm", {"spec": {"replicas": 2}}, ACME)
    with contextlib.suppress(errors.NotFound):  # the set may have chosen the same one
        await site.admin.delete(kinds.VMIS, by_phase["Running"][0], ACME)

    async def again():
        found = (await site.admin.list(kinds.VMIS, ACME)).items
        stay = [vmi for vmi in found if "deletionTimestamp" not in vmi["metadata"]]
        running = [vmi for vmi in stay if (vmi.get("status") or {}).get("phase") == "Running"]
        return len(found) == len(running) == 2 and await site.booked() == {"gpu-3": 4}

    await sites.until(again, vms.LATE, "two instances left, both Running")


def mark(item):
    """What changes with every write of an object."""
    meta = item["metadata"]
    return (meta["resourceVersion"], meta["generation"], meta["managedFields"])


def writers(item):
    """Who wrote an object, by the names of their programs."""
    managers = {it["manager"] for it in item["metadata"]["managedFields"]}
    named = "virt-controller"  # with a hash in the name of its file
    return {named if it.startswith(f"{named}-") else it for it in managers}


async def test_nothing_of_ours_writes_to_what_a_worker_pool_is_made_of(site):
    """Through a start, a drain, a restart, a change of the class: else the pool would be rolled out anew."""
    template = await machine_pool.template(site, "md0-a", [CLASS, CLASS])
    await machine_pool.machine(site, "md0-w0", template)
    first = await site.runs("md0-w0")
    assert starts.devices(first) == [("gpuclaim-0", L40S), ("gpuclaim-1", L40S)]
    before = await machine_pool.stored(site, "md0-w0")

    await site.nodes.cordon("gpu-3")
    await site.class_has("l40s", 0)
    text = {"spec": {"description": "another text"}}
    await site.admin.patch(kinds.GPU_CLASSES, "l40s", text)
    await kubevirt.command(site.admin, "restart", "md0-w0", ACME)
    await site.told("md0-w0", "NoNodeEligible")
    await site.nodes.uncordon("gpu-3")
    await site.runs("md0-w0", but=first["metadata"]["uid"])

    after = await machine_pool.stored(site, "md0-w0")
    assert after.keys() == before.keys()
    for name, item in after.items():
        if name.startswith(kinds.VMS.kind):
            assert item["spec"] == before[name]["spec"]
            assert item["metadata"]["generation"] == before[name]["metadata"]["generation"]
            assert writers(item) == {machine_pool.WRITER, "virt-controller"}
        else:
            assert mark(item) == mark(before[name]), name
    await machine_pool.remove(site, "md0-w0")


async def test_a_new_machine_of_a_pool_that_is_rolled_out_waits_for_the_units_of_an_old_one(site):
    old = await machine_pool.template(site, "md0-b", [CLASS, CLASS])
    for name in ("md0-w1", "md0-w2"):
        await machine_pool.machine(site, name, old)
        await site.runs(name)
    new = await machine_pool.template(site, "md0-c", [CLASS])
    await machine_pool.machine(site, "md0-w3", new)
    await site.told("md0-w3", "NoFreeUnits")
    await machine_pool.remove(site, "md0-w1")
    await site.runs("md0-w3")
    assert await site.booked() == {"gpu-3": 3}
    for name in ("md0-w2", "md0-w3"):
        await machine_pool.remove(site, name)
