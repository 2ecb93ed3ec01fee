"""kube-apiserver asks us for everybody over one connection: whatever one tenant sends, nobody else's request is cut."""

import asyncio
import json
import ssl
from urllib.parse import urlsplit

import aiohttp
import pytest
import pytest_asyncio

from devcluster import plane, tenants
from tests.real import raw_http
from tests.real import site as sites
from tests.real.raw_http import Sent

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

VICTIM, HOSTILE = "tenant-victim", "tenant-hostile"
OFFERS = f"{sites.CATALOG}/namespaces/{HOSTILE}/gpuoffers"
REVIEWS = f"{sites.CATALOG}/namespaces/{HOSTILE}/orderreviews"
WHO = f"Host: x\r\nImpersonate-User: mallory\r\nImpersonate-Group: {tenants.group(HOSTILE)}\r\n".encode()
LENGTH = b"Content-Length: 5\r\n\r\nhello"
JSON = b"Content-Type: application/json\r\n"
CANCELLED = 150


def sent(method, path, rest=b"\r\n", **how):
    return Sent(f"{method} {path} HTTP/1.1\r\n".encode() + WHO + rest, method, **how)


def headers(count, length):
    return b"".join(b"X-%d: %s\r\n" % (number, b"a" * length) for number in range(count)) + b"\r\n"


ATTACKS = {
    "HEAD with a body": sent("HEAD", OFFERS, LENGTH),
    "GET with a body": sent("GET", OFFERS, LENGTH),
    "DELETE with a body that nobody reads": sent("DELETE", OFFERS, b"Content-Length: 300000\r\n\r\n" + b"x" * 300_000),
    "bytes that are no text": sent("GET", OFFERS, b"X-Odd: \x80\xff\t\xfe\r\n\r\n"),
    "spaces around": sent("GET", OFFERS, b"X-Odd: \t  a  \t\r\nUser-Agent:   \r\n\r\n"),
    "many headers": sent("GET", OFFERS, headers(2_500, 10)),
    "a long header": sent("GET", OFFERS, headers(1, 60_000)),
    "a longer head than we take": sent("GET", OFFERS, headers(60, 15_000)),
    "a long path": sent("GET", f"{OFFERS}?labelSelector={'a' * 70_000}"),
    "an escaped path": sent("GET", f"{OFFERS}/%00%0d%0a%ff%2f..%2f?a=%00%0a"),
    "expecting something": sent("POST", REVIEWS, JSON + b"Expect: something\r\n" + LENGTH),
    "expecting to go on": sent("POST", REVIEWS, JSON + b"Expect: 100-continue\r\n" + LENGTH),
    "about the connection": sent("GET", OFFERS, b"TE: gzip, trailers\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\n\r\n"),
    "trailers": sent(
        "POST", REVIEWS,
        JSON + b"Trailer: X-End\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-End: \xff\r\n\r\n",
    ),
    "not packed as it says": sent("POST", REVIEWS, JSON + b"Content-Encoding: gzip\r\n" + LENGTH),
    "packed as nobody unpacks": sent("POST", REVIEWS, JSON + b"Content-Encoding: br\r\n" + LENGTH),
    "a body too large": sent("POST", REVIEWS, JSON + b"Content-Length: 4000000\r\n\r\n" + b" " * 4_000_000),
    "a verb of nobody": sent("BREW", OFFERS),
    "half a body": sent("POST", REVIEWS, JSON + b"Content-Length: 500\r\n\r\n{", leaves="sent"),
    "half a body in chunks": sent(
        "POST", REVIEWS, JSON + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz", leaves="sent"
    ),
    "an upgrade": sent("GET", OFFERS, b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", closes=True),
}  # fmt: skip
"""What a tenant sends, by name; kube-apiserver passes on most of it."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with sites.opened(tmp_path_factory.mktemp("shared")) as opened:
        await opened.node("gpu-1", 4)
        await opened.offer("h100")
        for tenant in (VICTIM, HOSTILE):
            await opened.tenant(tenant)
            await opened.shown(tenant, "h100")
        yield opened


@pytest.fixture
def tls(site):
    context = ssl.create_default_context(cafile=str(site.cp.pki.serving_ca.crt))
    admin = site.cp.pki.pair(plane.ADMIN)
    context.load_cert_chain(admin.crt, admin.key)
    return context


class Watch:
    """The victim's watch through kube-apiserver, which must go on to the end."""

    def __init__(self, answer):
        self.answer = answer
        self.seen = []
        self.task = asyncio.ensure_future(self._read())

    async def _read(self):
        async for line in self.answer.content:
            self.seen.append(json.loads(line)["object"]["metadata"]["name"])

    async def sees(self, name):
        async def seen():
            assert not self.task.done(), "the victim's watch was cut"
            return name in self.seen

        await sites.until(seen, 30, f"{name} seen by the victim")


@pytest_asyncio.fixture(loop_scope="module")
async def watch(site, tls):
    url = f"{site.cp.server}{sites.CATALOG}/namespaces/{VICTIM}/gpuoffers?watch=true&timeoutSeconds=200"
    async with aiohttp.ClientSession() as session, session.get(url, ssl=tls) as answer:
        watch = Watch(answer)
        await watch.sees("h100")
        yield watch
        watch.task.cancel()


async def test_whatever_one_sends_the_others_go_on(site, tls, watch):
    port = urlsplit(site.cp.server).port
    answers = {}
    for name, attack in ATTACKS.items():
        wire = raw_http.Wire(port, tls)
        try:
            answers[name] = (await wire.send(attack)).status
        except TimeoutError:
            pytest.fail(f"{name}: no answer")
        await wire.close()
        assert not watch.task.done(), f"{name} cut the victim's watch"
    await site.offer("after-attacks", "nvidia.com/AFTER")
    await watch.sees("after-attacks")
    # What is only odd is answered, so that the attacks are known to have come to us.
    assert {name: answers[name] for name in ("HEAD with a body", "GET with a body", "spaces around")} == {
        "HEAD with a body": 200, "GET with a body": 200, "spaces around": 200,
    }  # fmt: skip
    assert answers["many headers"] == 431, answers
    assert answers["a body too large"] == 413, answers


async def test_nor_do_hundreds_of_requests_that_are_cancelled_at_once(site, tls, watch):
    port = urlsplit(site.cp.server).port

    async def cancelled(path, leaves):
        await raw_http.Wire(port, tls).send(sent("GET", path, leaves=leaves))

    for path, leaves in (
        (OFFERS, "sent"),
        (f"{OFFERS}?watch=true", "head"),
        (f"{OFFERS}?watch=true", "sent"),
    ):
        await asyncio.gather(*(cancelled(path, leaves) for _ in range(CANCELLED)))
        assert not watch.task.done()
    await site.offer("after-cancelled", "nvidia.com/CANCELLED")
    await watch.sees("after-cancelled")
