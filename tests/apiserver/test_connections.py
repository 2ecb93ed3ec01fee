"""What is no HTTP request is refused as any request is, seldom logged, and forgotten at once."""

import asyncio
import gc
import json
import socket
import ssl

import pytest
import uvloop
from aiohttp import http_exceptions, web
from cryptography.x509.oid import ExtendedKeyUsageOID

from apiserver import app, middleware, refusals, tls
from gpu import keys
from tests.apiserver import certificates, fakes

ROOT = f"/apis/{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}"
HOST = "Host: x\r\n"
GOOD = f"GET /livez HTTP/1.1\r\n{HOST}\r\n".encode()


class Listener:
    """The application on a port, as the process runs it, spoken to in bytes."""

    def __init__(self, face, port):
        self.face, self.port = face, port

    async def opened(self):
        return await asyncio.open_connection("127.0.0.1", self.port, limit=2**20)

    async def answer(self, data):
        """Send bytes on a connection of their own and read till its end: status line, headers, body."""
        reader, writer = await self.opened()
        writer.write(data)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        body = await reader.readexactly(int(headers["content-length"]))
        writer.close()
        await writer.wait_closed()
        return first, headers, body

    def counted(self, code):
        """How many requests without a known verb ended so."""
        requests = self.face.services.metrics.served.requests
        labels = ("other", "", "", "", "", "", "cozystack-gpu", "", code)
        return requests.labels(*labels)._value.get()


@pytest.fixture
async def listener():
    face = fakes.a_face(fakes.words_world(tenant_a={"a": "x"}))
    runner = face.runner()
    await runner.setup()
    await app.site(runner, "127.0.0.1", 0).start()
    yield Listener(face, runner.addresses[0][1])
    await runner.cleanup()


@pytest.fixture(autouse=True)
def _aiohttp_says_nothing(caplog):
    yield
    assert not [one for one in caplog.get_records("call") if one.name == "aiohttp.server"]


REFUSED = [
    pytest.param("BREW / HTTP/1.1\r\n" + HOST, 400, "method", id="method"),
    pytest.param("GET / HTTP/9.9\r\n" + HOST, 400, "line", id="version"),
    pytest.param("GET no-path HTTP/1.1\r\n" + HOST, 400, "URL", id="no-path"),
    pytest.param("GET / HTTP/1.1\r\n" + HOST + HOST, 400, "Host", id="two-hosts"),
    pytest.param("GET / HTTP/1.1\r\n", 400, "Host", id="no-host"),
    pytest.param("GET / HTTP/1.1\r\nsecret\r\n" + HOST, 400, "", id="no-colon"),
    pytest.param("GET / HTTP/1.1\r\nsecret : x\r\n" + HOST, 400, "", id="space-before-colon"),
    pytest.param(f"GET / HTTP/1.1\r\n{HOST}A: secret\0\r\n", 400, "", id="nul"),
    pytest.param(f"GET / HTTP/1.1\r\n{HOST}A: {'secret' * 4000}\r\n", 431, "long", id="long-header"),
    pytest.param(f"GET /?{'secret' * 15_000} HTTP/1.1\r\n{HOST}", 431, "long", id="long-line"),
    pytest.param(f"GET / HTTP/1.1\r\n{HOST}" + "A: secret\r\n" * 2100, 431, "many", id="many-headers"),
    pytest.param(
        f"POST / HTTP/1.1\r\n{HOST}Content-Length: 5\r\nContent-Encoding: br\r\n", 400, "ncoding",
        id="encoding",
    ),
    pytest.param(
        f"POST / HTTP/1.1\r\n{HOST}Content-Length: 5\r\nContent-Length: 6\r\n", 400, "", id="two-lengths"
    ),
    pytest.param(f"GET /livez HTTP/1.1\r\n{HOST}Expect: secret\r\n", 417, "xpect", id="expect"),
    pytest.param(f"GET /no HTTP/1.1\r\n{HOST}Expect: secret\r\n", 417, "xpect", id="expect-nowhere"),
]  # fmt: skip


