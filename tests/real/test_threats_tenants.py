"""Attacks on budgets: at once, by renaming, by children, by declaring in a loop, by raw pods, by several keys."""

import asyncio
import contextlib
import json
from functools import partial

import pytest
import pytest_asyncio

from devcluster import guests, tenants
from gpu import keys
from gpu.cluster import urls
from gpu.objects import kinds
from tests.real import site as sites
from tests.real import threat_site as threats
from tests.real.threat_site import EVERYBODY, ROLES, TRUSTED, a_claim, attacker, by

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

FLAGS = (*sites.FAST, "--release-settle=2", "--not-ready-grace=3600")
KEY = "gpu.cozystack.io/h100"
TOTAL = keys.QUOTA_TOTAL
GRANTERS = ("super-admin", "account", "ancestor's account")
"""Whose roles let them write Tenants in the tenant's namespace."""
JSON = {"Content-Type": "application/json"}
OTHERS = ("view", "use", "admin")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with sites.opened(tmp_path_factory.mktemp("threats-tenants"), flags=FLAGS) as opened:
        await opened.node("gpu-1", 64)
        await opened.offer("h100")
        await opened.class_has("h100", 64)
        await opened.tenant(keys.TENANT_ROOT)
        beating = asyncio.create_task(opened.nodes.heartbeat(every=0.5))  # noqa: TID251 -- ends here
        try:
            yield opened
        finally:
            beating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beating


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def raw_allowed(site):
    """Have the product started anew by a hoster who allows raw names, and wait until that is in force."""
    await site.product.stop()
    await site.product.start(flags=(*FLAGS, "--raw-resource-names=allowed"))
    await site.tenant("tenant-tries")
    body = threats.a_raw_pod("tenant-tries")

    async def passes():
        return not await threats.said(site.admin.create(kinds.PODS, body, dry_run=True))

    await sites.until(passes, sites.LATE, "a raw pod passes")


async def ordered(site, tenant, names, count=1, role="admin"):
    """Order at once; return the words of each refusal, empty for what was taken."""
    them = attacker(site, tenant, role)
    bodies = [a_claim(name, tenant, count=count) for name in names]
    return await asyncio.gather(
        *(
            threats.said(sites.judged(partial(them.create, kinds.GPU_CLAIMS, body)))
            for body in bodies
        )
    )


async def settled(site, tenant):
    """Wait until every claim in a tenant and below it is Bound or says why not."""

    async def all_told():
        found = [
            claim.get("status") or {}
            for claim in await site.claims()
            if claim["metadata"]["namespace"].startswith(tenant)
        ]
        return all(one.get("phase") == "Bound" or one.get("reasons") for one in found)

    await sites.until(all_told, sites.LATE, f"every claim of {tenant} told")


async def test_fifty_orders_at_once_hold_no_more_than_the_budget(site):
    await threats.home(site, "tenant-fifty", total=10)
    names = [f"c{at}" for at in range(50)]
    shares = [names[at::4] for at in range(4)]
    roles = ("admin", "super-admin", "account", "ancestor's account")
    words = await asyncio.gather(
        *(ordered(site, "tenant-fifty", *one) for one in zip(shares, (1,) * 4, roles, strict=True))
    )
    refused = [one for some in words for one in some if one]
    assert {threats.guard(one) for one in refused} <= {"webhook orders"}
    await settled(site, "tenant-fifty")
    assert await threats.pool(site, "tenant-fifty") == 10
    await threats.given_back(site, "tenant-fifty")


async def test_a_claim_ordered_anew_under_another_name_counts_beside_the_one_that_goes(site):
    """Its VM still runs, so the first one is not gone for long after it was deleted."""
    tenant = "tenant-rename"
    await threats.home(site, tenant, total=4)
    await site.order(tenant, "old", "h100", 4)
    await site.bound(tenant, "old")
    vm = guests.Guests(site.admin, tenant)
    await vm.define("vm", ["old"])
    start = await vm.start("vm", node="gpu-1", claims=["old"], units={sites.H100: 4})
    await site.person(tenant).delete(kinds.GPU_CLAIMS, "old", tenant)
    (words,) = await ordered(site, tenant, ["new"], 4)
    assert threats.guard(words) == "webhook orders"
    assert f"budget {TOTAL} of {tenant} is 4 and 4 are used" in words
    assert await threats.pool(site, tenant) == 4
    await vm.stop(start)
    await site.gone(tenant, "old")


