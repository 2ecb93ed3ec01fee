"""Giving back on a real control plane: by evidence, through force deletes, crashes and pauses.

VMIs and launchers are written as KubeVirt would leave them; no kubelet runs, so the test says what
became of a pod, and the API server, its controllers and the product do the rest.
"""

import asyncio
import contextlib

import pytest
import pytest_asyncio

from devcluster import chart, guests
from gpu import keys, outrun
from gpu.cluster import errors
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from tests.real import site as sites
from tests.real.site import H100

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

SETTLE = 5.0
"""Long enough that what is said of a node that settles is said while it does."""
FLAGS = (
    *sites.FAST,
    f"--release-settle={SETTLE:g}",
    "--attachment-grace=3",
    "--not-ready-grace=3600",
)
TENANT = "tenant-a"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with sites.opened(
        tmp_path_factory.mktemp("release"), flags=FLAGS, values=chart.ORDERS_WAIT
    ) as opened:
        await opened.offer("h100")
        await opened.tenant(TENANT)
        beating = asyncio.create_task(opened.nodes.heartbeat(every=0.5))  # noqa: TID251 -- ends here
        try:
            yield opened
        finally:
            beating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beating


@pytest_asyncio.fixture(loop_scope="module")
async def node(site, request):
    """A node of the test's own, empty of claims before and after; no other is known to the leader."""
    name = f"n-{abs(hash(request.node.name)) % 10**8}"
    await site.node(name, 1)
    await site.class_has("h100", 1)
    yield name
    with contextlib.suppress(errors.NotFound):
        await site.nodes.remove(name)
    await site.class_has("h100", 0)


async def a_guest(site, claim: str, tenant: str = TENANT) -> guests.Start:
    """A claim of one unit, used by a guest that runs."""
    await site.order(tenant, claim, "h100")
    node = await site.bound(tenant, claim)
    vms = guests.Guests(site.admin, tenant)
    start = await vms.start(f"vm-{claim}", node=node, claims=[claim], units={H100: 1})
    await attached(site, claim, start, tenant)
    return start


async def attached(site, claim: str, start: guests.Start, tenant: str = TENANT) -> None:
    """Wait until the leader has noted pod and node."""

    async def is_noted():
        found = (await site.claim(tenant, claim))["status"].get("attachedTo") or {}
        pods = [(pod["uid"], pod.get("node")) for pod in found.get("pods", [])]
        return (found.get("uid"), pods) == (start.uid, [(start.pod_uid, start.node)])

    await sites.until(is_noted, sites.LATE, f"{claim} attached to {start}")


async def delete(site, claim: str, tenant: str = TENANT) -> None:
    await site.person(tenant).delete(kinds.GPU_CLAIMS, claim, tenant)


async def says(site, claim: str, reason: str, tenant: str = TENANT) -> str:
    """Wait until a deleted claim says why it is kept; return its words."""
    seen = {}

    async def message():
        found = (await site.claim(tenant, claim))["status"].get("conditions", [])
        seen.update({c["type"]: (c["reason"], c["message"]) for c in found})
        return (
            seen.get("Releasing", ("", ""))[1] if seen.get("Releasing", ("",))[0] == reason else ""
        )

    return await sites.until(
        message, sites.LATE, lambda: f"{claim} Releasing/{reason}, says {seen}"
    )


async def stays(site, claim: str, seconds: float, tenant: str = TENANT) -> None:
    """Look all the time that the claim is there and holds what it held."""
    async with asyncio.timeout(seconds + 30):
        until = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < until:
            found = await site.claim(tenant, claim)
            assert found["status"]["phase"] == "Bound", found
            assert keys.CLAIM_FINALIZER in found["metadata"]["finalizers"]
            await asyncio.sleep(0.1)


async def test_a_deleted_claim_waits_for_its_pod_to_end_and_its_unit_is_bound_anew(site, node):
    start = await a_guest(site, "used")
    await delete(site, "used")
    assert start.pod_uid in await says(site, "used", "PodNotEnded")
    await site.order(TENANT, "next", "h100")
    await site.waits(TENANT, "next", "NoFreeUnits")
    await guests.Guests(site.admin, TENANT).stop(start)
    await site.gone(TENANT, "used")
    assert await site.bound(TENANT, "next") == node
    await delete(site, "next")
    await site.gone(TENANT, "next")


async def test_a_claim_comes_free_when_its_vm_is_off_and_when_its_vm_never_came(site, node):
    start = await a_guest(site, "kept")
    await guests.Guests(site.admin, TENANT).stop(start)

    async def free():
        status = (await site.claim(TENANT, "kept"))["status"]
        return status["phase"] == "Bound" and "attachedTo" not in status

    await sites.until(free, sites.LATE, "kept detached")
    never = {"name": "never", "admission": "abc", "since": "2026-01-01T00:00:00Z"}
    await site.admin.patch(
        kinds.GPU_CLAIMS,
        "kept",
        {"status": {"attachedTo": never}},
        TENANT,
        subresource="status",
    )
    await sites.until(free, sites.LATE, "kept detached again")
    await delete(site, "kept")
    await site.gone(TENANT, "kept")


