"""Guests that move: what KubeVirt says to it, and, with its refusal out of the way, what becomes of the claims."""

import pytest
import pytest_asyncio

from devcluster.machines import Pace
from gpu.cluster import errors
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from tests.real import site as sites
from tests.real import vm_site as vms
from tests.real.vm_site import ACME, GLOBEX, gates, held, pins

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

MIGRATIONS = Kind(
    "kubevirt.io", "v1", "virtualmachineinstancemigrations", "VirtualMachineInstanceMigration"
)
JOB = "kubevirt.io/migrationJobUID"
REFUSED = (
    "Cannot migrate VMI, Reason: HostDeviceNotLiveMigratable, Message: VMI uses a PCI host devices"
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(binaries_built, tmp_path_factory):
    async with vms.opened(tmp_path_factory.mktemp("vm-migrations")) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def site(plane):
    for node in vms.NODES:
        plane.sim.machine(node).migratable = True
    yield plane
    for node in vms.NODES:
        machine = plane.sim.machine(node)
        machine.migrations_fail = machine.holding = False
        machine.pace = Pace()
        plane.sim.look_again(node)
    await plane.clear()


async def migrate(site, name="web"):
    """Ask for a migration of a VM's guest; return its name."""
    meta = {"generateName": "move-", "namespace": ACME}
    made = await site.admin.create(MIGRATIONS, {"metadata": meta, "spec": {"vmiName": name}})
    return made["metadata"]["name"]


async def comes_to(site, migration, phase):
    """Wait until a migration has a phase."""

    async def there():
        found = await site.admin.get(MIGRATIONS, migration, ACME)
        return (found.get("status") or {}).get("phase") == phase

    await sites.until(there, vms.LATE, f"migration {phase}")


async def target(site, name="web"):
    """Wait until the pod that a guest moves to runs; return it."""

    async def there():
        return next(
            (
                pod
                for pod in await site.pods(name)
                if JOB in pod["metadata"]["labels"] and pod["status"]["phase"] == "Running"
            ),
            {},
        )

    return dict(await sites.until(there, vms.LATE, f"the target pod of {name} Running"))


async def a_guest(site):
    """A guest on gpu-1 with a held claim of both units there."""
    assert await site.hold("c", "h100", 2) == "gpu-1"
    await site.make("web", [held("c")])
    vmi = await site.runs("web")
    assert vmi["status"]["nodeName"] == "gpu-1"
    return vmi


async def moved(site, claim, node):
    """Wait until a claim is Bound on a node."""

    async def there():
        return await site.bound(ACME, claim) == node

    await sites.until(there, vms.LATE, f"{claim} held on {node}")


async def test_kubevirt_itself_refuses_to_move_a_guest_with_gpus_and_nothing_changes(site):
    for node in vms.NODES:
        site.sim.machine(node).migratable = False
    before = await a_guest(site)
    with pytest.raises(errors.ApiError, match="HostDeviceNotLiveMigratable") as caught:
        await migrate(site)
    assert REFUSED in caught.value.message
    after = await site.found(kinds.VMIS, "web")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert await site.booked() == {"gpu-1": 2}


async def test_a_migration_that_fails_changes_nothing(site):
    before = await a_guest(site)
    claim = await site.claim(ACME, "c")
    site.sim.machine("gpu-1").migrations_fail = True
    await comes_to(site, await migrate(site), "Failed")

    async def alone():
        ended = {"Succeeded", "Failed"}
        pods = await site.pods("web")
        return [it["spec"]["nodeName"] for it in pods if it["status"]["phase"] not in ended]

    async def is_alone():
        return await alone() == ["gpu-1"]

    await sites.until(is_alone, vms.LATE, "the source pod alone")
    after = await site.found(kinds.VMIS, "web")
    assert (after["metadata"]["uid"], after["status"]["phase"], after["status"]["nodeName"]) == (
        before["metadata"]["uid"],
        "Running",
        "gpu-1",
    )
    status = (await site.claim(ACME, "c"))["status"]
    for field in ("phase", "nodeName", "boundAt", "term"):
        assert status[field] == claim["status"][field]
    assert status["attachedTo"]["uid"] == before["metadata"]["uid"]
    # What the target pod had is free again.
    assert await site.hold("rest", "h100", 2, tenant=GLOBEX) == "gpu-2"
    assert await site.hold("more", "h100", 2) == "gpu-2"


async def test_the_pod_a_guest_moves_to_is_left_alone_and_nobody_else_gets_its_units(site):
    await a_guest(site)
    site.sim.machine("gpu-1").pace = Pace(migrate=600.0)
    migration = await migrate(site)
    pod = await target(site)
    assert (gates(pod), pod["spec"]["nodeName"]) == ([], "gpu-2")
    assert [it for it in pins(pod) if it["key"] == "metadata.name"] == []
    assert await site.bound(ACME, "c") == "gpu-1"
    # Four units on gpu-2: two are the target's.
    assert await site.hold("rest", "h100", 2, tenant=GLOBEX) == "gpu-2"
    await site.no_order("more", "h100", 1)
    await comes_to(site, migration, "Running")
    site.sim.machine("gpu-1").pace = Pace()
    site.sim.look_again("gpu-1")
    await comes_to(site, migration, "Succeeded")
    await moved(site, "c", "gpu-2")
    assert await site.hold("more", "h100", 2) == "gpu-1"
    assert await site.booked() == {"gpu-1": 2, "gpu-2": 4}


async def test_the_source_of_a_move_is_free_once_its_pod_is_known_to_have_ended(site):
    await a_guest(site)
    assert await site.hold("rest", "h100", 2, tenant=GLOBEX) == "gpu-2"
    site.sim.machine("gpu-1").holding = True
    await comes_to(site, await migrate(site), "Succeeded")
    await moved(site, "c", "gpu-2")
    ended = {"Succeeded", "Failed"}
    live = {
        p["spec"]["nodeName"] for p in await site.pods("web") if p["status"]["phase"] not in ended
    }
    assert live == {"gpu-1", "gpu-2"}
    await site.no_order("more", "h100", 1)
    site.sim.machine("gpu-1").holding = False
    site.sim.look_again("gpu-1")
    assert await site.hold("more", "h100", 2) == "gpu-1"