async def test_deleting_and_ordering_anew_in_a_loop_never_holds_more(site):
    tenant = "tenant-loop"
    await threats.home(site, tenant, total=4)
    person = site.person(tenant)
    taken = []
    for at in range(12):
        for name in taken[-2:]:
            await threats.said(person.delete(kinds.GPU_CLAIMS, name, tenant))
        words = await ordered(site, tenant, [f"c{at}", f"d{at}"], 4)
        assert {threats.guard(one) for one in words if one} <= {"webhook orders"}
        taken += [f"{'cd'[side]}{at}" for side, one in enumerate(words) if not one]
        assert await threats.pool(site, tenant) <= 4
    assert len(taken) > 2
    await settled(site, tenant)
    assert await threats.pool(site, tenant) <= 4
    await threats.given_back(site, tenant)


@pytest.mark.parametrize("propagation", ["Background", "Orphan", "Foreground"])
async def test_a_hold_stays_recorded_however_its_claim_is_deleted(site, propagation):
    """Its VM runs on, so it is held on; what the claim owns is all that cascading could reach."""
    tenant = f"tenant-bill{propagation.lower()}"
    await threats.home(site, tenant, total=4)
    await site.order(tenant, "mine", "h100", 3)
    await site.bound(tenant, "mine")
    vm = guests.Guests(site.admin, tenant)
    await vm.define("vm", ["mine"])
    start = await vm.start("vm", node="gpu-1", claims=["mine"], units={sites.H100: 3})
    uid = (await site.claim(tenant, "mine"))["metadata"]["uid"]
    await sites.until(lambda: recorded(site, tenant, uid, 3), sites.LATE, "the record")
    how = json.dumps({"propagationPolicy": propagation}).encode()
    where = urls.path(kinds.GPU_CLAIMS, tenant, "mine")
    answer = await site.person(tenant).raw("DELETE", where, body=how, headers=JSON)
    assert answer.status == 200, answer.body

    async def is_cascaded():
        found = (await site.claim(tenant, "mine"))["metadata"]
        return "deletionTimestamp" in found and found["finalizers"] == [keys.CLAIM_FINALIZER]

    await sites.until(is_cascaded, sites.LATE, "what cascades has cascaded")
    await sites.until(
        lambda: recorded(site, tenant, uid, 3), sites.LATE, "the record, still or again"
    )
    await vm.stop(start)
    await site.gone(tenant, "mine")
    await site.order(tenant, "mine", "h100", 1)
    await site.bound(tenant, "mine")
    uid = (await site.claim(tenant, "mine"))["metadata"]["uid"]
    await sites.until(
        lambda: recorded(site, tenant, uid, 1), sites.LATE, "a record of the next claim"
    )
    await threats.given_back(site, tenant)
    await sites.until(lambda: unrecorded(site, tenant), sites.LATE, "no record is left")


async def records(site, tenant):
    page = await site.admin.list_all(kinds.WORKLOADS, tenant)
    return [one for one in page.items if one["metadata"]["name"] == "gpuclaim-mine"]


async def unrecorded(site, tenant):
    return await records(site, tenant) == []


async def recorded(site, tenant, uid, units):
    """Tell whether there is a record of so many units that the claim owns."""
    return [
        one["status"]["resources"]
        for one in await records(site, tenant)
        if [owner["uid"] for owner in one["metadata"].get("ownerReferences", [])] == [uid]
    ] == [{KEY: str(units)}]


async def test_a_child_that_declares_nothing_spends_what_its_parent_has(site):
    await threats.home(site, "tenant-p", total=4)
    await threats.home(site, "tenant-p-u")
    (words,) = await ordered(site, "tenant-p-u", ["five"], 5)
    assert threats.guard(words) == "webhook orders"
    assert f"the budget of tenant-p for {TOTAL} leaves 4 to this tenant" in words
    names = [f"c{at}" for at in range(10)]
    await asyncio.gather(
        ordered(site, "tenant-p", names),
        ordered(site, "tenant-p-u", names),
        ordered(site, "tenant-p-u", [f"a{at}" for at in range(10)], 1, "ancestor's account"),
    )
    await settled(site, "tenant-p")
    assert await threats.pool(site, "tenant-p") == 4
    await threats.given_back(site, "tenant-p")
    await threats.given_back(site, "tenant-p-u")


def a_tenant(name, parent, **quotas):
    declared = {f"{keys.QUOTA_PREFIX}{key}": units for key, units in quotas.items()}
    return {
        "metadata": {"name": name, "namespace": parent},
        "spec": {"resourceQuotas": declared},
    }