@pytest.mark.parametrize(("head", "code", "word"), REFUSED)
async def test_what_the_parser_refuses_is_a_status_that_names_no_software(
    listener, logs, head, code, word
):
    before = listener.counted(str(code))
    first, headers, body = await listener.answer(f"{head}\r\n".encode())
    assert first.split(" ")[:2] == ["HTTP/1.1", str(code)]
    status = json.loads(body)
    assert (status["kind"], status["code"], status["status"]) == ("Status", code, "Failure")
    assert word in status["message"]
    assert headers["content-type"] == "application/json"
    assert headers["connection"] == "close"
    assert "server" not in headers
    assert listener.counted(str(code)) == before + 1
    told = [one for one in logs if one["event"] == "no request"]
    assert [(one["code"], one["log_level"]) for one in told] == [(code, "warning")]
    assert "secret" not in body.decode() + repr(logs), "what was sent may be a credential"


async def test_one_that_is_expected_to_go_on_is_answered(listener):
    reader, writer = await listener.opened()
    writer.write(f"GET /livez HTTP/1.1\r\n{HOST}Expect: 100-continue\r\n\r\n".encode())
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200 ")
    writer.close()


@pytest.mark.parametrize("version", [" HTTP/1.0", ""], ids=["1.0", "0.9"])
async def test_a_watch_over_an_older_http_is_not_chunked_and_ends_its_connection(listener, version):
    projecting = asyncio.ensure_future(listener.face.projection.run())
    reader, writer = await listener.opened()
    writer.write(f"GET {ROOT}/words?watch=1&timeoutSeconds=1{version}\r\n{HOST}\r\n".encode())
    head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
    assert head.split(b" ")[1] == b"200"
    assert b"chunked" not in head
    assert [json.loads(line)["type"] for line in rest.splitlines()] == ["ADDED"]
    writer.close()
    projecting.cancel()


async def test_a_client_that_is_still_sending_reads_its_answer(listener):
    reader, writer = await listener.opened()
    writer.write(b"BREW / HTTP/1.1\r\n")
    for _ in range(20):
        writer.write(b"x" * 100_000)
        await asyncio.sleep(0)
    await writer.drain()
    assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 400 ")
    rest = await reader.read()
    assert b"HTTP/1.1" not in rest, "refused once"
    writer.close()


async def test_requests_before_it_on_the_connection_are_answered(listener):
    reader, writer = await listener.opened()
    writer.write(GOOD)
    first = await reader.readuntil(b"\r\n\r\n")
    writer.write(b"BREW / HTTP/1.1\r\n\r\n")
    rest = await reader.read()
    assert first.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 400 " in rest
    writer.close()


async def test_a_bug_outside_of_all_that_catches_is_a_status_with_a_stack_in_the_log(
    listener, logs, monkeypatch
):
    monkeypatch.setattr(middleware, "request_labels", lambda *_: 1 / 0)
    first, headers, body = await listener.answer(GOOD)
    assert (first.split(" ")[1], json.loads(body)["reason"]) == ("500", "InternalError")
    assert "server" not in headers
    [told] = [one for one in logs if one["event"] == "request failed"]
    assert isinstance(told["exc_info"], ZeroDivisionError)


