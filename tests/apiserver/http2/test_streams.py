"""Streams of one connection: each lives, waits and ends alone."""

import asyncio

import pytest
from h2.errors import ErrorCodes
from h2.settings import SettingCodes

from apiserver.appkeys import Limits
from apiserver.http2 import stream
from tests.apiserver import fakes
from tests.apiserver.http2 import client as http2
from tests.apiserver.http2.listener import HELD, listening, soon
from tests.apiserver.http2.test_answers import JSON, WORDS, review

WATCH = f"{WORDS}?watch=1"
BIG = {str(number): "x" * 10_000 for number in range(50)}


async def test_what_a_client_may_do_is_told_in_the_greeting(listener):
    async with listener.opened() as client:
        assert client.settings[SettingCodes.MAX_CONCURRENT_STREAMS] == 250
        assert client.settings[SettingCodes.INITIAL_WINDOW_SIZE] == 65_535
        assert client.settings[SettingCodes.MAX_HEADER_LIST_SIZE] == 512 * 1024
        assert client.h2.outbound_flow_control_window >= 250 * 65_535


async def test_a_connection_bears_250_requests_at_once_and_no_more(listener):
    async with listener.opened() as client:
        held = [client.begin("GET", WORDS, HELD) for _ in range(250)]
        await soon(lambda: listener.gate.waiting == 250)
        listener.gate.opened.set()
        assert {(await one.answer()).status for one in held} == {200}
        listener.gate.opened.clear()
        held = [client.begin("GET", WORDS, HELD) for _ in range(250)]
        client.h2.remote_settings[SettingCodes.MAX_CONCURRENT_STREAMS] = 1000
        client.h2.remote_settings.acknowledge()
        more = client.begin("GET", WORDS, HELD)
        await client.until(lambda: client.closed or more.cut is not None)
        assert client.closed or more.cut == ErrorCodes.REFUSED_STREAM


async def test_a_request_that_is_given_up_is_cancelled_and_the_others_go_on(listener):
    async with listener.opened() as client:
        one, other = (client.begin("GET", WORDS, HELD) for _ in range(2))
        await soon(lambda: listener.gate.waiting == 2)
        one.reset()
        await soon(lambda: listener.gate.left == 1)
        await soon(lambda: listener.counted(499) == 1)
        listener.gate.opened.set()
        assert (await other.answer()).status == 200
        assert (await client.request("GET", WORDS)).status == 200
        assert not client.farewells


@pytest.mark.parametrize("headers", [[JSON], [JSON, ("expect", "100-continue")]], ids=["", "100"])
async def test_a_request_that_is_given_up_as_it_comes_harms_no_other(listener, headers):
    async with listener.opened() as client:
        held = client.begin("GET", WORDS, HELD)
        await soon(lambda: listener.gate.waiting == 1)
        client.corked = True
        for _ in range(3):
            client.begin("POST", "/admission/echo", headers, ends=False).reset()
        client.corked = False
        await client.pinged()
        listener.gate.opened.set()
        assert (await held.answer()).status == 200


async def test_a_watch_that_is_left_is_counted_as_ended_well(listener):
    def watching():
        return listener.total("apiserver_longrunning_requests")

    async with listener.opened() as client:
        watch = client.begin("GET", WATCH)
        assert (await watch.line())["type"] == "ADDED"
        assert watching() == 1
        watch.reset()
        await soon(lambda: watching() == 0)
        await soon(lambda: listener.total("apiserver_request_total", verb="WATCH", code="200") == 1)


async def test_a_client_that_is_lost_leaves_nothing_running(listener):
    async with listener.opened() as client:
        for _ in range(3):
            client.begin("GET", WORDS, HELD)
        watch = client.begin("GET", WATCH)
        await watch.line()
        await soon(lambda: listener.gate.waiting == 3)
        client.abort()
        await soon(lambda: listener.gate.left == 3)
        await soon(lambda: listener.counted(499) == 3)
        await soon(lambda: listener.total("apiserver_longrunning_requests") == 0)
        await soon(lambda: not listener.connections)


async def test_each_event_of_a_watch_is_sent_at_once_in_a_frame_of_its_own(listener):
    async with listener.opened() as client:
        watch = client.begin("GET", WATCH)
        assert [(await watch.line())["type"] for _ in range(2)] == ["ADDED", "ADDED"]
        before = len(watch.pieces)
        for text in ("one", "two", "three"):
            listener.face.source.set(fakes.words_world(tenant_a={"a": text, "b": "y"}))
            event = await watch.line()
            assert (event["type"], event["object"]["spec"]["text"]) == ("MODIFIED", text)
        assert [piece[-1:] for piece in watch.pieces[before:]] == [b"\n"] * 3


