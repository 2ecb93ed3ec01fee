"""Two replicas, a killed one, a frozen one, and an API server that goes away."""

import asyncio
import time

import pytest
import pytest_asyncio

from devcluster import chart
from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

TIMED = (sites.UNCURED,)
"""Leases as by default: how long a takeover takes is the subject."""
TAKEOVER = 20.0
"""Seconds from a leader's kill to the first binding of the next, with default timing: the lease (15 s), a look of the
other that is late to see its last renewal (2.4 s), the fence (2 s)."""
UNDISTURBED = 20.0
"""Seconds: older orders that end a pass would hold it up for as long as they are there."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with sites.opened(
        tmp_path_factory.mktemp("leaders"), flags=TIMED, values=chart.ORDERS_WAIT
    ) as opened:
        for number in range(4):
            await opened.node(f"gpu-{number}", 8)
        await opened.offer("h100")
        await opened.tenant("tenant-a")
        yield opened


async def leader(site):
    lease = await site.admin.get(kinds.LEASES, keys.LEASE_NAME, "cozy-system")
    return lease["spec"].get("holderIdentity") or ""


async def term(site):
    binder = await site.admin.get(kinds.GPU_BINDERS, keys.BINDER_NAME)
    return (binder.get("status") or {}).get("term", 0)


async def test_of_two_replicas_one_binds_and_the_other_takes_over_within_20_s_of_a_kill(site):
    await site.product.start("replica-2", flags=TIMED)
    await site.order("tenant-a", "before", "h100")
    await site.bound("tenant-a", "before")
    assert await leader(site) == "replica-1"
    was = await term(site)
    assert (await site.claim("tenant-a", "before"))["status"]["term"] == was

    site.product.kill("replica-1")
    await site.order("tenant-a", "after", "h100")
    await site.bound("tenant-a", "after", within=TAKEOVER)
    assert await leader(site) == "replica-2"
    assert await term(site) == was + 1
    assert (await site.claim("tenant-a", "after"))["status"]["term"] == was + 1
    await site.product.start("replica-1", flags=TIMED)


async def test_a_leader_frozen_past_its_lease_and_thawed_places_nothing(site):
    frozen = await leader(site)
    other = "replica-1" if frozen == "replica-2" else "replica-2"
    was = await term(site)
    orders = [f"burst-{number}" for number in range(20)]
    await asyncio.gather(*(site.order("tenant-a", name, "h100") for name in orders))
    site.product.freeze(frozen)  # in mid-pass, or just before or after it: each is a fair moment

    async def taken():
        return await leader(site) == other and await term(site) > was

    await sites.until(taken, 60, f"{other} leads")
    for name in orders:
        await site.bound("tenant-a", name)
    held = await site.booked()
    written = {c["metadata"]["name"]: c["status"] for c in await site.claims()}

    site.product.thaw(frozen)
    await site.order("tenant-a", "late", "h100")
    await site.bound("tenant-a", "late")
    await asyncio.sleep(3)
    now = {c["metadata"]["name"]: c["status"] for c in await site.claims()}
    late = now.pop("late")
    assert now == written
    assert late["term"] == await term(site)
    assert sum((await site.booked()).values()) == sum(held.values()) + 1
    assert await leader(site) == other


async def test_an_api_server_away_for_20_s_is_waited_for_and_unready_meanwhile(site):
    serving = await leader(site)
    await site.product.stop("replica-1" if serving == "replica-2" else "replica-2")

    async def ready():
        return await site.ready(serving)

    await sites.until(ready, 15, "the leader ready")
    await site.cp.stop_api_server()
    stopped = time.monotonic()

    async def unready():
        return not await ready()

    await sites.until(unready, 30, "readiness turns red")
    await asyncio.sleep(max(0.0, 20 - (time.monotonic() - stopped)))
    await site.cp.start_api_server()
    await sites.until(ready, 60, "readiness turns green again")

    async def ordered():  # a replica is ready before kube-apiserver itself serves every kind again
        try:
            await site.order("tenant-a", "recovered", "h100")
        except errors.ServerFault:
            return False
        return True

    await sites.until(ordered, 60, "orders are taken again")
    await site.bound("tenant-a", "recovered")
    await site.booked()


async def test_a_tenant_whose_every_write_is_refused_delays_nobody_else(site):
    await site.node("gpu-extra", 16)
    await site.tenant("tenant-cursed")
    await site.cp.kubectl("apply", "--filename=-", stdin=CURSE)

    async def cursed():
        patch = {"metadata": {"annotations": {"probe": "x"}}}
        try:
            await site.admin.patch(kinds.GPU_CLAIMS, "victim", patch, "tenant-cursed", dry_run=True)
        except errors.ApiError as error:
            return "cursed by the test" in str(error)
        return False

    await site.order("tenant-cursed", "victim", "h100")
    await sites.until(cursed, 30, "the policy in force")
    for number in range(10):
        await site.order("tenant-cursed", f"curse-{number}", "h100")
    await site.order("tenant-a", "undisturbed", "h100")
    await site.bound("tenant-a", "undisturbed", within=UNDISTURBED)
    await site.cp.kubectl("delete", "--filename=-", stdin=CURSE)
    for number in range(10):
        await site.bound("tenant-cursed", f"curse-{number}", within=90)


CURSE = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: curse}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [gpu.cozystack.io]
        apiVersions: ["*"]
        operations: [UPDATE]
        resources: [gpuclaims, gpuclaims/status]
  validations:
    - expression: "false"
      message: cursed by the test
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: curse}
spec:
  policyName: curse
  validationActions: [Deny]
  matchResources:
    namespaceSelector:
      matchLabels: {kubernetes.io/metadata.name: tenant-cursed}
"""