async def test_many_are_one_line_that_tells_how_many(listener, logs, monkeypatch):
    for _ in range(5):
        await listener.answer(b"BREW / HTTP/1.1\r\n\r\n")
    assert len([one for one in logs if one["event"] == "no request"]) == 1
    monkeypatch.setattr(refusals, "TOLD_EVERY", 0.0)
    await listener.answer(b"BREW / HTTP/1.1\r\n\r\n")
    assert [one["untold"] for one in logs if one["event"] == "no request"] == [0, 4]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(f"{one.values[0]}\r\n".encode(), id=one.id) for one in REFUSED
    ] + [
        pytest.param(f"GET /nothing HTTP/1.1\r\n{HOST}\r\n".encode(), id="no-path-served"),
        pytest.param(
            f"POST /version HTTP/1.1\r\n{HOST}Content-Length: 0\r\n\r\n".encode(), id="no-method"
        ),
        pytest.param(
            f"POST {ROOT}/words HTTP/1.1\r\n{HOST}Content-Encoding: gzip\r\n"
            "Content-Type: application/json\r\nContent-Length: 5\r\n\r\nabcde".encode(),
            id="not-packed",
        ),
        pytest.param(
            f"PUT {ROOT}/words HTTP/1.1\r\n{HOST}Content-Encoding: gzip\r\n"
            "Content-Type: application/json\r\nContent-Length: 5\r\n\r\nabcde".encode(),
            id="not-packed-and-not-read",
        ),
    ],
)  # fmt: skip
async def test_nothing_of_a_refusal_waits_for_the_garbage_collector(listener, data):
    await listener.answer(data)
    gc.collect()
    gc.disable()  # the process collects rarely
    try:
        for _ in range(5):
            await listener.answer(data)
        of_ours = (web.RequestHandler, web.BaseRequest, web.Response, web.HTTPException)
        assert not await _kept(of_ours)
    finally:
        gc.enable()


async def _kept(of_ours):
    """What is kept of these, once the last connection had its time to end on a busy machine."""
    for _ in range(200):
        await asyncio.sleep(0.01)
        kept = [type(one) for one in gc.get_objects() if isinstance(one, of_ours)]
        if not kept:
            break
    return kept


async def test_what_nobody_came_to_refuse_is_forgotten_as_well(listener, monkeypatch):
    asked = asyncio.Event()

    async def ask(_user, _about):
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(listener.face.access, "require", ask)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            _, writer = await listener.opened()
            writer.write(GOOD)
            await asked.wait()
            for _ in range(5):
                writer.write(b"BREW / HTTP/1.1\r\n" + b"x" * 10_000)
                await asyncio.sleep(0.01)
            writer.transport.abort()
        assert not await _kept((web.RequestHandler, http_exceptions.HttpProcessingError))
    finally:
        gc.enable()


async def test_who_hangs_up_before_a_body_was_sent_leaves_nothing(listener):
    head = f"POST {ROOT}/words HTTP/1.1\r\n{HOST}Content-Type: application/json\r\n"
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            reader, writer = await listener.opened()
            writer.write(f"{head}Content-Length: 1000\r\n\r\nabc".encode())
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 405 ")
            await asyncio.sleep(0.01)
            writer.transport.abort()
        assert not await _kept((web.RequestHandler, web.BaseRequest))
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_who_never_greets_leaves_nothing(tmp_path, loop_factory):
    """A probe of the port, or somebody who takes it for plain HTTP."""
    pair = certificates.issue(
        "server",
        certificates.authority("serving-ca"),
        purposes=(ExtendedKeyUsageOID.SERVER_AUTH,),
        hosts=("localhost",),
    )
    serving = tls.Serving(*pair.save(tmp_path, "serving"))

    async def main():
        runner = fakes.a_face(fakes.words_world()).runner()
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=serving.context).start()
        port = runner.addresses[0][1]
        for data in (b"", GOOD, GOOD):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            await asyncio.sleep(0.01)
            writer.transport.abort()
        await asyncio.sleep(0.05)
        kept = [one for one in gc.get_objects() if isinstance(one, web.RequestHandler)]
        trusting = ssl.create_default_context(cadata=pair.issuer.pem)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=trusting, server_hostname="localhost"
        )
        writer.write(GOOD)
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.close()
        await runner.cleanup()
        return len(kept)

    gc.collect()
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            assert runner.run(main()) == 0
    finally:
        gc.enable()


async def test_hundreds_that_connect_at_once_wait_to_be_taken(listener):
    async with asyncio.timeout(20):
        # The loop is busy with this: none of them is taken before all have come.
        come = [socket.create_connection(("127.0.0.1", listener.port), 0.5) for _ in range(600)]
        come[-1].settimeout(0)
        await asyncio.get_running_loop().sock_sendall(come[-1], GOOD)
        answer = await asyncio.get_running_loop().sock_recv(come[-1], 1024)
    assert answer.startswith(b"HTTP/1.1 200 ")
    for one in come:
        one.close()