async def test_a_slow_reader_of_a_watch_is_let_go_alone(serving):
    async with (
        listening(serving, limits=Limits(write=0.2)) as listener,
        listener.opened(window=0) as client,
    ):
        slow, quick = client.begin("GET", WATCH), client.begin("GET", WATCH)
        quick.widen(http2.WIDE)
        assert (await quick.line())["type"] == "ADDED"
        assert await slow.is_cut() is not None
        listener.face.source.set(fakes.words_world(tenant_a={"a": "new", "b": "y"}))
        assert (await quick.line())["object"]["metadata"]["name"] == "b"
        assert (await quick.line())["type"] == "MODIFIED"
        assert listener.total("apiserver_request_terminations_total", code="slow") == 1
        assert not client.farewells


async def test_an_answer_that_nobody_takes_is_given_up_alone(listener, monkeypatch):
    monkeypatch.setattr(stream, "STALLED", 0.2)
    async with listener.opened(window=0) as client:
        slow, quick = client.begin("GET", WORDS), client.begin("GET", WORDS)
        quick.widen(http2.WIDE)
        assert (await quick.answer()).status == 200
        assert await slow.is_cut() is not None
        empty = client.begin("HEAD", WORDS)
        assert (await empty.answer()).status == 200, "no window is needed for a head"


async def test_a_shut_window_that_opens_lets_an_answer_go_on(listener):
    async with listener.opened(window=0, acknowledges=False) as client:
        asked = client.begin("GET", WORDS)
        await asked.begun()
        await client.pinged()
        assert not asked.pieces
        for _ in range(3):
            asked.widen(5)
        asked.widen(http2.WIDE)
        assert (await asked.answer()).document["kind"] == "WordList"


async def test_windows_that_a_setting_opens_let_answers_go_on(listener):
    async with listener.opened(window=0) as client:
        asked = client.begin("GET", WORDS)
        await asked.begun()
        client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: http2.WIDE})
        client.flush()
        assert (await asked.answer()).document["kind"] == "WordList"


async def test_a_client_may_send_no_more_of_a_body_than_is_read(listener):
    body = review("x" * 400_000)
    async with listener.opened() as client:
        asked = client.begin("POST", "/admission/echo", [JSON, *HELD], ends=False)
        sending = asyncio.ensure_future(asked.send_all(body))
        await soon(lambda: asked.room == 0)
        await client.pinged()
        assert asked.room == 0, "nobody reads it yet"
        other = client.begin("POST", "/admission/echo", [JSON], ends=False)
        await other.send_all(body)
        assert (await other.answer()).status == 200, "and others are read"
        listener.gate.opened.set()
        answer = await asked.answer()
        assert answer.document["response"]["warnings"] == ["x" * 400_000]
        await sending


async def test_bodies_that_nobody_reads_never_fill_the_connection(listener):
    async with listener.opened() as client:
        for _ in range(300):  # more than the window of the connection
            asked = client.begin("POST", WORDS, [JSON], ends=False)
            while asked.room and not asked.ended:
                asked.send(b"x" * asked.room)
            assert (await asked.answer()).status == 405
            assert await asked.is_cut() == ErrorCodes.NO_ERROR
        answer = await client.request("POST", "/admission/echo", [JSON], review("y" * 100_000))
        assert answer.status == 200
        assert not client.farewells


async def test_who_asks_may_the_body_come_is_told_it_may(listener):
    async with listener.opened() as client:
        expects = [JSON, ("expect", "100-continue")]
        asked = client.begin("POST", "/admission/echo", expects, ends=False)
        await client.until(lambda: asked.interim)
        assert asked.interim == [100]
        asked.send(review(), ends=True)
        assert (await asked.answer()).status == 200


async def test_trailers_end_a_body(listener):
    async with listener.opened() as client:
        asked = client.begin("POST", "/admission/echo", [JSON], ends=False)
        asked.send(review())
        client.h2.send_headers(asked.number, [("x-trailer", "1")], end_stream=True)
        client.flush()
        assert (await asked.answer()).status == 200


async def test_a_client_that_reads_nothing_is_not_read_from_and_fills_no_memory(listener):
    listener.face.source.set(fakes.words_world(tenant_a=BIG))
    async with listener.opened(window=2**31 - 1) as client:
        assert len((await client.request("GET", WORDS)).body) > 500_000
        client.transport.pause_reading()
        for _ in range(100):
            client.begin("GET", WORDS)
        await soon(lambda: listener.counted(200) == 101)
        [connection] = listener.connections
        buffered = connection._transport.get_write_buffer_size()
        assert buffered < 8 * 2**20
        assert not connection._transport.is_reading()
        client.transport.resume_reading()
        answers = [await one.answer() for one in list(client.streams.values())]
        assert len({one.body for one in answers}) == 1


async def test_answers_to_a_client_that_reads_nothing_are_given_up(listener, monkeypatch):
    monkeypatch.setattr(stream, "STALLED", 0.2)
    listener.face.source.set(fakes.words_world(tenant_a=BIG))
    async with listener.opened(window=2**31 - 1) as client:
        client.transport.pause_reading()
        for _ in range(100):
            client.begin("GET", WORDS)
        await soon(lambda: listener.counted(200) == 100)
        [connection] = listener.connections
        await soon(lambda: not connection._streams)
