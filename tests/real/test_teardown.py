"""Teardown on a real API server: after it nothing of the product hinders anybody, holds are found again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest
import pytest_asyncio

from apiserver import teardown
from devcluster import chart
from devcluster.plane import ControlPlane
from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from gpu.settings import RawNames
from policies.standing import Reason
from tests.real import installed, policy_site
from tests.real.policy_site import CONFIG, TENANT, Site, eventually, pod, refused
from tests.real.site import allowed

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

BOUND = {"phase": "Bound", "nodeName": "n1", "boundAt": "2026-01-01T00:00:00Z", "term": 1}
OTHERS = "other.example.com/kept"
Json = dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(fresh_plane: ControlPlane) -> AsyncIterator[Site]:
    async with policy_site.prepared(fresh_plane) as found:
        await found.raise_term(1)
        yield found


async def held(site: Site, name: str) -> None:
    await _put(site, kinds.GPU_CLASSES, "h100", keys.CLASS_FINALIZER, None)
    await _put(site, kinds.GPU_CLAIMS, name, keys.CLAIM_FINALIZER, TENANT)
    await site.controller.patch(
        kinds.GPU_CLAIMS, name, {"status": BOUND}, TENANT, subresource="status"
    )


async def _put(site: Site, kind: Any, name: str, finalizer: str, namespace: str | None) -> None:
    spec: Json = {"className": "h100", "count": 1}
    if kind is kinds.GPU_CLASSES:
        source = {"devicePlugin": {"resourceName": policy_site.RAW}}
        spec = {"mode": "passthrough", "source": source}
    meta = {"name": name, "finalizers": [OTHERS, finalizer]}
    if namespace:
        meta["namespace"] = namespace
    body = {"metadata": meta, "spec": spec}
    await eventually(
        lambda: passes(site.admin.apply(kind, name, body, namespace, field_manager="test"))
    )


async def torn_down(
    site: Site, writer: Any = None, **how: Any
) -> tuple[teardown.Result, list[str]]:
    lines: list[str] = []
    result = await teardown.teardown(writer or site.admin, CONFIG, report=lines.append, **how)
    return result, lines


async def names(site: Site, kind: Any) -> set[str]:
    return {item["metadata"]["name"] for item in (await site.admin.list(kind)).items}


async def unmark(site: Site) -> None:
    patch = {"metadata": {"annotations": {keys.TEARDOWN_ANNOTATION: None}}}
    await site.admin.patch(kinds.GPU_BINDERS, keys.BINDER_NAME, patch)


async def test_what_the_product_put_out_is_taken_in_and_holds_stay(site: Site):
    await held(site, "c1")
    await site.keep()
    result, lines = await torn_down(site)
    assert result.failures == ()
    policies, bindings = policy_site.names_of()
    keeper = "cozystack-gpu-keeper-policy"
    assert set(result.removed) == (
        {
            "APIService v1alpha1.catalog.gpu.cozystack.io",
            "ValidatingWebhookConfiguration cozystack-gpu",
            f"MutatingAdmissionPolicy {teardown.FINALIZING}",
            f"MutatingAdmissionPolicyBinding {teardown.FINALIZING}",
        }
        | {f"ValidatingAdmissionPolicy {name}" for name in policies - {keeper}}
        | {f"ValidatingAdmissionPolicyBinding {name}" for name in bindings - {keeper}}
    )
    assert result.released == (f"GPUClaim {TENANT}/c1", "GPUClass h100")
    assert await names(site, kinds.POLICIES) == {keeper}
    assert await names(site, kinds.POLICY_BINDINGS) == {keeper}
    claim = await site.admin.get(kinds.GPU_CLAIMS, "c1", TENANT)
    assert (claim["metadata"]["finalizers"], claim["status"]) == ([OTHERS], BOUND)
    settings = await site.admin.get(kinds.CONFIG_MAPS, keys.SETTINGS_NAME, keys.SETTINGS_NAMESPACE)
    assert settings["data"]["rawResourceNames"] == "denied"
    assert lines[-1].startswith("torn down:")
    again, _ = await torn_down(site)
    assert again == teardown.Result()
    await unmark(site)


async def test_a_leader_that_still_runs_puts_nothing_back(site: Site):
    await site.keep()
    result, _ = await torn_down(site)
    assert result.clean
    assert (await site.keep()).reason is Reason.TEARING_DOWN
    assert await names(site, kinds.POLICIES) == {"cozystack-gpu-keeper-policy"}
    assert await teardown.still_torn_down(site.admin, CONFIG)
    await unmark(site)


async def test_a_pass_under_way_is_swept_up_after(site: Site):
    """A claim whose finalizer comes back once, as by a pass that had read the world before."""
    await held(site, "c2")

    async def late() -> None:
        await eventually(lambda: let_go(site, "c2"))  # by the first sweep, not the last one
        await held(site, "c2")

    async with asyncio.TaskGroup() as group:
        group.create_task(late())
        running = group.create_task(torn_down(site))
    assert running.result()[0].clean
    assert await let_go(site, "c2")
    await unmark(site)


async def let_go(site: Site, name: str) -> bool:
    """Say whether our finalizer is off a claim."""
    claim = await site.admin.get(kinds.GPU_CLAIMS, name, TENANT)
    return bool(claim["metadata"]["finalizers"] == [OTHERS])


async def test_pods_at_the_gate_are_told_and_let_go_only_when_asked(site: Site):
    waiting = pod("", name="waits")
    waiting["spec"]["schedulingGates"] = [{"name": keys.PLACEMENT_GATE}, {"name": "other/gate"}]
    await eventually(lambda: passes(site.admin.create(kinds.PODS, waiting)))
    key = ObjectKey(TENANT, "waits")
    result, lines = await torn_down(site)
    assert (result.gated, result.ungated) == ((key,), ())
    assert any(f"still at the gate: pod {key}" in line for line in lines)
    result, _ = await torn_down(site, release_gates=True)
    assert (result.gated, result.ungated) == ((), (key,))
    stored = await site.admin.get(kinds.PODS, "waits", TENANT)
    assert stored["spec"]["schedulingGates"] == [{"name": "other/gate"}]
    await site.admin.delete(kinds.PODS, "waits", TENANT, grace_period=0)
    await unmark(site)


async def test_who_may_not_is_told_and_the_rest_is_done(site: Site):
    """Somebody who may read everything and write nothing."""
    await held(site, "c3")
    reader = site.as_user("reader", ("readers", "system:authenticated"))
    roles = policy_site.ROLE_BINDINGS
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]
    await site.admin.create(kinds.CLUSTER_ROLES, {"metadata": {"name": "reads"}, "rules": rules})
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reads"}
    await site.admin.create(
        roles, {"metadata": {"name": "reads"}, "subjects": [group], "roleRef": ref}
    )
    may = {"verb": "list", "group": "", "resource": "pods"}
    await eventually(lambda: allowed(site.admin, "reader", ["readers"], may))
    result, lines = await torn_down(site, reader)
    assert not result.clean
    assert any("could not mark GPUBinder: 403 Forbidden" in line for line in result.failures)
    assert any(f"finalizer off GPUClaim {TENANT}/c3" in line for line in result.failures)
    assert not any(line.startswith("torn down") for line in lines)


async def test_it_is_installed_again_and_the_policies_hold(site: Site):
    """The keeper has kept ConfigMap parameters read: settings changed meanwhile are in force."""
    await policy_site.in_force(site)
    result, _ = await torn_down(site)
    assert result.clean
    await chart.uninstall(site.plane)
    await eventually(lambda: none_refused(site))
    await asyncio.sleep(3.5)  # longer than the tick after which an unread parameter freezes
    await installed.install(site.plane, site.admin)
    assert not await teardown.still_torn_down(site.admin, CONFIG)
    login = site.plane.site.kubeconfig("cozy-system.cozystack-gpu")
    await site.plane.service_account_kubeconfig(CONFIG.namespace, CONFIG.service_account)
    async with policy_site.logged_in(login) as controller:
        site.controller = controller
        names = ("vendor.com/later",)
        await eventually(lambda: passes(site.write_settings(RawNames.DENIED, names)))
        assert (await site.keep()).reason is Reason.CURRENT
        later = pod("vendor.com/later")
        words = await eventually(
            lambda: refused(site.admin.create(kinds.PODS, later, dry_run=True))
        )
        assert "names vendor.com/later directly" in words
        assert await refused(site.admin.create(kinds.PODS, pod(), dry_run=True)) is None
    claim = await site.admin.get(kinds.GPU_CLAIMS, "c1", TENANT)
    assert claim["status"] == BOUND


async def passes(write: Awaitable[object]) -> bool:
    """Say whether a write passes: rights that came and policies that went are known a moment later."""
    return await refused(write) is None


async def none_refused(site: Site) -> bool:
    return await refused(site.admin.create(kinds.PODS, pod(), dry_run=True)) is None


async def test_after_it_a_namespace_with_claims_is_deleted(site: Site):
    # Others' finalizers are theirs to take off.
    for name in ("c1", "c2", "c3"):
        patch = {"metadata": {"finalizers": [keys.CLAIM_FINALIZER]}}
        await site.admin.patch(kinds.GPU_CLAIMS, name, patch, TENANT)
    result, _ = await torn_down(site)
    assert result.clean
    await site.admin.delete(kinds.NAMESPACES, TENANT)

    async def gone() -> bool:
        try:
            await site.admin.get(kinds.NAMESPACES, TENANT)
        except errors.NotFound:
            return True
        return False

    await eventually(gone, 60)
