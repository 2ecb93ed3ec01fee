"""What is no request, or no HTTP/2, or too much of it: one client's nonsense is no other request's end."""

import asyncio
import random

import pytest
import structlog
import uvloop
from h2.errors import ErrorCodes
from hpack import Encoder
from hyperframe import frame as frames
from hypothesis import given
from hypothesis import strategies as st

from apiserver.http2 import framing
from tests import sampling
from tests.apiserver.http2.listener import HELD, listening, soon
from tests.apiserver.http2.test_answers import JSON, WORDS, review

METHOD, PATH = (":method", "GET"), (":path", "/livez")
SCHEME, HOST = (":scheme", "https"), (":authority", "x")
GOOD = [METHOD, SCHEME, HOST, PATH]
SECRET = ("authorization", "secret")
PING = frames.PingFrame(0, b"12345678")

MALFORMED = {
    "no-method": [SCHEME, HOST, PATH],
    "no-path": [METHOD, SCHEME, HOST],
    "no-scheme": [METHOD, HOST, PATH],
    "two-methods": [METHOD, *GOOD],
    "two-paths": [*GOOD, PATH],
    "two-hosts": [*GOOD, ("host", "secret")],
    "two-authorities": [*GOOD, HOST],
    "unknown-pseudo": [*GOOD, (":secret", "1")],
    "an-answer": [*GOOD, (":status", "200")],
    "pseudo-last": [METHOD, SCHEME, HOST, ("a", "secret"), PATH],
    "empty-method": [(":method", ""), SCHEME, HOST, PATH],
    "empty-path": [METHOD, SCHEME, HOST, (":path", "")],
    "method-with-space": [(":method", "GET secret"), SCHEME, HOST, PATH],
    "connect": [(":method", "CONNECT"), HOST],
    "connect-with-path": [(":method", "CONNECT"), SCHEME, HOST, PATH],
    "path-without-slash": [METHOD, SCHEME, HOST, (":path", "secret")],
    "path-with-host": [METHOD, SCHEME, HOST, (":path", "http://secret/")],
    "path-is-star": [METHOD, SCHEME, HOST, (":path", "*")],
    "path-with-space": [METHOD, SCHEME, HOST, (":path", "/a secret")],
    "path-with-newline": [METHOD, SCHEME, HOST, (":path", "/a\nsecret")],
    "path-with-nul": [METHOD, SCHEME, HOST, (":path", "/a\0secret")],
    "path-not-ascii": [METHOD, SCHEME, HOST, (":path", "/secret\u00e9")],
    "upper-case": [*GOOD, ("Secret", "1")],
    "no-name": [*GOOD, ("", "secret")],
    "name-with-space": [*GOOD, ("secret name", "1")],
    "name-with-colon": [*GOOD, ("secret:name", "1")],
    "name-with-newline": [*GOOD, ("a\r\nsecret", "1")],
    "name-not-ascii": [*GOOD, ("secret\u00e9", "1")],
    "value-with-nul": [*GOOD, ("a", "sec\0ret")],
    "value-with-return": [*GOOD, ("a", "sec\rret")],
    "value-with-newline": [*GOOD, ("a", "secret\nb: c")],
    "authority-with-newline": [METHOD, SCHEME, (":authority", "x\nsecret"), PATH],
    "connection": [*GOOD, ("connection", "secret")],
    "keep-alive": [*GOOD, ("keep-alive", "1")],
    "proxy-connection": [*GOOD, ("proxy-connection", "close")],
    "transfer-encoding": [*GOOD, ("transfer-encoding", "chunked")],
    "upgrade": [*GOOD, ("upgrade", "websocket")],
    "te": [*GOOD, ("te", "gzip")],
}
TOO_LONG = {
    "many": [*GOOD, *[("a", "secret")] * 2_100],
    "long-value": [*GOOD, ("a", "secret" * 3_000)],
    "long-name": [*GOOD, ("a" * 17_000, "secret")],
    "long-path": [METHOD, SCHEME, HOST, (":path", "/" + "secret" * 12_000)],
}
WELL_FORMED = {
    "whitespace": [*GOOD, ("a", "  b\t"), ("content-length", "0")],
    "cookies": [*GOOD, ("cookie", "a=1"), ("cookie", "b=2")],
    "te": [*GOOD, ("te", "trailers")],
    "no-authority": [METHOD, SCHEME, PATH],
    "host": [METHOD, SCHEME, PATH, ("host", "x")],
    "same-host": [*GOOD, ("host", "x")],
    "empty-value": [*GOOD, ("a", "")],
    "not-utf8": [*GOOD, ("a", b"\xff\xfe")],
    "utf8": [*GOOD, ("a", "\u00e9")],
    "many": [*GOOD, *[("x-remote-group", "a" * 100)] * 2_000],
}


