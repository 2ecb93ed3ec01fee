"""Orders on a real control plane: those that are bound, and each way to wait or be refused."""

import asyncio
import time

import pytest
import pytest_asyncio

from devcluster import chart
from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEC = {"className": "h100", "count": 1}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with sites.opened(tmp_path_factory.mktemp("orders"), values=chart.ORDERS_WAIT) as opened:
        await opened.node("gpu-1", 8)
        await opened.node("gpu-2", 4)
        await opened.offer("h100", maxCount=6)
        await opened.offer("unserved", "nvidia.com/NOWHERE")
        await opened.tenant("tenant-rich")
        await opened.tenant("tenant-poor", total=2)
        # An order may reach the leader before a node or a budget that is older.
        await opened.class_has("h100", 12)
        await opened.shown("tenant-poor", "unserved", total=2)
        yield opened


async def test_an_order_is_bound_to_the_fullest_node_with_room(site):
    await site.order("tenant-rich", "first", "h100", 3)
    assert await site.bound("tenant-rich", "first") == "gpu-2"
    stored = await site.claim("tenant-rich", "first")
    status = stored["status"]
    assert stored["metadata"]["finalizers"] == ["gpu.cozystack.io/claim"]
    assert (status["phase"], status["term"] >= 1, bool(status["boundAt"])) == ("Bound", True, True)
    await site.person("tenant-rich").delete(kinds.GPU_CLAIMS, "first", "tenant-rich")
    await site.gone("tenant-rich", "first")


async def test_a_claim_is_stored_with_our_finalizer_and_keeps_its_tenants_own(site):
    tenant = site.person("tenant-rich")
    theirs = "example.com/theirs"
    for name, given in (("plain", []), ("own", [theirs]), ("both", [theirs, keys.CLAIM_FINALIZER])):
        meta = {"name": name, "namespace": "tenant-rich", "finalizers": given}
        made = await tenant.create(kinds.GPU_CLAIMS, {"metadata": meta, "spec": SPEC}, dry_run=True)
        found = made["metadata"]["finalizers"]
        assert sorted(found) == sorted({*given, keys.CLAIM_FINALIZER}), "stored before any pass"


async def test_a_claim_applied_again_keeps_our_finalizer(site):
    """As Flux does with a chart's: ours is not among the fields that whoever applies it owns."""
    for _ in range(2):
        stored = await site.admin.apply(
            kinds.GPU_CLAIMS, "applied", {"spec": SPEC}, "tenant-rich", field_manager="flux"
        )
        assert stored["metadata"]["finalizers"] == [keys.CLAIM_FINALIZER]
    await site.admin.delete(kinds.GPU_CLAIMS, "applied", "tenant-rich")
    await site.gone("tenant-rich", "applied")


@pytest.mark.parametrize("count", [0, -1, 2**31], ids=str)
async def test_a_count_that_is_no_count_is_refused_by_the_schema(site, count):
    with pytest.raises(errors.Invalid, match=r"spec\.count"):
        await site.order("tenant-rich", "no-count", "h100", count)


async def test_an_order_of_an_unknown_class_waits_and_says_so(site):
    await site.order("tenant-rich", "unknown", "h1000")
    assert "h1000" in await site.waits("tenant-rich", "unknown", "NoSuchClass")
    await site.person("tenant-rich").delete(kinds.GPU_CLAIMS, "unknown", "tenant-rich")
    await site.gone("tenant-rich", "unknown")


async def test_an_order_over_max_count_names_the_limit(site):
    await site.order("tenant-rich", "large", "h100", 7)
    assert "6" in await site.waits("tenant-rich", "large", "OverMaxCount")
    await site.person("tenant-rich").delete(kinds.GPU_CLAIMS, "large", "tenant-rich")
    await site.gone("tenant-rich", "large")


async def test_an_order_over_budget_names_the_numbers_and_is_bound_once_the_budget_grows(site):
    await site.order("tenant-poor", "three", "h100", 3)
    message = await site.waits("tenant-poor", "three", "OverBudget")
    assert "gpu.cozystack.io/total" in message
    assert "2" in message
    await site.tenant("tenant-poor", total=3)
    await site.bound("tenant-poor", "three")
    await site.person("tenant-poor").delete(kinds.GPU_CLAIMS, "three", "tenant-poor")
    await site.gone("tenant-poor", "three")
    await site.tenant("tenant-poor", total=2)


async def test_an_order_that_no_node_can_hold_waits_until_one_can(site):
    await site.order("tenant-rich", "filler", "h100", 6)
    assert await site.bound("tenant-rich", "filler") == "gpu-1"
    await site.order("tenant-rich", "split", "h100", 5)
    await site.waits("tenant-rich", "split", "NoNodeAccepts")
    await site.person("tenant-rich").delete(kinds.GPU_CLAIMS, "filler", "tenant-rich")
    assert await site.bound("tenant-rich", "split") == "gpu-1"
    await site.person("tenant-rich").delete(kinds.GPU_CLAIMS, "split", "tenant-rich")
    await site.gone("tenant-rich", "split")


async def test_a_class_that_no_node_serves_is_not_ready_and_its_order_waits(site):
    await site.order("tenant-rich", "nowhere", "unserved")
    await site.waits("tenant-rich", "nowhere", "NoNodeServes")

    async def not_ready():
        offer = await site.admin.get(kinds.GPU_CLASSES, "unserved")
        found = (offer.get("status") or {}).get("conditions", [])
        return [c["reason"] for c in found if c["type"] == "Ready" and c["status"] == "False"]

    assert await sites.until(not_ready, 25, "class unserved not Ready") == ["NoNodeServes"]
    await site.person("tenant-rich").delete(kinds.GPU_CLAIMS, "nowhere", "tenant-rich")
    await site.gone("tenant-rich", "nowhere")