async def test_no_role_grants_a_child_more_than_the_parent_has(site):
    await threats.home(site, "tenant-g", total=4)
    body = a_tenant("c", "tenant-g", total=5)
    tries = {role: attacker(site, "tenant-g", role).create(tenants.TENANTS, body) for role in ROLES}
    assert await threats.guards(tries) == by(rbac=OTHERS, webhook_tenants=GRANTERS)
    for declared in (-1, "1.5", "4Gi", "1e3"):
        body = a_tenant("c", "tenant-g", total=declared)
        words = await threats.said(
            site.person("tenant-g", "super-admin").create(tenants.TENANTS, body)
        )
        assert threats.guard(words) == "webhook tenants", declared


async def test_a_grant_of_all_leaves_the_parent_nothing_to_order(site):
    await threats.home(site, "tenant-h", total=4)
    granter = attacker(site, "tenant-h", "account")
    body = a_tenant("c", "tenant-h", total=4)
    await sites.judged(lambda: granter.create(tenants.TENANTS, body))
    await threats.home(site, "tenant-h-c", total=4)
    await sites.until(lambda: refused(site, "tenant-h", 1), sites.LATE, "the promise is counted")
    await site.order("tenant-h-c", "all", "h100", 4)
    await site.bound("tenant-h-c", "all")
    raised = {"spec": {"resourceQuotas": {TOTAL: 5}}}
    tries = {
        role: attacker(site, "tenant-h", role).patch(tenants.TENANTS, "c", raised, "tenant-h")
        for role in ROLES
    }
    assert await threats.guards(tries) == by(rbac=OTHERS, webhook_tenants=GRANTERS)
    assert await threats.pool(site, "tenant-h") == 4


async def refused(site, tenant, count):
    """Return how an order is refused that would be made now; empty where it would be taken."""
    body = a_claim("probe", tenant, count=count)
    ask = partial(site.person(tenant).create, kinds.GPU_CLAIMS, body, dry_run=True)
    return await threats.said(sites.judged(ask))


async def test_declaring_ordering_lowering_and_ordering_again_wins_nothing(site):
    """A tenant grants each of its children all it has in turn, orders there and at home, and lowers."""
    tenant = "tenant-turn"
    await threats.home(site, tenant, total=4)
    for child in ("a", "b"):
        await threats.home(site, f"{tenant}-{child}")
    granter = attacker(site, tenant, "super-admin")
    for child in ("a", "b"):
        await granter.create(tenants.TENANTS, a_tenant(child, tenant))
    refusals = []
    for at in range(8):
        child = "ab"[at % 2]
        words = await granted(site, granter, tenant, child, 4)
        refusals.append(words)
        orders = await asyncio.gather(
            ordered(site, f"{tenant}-{child}", [f"c{at}"], 4, "ancestor's account"),
            ordered(site, tenant, [f"p{at}"], 2),
        )
        refusals += [one for some in orders for one in some]
        assert await threats.pool(site, tenant) <= 4
        assert not await granted(site, granter, tenant, child, 0)
        refusals += await ordered(site, f"{tenant}-{child}", [f"d{at}"], 1, "super-admin")
        assert await threats.pool(site, tenant) <= 4
    assert {threats.guard(one) for one in refusals if one} <= {
        "webhook orders",
        "webhook tenants",
        "webhook tenant-releases",
    }
    await settled(site, tenant)
    assert 0 < await threats.pool(site, tenant) <= 4


async def granted(site, granter, tenant, child, units):
    """Grant as a person does, and write the HelmRelease as the host does; return a refusal."""
    patch = {"spec": {"resourceQuotas": {TOTAL: units}}}
    promise = partial(granter.patch, tenants.TENANTS, child, patch, tenant)
    if words := await threats.said(sites.judged(promise)):
        return words
    values = {"spec": {"values": patch["spec"]}}
    release = f"tenant-{child}"
    grant = partial(site.admin.patch, kinds.HELM_RELEASES, release, values, tenant)
    return await threats.said(sites.judged(grant))


