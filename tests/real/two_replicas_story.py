"""The story of test_kept_safe.py: one of two replicas restarts, hangs or leaves, and nobody is the worse for it."""

import asyncio
import contextlib
import json
import ssl
import time

import aiohttp
import pytest
import pytest_asyncio

from devcluster import chart, control_plane, product, simulator
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECOND = "replica-2"
DELAY = 4.0
"""Seconds from red readiness to the closing of the listener."""
WAITS = 3.0
"""Seconds that a list waits for a version that never comes."""
READERS, ASKERS, WATCHERS = 6, 2, 4
BEGIN_ANEW = {410, 504}
"""Answers to a watch after which a client lists anew: forgotten here, or not reached yet."""
SECONDS = 40.0
"""The namespace controller looks after 5, 15 and 35 s while it cannot ask for a kind: three looks, one of which must do."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    directory = tmp_path_factory.mktemp("plane")
    async with (
        control_plane.control_plane(directory, aggregator_routing=True) as cp,
        product.running(cp, values=chart.ORDERS_WAIT, flags=sites.FAST) as gpu,
    ):
        await gpu.start(SECOND, flags=sites.FAST)
        site = sites.Site(cp, gpu, gpu.admin, simulator.Simulator(gpu.admin))
        await site.node("gpu-1", 8)
        await site.offer("h100")
        yield site


async def comes_and_goes(site, tenant):
    """Make a tenant with a claim that is held and one that waits, and delete it; the seconds it took."""
    await site.tenant(tenant)
    await site.order(tenant, "held", "h100", 1)
    await site.order(tenant, "waiting", "h100", 99)
    await site.bound(tenant, "held", within=SECONDS)
    began = time.monotonic()
    await site.admin.delete(kinds.NAMESPACES, tenant)

    async def gone():
        with contextlib.suppress(errors.NotFound):
            await site.admin.get(kinds.NAMESPACES, tenant)
            return False
        return True

    await sites.until(gone, SECONDS, f"namespace {tenant} gone")
    return time.monotonic() - began


@contextlib.asynccontextmanager
async def beside(work):
    """Run something over and over for the length of the block."""
    task = asyncio.ensure_future(work())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_with_one_of_two_that_restarts_in_a_loop(site):
    async def restarting():
        while True:
            site.product.kill(SECOND)
            # As kubelet has it: an endpoint is gone a moment after its process.
            await asyncio.sleep(0.2)
            await site.product.route(SECOND, ready=False)
            await site.product.stop(SECOND)
            await site.product.start(SECOND, flags=sites.FAST)

    async with beside(restarting):
        assert await comes_and_goes(site, "tenant-loop") < SECONDS
    await site.product.stop(SECOND)
    await site.product.start(SECOND, flags=sites.FAST)


@pytest.mark.parametrize("noticed", [False, True], ids=["not-noticed", "taken-out"])
async def test_with_one_of_two_that_accepts_and_never_answers(site, noticed):
    site.product.freeze(SECOND)
    try:
        if noticed:
            await site.product.route(SECOND, ready=False)
        assert await comes_and_goes(site, f"tenant-hung{noticed:d}") < SECONDS
    finally:
        site.product.thaw(SECOND)
        await site.product.route(SECOND, ready=True)
    await site.product.available()


class Crowd:
    """Reads and watches a tenant's offers, through kube-apiserver and at one replica."""

    def __init__(self, site, session):
        pair = site.cp.pki.pair("admin")
        self.session = session
        self.tls = {}
        for base, ca in (
            (site.cp.server, site.cp.pki.serving_ca),
            (self.at(site), site.cp.pki.ext_ca),
        ):
            self.tls[base] = ssl.create_default_context(cafile=str(ca.crt))
            self.tls[base].load_cert_chain(pair.crt, pair.key)
        self.through, self.direct = self.tls
        self.statuses = []
        self.answers = []

    @staticmethod
    def at(site):
        return site.product.replicas[SECOND].url

    def get(self, base, query="", path=f"{sites.CATALOG}/namespaces/tenant-load/gpuoffers"):
        return self.session.get(f"{base}{path}{query}", ssl=self.tls[base])

    async def read(self, base, query=""):
        async with self.get(base, query) as answer:
            return answer.status, answer.headers.get("Connection"), json.loads(await answer.read())

    async def reads_on(self):
        while True:
            self.statuses.append((await self.read(self.through))[0])

    async def asks_on(self):
        """Ask what no client and no proxy sends twice by itself."""
        path = f"{self.through}{sites.CATALOG}/namespaces/tenant-load/orderreviews"
        body = {"spec": {"className": "h100", "count": 1}}
        while True:
            async with self.session.post(path, json=body, ssl=self.tls[self.through]) as answer:
                self.answers.append((answer.status, await answer.read()))

    async def watches(self, base, query="?watch=true&timeoutSeconds=300"):
        """Watch to the end; an end that is none of HTTP's raises."""
        async with self.get(base, query) as answer:
            return [json.loads(line) async for line in answer.content]

    async def goes_on(self, events):
        """Watch on from where a watch ended; what comes first."""
        version = events[-1]["object"]["metadata"]["resourceVersion"]
        query = f"?watch=true&timeoutSeconds=60&resourceVersion={version}"
        async with self.get(self.through, query) as answer:
            event = json.loads(await answer.content.readline())
        if answer.status in BEGIN_ANEW:
            return "BEGINS ANEW"
        return event["type"], event["object"]["metadata"]["name"]

    async def is_ready(self):
        async with self.get(self.direct, path="/readyz") as answer:
            return answer.status == 200


