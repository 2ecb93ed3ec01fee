"""Every policy against every role of the host, the cluster and the product, on the real API server."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from devcluster import tenants
from devcluster.plane import ControlPlane
from gpu import keys
from gpu.cluster import client, errors
from gpu.objects import kinds
from policies import bundle, users
from tests.real import policy_rows_claims, policy_rows_host, policy_rows_pods, policy_site
from tests.real.policy_rows import ACTORS, CONFIG, HOSTERS, TENANT, TERM, Row
from tests.real.policy_site import Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROWS = (*policy_rows_claims.ROWS, *policy_rows_pods.ROWS, *policy_rows_host.ROWS)
POLICIES = {policy.topic: policy for policy in bundle.policies(CONFIG)}
AT = "2026-01-01T00:00:00Z"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(fresh_plane: ControlPlane) -> AsyncIterator[Site]:
    async with policy_site.prepared(fresh_plane) as found:
        await tenants.add(found.admin, TENANT)
        await grant(found.admin)
        await found.raise_term(TERM)
        await filled(found)
        await policy_site.in_force(found)
        for row in {row.topic: row for row in ROWS if row.policy}.values():
            await eventually(lambda row=row: in_force(found, row))
        yield found


async def in_force(site: Site, row: Row) -> bool:
    """Say whether the row's policy refuses; RBAC may, as long as it knows nothing of a grant."""
    who = row.policy[0]
    return verdict(row, who, await said(site, row, who)) == "policy"


async def grant(admin: client.Client) -> None:
    """Bind the chart's role for hosters, and give the host's controller what it has of this."""
    every = ["get", "list", "watch", "create", "update", "patch", "delete"]
    rules = [
        {"apiGroups": ["cozystack.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": every[:6]},
    ]
    name = "hosts-controllers"
    await admin.create(kinds.CLUSTER_ROLES, {"metadata": {"name": name}, "rules": rules})
    for role, group in ((name, name), ("cozy:gpu:hoster", HOSTERS)):
        body = {
            "metadata": {"name": f"{group}-may"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": role,
            },
            "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": group}],
        }
        await admin.create(policy_site.ROLE_BINDINGS, body)


async def filled(site: Site) -> None:
    """Put in place what the rows ask about, before any policy is in force."""
    finalizers = [policy_rows_claims.OTHERS, policy_rows_claims.OURS]
    term = {"annotations": {keys.TERM_ANNOTATION: str(TERM)}}
    await site.admin.create(kinds.NODES, {"metadata": {"name": "n1"}})
    source = {"devicePlugin": {"resourceName": policy_site.RAW}}
    offer = {"mode": "passthrough", "source": source}
    await put(site, kinds.GPU_CLASSES, "h100", finalizers=[keys.CLASS_FINALIZER], spec=offer)
    order = {"className": "h100", "count": 1}
    uid = await put(site, kinds.GPU_CLAIMS, "held", finalizers=finalizers, spec=order)
    status = {"phase": "Bound", "nodeName": "n1", "boundAt": AT, "term": TERM}
    await site.controller.patch(
        kinds.GPU_CLAIMS, "held", {"status": status}, TENANT, subresource="status"
    )
    marked = {"labels": {policy_rows_claims.MARK: "true"}, "finalizers": finalizers}
    owned = {"ownerReferences": policy_rows_host.owned(uid)}
    await put(site, kinds.GPU_CLAIMS, "template", **marked, **owned, spec=order)
    await put(site, kinds.PODS, "gated", spec=policy_rows_pods.GATED)
    await put(site, kinds.PODS, "pinned", **term, spec={**policy_rows_pods.PLAIN, "nodeName": "n1"})
    used = {"status": policy_rows_host.USED}
    await put(site, kinds.WORKLOADS, policy_rows_host.RECORD, **owned, **used)
    await put(site, kinds.WORKLOADS, policy_rows_host.FOREIGN, **used)
    await put(site, kinds.WORKLOADS, policy_rows_host.HOSTS, **used)
    selector = {"selector": {keys.USAGE_MONITOR_SELECTOR_LABEL: "true"}}
    await put(site, kinds.WORKLOAD_MONITORS, policy_rows_host.MONITOR, spec=selector)


async def put(site: Site, kind: kinds.Kind, name: str, **more: Any) -> str:
    body = {part: more.pop(part) for part in ("spec", "status") if part in more}
    meta = {"name": name, **more, **({"namespace": TENANT} if kind.namespaced else {})}
    return str((await site.admin.create(kind, {"metadata": meta, **body}))["metadata"]["uid"])


async def said(site: Site, row: Row, who: str) -> str:
    """Return what the API server says to the request, nothing when it passes."""
    actor = ACTORS[who]
    them = site.as_user(actor.user, (*actor.groups, "system:authenticated"))
    try:
        await row.ask(them)
    except errors.ApiError as error:
        return error.message
    return ""


def verdict(row: Row, who: str, words: str) -> str:
    """Return who decided, as the row has it; or the words, where they are none of those."""
    if not words:
        return "passes"
    if f'User "{ACTORS[who].user}" cannot ' in words and "ValidatingAdmissionPolicy" not in words:
        return "rbac"
    if row.topic:
        name = POLICIES[row.topic].name
        head = f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: "
        if words.endswith(head + row.words):
            return "policy"
    return "server" if row.says and row.says in words else words


@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_a_request_passes_or_is_refused_by_whom_the_row_says(site: Site, row: Row):
    wanted = {who: by for by in ("passes", "rbac", "policy", "server") for who in getattr(row, by)}
    words = await asyncio.gather(*(said(site, row, who) for who in wanted))
    found = {who: verdict(row, who, told) for who, told in zip(wanted, words, strict=True)}
    assert found == wanted


async def test_every_policy_refuses_somebody_in_these_rows():
    assert {row.topic for row in ROWS if row.policy} == set(POLICIES) - {"keeper", "canary"}


async def test_metadata_sent_to_a_status_changes_nothing(site: Site):
    """Why the policies of marks look at the claim itself alone."""
    patch = {"metadata": {"finalizers": None, "labels": None}}
    answer = await site.admin.patch(
        kinds.GPU_CLAIMS, "template", patch, TENANT, subresource="status", dry_run=True
    )
    assert policy_rows_claims.OURS in answer["metadata"]["finalizers"]
    assert answer["metadata"]["labels"] == {policy_rows_claims.MARK: "true"}


async def test_a_collection_is_judged_object_by_object(site: Site):
    path = f"/apis/cozystack.io/v1alpha1/namespaces/{TENANT}/workloads?dryRun=All"
    admin = await site.admin.raw("DELETE", path)
    assert (admin.status, "usage-records" in admin.body.decode()) == (403, True)
    cleaner = site.as_user(users.CLEANERS[0])
    assert (await cleaner.raw("DELETE", path)).status == 200
