"""Who attacks, by role; which guard refuses; and an own sum of what each tenant holds."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from typing import Any, Final

from devcluster import tenants
from gpu import keys
from gpu.cluster import errors
from gpu.cluster.client import Client
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from tests.real.site import H100, LATE, Site, until

Json = dict[str, Any]

ORDERERS: Final = ("admin", "super-admin", "account", "ancestor's account")
"""Whom the host's roles let order in the tenant's namespace."""
ROLES: Final = ("view", "use", *ORDERERS)
TRUSTED: Final = "trusted"
"""No role of the host's: a person with every right in the tenant's namespace, whom only policies stop."""
EVERYBODY: Final = (*ROLES, TRUSTED)
PASSED: Final = "passed"

_GUARDS: Final = (
    (re.compile(r"ValidatingAdmissionPolicy 'cozystack-gpu-([a-z-]+)-policy'"), "policy {}"),
    (re.compile(r'admission webhook "([a-z.-]+)\.gpu\.cozystack\.io" denied'), "webhook {}"),
    (re.compile(r'User "[^"]*" cannot '), "rbac"),
)


def attacker(site: Site, tenant: str, role: str) -> Client:
    """Return a client of somebody of a tenant, with the rights of that role and no more."""
    if role in tenants.LEVELS:
        return site.person(tenant, role)
    if role == TRUSTED:
        return site.admin.acting_as(f"trusted@{tenant}", ["system:authenticated"])
    home = tenants.line(tenant)[1] if role == "ancestor's account" else tenant
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{home}", "system:authenticated")
    return site.admin.acting_as(f"system:serviceaccount:{home}:{home}", groups)


async def home(site: Site, tenant: str, **quotas: int) -> None:
    """Make a tenant where pods can be made, its budgets known: an order is taken by what is known."""
    await site.tenant(tenant, **quotas)
    await site.shown(tenant, "h100", **quotas)
    await site.cp.namespace_ready(tenant)


async def trust(site: Site, tenant: str) -> None:
    """Give the trusted person of a tenant every right in its namespace."""
    group = "rbac.authorization.k8s.io"
    body = {
        "metadata": {"name": "trusted", "namespace": tenant},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "apiGroup": group, "name": f"trusted@{tenant}"}],
    }
    await site.admin.create(tenants.ROLE_BINDINGS, body)
    user = f"trusted@{tenant}"
    await site.may(user, (), verb="create", group="", resource="resourcequotas", at=tenant)


async def said(attempt: Awaitable[object]) -> str:
    """Return the words with which an attempt is refused; empty when it passes."""
    try:
        await attempt
    except errors.ApiError as error:
        return error.message
    return ""


def guard(words: str) -> str:
    """Say who refused: `rbac`, `policy TOPIC`, `webhook NAME`; the words where none of these did."""
    if not words:
        return PASSED
    for pattern, name in _GUARDS:
        found = pattern.search(words)
        if found:
            return name.format(*found.groups())
    return words


async def guards(attempts: Mapping[str, Awaitable[object]]) -> dict[str, str]:
    """Make attempts one after the other; say who refused each."""
    return {name: guard(await said(attempt)) for name, attempt in attempts.items()}


@contextlib.asynccontextmanager
async def listening(
    them: Client, tenant: str, resources: Sequence[str]
) -> AsyncIterator[dict[str, list[Json]]]:
    """Watch resources of the aggregated API for the block; gives what each watch was told so far, in order."""
    told: dict[str, list[Json]] = {resource: [] for resource in resources}

    async def listen(resource: str) -> None:
        kind = Kind(keys.CATALOG_GROUP, keys.CATALOG_VERSION, resource, "")
        async with contextlib.aclosing(them.watch(kind, tenant)) as events:
            async for event in events:
                told[resource].append(event.object)
        raise AssertionError(f"the watch of {resource} ended")

    async with asyncio.TaskGroup() as group:
        watches = [group.create_task(listen(resource)) for resource in resources]
        yield told
        for one in watches:
            one.cancel()


def by(**roles: Iterable[str]) -> dict[str, str]:
    """Return which guard stops whom: `by(rbac=ROLES)`; `policy_claim_marks` is `policy claim-marks`."""
    return {
        role: name.replace("_", " ", 1).replace("_", "-")
        for name, them in roles.items()
        for role in them
    }


def a_claim(name: str, tenant: str, class_name: str = "h100", count: int = 1, **meta: Any) -> Json:
    """Return an order."""
    return {
        "metadata": {"name": name, "namespace": tenant, **meta},
        "spec": {"className": class_name, "count": count},
    }


def a_pod(tenant: str, *, init: bool = False, plain: bool = False) -> Json:
    """Return pod `raw` that asks for a unit in a container or an init container, or for nothing."""
    asking = {"name": "c", "image": "i", "resources": {"limits": {H100: "1"}}}
    nothing = {"name": "c", "image": "i"}
    spec: Json = {"containers": [nothing if init or plain else asking]}
    if init:
        spec["initContainers"] = [asking | {"name": "first"}]
    return {"metadata": {"name": "raw", "namespace": tenant}, "spec": spec}


def a_raw_pod(tenant: str) -> Json:
    """Return pod `raw` of two units that no scheduler looks at."""
    limits = {"resources": {"limits": {H100: "2"}}}
    container = {"name": "c", "image": "i", **limits}
    return {
        "metadata": {"name": "raw", "namespace": tenant},
        "spec": {"containers": [container], "schedulerName": "none"},
    }


def a_vmi(tenant: str, *places: str) -> Json:
    """Return VMI `raw` that asks for a unit in each place: `gpus`, `hostDevices`, `limits`, `requests`."""
    device = [{"name": "a", "deviceName": H100}]
    devices = {place: device for place in places if place in {"gpus", "hostDevices"}}
    amounts = {place: {H100: "1"} for place in places if place in {"limits", "requests"}}
    domain = {"devices": devices, "resources": amounts}
    return {"metadata": {"name": "raw", "namespace": tenant}, "spec": {"domain": domain}}


RESOURCE_QUOTAS: Final = Kind("", "v1", "resourcequotas", "ResourceQuota")


def a_quota(tenant: str) -> Json:
    """Return a `tenant-quota` that declares a budget of 40."""
    meta = {"name": keys.TENANT_QUOTA_NAME, "namespace": tenant}
    return {"metadata": meta, "spec": {"hard": {keys.QUOTA_TOTAL: "40"}}}


def an_admission(kind: Kind, body: Json, *, dry_run: bool) -> bytes:
    """Return a review as kube-apiserver would post it, of the creation of an object by root."""
    about = {"group": kind.group, "version": kind.version}
    request = {
        "uid": "u",
        "operation": "CREATE",
        "kind": {**about, "kind": kind.kind},
        "resource": {**about, "resource": kind.plural},
        "name": body["metadata"]["name"],
        "namespace": body["metadata"]["namespace"],
        "userInfo": {"username": "root", "groups": ["system:masters"]},
        "object": body,
        "dryRun": dry_run,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(review).encode()


def an_owner(kind: Kind, name: str, uid: str) -> Json:
    """Return an owner reference as a controller sets it, but blocking nothing: that takes rights on the owner."""
    about = {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": uid}
    return {**about, "controller": True}


async def held(site: Site) -> dict[str, int]:
    """Return units that are Bound or Lost, by namespace: an own sum, past every model."""
    sums: dict[str, int] = {}
    for claim in await site.claims():
        if (claim.get("status") or {}).get("phase") in {"Bound", "Lost"}:
            home = claim["metadata"]["namespace"]
            sums[home] = sums.get(home, 0) + claim["spec"]["count"]
    return sums


async def pool(site: Site, tenant: str) -> int:
    """Return what a tenant and all below it hold; fails when a node is over-booked."""
    await site.booked()
    sums = await held(site)
    return sum(
        units for home, units in sums.items() if home == tenant or home.startswith(f"{tenant}-")
    )


async def given_back(site: Site, tenant: str, names: Sequence[str] = ()) -> None:
    """Delete claims of a tenant, or all of them; wait until they are gone, and an order is judged without them."""
    page = await site.admin.list_all(kinds.GPU_CLAIMS, tenant)
    found = names or [item["metadata"]["name"] for item in page.items]
    for name in found:
        await site.admin.delete(kinds.GPU_CLAIMS, name, tenant)
    for name in found:
        await site.gone(tenant, name)
    if not tenant.startswith("tenant-"):
        return

    async def forgotten() -> bool:
        option = await site.served(tenant, "options/gpuclaim")
        bound = {it["value"].rpartition("/")[2] for it in option["spec"].get("items") or ()}
        waiting = await site.served(tenant, "explanations")
        known = bound | {item["metadata"]["name"] for item in waiting["items"]}
        return known.isdisjoint(found)

    await until(forgotten, LATE, f"{list(found)} of {tenant} forgotten")