async def takes_its_leave(site):
    """Have the second replica take its time to leave, and a tenant whose offers are shown."""
    await site.product.stop(SECOND)
    await site.product.start(SECOND, flags=(*sites.FAST, f"--shutdown-delay={DELAY}"))
    await site.tenant("tenant-load")
    await site.shown("tenant-load", "h100")


def kinds_of(events):
    return {event["type"] for event in events}


async def go_on(site, crowd, ended):
    """Every watch that ended goes on at the one that is left: nothing told again, nothing missed.

    A replica that has followed the list for less long says so, as any API server may: clients list anew then.
    """
    watching = [asyncio.ensure_future(crowd.goes_on(events)) for events in ended]
    await site.offer("late", "nvidia.com/LATE")
    found = await asyncio.wait_for(asyncio.gather(*watching), 60)
    assert set(found) <= {("ADDED", "late"), "BEGINS ANEW"}

    async def listed():
        _, _, body = await crowd.read(crowd.through)
        return [one["metadata"]["name"] for one in body["items"]] == ["h100", "late"]

    await sites.until(listed, 60, "the new offer listed")


async def test_with_one_of_two_that_leaves_under_load(site):
    """Readiness goes first, what is under way is finished, watches end as they do, and the other takes over."""
    await takes_its_leave(site)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        crowd = Crowd(site, session)
        works = [crowd.reads_on] * READERS + [crowd.asks_on] * ASKERS
        load = [asyncio.ensure_future(work()) for work in works]
        watchers = [asyncio.ensure_future(crowd.watches(crowd.direct)) for _ in range(WATCHERS)]
        others = [asyncio.ensure_future(crowd.watches(crowd.through)) for _ in range(4 * WATCHERS)]
        await sites.until(lambda: asyncio.sleep(0, len(crowd.statuses) > READERS), 30, "load")
        assert await crowd.is_ready()
        leaving = asyncio.ensure_future(site.product.stop(SECOND))
        closing = time.monotonic() + DELAY

        async def is_red():
            return not await crowd.is_ready()

        await sites.until(is_red, DELAY, "readiness red before the listener closes")
        await site.product.route(SECOND, ready=False)
        status, connection, body = await crowd.read(crowd.direct)
        assert (status, connection, len(body["items"])) == (200, "close", 1)
        # Begun while somebody is let in, and ended when nobody is any more.
        await asyncio.sleep(max(0.0, closing - WAITS / 2 - time.monotonic()))
        status, _, body = await crowd.read(crowd.direct, "?resourceVersion=99999999999")
        assert (status, body["reason"]) == (504, "Timeout")
        with pytest.raises(aiohttp.ClientConnectorError):
            await crowd.read(crowd.direct)
        await asyncio.wait_for(leaving, 30)
        ends = await asyncio.wait_for(asyncio.gather(*watchers), 30)
        assert [kinds_of(events) for events in ends] == [{"ADDED"}] * WATCHERS
        before = len(crowd.statuses), len(crowd.answers)

        async def more():
            return len(crowd.statuses) > before[0] + 50 and len(crowd.answers) > before[1] + 10

        await sites.until(more, 60, "reads and answers")

        async def ended_through():
            return [one for one in others if one.done()]

        ended = await sites.until(ended_through, 30, "watches through kube-apiserver at an end")
        assert [kinds_of(one.result()) for one in ended] == [{"ADDED"}] * len(ended)
        assert 0 < len(ended) < len(others)  # those of the one that left, and no other
        await go_on(site, crowd, [*ends, *(one.result() for one in ended)])
        for task in (*load, *others):
            task.cancel()
        await asyncio.wait([*load, *others])
    assert set(crowd.statuses) == {200}
    assert {status for status, _ in crowd.answers} == {201}, crowd.answers
    assert await site.ready("replica-1")
