"""The settings ConfigMap: served as it is, kept by the leader, harmless when it is gone."""

import pytest
import pytest_asyncio

from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

AT = (kinds.CONFIG_MAPS, keys.SETTINGS_NAME, keys.SETTINGS_NAMESPACE)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with sites.opened(tmp_path_factory.mktemp("settings")) as opened:
        await opened.node("gpu-1", 8)
        await opened.offer("h100")
        await opened.tenant("tenant-a")
        await opened.shown("tenant-a", "h100")
        yield opened


async def data(site):
    try:
        return dict((await site.admin.get(*AT)).get("data") or {})
    except errors.NotFound:
        return {}


def janitor(site):
    """The one kind of caller that may delete the settings: a namespace's end must not hang."""
    return site.admin.acting_as(
        "system:serviceaccount:kube-system:namespace-controller", ["system:masters"]
    )


async def values(site, source):
    option = await site.served("tenant-a", f"options/{source}")
    return [item["value"] for item in (option["spec"].get("items") or [])]


async def explained(site, name):
    found = await site.served("tenant-a", "explanations")
    return name in [item["metadata"]["name"] for item in found["items"]]


async def settled(site, wanted):
    async def same():
        return await data(site) == wanted

    await sites.until(same, sites.LATE, f"settings {wanted}")


async def test_the_leader_writes_the_names_of_all_classes(site):
    await settled(site, {"resourceNames": sites.H100, "rawResourceNames": "denied"})


async def test_a_new_class_joins_the_names(site):
    await site.offer("l40s", "nvidia.com/AD102GL_L40S")
    both = f"nvidia.com/AD102GL_L40S,{sites.H100}"
    await settled(site, {"resourceNames": both, "rawResourceNames": "denied"})
    await site.admin.delete(kinds.GPU_CLASSES, "l40s")
    await settled(site, {"resourceNames": sites.H100, "rawResourceNames": "denied"})


async def test_while_raw_names_are_denied_the_gpu_source_is_empty(site):
    assert await values(site, "gpu") == []
    assert sites.H100 not in await values(site, "gpuquotakey")


async def test_an_edit_by_hand_is_refused_even_to_the_administrator(site):
    async def refused():
        try:
            edit = {"data": {"rawResourceNames": "allowed"}}
            await site.admin.patch(AT[0], AT[1], edit, AT[2], dry_run=True)
        except errors.ApiError as error:
            return str(error)
        return ""

    message = await sites.until(refused, sites.LATE, "the settings policy is in force")
    assert "cozystack-gpu-settings" in message
    await settled(site, {"resourceNames": sites.H100, "rawResourceNames": "denied"})


async def test_what_the_namespace_controller_deletes_is_healed_and_told(site):
    await janitor(site).delete(*AT)
    await settled(site, {"resourceNames": sites.H100, "rawResourceNames": "denied"})
    log = site.product.replicas["replica-1"].log

    async def told():
        binder = await site.admin.get(kinds.GPU_BINDERS, keys.BINDER_NAME)
        conditions = {c["type"]: c["status"] for c in binder["status"]["conditions"]}
        words = "the settings ConfigMap does not exist" in log.read_text(encoding="utf-8")
        return words and conditions["SettingsCurrent"] == "True"

    await sites.until(told, sites.LATE, "it is told, and that the settings are current again")


async def test_options_and_gates_follow_the_object_as_it_is_served(site):
    await site.product.stop()
    controller = site.admin.acting_as(
        "system:serviceaccount:cozy-system:cozystack-gpu",
        ["system:serviceaccounts", "system:authenticated"],
    )
    # A replica that never leads shows what is served, and heals nothing: its lease is held by nobody
    # it can beat.
    lease = {
        "metadata": {"name": keys.LEASE_NAME, "namespace": "cozy-system"},
        "spec": {
            "holderIdentity": "somebody-else",
            "leaseDurationSeconds": 3600,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    }
    await site.admin.patch(kinds.LEASES, keys.LEASE_NAME, lease, "cozy-system")
    await site.product.start(flags=sites.FAST)
    await site.product.available()
    changed = {"resourceNames": "example.com/odd", "rawResourceNames": "allowed"}
    await controller.patch(AT[0], AT[1], {"data": changed}, AT[2])

    async def follows():
        return (await values(site, "gpu"), "example.com/odd" in await values(site, "gpuquotakey"))

    async def gated():
        gates = await site.served("tenant-a", "quotagates")
        return "example.com/odd" in [gate["spec"]["key"] for gate in gates["items"]]

    async def all_do():
        return await follows() == (["example.com/odd"], True) and await gated()

    await sites.until(all_do, sites.LATE, "options and gates follow the settings")

    await controller.patch(AT[0], AT[1], {"data": {"rawResourceNames": "perhaps"}}, AT[2])
    await controller.patch(AT[0], AT[1], {"data": {"resourceNames": "not a name"}}, AT[2])
    await site.order("tenant-a", "ping", "h100")
    await sites.until(lambda: explained(site, "ping"), sites.LATE, "a later change is seen")
    assert await follows() == (["example.com/odd"], True)  # the last good value

    await site.admin.delete(kinds.LEASES, keys.LEASE_NAME, "cozy-system")
    await settled(site, {"resourceNames": sites.H100, "rawResourceNames": "denied"})


async def test_settings_deleted_while_the_product_is_down_stop_no_other_pod(site):
    await site.product.stop()
    await janitor(site).delete(*AT)
    await site.cp.namespace_ready("tenant-a")
    pod = {
        "metadata": {"name": "plain", "namespace": "tenant-a"},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }
    await site.admin.create(kinds.PODS, pod)
    await site.admin.delete(kinds.PODS, "plain", "tenant-a", grace_period=0)
    await site.product.start(flags=sites.FAST)
    await settled(site, {"resourceNames": sites.H100, "rawResourceNames": "denied"})