async def test_a_claim_full_of_annotations_is_outrun_all_the_same(site):
    """No tenant may fill its claim so that a lost write of it cannot be outrun (decision 17)."""
    full = {"x.example.com/full": "x" * (256 * 1024 - len("x.example.com/full"))}
    meta = {"name": "full", "namespace": TENANT, "annotations": full}
    body = {"metadata": meta, "spec": {"className": "h100", "count": 1}}
    await site.person(TENANT).create(kinds.GPU_CLAIMS, body)
    before = await site.claim(TENANT, "full")
    after = await outrun.claim(site.controller(), ObjectKey(TENANT, "full"))
    assert after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
    assert after["metadata"]["annotations"] == full
    await delete(site, "full")
    await site.gone(TENANT, "full")


async def test_a_pod_that_ended_and_went_while_nobody_looked_has_ended(site, node):
    """No other evidence can come: its node is not Ready any more."""
    start = await a_guest(site, "brief")
    await delete(site, "brief")
    assert start.pod_uid in await says(site, "brief", "PodNotEnded")
    site.product.freeze()
    try:
        await guests.Guests(site.admin, TENANT).stop(start)
        await site.nodes.set_ready(node, ready=False)
    finally:
        site.product.thaw()
    await site.gone(TENANT, "brief")


async def test_a_force_delete_on_a_dead_node_frees_nothing_until_the_node_is_gone(site, node):
    start = await a_guest(site, "stuck")
    await site.nodes.set_ready(node, ready=False)
    vms = guests.Guests(site.admin, TENANT)
    await vms.remove_pod(start)
    await vms.remove_vmi(start)
    await delete(site, "stuck")
    words = await says(site, "stuck", "NodeUnknown")
    assert node in words
    assert "out-of-service" in words
    await stays(site, "stuck", 2 * SETTLE)
    await site.nodes.remove(node)
    await site.gone(TENANT, "stuck")


async def test_a_node_that_comes_back_settles_before_its_claim_goes(site, node):
    start = await a_guest(site, "settles")
    await site.nodes.set_ready(node, ready=False)
    vms = guests.Guests(site.admin, TENANT)
    await vms.remove_pod(start)
    await vms.remove_vmi(start)
    await delete(site, "settles")
    await says(site, "settles", "NodeUnknown")
    await site.nodes.set_ready(node, ready=True)
    await says(site, "settles", "NodeSettling")
    await site.gone(TENANT, "settles", within=SETTLE + sites.LATE)


async def test_a_node_tainted_out_of_service_vouches_for_the_end(site, node):
    start = await a_guest(site, "vouched")
    await site.nodes.set_ready(node, ready=False)
    await guests.Guests(site.admin, TENANT).remove_pod(start)
    await delete(site, "vouched")
    await says(site, "vouched", "NodeUnknown")
    await site.admin.patch(
        kinds.NODES,
        node,
        {"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}},
    )
    await site.gone(TENANT, "vouched")
    await guests.Guests(site.admin, TENANT).remove_vmi(start)


async def test_a_leader_that_was_away_during_the_end_still_gets_there(site, node):
    start = await a_guest(site, "unseen")
    await delete(site, "unseen")
    await says(site, "unseen", "PodNotEnded")
    site.product.kill()
    await guests.Guests(site.admin, TENANT).stop(start)
    await site.product.start(flags=FLAGS)
    await site.gone(TENANT, "unseen", within=SETTLE + sites.LATE)


async def test_with_the_feature_off_a_claim_is_let_go_when_its_pod_has_ended(site, node):
    start = await a_guest(site, "off")
    await site.product.stop()
    await delete(site, "off")
    await site.product.start(flags=(*FLAGS, "--no-enabled"))
    try:
        await says(site, "off", "PodNotEnded")
        await guests.Guests(site.admin, TENANT).stop(start)
        await site.gone(TENANT, "off")
    finally:
        await site.product.stop()
        await site.product.start(flags=FLAGS)


async def test_a_namespace_goes_though_the_product_was_away_while_its_pods_ended(site, node):
    await site.tenant("tenant-going")
    await site.cp.namespace_ready("tenant-going")
    start = await a_guest(site, "going", "tenant-going")
    await site.product.stop()
    await site.admin.delete(kinds.NAMESPACES, "tenant-going")
    vms = guests.Guests(site.admin, "tenant-going")
    await vms.remove_pod(start)

    async def deleted():
        return "deletionTimestamp" in (await site.claim("tenant-going", "going"))["metadata"]

    await sites.until(deleted, sites.LATE, "claim going deleted with its namespace")
    await site.product.start(flags=FLAGS)

    async def gone():
        try:
            await site.admin.get(kinds.NAMESPACES, "tenant-going")
        except errors.NotFound:
            return True
        return False

    await sites.until(gone, SETTLE + sites.LATE, "namespace tenant-going gone")
