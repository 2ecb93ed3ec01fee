"""Many watchers and readers, all cut at once: what they cost the process goes with them, in seconds."""

import asyncio
import contextlib
import itertools
import ssl
from pathlib import Path

import pytest
import pytest_asyncio

from bench import fan, load, scrape
from devcluster import plane, product
from gpu.objects import kinds
from tests.real import site as sites

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONG, READS = "apiserver_longrunning_requests", "apiserver_current_inflight_requests"
TENANTS = ("tenant-a", "tenant-b")
PAUSE = 0.5
CHANGES = itertools.count()
"""Told anew by each change: what is there already is no change, and nobody hears of it."""
SOON = 15.0
SPARE = 16.0
"""MiB that the process may keep whoever was there."""
KEPT = 32 / 1024
"""MiB that it may keep of each connection for the moment: free memory is given back every 10 s
(apiserver/memory.py); a second thousand of them left 24 MiB until then."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    fan.allow_connections()
    async with sites.opened(tmp_path_factory.mktemp("load")) as opened:
        await opened.node("gpu-1", 4)
        await opened.offer("h100")
        for name in TENANTS:
            await opened.tenant(name)
            await opened.shown(name, "h100")
        yield opened


@pytest.fixture
def aim(site) -> load.Aim:
    """The product's own port, as the administrator: past kube-apiserver, whose cost it is not."""
    context = ssl.create_default_context(cafile=str(site.cp.pki.ext_ca.crt))
    admin = site.cp.pki.pair(plane.ADMIN)
    context.load_cert_chain(admin.crt, admin.key)
    url = site.product.replicas[product.FIRST].url
    return load.Aim(url=url, tls=context, headers={"Accept": "application/json"})


async def gauges(aim: load.Aim) -> dict[str, float]:
    """Read what is open, and in flight beside this very question."""
    reader, writer = await aim.connect()
    writer.write(aim.request("/metrics"))
    text = (await load.answer(reader)).decode()
    writer.close()
    found = scrape.parse(text, LONG, READS)
    return {"watches": found.total(LONG), "reads": found.total(READS) - 1}


def files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def keep_reading(aim: load.Aim, each: float) -> None:
    """Read lists one after another until cut, `each` seconds apart."""
    paths = [f"{sites.CATALOG}/namespaces/{name}/options" for name in TENANTS]
    reader, writer = await aim.connect()
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            for path in paths:
                writer.write(aim.request(path))
                await load.answer(reader)
                await asyncio.sleep(each)
    writer.transport.abort()


async def crowd(site, aim: load.Aim, watchers: int, rate: float, seconds: float) -> None:
    """Watch and read for a while, with a change now and then; then all go at once."""
    width = 10
    paths = [
        f"{sites.CATALOG}/namespaces/{TENANTS[index % 2]}/gpuoffers{fan.STREAMING}"
        for index in range(watchers)
    ]
    async with fan.watching(aim, paths) as watching, asyncio.TaskGroup() as group:
        reading = [group.create_task(keep_reading(aim, width / rate)) for _ in range(width)]
        until = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < until:
            patch = {"spec": {"description": f"as of {next(CHANGES)}"}}
            await site.admin.patch(kinds.GPU_CLASSES, "h100", patch)
            await fan.told(watching, 30)
            await asyncio.sleep(PAUSE)
        assert (await gauges(aim))["watches"] == watchers
        for one in reading:
            one.cancel()


@pytest.mark.timeout(600)
async def test_all_clients_cut_at_once_leave_nothing_behind(site, aim, full):
    pid = site.cp.record(product.FIRST).pid
    watchers, rate, seconds = (2000, 200.0, 300.0) if full else (200, 100.0, 4.0)
    await crowd(site, aim, watchers, rate, 1.0)  # what is made once and kept
    await asyncio.sleep(1)
    before = files(pid), scrape.memory_mib(pid)
    await crowd(site, aim, watchers, rate, seconds)

    async def gone() -> bool:
        return await gauges(aim) == {"watches": 0, "reads": 0} and files(pid) <= before[0] + 1

    await sites.until(gone, SOON, "gauges and connections as before")
    assert scrape.memory_mib(pid) <= before[1] + SPARE + KEPT * watchers
    spent = scrape.cpu_seconds(pid)
    await asyncio.sleep(2)
    assert scrape.cpu_seconds(pid) - spent < 1.0, "it goes on working for clients that are gone"


async def test_one_change_reaches_a_thousand_watchers_within_a_second(site, aim):
    paths = [f"{sites.CATALOG}/namespaces/tenant-a/gpuoffers{fan.STREAMING}"] * 1000
    loop, took = asyncio.get_running_loop(), []
    async with fan.watching(aim, paths) as watching:
        for _ in range(5):
            await asyncio.sleep(PAUSE)
            began = loop.time()
            patch = {"spec": {"description": f"fan {next(CHANGES)}"}}
            await site.admin.patch(kinds.GPU_CLASSES, "h100", patch)
            took.append(max(await fan.told(watching, 30)) - began)
    assert min(took) < 1.0, f"seconds to the last of a thousand, five times: {took}"
