"""How a connection ends: drained, shut down, idle; and nothing is left of one, however it ended."""

import asyncio
import gc

import pytest
from aiohttp import streams, web
from h2.errors import ErrorCodes

from apiserver import tls
from apiserver.http2.connection import Connection
from apiserver.http2.stream import Stream
from apiserver.wire.status import StatusError
from tests.apiserver.http2 import client as http2
from tests.apiserver.http2.listener import HELD, SERVING_CA, listening, soon
from tests.apiserver.http2.test_answers import JSON, WORDS, review

FAREWELL = (2**31 - 1, ErrorCodes.NO_ERROR)


async def test_a_connection_that_is_drained_ends_when_all_is_answered(listener):
    async with listener.opened() as client:
        held = client.begin("GET", WORDS, HELD)
        await soon(lambda: listener.gate.waiting == 1)
        listener.face.services.health.draining = True
        for _ in range(2):  # what still comes is served
            answer = await client.request("GET", WORDS)
            assert (answer.status, answer.header("connection")) == (200, None)
        assert client.farewells == [FAREWELL]
        assert not client.closed
        listener.gate.opened.set()
        assert (await held.answer()).status == 200
        await client.over()
        assert client.farewells == [FAREWELL]


async def test_the_end_of_the_process_waits_for_what_goes_on(listener):
    async with listener.opened() as client, listener.opened() as idle:
        held = client.begin("GET", WORDS, HELD)
        await soon(lambda: listener.gate.waiting == 1)
        ending = asyncio.ensure_future(listener.runner.cleanup())
        await idle.over()
        await client.until(lambda: client.farewells)
        assert not ending.done()
        listener.gate.opened.set()
        assert (await held.answer()).status == 200
        await ending
        await client.over()


async def test_the_end_of_the_process_waits_no_longer_than_it_may(serving):
    async with listening(serving, shutdown_timeout=0.2) as listener, listener.opened() as client:
        held = client.begin("GET", WORDS, HELD)
        await soon(lambda: listener.gate.waiting == 1)
        await listener.runner.cleanup()
        assert listener.gate.left == 1
        with pytest.raises(http2.StreamCutError):
            await held.answer()


@pytest.mark.parametrize("greets", [True, False], ids=["greeted", "never-greeted"])
async def test_a_connection_of_which_nothing_is_asked_for_long_is_closed(serving, greets):
    async with listening(serving, keepalive_timeout=0.3) as listener:
        begun = asyncio.get_running_loop().time()
        async with listener.opened(greets=greets) as client:
            await client.over()
            assert client.farewells == [FAREWELL]
            assert asyncio.get_running_loop().time() - begun > 0.25


async def test_a_connection_on_which_something_goes_on_is_not_idle(serving):
    async with listening(serving, keepalive_timeout=0.5) as listener, listener.opened() as client:
        held = client.begin("GET", WORDS, HELD)
        await asyncio.sleep(0.8)
        listener.gate.opened.set()
        assert (await held.answer()).status == 200
        await client.over()


async def test_http2_is_not_agreed_on_without_tls_or_where_it_is_switched_off(serving, tmp_path):
    assert serving.context is not None
    files = serving._files
    off = await asyncio.to_thread(lambda: tls.Serving(*files, http2=False))
    async with listening(off) as listener:
        offered = http2.secure(SERVING_CA.pem, offers=("h2", "http/1.1"))
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", listener.port, ssl=offered, server_hostname="localhost"
        )
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def answered(client, _):
    await client.request("GET", WORDS)
    await client.request("POST", "/admission/echo", [JSON], review("x" * 100_000))


async def refused(client, _):
    for asked in (("GET", "no path"), ("CONNECT", "/"), ("GET", "/nowhere"), ("POST", "/version")):
        await client.request(*asked)
    await client.request("GET", "/livez", [("connection", "close")])
    await client.request("GET", "/livez", [("expect", "something")])
    await client.request("POST", "/admission/echo", [JSON, ("content-encoding", "gzip")], b"abcd")


async def given_up(client, listener):
    held = [client.begin("GET", WORDS, HELD), client.begin("GET", f"{WORDS}?watch=1")]
    held.append(client.begin("POST", "/admission/echo", [JSON], ends=False))
    held[2].send(b"{")
    await held[1].line()
    await soon(lambda: listener.gate.waiting == 1)
    for one in held:
        one.reset()
    await client.pinged()


async def given_up_at_once(client, _):
    for _ in range(3):
        client.begin("GET", WORDS).reset()
        client.begin("POST", "/admission/echo", [JSON], ends=False).reset()


async def lost(client, listener):
    for headers in (HELD, [("content-encoding", "gzip"), *HELD]):
        client.begin("POST", "/admission/echo", [JSON, *headers], ends=False).send(b"x" * 16_000)
    client.begin("GET", WORDS, HELD)
    await client.begin("GET", f"{WORDS}?watch=1").line()
    await soon(lambda: listener.gate.waiting == 3)


async def unread(client, _):
    asked = client.begin("POST", WORDS, [JSON], ends=False)
    asked.send(b"x" * 10_000)
    await asked.answer()


async def no_sense(client, _):
    client.begin("GET", f"{WORDS}?watch=1")
    client.send_raw(b"\0" * 100)
    await client.over()


async def drained(client, listener):
    listener.face.services.health.draining = True
    await client.request("GET", WORDS)
    await client.over()


@pytest.mark.parametrize(
    "story",
    [answered, refused, given_up, given_up_at_once, lost, unread, no_sense, drained],
    ids=lambda story: story.__name__,
)
async def test_nothing_of_a_connection_waits_for_the_garbage_collector(listener, story):
    of_ours = (
        Connection, Stream, web.BaseRequest, web.StreamResponse, web.HTTPException, StatusError,
        streams.StreamReader,
    )  # fmt: skip

    def kept():
        found = [one for one in gc.get_objects() if isinstance(one, of_ours)]
        frames = [one for one in gc.get_objects() if type(one).__name__ == "_Frames"]
        return [type(one).__name__ for one in found if one is not streams.EMPTY_PAYLOAD] + frames

    async def once():
        async with listener.opened() as client:
            await story(client, listener)

    await once()
    gc.collect()
    gc.disable()  # the process collects rarely
    try:
        for _ in range(3):
            await once()
        await soon(lambda: not kept())
    finally:
        gc.enable()
