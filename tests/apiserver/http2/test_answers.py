"""Whatever is asked is answered over HTTP/2 as over HTTP/1.1, whoever asks, many at a time."""

import asyncio
import gzip
import json

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from apiserver import authn, tls, trust
from tests import sampling
from tests.apiserver import certificates, fakes
from tests.apiserver.http2 import client as http2
from tests.apiserver.http2.listener import ROOT, SERVING_CA, listening

WORDS = f"{ROOT}/namespaces/tenant-a/words"
JSON = ("content-type", "application/json")


def review(text="x"):
    request = {"uid": "u-1", "text": text}
    document = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(document).encode()


ASKED = [
    ("GET", f"{ROOT}/words", [], b""),
    ("GET", f"{WORDS}/a", [], b""),
    ("GET", f"{WORDS}/nothing", [], b""),
    ("GET", f"{WORDS}?limit=1&labelSelector=length%3D1", [], b""),
    ("GET", f"{WORDS}?fieldSelector=junk%20%3D", [], b""),
    ("GET", f"{WORDS}?watch=1&timeoutSeconds=1", [], b""),
    ("GET", f"{WORDS}?resourceVersion=x", [], b""),
    ("GET", WORDS, [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")], b""),
    ("GET", WORDS, [("accept", "application/yaml")], b""),
    ("HEAD", WORDS, [], b""),
    ("HEAD", "/version", [], b""),
    ("GET", "/version", [("cookie", "a=1"), ("cookie", "b=2")], b""),
    ("GET", "/", [], b""),
    ("GET", "/apis", [("accept-encoding", "gzip")], b""),
    ("GET", "/openapi/v2", [("accept-encoding", "gzip")], b""),
    ("GET", "/openapi/v3", [("if-none-match", '"x"')], b""),
    ("GET", "/readyz?verbose", [], b""),
    ("GET", "//apis//x", [], b""),
    ("GET", "/%zz/%2f?%zz&a=%ff+b#c", [], b""),
    ("GET", f"/{'a' * 60_000}", [], b""),
    ("GET", f"/{'a' * 70_000}", [], b""),
    ("GET", "/livez", [("x-long", "a" * 17_000)], b""),
    ("GET", "/livez", [("x-many", "a")] * 2_000, b""),
    ("GET", "/livez", [("x-many", "a")] * 2_100, b""),
    ("GET", "/livez", [("expect", "something")], b""),
    ("OPTIONS", "/livez", [], b""),
    ("OPTIONS", "*", [], b""),
    ("PATCH", f"{WORDS}/a", [], b"{}"),
    ("DELETE", f"{WORDS}/a", [], b""),
    ("POST", WORDS, [JSON], b"{}"),
    ("POST", "/admission/echo", [JSON], review()),
    ("POST", "/admission/echo", [JSON], review("x" * 300_000)),
    ("POST", "/admission/echo", [JSON], review("x" * 3_200_000)),
    ("POST", "/admission/echo", [("content-type", "text/plain")], review()),
    ("POST", "/admission/echo", [JSON], b"{"),
    ("POST", "/admission/nobody", [JSON], review()),
    ("POST", "/admission/echo", [JSON, ("content-encoding", "gzip")], gzip.compress(review())),
    ("POST", "/admission/echo", [JSON, ("content-encoding", "gzip")], review()),
    ("POST", "/admission/echo", [JSON, ("content-encoding", "br")], review()),
    ("PUT", "/nowhere", [("content-encoding", "gzip")], review()),
    ("POST", "/admission/echo", [JSON, ("expect", "100-continue")], review()),
]
_OF_HTTP1 = {"connection", "transfer-encoding", "keep-alive"}
_FIXED = ("audit-id", "the-same")


def compared(status, headers, body):
    """What must be the same over both; the date is there or not."""
    told = sorted((name.lower(), value) for name, value in headers)
    kept = [(name, value) for name, value in told if name not in _OF_HTTP1]
    return status, [(name, "" if name == "date" else value) for name, value in kept], body


async def over_http1(port, asked):
    method, path, headers, body = asked
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=http2.secure(SERVING_CA.pem, offers=()), server_hostname="localhost",
        limit=2**24,
    )  # fmt: skip
    length = [("content-length", str(len(body)))] if body else []
    lines = [("host", "x"), ("connection", "close"), *length, *headers, _FIXED]
    head = "".join(f"{name}: {value}\r\n" for name, value in lines)
    writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
    data = await reader.read()
    writer.close()
    return _read(data.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n"))


def _read(data):
    head, _, rest = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = [tuple(line.split(": ", 1)) for line in lines]
    if ("Transfer-Encoding", "chunked") in headers:
        rest = b"".join(rest.split(b"\r\n")[1::2])
    return compared(int(first.split(" ")[1]), headers, rest)


async def over_http2(client, asked):
    method, path, headers, body = asked
    length = [("content-length", str(len(body)))] if body else []
    answer = await client.request(method, path, [*length, *headers, _FIXED], body)
    assert "server" not in dict(answer.headers)
    return compared(answer.status, answer.headers, answer.body)


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(one, id=f"{number}-{one[0]}-{one[1].removeprefix(ROOT)[:32]}")
        for number, one in enumerate(ASKED)
    ],
)
async def test_every_route_answers_the_same_over_both(listener, asked):
    expected = await over_http1(listener.port, asked)
    async with listener.opened() as client:
        assert await over_http2(client, asked) == expected
        assert not client.farewells


