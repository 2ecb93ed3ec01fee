"""The policies on the real API server: what must pass, what must be refused, in which words."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from devcluster.plane import ControlPlane
from gpu import keys
from gpu.objects import kinds
from gpu.settings import RawNames
from policies.standing import Reason
from tests.real import policy_site
from tests.real.policy_site import CONFIG, RAW, TENANT, Site, eventually, pod, refused

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONTROLLER = CONFIG.controller_user
KUBEVIRT = CONFIG.kubevirt_controller_user
REPLICA_SETS = "system:serviceaccount:kube-system:replicaset-controller"
NAMESPACE_CONTROLLER = "system:serviceaccount:kube-system:namespace-controller"
Json = dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(fresh_plane: ControlPlane) -> AsyncIterator[Site]:
    async with policy_site.prepared(fresh_plane) as found:
        await policy_site.in_force(found)
        yield found


def pods_no(namespace: str = TENANT, asked: str = RAW) -> str:
    return policy_says(
        "pods",
        "p",
        "cozystack-gpu-raw-names-policy",
        f"pod {namespace}/p: names {asked} directly, and raw GPU resource names are denied here; "
        f"order a class instead (kubectl get gpuoffers -n {namespace})",
        "cozystack-gpu-raw-names-policy-root" if namespace == keys.TENANT_ROOT else None,
    )


def policy_says(plural: str, name: str, policy: str, words: str, binding: str | None = None) -> str:
    return (
        f"{plural} \"{name}\" is forbidden: ValidatingAdmissionPolicy '{policy}' with binding "
        f"'{binding or policy}' denied request: {words}"
    )


async def test_the_keeper_says_that_all_is_current(site: Site):
    assert site.said[-1].reason is Reason.CURRENT
    policies, bindings = policy_site.names_of()
    assert {item["metadata"]["name"] for item in (await site.admin.list(kinds.POLICIES)).items} == (
        policies
    )
    stored = {
        item["metadata"]["name"] for item in (await site.admin.list(kinds.POLICY_BINDINGS)).items
    }
    assert stored == bindings


async def test_the_type_checker_warns_of_nothing(site: Site):
    async def checked() -> list[Json]:
        found = (await site.admin.list(kinds.POLICIES)).items
        done = all(
            item.get("status", {}).get("observedGeneration") == item["metadata"]["generation"]
            for item in found
        )
        return list(found) if done else []

    for item in await eventually(checked):
        assert item["status"]["typeChecking"] == {}, item["metadata"]["name"]


PODS: list[Any] = [
    pytest.param("admin", pod(), pods_no(), id="an administrator"),
    pytest.param("tenant-a-super-admin", pod(), pods_no(), id="a tenant that may make pods"),
    pytest.param(REPLICA_SETS, pod(), pods_no(), id="a controller of kube-system"),
    pytest.param(
        policy_site.PRETENDER,
        pod(),
        pods_no(),
        id="an account only named as KubeVirt's",
    ),
    pytest.param("admin", pod(init=True), pods_no(), id="an init container"),
    pytest.param(
        "admin", pod(namespace=keys.TENANT_ROOT), pods_no(keys.TENANT_ROOT), id="the root tenant"
    ),
    pytest.param(
        "admin",
        pod(policy_site.NAMES[1]),
        pods_no(asked=policy_site.NAMES[1]),
        id="another name of the settings",
    ),
    pytest.param(KUBEVIRT, pod(), None, id="KubeVirt's controller"),
    pytest.param("admin", pod(""), None, id="a pod without devices"),
    pytest.param("admin", pod("vendor.com/nic"), None, id="a device that is no GPU"),
    pytest.param("admin", pod(RAW.lower()), None, id="a name that differs in case"),
    pytest.param("admin", pod(namespace="default"), None, id="no tenant: default"),
    pytest.param("admin", pod(namespace="team-x"), None, id="no tenant: another namespace"),
    pytest.param("admin", pod(namespace="cozy-other"), None, id="a cozy- namespace with our label"),
    pytest.param("admin", pod(namespace="kube-system"), None, id="kube-system"),
]


@pytest.mark.parametrize(("who", "body", "words"), PODS)
async def test_a_pod_that_names_a_gpu_directly(site: Site, who: str, body: Json, words: str | None):
    assert await refused(acting(site, who).create(kinds.PODS, body, dry_run=True)) == words


def acting(site: Site, who: str):
    if who == "admin":
        return site.admin
    if who == "tenant-a-super-admin":
        return site.as_user("alice", (who, "system:authenticated"))
    return site.as_user(who)


def vmi(namespace: str = TENANT, **domain: Any) -> Json:
    return {"metadata": {"name": "vm", "namespace": namespace}, "spec": {"domain": domain}}


VMI_NO = policy_says(
    "virtualmachineinstances.kubevirt.io",
    "vm",
    "cozystack-gpu-vmi-raw-names-policy",
    f"virtualmachineinstance {TENANT}/vm: names {RAW} directly, and raw GPU resource names are "
    f"denied here; order a class instead (kubectl get gpuoffers -n {TENANT})",
)
GPU = {"name": "gpu0", "deviceName": RAW}


@pytest.mark.parametrize(
    ("who", "body", "words"),
    [
        pytest.param(KUBEVIRT, vmi(devices={"gpus": [GPU]}), VMI_NO, id="from a tenant's VM"),
        pytest.param("tenant-a-super-admin", vmi(devices={"gpus": [GPU]}), VMI_NO, id="a tenant"),
        pytest.param("admin", vmi(devices={"hostDevices": [GPU]}), VMI_NO, id="a host device"),
        pytest.param(
            "admin", vmi(resources={"requests": {RAW: "1"}}), VMI_NO, id="requests of its own"
        ),
        pytest.param(
            "admin", vmi(resources={"limits": {RAW: "1"}}), VMI_NO, id="limits of its own"
        ),
        pytest.param(
            "admin",
            vmi(devices={"gpus": [{"name": "gpuclaim-0", "deviceName": RAW}]}),
            VMI_NO,
            id="the reserved unit name gives nothing",
        ),
        pytest.param("admin", vmi(devices={"gpus": []}), None, id="no GPU"),
        pytest.param("admin", vmi(), None, id="no devices"),
        pytest.param(
            "admin",
            vmi(devices={"gpus": [{"name": "a", "deviceName": "gpu.cozystack.io/h100"}]}),
            None,
            id="a class",
        ),
        pytest.param(
            "admin",
            vmi(devices={"gpus": [{"name": "a", "deviceName": "claim.gpu.cozystack.io/c"}]}),
            None,
            id="a claim",
        ),
        pytest.param("admin", vmi("team-x", devices={"gpus": [GPU]}), None, id="no tenant"),
    ],
)
async def test_a_vmi_that_names_a_gpu_directly(site: Site, who: str, body: Json, words: str | None):
    assert await refused(acting(site, who).create(kinds.VMIS, body, dry_run=True)) == words


async def test_a_change_of_the_settings_is_in_force_at_once(site: Site):
    async def passes() -> bool:
        return await refused(site.admin.create(kinds.PODS, pod(), dry_run=True)) is None

    await site.write_settings(RawNames.ALLOWED)
    await eventually(passes)
    await site.write_settings(RawNames.DENIED, (*policy_site.NAMES, "vendor.com/new"))
    await eventually(lambda: refused(site.admin.create(kinds.PODS, pod(), dry_run=True)))
    words = await refused(site.admin.create(kinds.PODS, pod("vendor.com/new"), dry_run=True))
    assert words == pods_no(asked="vendor.com/new")
    await site.write_settings(RawNames.DENIED)


async def test_a_pod_gets_no_device_after_its_creation(site: Site):
    """Why only CREATE is matched: the API server itself refuses every other way."""
    await site.admin.create(kinds.PODS, pod("", name="later"))
    asks = [{"name": "main", "resources": {"limits": {RAW: "1"}}}]
    debug = {"name": "d", "image": "i", "resources": {"limits": {RAW: "1"}}}
    for subresource, spec, words in (
        (
            None,
            {"containers": [{"name": "main", "image": "i", **asks[0]}]},
            "may not change fields",
        ),
        ("resize", {"containers": [{"name": "main", "image": "i", **asks[0]}]}, "mutable"),
        (
            "ephemeralcontainers",
            {"ephemeralContainers": [debug]},
            "ephemeralContainers[0].resources",
        ),
    ):
        said = await refused(
            site.admin.patch(
                kinds.PODS, "later", {"spec": spec}, TENANT, subresource=subresource, dry_run=True
            )
        )
        assert words in (said or ""), (subresource, said)
    await site.admin.delete(kinds.PODS, "later", TENANT, grace_period=0)


async def test_a_device_that_is_only_requested_is_no_pod(site: Site):
    """Why only limits are looked at: the API server itself refuses the rest, before any policy."""
    body = pod()
    amounts = body["spec"]["containers"][0]["resources"]
    amounts["requests"] = amounts.pop("limits")
    said = await refused(site.admin.create(kinds.PODS, body, dry_run=True))
    assert "Limit must be set for non overcommitable resources" in (said or "")


def settings_no(name: str = keys.SETTINGS_NAME) -> str:
    return policy_says(
        "configmaps",
        name,
        "cozystack-gpu-settings-policy",
        f"configmap cozy-system/{name}: only the GPU controller ({CONTROLLER}) writes it; change "
        "rawResourceNames in the chart's values, or a GPUClass, and it follows",
    )


def config_map(name: str, namespace: str = keys.SETTINGS_NAMESPACE) -> Json:
    return {"metadata": {"name": name, "namespace": namespace}, "data": {"a": "b"}}


@pytest.mark.parametrize("who", ["admin", "tenant-a-super-admin", KUBEVIRT])
async def test_the_settings_are_not_written_by_anybody_else(site: Site, who: str):
    them = acting(site, who)
    name, namespace = keys.SETTINGS_NAME, keys.SETTINGS_NAMESPACE
    patch = {"metadata": {"labels": {"a": "b"}}}
    assert await refused(them.patch(kinds.CONFIG_MAPS, name, patch, namespace)) == settings_no()
    assert await refused(them.delete(kinds.CONFIG_MAPS, name, namespace)) == settings_no()
    copy = f"{name}-7"
    said = await refused(them.create(kinds.CONFIG_MAPS, config_map(copy), dry_run=True))
    assert said == settings_no(copy)


async def test_a_collection_is_not_deleted_with_the_settings_in_it(site: Site):
    answer = await site.admin.raw("DELETE", "/api/v1/namespaces/cozy-system/configmaps?dryRun=All")
    assert answer.status == 403
    # The API server does not say which object of a collection was refused; our words do.
    assert settings_no().split("denied request: ")[1] in answer.body.decode()


@pytest.mark.parametrize(
    ("who", "operation"),
    [(CONTROLLER, "patch"), (CONTROLLER, "delete"), (NAMESPACE_CONTROLLER, "delete")],
)
async def test_the_settings_are_written_by_the_controller_and_cleaned_up(
    site: Site, who: str, operation: str
):
    them = site.as_user(who, ("system:masters",))
    name, namespace = keys.SETTINGS_NAME, keys.SETTINGS_NAMESPACE
    if operation == "patch":
        patch = {"metadata": {"labels": {"a": "b"}}}
        await them.patch(kinds.CONFIG_MAPS, name, patch, namespace, dry_run=True)
    else:
        await them.delete(kinds.CONFIG_MAPS, name, namespace, dry_run=True)


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("cozystack-gpu-setting", "cozy-system"),
        ("other", "cozy-system"),
        (keys.SETTINGS_NAME, TENANT),
    ],
)
async def test_every_other_config_map_is_left_alone(site: Site, name: str, namespace: str):
    await site.admin.create(kinds.CONFIG_MAPS, config_map(name, namespace), dry_run=True)


async def test_pods_of_every_kind_start_while_the_settings_are_gone(site: Site):
    cleaner = site.as_user(NAMESPACE_CONTROLLER, ("system:masters",))
    await cleaner.delete(kinds.CONFIG_MAPS, keys.SETTINGS_NAME, keys.SETTINGS_NAMESPACE)

    async def passes() -> bool:
        return await refused(site.admin.create(kinds.PODS, pod(), dry_run=True)) is None

    await eventually(passes)
    for body in (pod(""), pod("vendor.com/nic"), pod("", keys.TENANT_ROOT), pod("", "kube-system")):
        assert await refused(site.admin.create(kinds.PODS, body, dry_run=True)) is None
    assert (await site.keep()).reason is Reason.PARAMETER_MISSING
    await site.write_settings(RawNames.DENIED)
    await eventually(lambda: refused(site.admin.create(kinds.PODS, pod(), dry_run=True)))
    assert (await site.keep()).reason is Reason.CURRENT
