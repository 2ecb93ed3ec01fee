"""A real listener: who gets through the handshake, whom it takes them for, and reloads."""

import asyncio
import contextlib
import ssl

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from apiserver import app, tls, trust
from apiserver.authn import Authenticator
from apiserver.trust import Keeper, TrustError
from tests.apiserver import certificates, fakes
from tests.apiserver.certificates import NOW, SERVER, issue

SERVING_CA = certificates.authority("serving-ca")
PROXY_CA = certificates.authority("front-proxy-ca")
MIDDLE = certificates.authority("between", PROXY_CA)
CLIENT_CA = certificates.authority("client-ca")

DATA = {
    "requestheader-client-ca-file": PROXY_CA.pem,
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    "client-ca-file": CLIENT_CA.pem,
}


def serving(folder, name="one") -> tuple:
    leaf = issue("server", SERVING_CA, purposes=(SERVER,), hosts=("localhost",))
    return leaf.save(folder, name)


class Whoami:
    """An application that says whom it takes a caller for."""

    def __init__(self, folder):
        self.serving = tls.Serving(*serving(folder))
        self.keeper = Keeper(self, changed=lambda found: self.serving.trust(found.authorities))
        self.data = dict(DATA)
        reviewer = fakes.FakeReviewer(lambda _: {"authenticated": False})
        self.authenticator = Authenticator(lambda: self.keeper.trust, reviewer, lambda: NOW)

    async def get(self, kind, name, namespace=None):
        assert (kind.kind, namespace, name) == ("ConfigMap", trust.NAMESPACE, trust.NAME)
        return {"data": dict(self.data)}

    async def say(self, request):
        connection = request.transport.get_extra_info("ssl_object")
        try:
            user = await self.authenticator.identify(request.headers, connection)
        except Exception as error:  # noqa: BLE001 -- its name is the answer
            return web.json_response([type(error).__name__, []])
        return web.json_response([user.name, list(user.groups)])


@pytest.fixture
async def whoami(tmp_path):
    made = await asyncio.to_thread(Whoami, tmp_path)
    await made.keeper.refresh()
    site = web.Application()
    site.router.add_get("/", made.say)
    server = TestServer(site, scheme="https", host="localhost")
    await server.start_server(ssl=made.serving.context)
    made.url = server.make_url("/")
    yield made
    await server.close()


async def ask(whoami, leaf=None, *between, folder=None, version=None, headers=None):
    context = ssl.create_default_context(cadata=SERVING_CA.pem)
    if version:
        context.maximum_version = version
    if leaf:
        context.load_cert_chain(*leaf.save(folder, "client", *between))
    sent = headers or {"X-Remote-User": "alice", "X-Remote-Group": "a"}
    async with (
        aiohttp.ClientSession() as session,
        session.get(whoami.url, ssl=context, headers=sent) as answer,
    ):
        return (await answer.json())[0]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_each_caller_is_taken_for_who_its_certificate_is(whoami, tmp_path, version):
    proxy, named = issue("front-proxy-client", PROXY_CA), issue("front-proxy-client", MIDDLE)
    how = {"folder": tmp_path, "version": version}
    assert await ask(whoami, **how) == "system:anonymous"
    assert await ask(whoami, proxy, **how) == "alice"
    assert await ask(whoami, named, MIDDLE, **how) == "alice"
    assert await ask(whoami, issue("carol", CLIENT_CA), **how) == "carol"
    assert await ask(whoami, issue("other", PROXY_CA), **how) == "Unauthorized"


async def test_a_stranger_is_refused_in_the_handshake(whoami, tmp_path):
    stranger = issue("front-proxy-client", certificates.authority("front-proxy-ca"))
    with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
        await ask(whoami, stranger, folder=tmp_path)


@pytest.mark.parametrize(
    ("offers", "http2", "agreed"),
    [
        pytest.param(["h2", "http/1.1"], True, "h2", id="both"),
        pytest.param(["http/1.1", "h2"], True, "h2", id="both-the-other-way-round"),
        pytest.param(["http/1.1"], True, "http/1.1", id="the-older"),
        pytest.param(["spdy/3"], True, None, id="neither"),
        pytest.param([], True, None, id="nothing"),
        pytest.param(["h2", "http/1.1"], False, "http/1.1", id="switched-off"),
        pytest.param(["h2"], False, None, id="switched-off-and-nothing-else"),
    ],
)
def test_the_newest_protocol_that_both_know_is_agreed_on(tmp_path, offers, http2, agreed):
    server, client = (
        tls.Serving(*serving(tmp_path), http2=http2).context,
        ssl.create_default_context(cadata=SERVING_CA.pem),
    )
    if offers:
        client.set_alpn_protocols(offers)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(back, there, server_hostname="localhost")
    theirs = server.wrap_bio(there, back, server_side=True)
    for _ in range(3):
        for side in (ours, theirs):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    assert (ours.selected_alpn_protocol(), theirs.selected_alpn_protocol()) == (agreed, agreed)