QUICK = [
    one
    for one in ASKED
    # The client cannot bear a 100 for what it gave up.
    if "watch=1" not in one[1]
    and len(one[3]) < 400_000
    and ("expect", "100-continue") not in one[2]
]


@sampling.examples(15)
@given(
    chosen=st.lists(
        st.tuples(st.integers(0, len(QUICK) - 1), st.booleans()), min_size=2, max_size=8
    ),
    order=st.lists(st.integers(0, 7), max_size=60),
    pieces=st.integers(1, 12),
    corked=st.integers(1, 5),
)
def test_any_interleaving_of_requests_is_answered_as_each_alone(
    serving, chosen, order, pieces, corked
):
    """Some of them are given up on the way."""

    async def story():
        async with listening(serving) as listener, listener.opened() as client:
            alone = [await over_http1(listener.port, QUICK[at]) for at, _ in chosen]
            sending = [
                _steps(client, QUICK[at], pieces, gives_up=gives_up) for at, gives_up in chosen
            ]
            streams = await _interleaved(client, sending, order, corked)
            for (_, gives_up), stream, expected in zip(chosen, streams, alone, strict=True):
                if not gives_up:
                    answer = await stream.answer()
                    assert compared(answer.status, answer.headers, answer.body) == expected
            assert not client.farewells

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story())


async def _steps(client, asked, pieces, *, gives_up):
    """Send a request piece by piece; yield the stream after each."""
    method, path, headers, body = asked
    size = min(len(body) // pieces + 1, 16_384)
    length = [("content-length", str(len(body)))] if body else []
    stream = client.begin(method, path, [*length, *headers, _FIXED], ends=not body)
    yield stream
    for at in range(0, len(body), size):
        piece, ends = body[at : at + size], at + size >= len(body)
        await client.until(lambda piece=piece: stream.room >= len(piece) or stream.cut is not None)
        if stream.cut is not None:
            break
        stream.send(piece, ends=ends)
        yield stream
    if gives_up and stream.cut is None and not stream.ended:
        stream.reset()
    yield stream


async def _interleaved(client, sending, order, corked):
    streams = [await anext(one) for one in sending]
    for count, at in enumerate(order):
        await anext(sending[at % len(sending)], None)
        if count % corked == 0:
            await asyncio.sleep(0)
    for one in sending:
        async for _ in one:
            pass
    return streams


class Trusting:
    """Knows who a caller is by the certificate of the connection."""

    def __init__(self):
        self.proxy, self.clients = (
            certificates.authority(name) for name in ("front-proxy-ca", "client-ca")
        )
        self.trust = trust.parse(
            {
                "requestheader-client-ca-file": self.proxy.pem,
                "requestheader-allowed-names": '["front-proxy-client"]',
                "requestheader-username-headers": '["X-Remote-User"]',
                "requestheader-group-headers": '["X-Remote-Group"]',
                "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
                "client-ca-file": self.clients.pem,
            }
        )
        reviewer = fakes.FakeReviewer(lambda _: {"authenticated": False})
        self.authenticator = authn.Authenticator(
            lambda: self.trust, reviewer, lambda: certificates.NOW
        )


@pytest.mark.parametrize("who", ["proxy", "clients"])
async def test_who_asks_is_told_by_the_certificate_of_the_connection(tmp_path, logs, who):
    trusting = await asyncio.to_thread(Trusting)
    name = {"proxy": "front-proxy-client", "clients": "carol"}[who]
    leaf = certificates.issue(name, getattr(trusting, who))
    pair = await asyncio.to_thread(leaf.save, tmp_path, "client")
    server = certificates.issue(
        "server", SERVING_CA, purposes=(certificates.SERVER,), hosts=("localhost",)
    )
    files = await asyncio.to_thread(server.save, tmp_path, "serving")
    serving = await asyncio.to_thread(tls.Serving, *files)
    serving.trust(trusting.trust.authorities)
    headers = [("x-remote-user", "alice"), ("audit-id", "the-id"), ("user-agent", "me")]
    async with (
        listening(serving, authenticator=trusting.authenticator) as listener,
        listener.opened(certificate=pair) as client,
    ):
        answers = await asyncio.gather(*(client.request("GET", WORDS, headers) for _ in range(3)))
    assert {one.header("audit-id") for one in answers} == {"the-id"}
    told = [one for one in logs if one["event"] == "request"]
    expected = {
        "user": {"proxy": "alice", "clients": "carol"}[who],
        "peer": "127.0.0.1", "code": 200, "agent": "me", "audit_id": "the-id", "verb": "list",
    }  # fmt: skip
    assert [{key: one[key] for key in expected} for one in told] == [expected] * 3
