"""The chart on a real control plane: who may do what by its roles, and what outlives the release."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import yaml

from apiserver import teardown
from devcluster import chart
from devcluster.errors import CommandError
from devcluster.plane import ControlPlane
from gpu import keys
from gpu.cluster import client, errors
from gpu.config import Config
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from gpu.objects.meta import ObjectKey
from policies import keeper, standing
from tests.real import policy_site, site
from tests.real.crd_rows import BASES, BOUND, merged
from tests.real.installed import KINDS, install, installed

pytestmark = pytest.mark.asyncio(loop_scope="module")

TENANT = "tenant-a"
LEVELS = ("view", "use", "admin", "super-admin")
ROLE_BINDINGS = kinds.Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CATALOG = "catalog.gpu.cozystack.io"
CONTAINER = {"name": "a", "image": "a"}
GROUPS = ("system:serviceaccounts", "system:authenticated")
PROCESS = "system:serviceaccount:cozy-system:cozystack-gpu"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(fresh_plane: ControlPlane) -> AsyncIterator[client.Client]:
    await fresh_plane.kubectl("apply", f"--filename={chart.HOST / 'rbac.yaml'}")
    async with installed(fresh_plane) as found:
        await found.create(kinds.NAMESPACES, {"metadata": {"name": TENANT}})
        for level in LEVELS:
            await bind(found, f"cozy:tenant:{level}", f"{TENANT}-{level}")
        yield found


async def bind(api: client.Client, role: str, group: str) -> None:
    """Bind a role of the host to a tenant's group, as the tenant chart does."""
    rbac = "rbac.authorization.k8s.io"
    await api.create(
        ROLE_BINDINGS,
        {
            "metadata": {"name": group, "namespace": TENANT},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": rbac, "kind": "Group", "name": group}],
        },
    )


async def verbs(
    api: client.Client, group: str, resource: str, api_group: str, sub: str = ""
) -> str:
    """Return the verbs that a member of a tenant's group has in the tenant's namespace."""
    asked = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
    attributes = {"namespace": TENANT, "group": api_group, "resource": resource, "subresource": sub}
    answers = [
        await site.allowed(api, "alice", [group], {**attributes, "verb": verb}) for verb in asked
    ]
    return " ".join(verb for verb, yes in zip(asked, answers, strict=True) if yes)


async def settled(api: client.Client) -> None:
    """Wait until every role is aggregated and RBAC knows it: each is for itself."""

    async def all_know() -> bool:
        groups = [f"{TENANT}-{level}" for level in LEVELS]
        asked = [await verbs(api, group, "gpuclaims", kinds.GPU_CLAIMS.group) for group in groups]
        asked += [
            await verbs(api, group, one, CATALOG)
            for group in groups
            for one in ("options", "gpuoffers", "quotagates")
        ]
        return all(asked) and all("create" in orders for orders in asked[2:4])

    await site.until(all_know, site.LATE, "the roles of tenants aggregated")


@pytest.mark.parametrize(
    ("level", "orders"),
    [
        ("view", "get list watch"),
        ("use", "get list watch"),
        ("admin", "get list watch create delete"),
        ("super-admin", "get list watch create delete"),
    ],
)
async def test_a_tenants_level_decides_whether_it_may_order(
    api: client.Client, level: str, orders: str
):
    await settled(api)
    group = f"{TENANT}-{level}"
    ours = kinds.GPU_CLAIMS.group
    assert await verbs(api, group, "gpuclaims", ours) == orders
    assert await verbs(api, group, "gpuclaims", ours, "status") == ""
    for resource in ("options", "gpuoffers", "quotagates"):
        assert await verbs(api, group, resource, CATALOG) == "get list watch"
    for resource in ("gpuclasses", "gpunodes", "gpubinders"):
        assert await verbs(api, group, resource, ours) == ""


async def test_another_tenants_group_sees_nothing(api: client.Client):
    await settled(api)
    assert await verbs(api, "tenant-b-super-admin", "gpuclaims", kinds.GPU_CLAIMS.group) == ""


async def test_a_tenant_orders_and_cannot_forge_a_placement(api: client.Client):
    await settled(api)
    alice = api.acting_as("alice", [f"{TENANT}-admin"])
    body = merged(BASES[kinds.GPU_CLAIMS], {"metadata": {"name": "mine", "namespace": TENANT}})
    assert "status" not in await alice.create(kinds.GPU_CLAIMS, {**body, "status": BOUND})
    forged = {"status": BOUND}
    with pytest.raises(errors.Forbidden, match='cannot patch resource "gpuclaims/status"'):
        await alice.patch(kinds.GPU_CLAIMS, "mine", forged, TENANT, subresource="status")
    with pytest.raises(errors.Forbidden, match='cannot patch resource "gpuclaims"'):
        await alice.patch(kinds.GPU_CLAIMS, "mine", forged, TENANT)
    await alice.delete(kinds.GPU_CLAIMS, "mine", TENANT)


async def test_hosters_publish_classes(api: client.Client):
    group = ["cozystack-cluster-admin"]
    may = {"verb": "delete", "group": kinds.GPU_CLASSES.group, "resource": "gpuclasses"}
    await site.until(
        lambda: site.allowed(api, "root", group, may), site.LATE, "the hosters' role known"
    )
    hoster = api.acting_as("root", group)
    body = merged(BASES[kinds.GPU_CLASSES], {"metadata": {"name": "by-hoster"}})
    await hoster.create(kinds.GPU_CLASSES, body)
    await hoster.delete(kinds.GPU_CLASSES, "by-hoster")
    with pytest.raises(errors.Forbidden):
        await hoster.patch(kinds.GPU_CLASSES, "x", {"status": {}}, subresource="status")


