"""Anything at all is sent to a replica: no answer is its fault, it stays ready, and nothing of it stays behind."""

import asyncio
import collections
import json
import ssl
from pathlib import Path

import pytest
import pytest_asyncio

from tests.real import fuzzed, raw_http
from tests.real import site as sites

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1800)]

DAILY, FULL = 3_000, 100_000
SENDERS = 8
LOOKS = 10
"""At memory and files: what is kept only once has been kept by half of them."""
MOST_GROWTH = 24 * 2**20
"""Bytes; what a process may differ by between two looks without having kept anything."""
TOO_LARGE = "ResourceVersionTooLarge"
STANDARD = frozenset(
    {400, 401, 403, 404, 405, 406, 408, 410, 411, 413, 414, 415, 417, 422, 429, 431}
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with sites.opened(tmp_path_factory.mktemp("fuzz")) as opened:
        await opened.node("gpu-1", 8)
        await opened.offer("h100")
        for tenant in ("tenant-one", "tenant-two"):
            await opened.tenant(tenant, total=4)
            await opened.shown(tenant, "h100", total=4)
        await opened.class_has("h100", 8)
        await opened.order("tenant-one", "held", "h100", 1)
        await opened.bound("tenant-one", "held")
        yield opened


class Target:
    """The replica under fire, as its neighbours on the machine see it."""

    def __init__(self, site):
        self.replica = site.product.replicas["replica-1"]
        self.pid = site.cp.record("replica-1").pid
        proxy = site.cp.pki.front_proxy_client
        self.tls = ssl.create_default_context(cafile=str(site.cp.pki.ext_ca.crt))
        self.tls.check_hostname = False
        self.tls.load_cert_chain(proxy.crt, proxy.key)

    def wire(self):
        return raw_http.Wire(self.replica.port, self.tls)

    def memory(self):
        """Bytes of its own that are resident."""
        text = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        kib = [
            int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_Dirty")
        ]
        return kib[0] * 1024

    def open_files(self):
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    async def gauges(self):
        """The sums of what is in flight and of what runs for long."""
        wire = self.wire()
        lines = "X-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n"
        got = await wire.send(
            raw_http.Sent(f"GET /metrics HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode())
        )
        await wire.close()
        found = collections.Counter()
        for line in got.body.decode().splitlines():
            name = line.partition("{")[0]
            if name in {"apiserver_current_inflight_requests", "apiserver_longrunning_requests"}:
                found[name] += float(line.rpartition(" ")[2])
        return found

    async def is_at_rest(self):
        """Tell whether nobody is served but the one who asks."""
        found = await self.gauges()
        inflight = found.pop("apiserver_current_inflight_requests", 0)
        return inflight <= 1 and not any(found.values())


def complaint(sent, got):
    """Say what is wrong with an answer; empty when nothing is."""
    if got.status == 0:
        return "" if sent.leaves or sent.closes else "no answer"
    if "server" in got.headers:
        return "our software is named"
    if got.status >= 500:
        return "" if is_asked_for(sent, got) else f"a {got.status}"
    if got.status >= 400 and got.status not in STANDARD:
        return f"an unknown {got.status}"
    if got.status < 400 or sent.leaves or sent.method == "HEAD":
        return ""
    return form_of_refusal(got)


def is_asked_for(sent, got):
    """Tell whether a 504 is what the client asked for: a version to come, or a deadline of its own."""
    if got.status != 504 or sent.method == "HEAD" or sent.leaves:
        return got.status == 504
    causes = json.loads(got.body).get("details", {}).get("causes", ())
    return b"timeout=" in sent.data or [one["reason"] for one in causes] == [TOO_LARGE]


def form_of_refusal(got):
    """Say what is wrong with the form of a refusal: a Status, of what is no HTTP as well."""
    kind = got.headers.get("content-type", "").partition(";")[0]
    if kind == "application/json":
        status = json.loads(got.body)
        is_good = (status.get("kind"), status.get("code")) == ("Status", got.status)
        return "" if is_good else "a refusal that is no Status"
    return "" if kind == "application/yaml" else f"a {got.status} of {kind}"


async def fired(target, fuzzer, count, tally, wrong):
    """Send so many requests over a few connections."""
    left = iter(range(count))

    async def sender():
        wire = target.wire()
        for _ in left:
            sent = fuzzer.request()
            try:
                got = await wire.send(sent)
            except TimeoutError:
                got, said = raw_http.Got(), "never answered"
                await wire.close()
            else:
                said = complaint(sent, got)
            tally[got.status] += 1
            if said:
                wrong.append((said, sent.data[:1500], got.body[:600]))
        await wire.close()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(SENDERS):
            tasks.create_task(sender())


async def test_nothing_that_is_sent_is_our_fault_or_stays(site, seed, full, tmp_path_factory):
    target = Target(site)
    fuzzer = fuzzed.Fuzzer(seed)
    tally, wrong, memory, files = collections.Counter(), [], [], []
    for _ in range(LOOKS):
        await fired(target, fuzzer, (FULL if full else DAILY) // LOOKS, tally, wrong)
        await sites.until(target.is_at_rest, sites.LATE, "at rest")
        memory.append(target.memory())
        files.append(target.open_files())
    told = f"{dict(tally)}; MiB {[one >> 20 for one in memory]}; files {files}"
    (tmp_path_factory.getbasetemp() / "fuzz.txt").write_text(told)
    kinds = collections.Counter(said for said, _, _ in wrong)
    assert not wrong, f"{kinds} of {told}, the first: {wrong[:3]}"
    half = LOOKS // 2
    assert max(memory[half:]) - max(memory[:half]) < MOST_GROWTH, told
    assert max(files[half:]) <= max(files[:half]) + 2, told
    assert await site.ready("replica-1")
    assert "request failed" not in target.replica.log.read_text(encoding="utf-8")
