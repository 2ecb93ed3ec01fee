"""The running product falls into frozen parameters, says so, and gets out; nothing is restarted."""

import asyncio
import ssl
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from bench import scrape
from devcluster import components, plane
from gpu import keys
from gpu.cluster import client, credentials, errors
from gpu.objects import kinds
from tests.real import freezing
from tests.real import site as sites

pytestmark = pytest.mark.asyncio(loop_scope="module")

INTERVAL = 5.0
PATIENT = (
    sites.UNCURED,
    # Longer than the product is held still below: it must lead on.
    "--lease-duration=15",
    "--renew-deadline=10",
    "--fence-wait=0.5",
    "--shutdown-delay=0.2",
    f"--canary-interval={INTERVAL:g}",
)
COPY = "cozystack-gpu-settings-1"
NEW = "vendor.com/NEW_GPU"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with sites.opened(tmp_path_factory.mktemp("canary"), flags=PATIENT) as opened:
        await opened.node("gpu-1", 4)
        await opened.offer("h100")
        await opened.tenant("tenant-a")
        await opened.cp.namespace_ready("tenant-a")
        yield opened


async def condition(site):
    binder = await site.admin.get(kinds.GPU_BINDERS, keys.BINDER_NAME)
    conditions = binder.get("status", {}).get("conditions", [])
    return next((item for item in conditions if item["type"] == "PoliciesCurrent"), {})


async def until(site, reason, words, within=sites.BEFORE_RESYNC):
    async def so():
        found = await condition(site)
        return found if found.get("reason") == reason and words in found["message"] else None

    return await sites.until(so, within, f"PoliciesCurrent {reason}: {words}")


async def is_refused(site, resource):
    limits = {"limits": {resource: "1"}}
    spec = {"containers": [{"name": "main", "image": "none", "resources": limits}]}
    body = {"metadata": {"name": "asks", "namespace": "tenant-a"}, "spec": spec}
    try:
        await site.admin.create(kinds.PODS, body, dry_run=True)
    except errors.Forbidden as error:
        return "raw GPU resource names are denied here" in error.message
    return False


async def counted(site, name, **labels):
    """Return what the replica's own metrics say."""
    tls = ssl.create_default_context(cafile=str(site.cp.pki.ext_ca.crt))
    admin = site.cp.pki.pair(plane.ADMIN)
    tls.load_cert_chain(admin.crt, admin.key)
    access = credentials.fixed(site.product.replicas["replica-1"].url, tls=tls)
    async with client.Client(access) as direct:
        answer = await direct.raw("GET", "/metrics")
    return scrape.parse(answer.body.decode(), "cozystack_gpu_policy").total(name, **labels)


async def events(site):
    found = await site.admin.list_all(kinds.EVENTS, "default")
    about = (item for item in found.items if item["regarding"]["kind"] == "GPUBinder")
    return {(item["type"], item["reason"]) for item in about}


async def test_the_leader_proves_the_policies_soon_after_its_start(site):
    server = urlsplit(site.cp.server).netloc
    found = await until(site, "Current", f"the current settings are in force at {server}")
    assert found["status"] == "True"

    async def proved():
        return await counted(site, "cozystack_gpu_policy_canary_proved", server=server) == 1

    await sites.until(proved, sites.BEFORE_RESYNC, "the proof counted")
    last = "cozystack_gpu_policy_canary_last_proof_timestamp_seconds"
    assert abs(await counted(site, last) - sites.now().timestamp()) < 60

    async def refused():
        return await is_refused(site, sites.H100)

    # Settings without the class may have been proved before those with it.
    await sites.until(refused, sites.BEFORE_RESYNC, "the name of the class is refused")


async def test_it_proves_again_when_its_interval_is_over(site):
    answers = "cozystack_gpu_policy_canary_answers_total"
    before = await counted(site, answers, finding="proved")

    async def once_more():
        return await counted(site, answers, finding="proved") > before

    await sites.until(once_more, 3 * INTERVAL, "one more proof")


async def test_a_freeze_is_noticed_within_the_interval_and_got_out_of(site):
    """Bindings go and come back behind the leader's back: nothing is left to heal."""
    api_server = site.cp.record(components.API_SERVER).pid
    bindings = await freezing.unbind(site.admin)
    site.product.freeze()
    try:
        # What it put back while it still ran goes too, and what of that was on its way.
        await freezing.unbind(site.admin)
        await asyncio.sleep(freezing.TICKS)
        while await freezing.unbind(site.admin):
            site.product.freeze()  # whoever shakes tests lets what is stopped go on
            await asyncio.sleep(freezing.TICKS)
        await freezing.bind(site.admin, bindings)
    finally:
        site.product.thaw()
    # Its last questions before may be just over; asked several times before it counts.
    found = await until(site, "SettingsStale", "reads cozystack-gpu-settings at", INTERVAL + 8)
    assert found["status"] == "False"
    found = await until(site, "Current", f"read from {COPY}")
    assert found["status"] == "True"
    assert await counted(
        site, "cozystack_gpu_policy_canary_answers_total", finding="settings_stale"
    )
    assert site.cp.record(components.API_SERVER).pid == api_server

    async def told():
        return ("Warning", "SettingsStale") in await events(site)

    await sites.until(told, sites.BEFORE_RESYNC, "an Event SettingsStale about GPUBinder")


async def test_refusals_follow_the_settings_after_it(site):
    await site.offer("new", NEW)

    async def refused():
        return await is_refused(site, NEW)

    await sites.until(refused, sites.BEFORE_RESYNC, "the name of a new class is refused")
    copy = await site.admin.get(kinds.CONFIG_MAPS, COPY, keys.SETTINGS_NAMESPACE)
    settings = await site.admin.get(kinds.CONFIG_MAPS, keys.SETTINGS_NAME, keys.SETTINGS_NAMESPACE)
    assert copy["data"] == settings["data"]
    await site.admin.delete(kinds.GPU_CLASSES, "new")

    async def passes():
        return not await is_refused(site, NEW)

    await sites.until(passes, sites.BEFORE_RESYNC, "the name passes once the class is gone")


async def test_the_next_leader_goes_on_with_the_copy(site):
    await site.product.stop()
    await site.product.start(flags=PATIENT)
    proved = "cozystack_gpu_policy_canary_answers_total"

    async def asked():
        return await counted(site, proved, finding="proved") > 0

    await sites.until(asked, sites.LATE, "the new leader asks")
    await until(site, "Current", f"read from {COPY}")
    assert not await counted(site, proved, finding="settings_stale")
    assert await is_refused(site, sites.H100)
