"""VMs while something goes: nodes drained, KubeVirt's webhooks or the product away, guests moved, raw names."""

import pytest
import pytest_asyncio

from gpu.cluster import errors
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from tests.real import site as sites
from tests.real import start_site as starts
from tests.real import vm_site as vms
from tests.real.vm_site import ACME, H100, gates, held, pins, to_node, unit

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

MIGRATIONS = Kind(
    "kubevirt.io", "v1", "virtualmachineinstancemigrations", "VirtualMachineInstanceMigration"
)
RAW_ALLOWED = (*vms.FLAGS, "--raw-resource-names=allowed")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(binaries_built, tmp_path_factory):
    async with vms.opened(tmp_path_factory.mktemp("vm-faults")) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def site(plane):
    yield plane
    for node in vms.NODES:
        await plane.nodes.uncordon(node)
    await plane.clear()


async def moved(site, claim, node):
    """Wait until a claim is Bound on a node."""

    async def there():
        return await site.bound(ACME, claim) == node

    await sites.until(there, vms.LATE, f"{claim} held on {node}")


async def test_a_drain_moves_what_a_vm_that_is_off_holds_and_it_starts_there(site):
    assert await site.hold("c", "h100", 2) == "gpu-1"
    await site.make("web", [held("c")])
    await site.runs("web")
    await site.stop("web")
    await site.nodes.cordon("gpu-1")
    await moved(site, "c", "gpu-2")
    await site.start("web")
    assert (await site.runs("web"))["status"]["nodeName"] == "gpu-2"


async def test_a_vm_at_the_gate_of_a_cordoned_node_starts_elsewhere(site):
    assert await site.hold("c", "h100", 2) == "gpu-1"
    await site.make("web", [held("c")], nodeSelector={"disk": "fast"})
    await site.told("web", "PodFitsNowhere")
    await site.gated("web")
    await site.nodes.cordon("gpu-1")
    await moved(site, "c", "gpu-2")
    labels = {"metadata": {"labels": {"disk": "fast"}}}
    await site.admin.patch(kinds.NODES, "gpu-2", labels)
    assert (await site.runs("web"))["status"]["nodeName"] == "gpu-2"


async def test_a_cordon_leaves_a_running_guest_and_its_claim_follows_its_stop(site):
    assert await site.hold("c", "h100", 2) == "gpu-1"
    await site.make("web", [held("c")])
    vmi = await site.runs("web")
    await site.nodes.cordon("gpu-1")
    pod = await site.launcher("web")
    eviction = {"metadata": {"name": pod["metadata"]["name"], "namespace": ACME}}
    with pytest.raises(errors.ApiError, match="not live-migratable"):
        await site.admin.create_subresource(
            kinds.PODS, pod["metadata"]["name"], "eviction", eviction, ACME
        )
    assert (await site.runs("web"))["metadata"]["uid"] == vmi["metadata"]["uid"]
    assert await site.bound(ACME, "c") == "gpu-1"
    await site.stop("web")
    await moved(site, "c", "gpu-2")
    await site.start("web")
    assert (await site.runs("web"))["status"]["nodeName"] == "gpu-2"


async def test_while_kubevirts_webhooks_are_away_a_claim_is_not_kept_for_what_never_came(site):
    await site.hold("c", "h100", 1)
    await site.kv.stop("virt-api")
    try:
        body = starts.a_vmi("lost", [held("c")], namespace=ACME)
        with pytest.raises(errors.ApiError, match="virt"):
            await starts.created(site, body)

        async def free():
            return await site.user("c") == ""

        await sites.until(free, vms.LATE, "c used by nobody")
    finally:
        await site.kv.start("virt-api")
    await site.kv.available()
    await site.make("web", [held("c")])
    await site.runs("web")


async def test_while_the_product_is_away_everything_but_vms_with_gpus_starts(site):
    await site.hold("c", "h100", 1)
    await site.product.stop()
    try:
        compute = {"name": "c", "image": "none.invalid/none:1"}
        meta = {"name": "plain", "namespace": "default"}
        await site.admin.create(kinds.PODS, {"metadata": meta, "spec": {"containers": [compute]}})
        await site.make("other", [])
        await site.runs("other")
        await site.make("web", [held("c")])
        await site.refused("web", "vmis.gpu.cozystack.io")
    finally:
        await site.product.start(flags=vms.FLAGS)
    await site.admin.delete(kinds.PODS, "plain", "default", grace_period=0)
    await site.runs("web")


async def test_a_forced_migration_takes_the_claim_along(site):
    assert await site.hold("c", "h100", 2) == "gpu-1"
    for node in ("gpu-1", "gpu-2"):
        site.sim.machine(node).migratable = True
    await site.make("web", [held("c")])
    before = await site.runs("web")
    meta = {"generateName": "move-", "namespace": ACME}
    await site.admin.create(MIGRATIONS, {"metadata": meta, "spec": {"vmiName": "web"}})

    async def there():
        vmi = await site.found(kinds.VMIS, "web")
        return vmi.get("status", {}).get("nodeName") == "gpu-2"

    await sites.until(there, vms.LATE, "the guest on gpu-2")
    await moved(site, "c", "gpu-2")
    assert (await site.runs("web"))["metadata"]["uid"] == before["metadata"]["uid"]
    await site.stop("web")
    await site.start("web")
    assert (await site.runs("web"))["status"]["nodeName"] == "gpu-2"


async def test_a_raw_launcher_is_pinned_past_what_others_hold(site):
    await site.product.stop()
    await site.product.start(flags=RAW_ALLOWED)
    try:
        assert await site.hold("c", "h100", 2) == "gpu-1"
        await site.make("raw", [starts.gpu(H100)])
        vmi = await site.runs("raw")
        pod = await site.launcher("raw")
        assert (gates(pod), vmi["status"]["nodeName"]) == ([], "gpu-2")
        assert pins(pod) == [to_node("gpu-2")]
        await site.delete("raw")
    finally:
        await site.product.stop()
        await site.product.start(flags=vms.FLAGS)


async def test_a_vm_runs_on_while_its_leader_changes(site):
    await site.make("web", [unit()])
    before = await site.runs("web")
    await site.product.stop()
    await site.product.start(flags=vms.FLAGS)
    await site.make("next", [unit()])
    await site.runs("next")
    assert (await site.runs("web"))["metadata"]["uid"] == before["metadata"]["uid"]
    assert len(await site.of_templates()) == 2