def policy(param: Kind) -> dict[str, Any]:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    return {
        "metadata": {"name": f"param-{param.plural}"},
        "spec": {
            "paramKind": {"apiVersion": param.api_version, "kind": param.kind},
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "true"}],
        },
    }


def binding(param: Kind, name: str, namespace: str | None) -> dict[str, Any]:
    place = {"namespace": namespace} if namespace else {}
    return {
        "metadata": {"name": f"param-{param.plural}"},
        "spec": {
            "policyName": f"param-{param.plural}",
            "paramRef": {"name": name, **place, "parameterNotFoundAction": "Allow"},
            "validationActions": ["Deny"],
        },
    }


async def test_the_process_writes_policies_with_parameters_and_reads_no_other_config_map(
    api: client.Client,
):
    process = api.acting_as(PROCESS, GROUPS)
    for param, name, namespace in (
        (kinds.CONFIG_MAPS, "cozystack-gpu-settings", "cozy-system"),
        (kinds.GPU_BINDERS, "binder", None),
    ):
        await process.create(kinds.POLICIES, policy(param))
        await process.create(kinds.POLICY_BINDINGS, binding(param, name, namespace))
        await process.delete(kinds.POLICY_BINDINGS, f"param-{param.plural}")
        await process.delete(kinds.POLICIES, f"param-{param.plural}")
    with pytest.raises(errors.Invalid, match='must have "get" permission on all objects'):
        await process.create(kinds.POLICIES, policy(kinds.VOLUME_CLAIMS))
    with pytest.raises(errors.Forbidden):
        await process.get(kinds.CONFIG_MAPS, "kube-root-ca.crt", "default")
    with pytest.raises(errors.Forbidden):
        await process.list(kinds.CONFIG_MAPS)


async def test_the_api_server_takes_what_the_chart_renders_for_pods_of_its_own(
    api: client.Client, fresh_plane: ControlPlane
):
    rendered = await fresh_plane.helm("template", "x", str(chart.CHART), "--namespace=default")
    own = {"Deployment", "Job", "PodDisruptionBudget", "Service", "ServiceAccount"}
    docs = [doc for doc in yaml.safe_load_all(rendered) if doc and doc["kind"] in own]
    assert {doc["kind"] for doc in docs} == own
    said = await fresh_plane.kubectl(
        "create",
        "--dry-run=server",
        "--validate=strict",
        "--filename=-",
        stdin=yaml.safe_dump_all(docs),
    )
    assert said.count("created (server dry run)") == len(docs)


async def test_what_the_chart_grants_is_enough_to_keep_the_policies(api: client.Client):
    told: list[standing.Standing] = []

    async def report(found: standing.Standing) -> None:
        told.append(found)

    await api.create(
        kinds.CONFIG_MAPS,
        {
            "metadata": {"name": keys.SETTINGS_NAME, "namespace": keys.SETTINGS_NAMESPACE},
            "data": {"resourceNames": "", "rawResourceNames": "denied"},
        },
    )
    await api.create(kinds.GPU_BINDERS, {"metadata": {"name": keys.BINDER_NAME}})
    kept = keeper.Keeper(api.acting_as(PROCESS, GROUPS), Config(), report=report)
    found = await policy_site.settled(kept, told)
    assert (len(told) > 1, found.reason) == (True, standing.Reason.CURRENT)


async def test_what_the_chart_grants_is_enough_to_tear_the_product_down(api: client.Client):
    for kind, name, finalizer in (
        (kinds.GPU_CLASSES, "torn", keys.CLASS_FINALIZER),
        (kinds.GPU_CLAIMS, "torn", keys.CLAIM_FINALIZER),
    ):
        given = {"metadata": {"name": name, "finalizers": [finalizer]}}
        await api.create(kind, merged(BASES[kind], given))
    gated = {"schedulingGates": [{"name": keys.PLACEMENT_GATE}], "containers": [CONTAINER]}
    await api.create(
        kinds.PODS, {"metadata": {"name": "gated", "namespace": "default"}, "spec": gated}
    )
    said: list[str] = []
    done = await teardown.teardown(
        api.acting_as(PROCESS, GROUPS), Config(), release_gates=True, report=said.append
    )
    assert done.failures == ()
    assert set(done.released) == {"GPUClass torn", "GPUClaim default/torn"}
    assert done.ungated == (ObjectKey("default", "gated"),)
    assert f"APIService {teardown.API_SERVICE}" in done.removed


async def test_kinds_and_holds_outlive_the_release_and_are_found_by_the_next(
    api: client.Client, fresh_plane: ControlPlane
):
    body = merged(BASES[kinds.GPU_CLAIMS], {"metadata": {"name": "held", "namespace": TENANT}})
    await api.create(kinds.GPU_CLAIMS, body)
    held = await api.patch(
        kinds.GPU_CLAIMS, "held", {"status": BOUND}, TENANT, subresource="status"
    )
    said = await chart.uninstall(fresh_plane)
    assert all(f"[CustomResourceDefinition] {kind.resource}" in said for kind in KINDS)
    with pytest.raises(CommandError):
        await fresh_plane.kubectl("get", "clusterrole", "cozystack-gpu")
    assert await api.get(kinds.GPU_CLAIMS, "held", TENANT) == held
    await install(fresh_plane, api)
    assert await api.get(kinds.GPU_CLAIMS, "held", TENANT) == held