@pytest.mark.parametrize(
    ("pairs", "code"),
    [pytest.param(pairs, 400, id=name) for name, pairs in MALFORMED.items()]
    + [pytest.param(pairs, 431, id=f"too-{name}") for name, pairs in TOO_LONG.items()],
)
async def test_a_malformed_head_is_refused_and_the_connection_goes_on(listener, logs, pairs, code):
    async with listener.opened() as client:
        beside = client.begin("GET", WORDS, [SECRET, *HELD])
        await soon(lambda: listener.gate.waiting == 1)
        answer = await client.begin_with(pairs).answer()
        listener.gate.opened.set()
        assert (await beside.answer()).status == 200, "kube-apiserver asks for all over this one"
        assert not client.farewells
    assert answer.status == code
    assert (answer.document["kind"], answer.document["code"]) == ("Status", code)
    assert answer.header("content-type") == "application/json"
    assert listener.refused(code) == 1
    told = [one for one in logs if one["event"] == "no request"]
    assert [(one["code"], one["peer"], one["log_level"]) for one in told] == [
        (code, "127.0.0.1", "warning")
    ]
    assert "secret" not in answer.body.decode() + repr(logs), "what was sent may be a credential"


@pytest.mark.parametrize("pairs", WELL_FORMED.values(), ids=WELL_FORMED)
async def test_a_head_that_looks_odd_is_taken(listener, pairs):
    async with listener.opened() as client:
        assert (await client.begin_with(pairs).answer()).status == 200
        assert not listener.refused()


def head(stream=1, pairs=GOOD, flags=("END_HEADERS", "END_STREAM")):
    return frames.HeadersFrame(stream, Encoder().encode(pairs), flags=flags)


HALF = ("END_HEADERS",)
BROKEN = {
    "bad-hpack": [frames.HeadersFrame(1, b"\xff" * 20, flags=["END_HEADERS", "END_STREAM"])],
    "too-large": [frames.DataFrame(1, b"x" * 20_000)],
    "even-stream": [head(2)],
    "data-of-no-stream": [frames.DataFrame(1, b"secret")],
    "stream-gone-back": [head(5), head(3)],
    "head-cut-in-two": [head(1, flags=()), PING],
    "continuation-of-nothing": [frames.ContinuationFrame(1, b"")],
    "more-than-promised": [
        head(1, [*GOOD, ("content-length", "3")], HALF), frames.DataFrame(1, b"secret"),
    ],
    "less-than-promised": [
        head(1, [*GOOD, ("content-length", "9")], HALF),
        frames.DataFrame(1, b"secret", flags=["END_STREAM"]),
    ],
    # Nobody in front of us passes these on: Go judges a length, and knows no status of a request.
    "length-is-no-number": [head(1, [*GOOD, ("content-length", "secret")])],
    "two-lengths": [head(1, [*GOOD, ("content-length", "0"), ("content-length", "1")])],
    "an-interim-answer": [head(1, [*GOOD, (":status", "100")])],
    "window-too-wide": [frames.WindowUpdateFrame(0, 2**31 - 1)] * 2,
    "push": [frames.PushPromiseFrame(1, 2, Encoder().encode(GOOD), flags=["END_HEADERS"])],
    "settings-of-a-stream": [b"\0\0\0\4\0\0\0\0\1"],
    "window-setting": [frames.SettingsFrame(0, {4: 2**31})],
    "no-end-of-a-head": [
        head(1, flags=()), *[frames.ContinuationFrame(1, b"\0\1a\1b" * 1_000) for _ in range(500)],
    ],
    "head-over-all-bounds": [
        head(1, [*GOOD, ("a", "b" * 4_000)], ()),
        # The table is asked for the same header, a byte each time.
        *[frames.ContinuationFrame(1, b"\xbe" * 200, flags=["END_HEADERS"])],
    ],
}  # fmt: skip


@pytest.mark.parametrize("sent", BROKEN.values(), ids=BROKEN)
async def test_what_is_no_http2_ends_its_connection_and_no_other(listener, logs, sent):
    async with listener.opened() as other, listener.opened() as client:
        held = other.begin("GET", WORDS, HELD)
        client.send_raw(*sent)
        await client.over()
        assert [code != ErrorCodes.NO_ERROR for _, code in client.farewells] == [True]
        assert listener.refused() == 1
        listener.gate.opened.set()
        assert (await held.answer()).status == 200
    assert [one["code"] for one in logs if one["event"] == "no request"] == [400]
    assert "secret" not in repr(logs)


@pytest.mark.parametrize(
    "sent", [b"GET / HTTP/1.1\r\nsecret: 1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nXX"]
)
async def test_who_does_not_greet_as_agreed_is_closed(listener, logs, sent):
    async with listener.opened(greets=False) as client:
        client.send_raw(sent)
        await client.over()
    assert listener.refused() == 1
    assert "secret" not in repr(logs)


async def test_many_that_make_no_sense_are_one_line(listener, logs):
    for _ in range(5):
        async with listener.opened() as client:
            client.send_raw(*BROKEN["bad-hpack"])
            await client.over()
    assert listener.refused() == 5
    assert len([one for one in logs if one["event"] == "no request"]) == 1