async def test_a_retired_class_takes_no_order_and_keeps_its_holders(site):
    await site.offer("old")
    await site.order("tenant-rich", "holder", "old")
    await site.bound("tenant-rich", "holder")
    await site.admin.patch(kinds.GPU_CLASSES, "old", {"spec": {"retired": True}})
    await site.class_says("old", "Retired")
    await site.order("tenant-rich", "late", "old")
    await site.waits("tenant-rich", "late", "ClassRetired")
    assert (await site.claim("tenant-rich", "holder"))["status"]["phase"] == "Bound"


async def test_a_deleted_class_waits_for_its_holders_and_takes_no_order(site):
    await site.admin.delete(kinds.GPU_CLASSES, "old")
    await site.class_says("old", "Deleting")
    await site.order("tenant-rich", "too-late", "old")
    await site.waits("tenant-rich", "too-late", "ClassDeleting")
    offer = await site.admin.get(kinds.GPU_CLASSES, "old")
    assert offer["metadata"]["finalizers"] == ["gpu.cozystack.io/class"]
    for name in ("holder", "late", "too-late"):
        await site.person("tenant-rich").delete(kinds.GPU_CLAIMS, name, "tenant-rich")

    async def gone():
        try:
            await site.admin.get(kinds.GPU_CLASSES, "old")
        except errors.NotFound:
            return True
        return False

    await sites.until(gone, 25, "class old gone")


async def test_a_namespace_that_is_no_tenant_gets_nothing(site):
    await site.admin.create(kinds.NAMESPACES, {"metadata": {"name": "not-a-tenant"}})
    body = {
        "metadata": {"name": "stray", "namespace": "not-a-tenant"},
        "spec": {"className": "h100", "count": 1},
    }
    await site.admin.create(kinds.GPU_CLAIMS, body)
    await site.waits("not-a-tenant", "stray", "NoTenant")
    await site.admin.delete(kinds.GPU_CLAIMS, "stray", "not-a-tenant")
    await site.gone("not-a-tenant", "stray")


async def test_a_claim_deleted_while_pending_and_one_deleted_while_bound_free_everything(site):
    await site.order("tenant-rich", "all", "h100", 6)
    await site.bound("tenant-rich", "all")
    await site.order("tenant-rich", "queued", "h100", 5)
    await site.waits("tenant-rich", "queued", "NoNodeAccepts")
    await site.person("tenant-rich").delete(kinds.GPU_CLAIMS, "queued", "tenant-rich")
    await site.gone("tenant-rich", "queued")
    await site.person("tenant-rich").delete(kinds.GPU_CLAIMS, "all", "tenant-rich")
    await site.gone("tenant-rich", "all")
    assert await site.booked() == {}


async def test_fifty_orders_racing_for_twelve_units_leave_twelve_bound(site):
    names = [f"race-{number}" for number in range(50)]
    await asyncio.gather(*(site.order("tenant-rich", name, "h100") for name in names))

    async def settled():
        found = [c for c in await site.claims() if c["metadata"]["name"] in names]
        phases = [(c.get("status") or {}).get("phase") for c in found]
        return None not in phases and phases.count("Bound") == 12

    await sites.until(settled, 28, "12 of 50 Bound, the others explained")
    assert await site.booked() == {"gpu-1": 8, "gpu-2": 4}
    for name in names:
        await site.admin.delete(kinds.GPU_CLAIMS, name, "tenant-rich")
    for name in names:
        await site.gone("tenant-rich", name)


async def test_a_tenant_sees_offers_options_and_gates_and_no_other_tenants(site):
    async def all_free():
        offer = await site.served("tenant-poor", "gpuoffers/h100")
        return (offer["status"]["free"], offer["status"]["orderable"]) == (12, 2)

    await sites.until(all_free, 25, "all units free again, as far as the budget goes")
    offer = await site.served("tenant-poor", "gpuoffers/h100")
    assert offer["spec"]["mode"] == "passthrough"
    gate = await site.served("tenant-poor", "quotagates/total")
    assert (gate["spec"]["hard"], gate["status"]["used"], gate["status"]["gate"]) == (2, 0, "Open")
    option = await site.served("tenant-poor", "options/gpuclass")
    assert "gpu.cozystack.io/h100" in [item["value"] for item in option["spec"]["items"]]
    path = f"{sites.CATALOG}/namespaces/tenant-rich/gpuoffers"
    assert (await site.person("tenant-poor").raw("GET", path)).status == 403


async def test_kubectl_get_gpu_shows_everything_of_a_tenant(site, tmp_path):
    """A category must not have what cannot be listed: kubectl would end with an error."""
    served = {f"{one}.catalog.gpu.cozystack.io" for one in ("option", "gpuoffer", "quotagate")}

    async def shown():
        # Of a category that it knows, kubectl does not ask discovery again.
        fresh = f"--cache-dir={tmp_path / str(time.monotonic())}"
        found = await site.cp.kubectl("get", "gpu", "-n=tenant-rich", "--output=name", fresh)
        return served <= {line.partition("/")[0] for line in found.split()}

    # kube-apiserver reads the discovery of an aggregated server once a minute.
    await sites.until(shown, 100, "offers, options and quota gates")