async def test_a_new_authority_is_trusted_and_the_old_one_no_more_without_a_restart(
    whoami, tmp_path
):
    new_ca = certificates.authority("front-proxy-ca")
    old, new = issue("front-proxy-client", PROXY_CA), issue("front-proxy-client", new_ca)
    whoami.data["requestheader-client-ca-file"] = new_ca.pem
    await whoami.keeper.refresh()
    assert await ask(whoami, new, folder=tmp_path) == "alice"
    assert await ask(whoami, old, folder=tmp_path) == "Unauthorized"


async def test_a_new_serving_certificate_is_used_and_a_broken_one_is_not(whoami, tmp_path):
    async def serial():
        _, writer = await asyncio.open_connection(
            "localhost",
            whoami.url.port,
            ssl=ssl.create_default_context(cadata=SERVING_CA.pem),
        )
        found = writer.get_extra_info("peercert")["serialNumber"]
        writer.close()
        await writer.wait_closed()
        return found

    first = await serial()
    await asyncio.to_thread(serving, tmp_path)
    assert await asyncio.to_thread(whoami.serving.reload)
    second = await serial()
    assert second != first
    await asyncio.to_thread((tmp_path / "one.key").write_text, "broken")
    assert not await asyncio.to_thread(whoami.serving.reload)
    assert await serial() == second


async def test_proxied_answers_come_through_the_whole_application(tmp_path):
    made = await asyncio.to_thread(Whoami, tmp_path)
    await made.keeper.refresh()
    face = fakes.a_face(fakes.words_world(tenant_a={"a": "x"}))
    site = face.build(authenticator=made.authenticator)
    server = TestServer(site, scheme="https", host="localhost")
    await server.start_server(ssl=made.serving.context, **_runner())
    made.url = server.make_url("/apis/catalog.gpu.cozystack.io/v1alpha1")
    context = ssl.create_default_context(cadata=SERVING_CA.pem)
    leaf = issue("front-proxy-client", PROXY_CA)
    context.load_cert_chain(*await asyncio.to_thread(leaf.save, tmp_path, "client"))
    groups = [("X-Remote-Group", f"group-{number}") for number in range(300)]
    async with (
        aiohttp.ClientSession() as session,
        session.get(made.url, ssl=context, headers=[("X-Remote-User", "u"), *groups]) as answer,
    ):
        assert (answer.status, (await answer.json())["kind"]) == (200, "APIResourceList")
    await server.close()


def _runner() -> dict:
    fixed = {"handler_cancellation", "access_log"}  # what TestServer sets itself
    return {key: value for key, value in app.RUNNER.items() if key not in fixed}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param({"requestheader-client-ca-file": "junk"}, "PEM", id="no-certificate"),
        pytest.param({"requestheader-allowed-names": "{}"}, "list of strings", id="names"),
        pytest.param({"requestheader-allowed-names": "["}, "Expecting", id="names-no-json"),
        pytest.param({"requestheader-username-headers": ""}, "names no header", id="no-header"),
    ],
)
def test_a_config_that_cannot_be_read_is_an_error(change, why):
    with pytest.raises(TrustError, match=why):
        trust.parse({**DATA, **change})


def test_a_cluster_without_client_authorities_or_proxy_is_no_error():
    assert trust.parse({}).proxy is None
    only_proxy = {key: value for key, value in DATA.items() if key != "client-ca-file"}
    assert trust.parse(only_proxy).clients is None


class Getter:
    def __init__(self):
        self.answer = {"data": DATA}

    async def get(self, kind, name, namespace=None):  # noqa: ARG002 -- the port's shape
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(ConnectionError("away"), id="unreachable"),
        pytest.param({"data": {}}, id="keys-gone"),
        pytest.param({"data": {**DATA, "requestheader-client-ca-file": "junk"}}, id="junk"),
        pytest.param(
            {
                "data": {
                    **DATA,
                    "client-ca-file": PROXY_CA.pem,
                    "requestheader-allowed-names": "[]",
                }
            },
            id="every-client-could-be-the-proxy",
        ),
    ],
)
async def test_whatever_goes_wrong_later_the_last_good_trust_stays(later):
    getter, failures = Getter(), []
    keeper = Keeper(getter, failed=lambda: failures.append(1))
    await keeper.refresh()
    good = keeper.trust
    getter.answer = later
    await keeper.refresh()
    assert (keeper.trust is good, keeper.loaded, failures) == (True, True, [1])