FLOODS = {
    "pings": lambda count: [PING] * count,
    "settings": lambda count: [frames.SettingsFrame(0, {1: 4096})] * count,
    "priorities": lambda count: [frames.PriorityFrame(1, 0, 10)] * count,
    "empty-data": lambda count: [
        head(1, [*GOOD[1:], (":method", "POST"), *HELD], HALF), *[frames.DataFrame(1, b"")] * count,
    ],
}  # fmt: skip


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_a_flood_is_sent_away(listener, flood):
    async with listener.opened() as client:
        client.send_raw(*flood(900))
        await client.pinged()
        assert not client.closed, "so much is borne"
    async with listener.opened() as client:
        client.send_raw(*flood(2_000))
        await client.over()
        assert [code for _, code in client.farewells] == [ErrorCodes.ENHANCE_YOUR_CALM]
        assert listener.refused() == 1
        await soon(lambda: not listener.gate.waiting)


def resets(count):
    for number in range(1, 2 * count, 2):
        yield head(number, [*GOOD, *HELD])
        yield frames.RstStreamFrame(number, ErrorCodes.CANCEL)


async def test_requests_that_are_given_up_are_borne_and_forgotten(listener):
    """A tenant's, through kube-apiserver, must not end what others ask over the same connection."""
    async with listener.opened() as client:
        client.send_raw(*resets(1_200))
        await client.pinged()
        assert not client.farewells
        [connection] = listener.connections
        await soon(lambda: not connection._streams and not listener.gate.waiting)


async def test_more_at_once_than_can_be_cancelled_is_sent_away(listener, monkeypatch):
    monkeypatch.setattr(framing, "PENDING", 100)
    async with listener.opened() as client:
        client.send_raw(*resets(300))
        await client.over()
        assert [code for _, code in client.farewells] == [ErrorCodes.ENHANCE_YOUR_CALM]
        assert listener.refused() == 1
        await soon(lambda: not listener.gate.waiting)


KINDS = st.sampled_from(
    [
        lambda number, data: head(number, [*GOOD[:3], (":path", "/" + data.hex())]),
        lambda number, data: head(number, [*GOOD, ("a", data)]),
        lambda number, _: head(number, GOOD, HALF),
        lambda number, _: head(number, [*GOOD[:3], (":path", f"{WORDS}?watch=1")]),
        lambda number, data: head(number, [*GOOD, ("content-length", str(len(data)))], HALF),
        lambda number, _: head(
            number, [(":method", "POST"), SCHEME, HOST, (":path", "/admission/echo"), JSON], HALF
        ),
        lambda number, data: frames.HeadersFrame(number, data, flags=["END_HEADERS"]),
        frames.DataFrame,
        lambda number, data: frames.DataFrame(number, data, flags=["END_STREAM"]),
        lambda number, _: frames.DataFrame(number, review(), flags=["END_STREAM"]),
        lambda number, _: frames.DataFrame(number, b"x", flags=["PADDED"], pad_length=10),
        lambda number, data: frames.RstStreamFrame(number, len(data)),
        lambda number, data: frames.WindowUpdateFrame(number, len(data) + 1),
        lambda number, _: frames.WindowUpdateFrame(number, 2**31 - 1),
        lambda _, data: frames.SettingsFrame(0, {len(data): len(data) * 1000}),
        lambda _, data: frames.SettingsFrame(0, {4: len(data)}),
        lambda number, data: frames.PriorityFrame(number, len(data), 3),
        lambda _, data: frames.GoAwayFrame(0, 0, len(data)),
        frames.ContinuationFrame,
        lambda _, data: frames.AltSvcFrame(0, data, b"secret"),
        lambda number, data: frames.ExtensionFrame(0xBE, number, 0, data),
        lambda _, __: PING,
    ]
)


def wire(kind, number, data):
    """A frame as bytes, for a stream that frames of its kind may not be for as well."""
    whole = kind(number or 1, data).serialize()
    return whole if number or not any(whole[5:9]) else whole[:5] + b"\0\0\0\0" + whole[9:]


SENT = st.tuples(KINDS, st.integers(0, 12), st.binary(max_size=40))


@sampling.examples(60)
@given(sent=st.lists(SENT, max_size=30), junk=st.binary(max_size=60), seed=st.integers(0, 2**32))
def test_whatever_is_sent_nothing_breaks_and_nothing_stays(serving, sent, junk, seed):
    data = b"".join(wire(*one) for one in sent) + junk
    cuts = random.Random(seed)

    async def story():
        caught = []
        asyncio.get_running_loop().set_exception_handler(lambda _, found: caught.append(found))
        async with listening(serving) as listener:
            async with listener.opened() as client:
                client.deaf, rest = True, data
                while rest and not client.closed:
                    at = cuts.randint(1, 200)
                    client.send_raw(rest[:at])
                    rest = rest[at:]
                    await asyncio.sleep(0)
                await asyncio.sleep(0.01)
            await soon(lambda: not listener.connections)
            assert not listener.total("apiserver_longrunning_requests")
            assert not [code for code in range(500, 600) if listener.counted(code)]
            async with listener.opened() as client:
                assert (await client.request("GET", WORDS)).status == 200
        assert not caught

    with (
        structlog.testing.capture_logs() as logs,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(story())
    assert not [one for one in logs if one["log_level"] in ("error", "critical")]