async def test_no_role_writes_the_object_that_declares_its_budget(site):
    """It lies in the parent's namespace, as a Tenant and as a HelmRelease, and HelmReleases are nobody's."""
    tenant, parent = "tenant-w", "tenant-root"
    await threats.home(site, tenant, total=4)
    await threats.home(site, f"{tenant}-c", total=1)
    await threats.trust(site, tenant)
    await site.admin.create(tenants.TENANTS, a_tenant("w", parent, total=4))
    raised = {"spec": {"values": {"resourceQuotas": {TOTAL: 40}}}}
    more = {"spec": {"resourceQuotas": {TOTAL: 40}}}
    for role in EVERYBODY:
        them = attacker(site, tenant, role)
        tries = {
            "own": them.patch(kinds.HELM_RELEASES, tenant, raised, parent),
            "own, deleted": them.delete(kinds.HELM_RELEASES, tenant, parent),
        }
        if role != TRUSTED:
            tries["child's"] = them.patch(kinds.HELM_RELEASES, "tenant-c", raised, tenant)
            tries["a quota"] = them.create(threats.RESOURCE_QUOTAS, threats.a_quota(tenant))
        if role != "ancestor's account":  # the parent's account grants, as far as the parent has
            tries["as Tenant"] = them.patch(tenants.TENANTS, "w", more, parent)
            tries["Tenant deleted"] = them.delete(tenants.TENANTS, "w", parent)
        assert set((await threats.guards(tries)).values()) == {"rbac"}, role
    trusted = attacker(site, tenant, TRUSTED)
    words = await threats.said(trusted.patch(kinds.HELM_RELEASES, "tenant-c", raised, tenant))
    assert threats.guard(words) == "webhook tenant-releases"
    (words,) = await ordered(site, tenant, ["much"], 4)
    assert f"budget {TOTAL} of {tenant} is 4 and 1 are used" in words


async def test_a_quota_in_the_own_namespace_overrules_no_grant(site):
    """`tenant-quota` is read where no HelmRelease is; who may write it has a HelmRelease above."""
    tenant = "tenant-q"
    await threats.home(site, tenant, total=4)
    await threats.trust(site, tenant)
    await attacker(site, tenant, TRUSTED).create(threats.RESOURCE_QUOTAS, threats.a_quota(tenant))
    await ordered(site, tenant, [f"c{at}" for at in range(6)])
    await settled(site, tenant)
    assert await threats.pool(site, tenant) == 4
    await threats.given_back(site, tenant)


@pytest.mark.parametrize(
    ("quotas", "wanted", "most"),
    [
        pytest.param({KEY: 3, TOTAL: 2, sites.H100: 1}, 4, 1, id="all-three"),
        pytest.param({KEY: 9, TOTAL: 9, sites.H100: 2}, 4, 2, id="raw"),
        pytest.param({KEY: 1, TOTAL: 9, sites.H100: 9}, 4, 1, id="class"),
        pytest.param({KEY: 9, TOTAL: 3}, 4, 3, id="total"),
        pytest.param({KEY: 9, TOTAL: 0}, 1, 0, id="none"),
    ],
)
async def test_an_order_counts_under_every_key_at_once(site, raw_allowed, quotas, wanted, most):
    tenant = "tenant-keys"
    await tenants.add(site.admin, tenant, quotas)
    over = [key for key, units in quotas.items() if units < wanted]

    async def is_known():
        found = await refused(site, tenant, wanted)
        return (
            found
            if all(f"budget {key} of {tenant} is {quotas[key]}" in found for key in over)
            else ""
        )

    words = await sites.until(is_known, sites.LATE, "the budgets are known")
    assert words.count(f" of {tenant} is ") == len(over)
    assert (f"at most {most} would be accepted now" in words) is (most > 0)
    names = [f"c{at}" for at in range(5)]
    await ordered(site, tenant, names)
    await settled(site, tenant)
    assert await threats.pool(site, tenant) == most
    await threats.given_back(site, tenant)


async def test_raw_pods_count_in_the_budget_once_raw_names_are_allowed(site, raw_allowed):
    """Whoever may make pods takes units past every order: then the orders are refused."""
    tenant = "tenant-raw"
    await threats.home(site, tenant, total=3)
    await threats.trust(site, tenant)
    pod = threats.a_raw_pod(tenant)
    tries = {role: attacker(site, tenant, role).create(kinds.PODS, pod) for role in EVERYBODY}
    assert await threats.guards(tries) == by(rbac=ROLES, passed=[TRUSTED])

    async def is_counted():
        return f"budget {TOTAL} of {tenant} is 3 and 2 are used" in await refused(site, tenant, 2)

    await sites.until(is_counted, sites.LATE, "the pod's units count")
    await ordered(site, tenant, [f"c{at}" for at in range(4)])
    await settled(site, tenant)
    assert await threats.pool(site, tenant) == 1

    async def is_told():
        gate = (await site.served(tenant, "quotagates/total"))["status"]
        return (gate["usedByPods"], gate["gate"] == "Open") == (2, False)

    await sites.until(is_told, sites.LATE, "the gate tells of the pod")
