"""Who is believed: certificates, headers, tokens, nobody."""

import asyncio

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from apiserver import audit, authn, tls
from apiserver.authn import Authenticator, Deadlines
from apiserver.identity import NOBODY, User
from apiserver.trust import Proxy, Trust
from apiserver.wire.status import Forbidden, Unauthorized
from tests.apiserver import certificates, fakes
from tests.apiserver.certificates import CLIENT, DAY, NOW, SERVER, issue

PROXY_CA = certificates.authority("front-proxy-ca")
CLIENT_CA = certificates.authority("client-ca")
BARE_CA = certificates.authority("hand-made", key_usage=False)
MIDDLE = certificates.authority("between", PROXY_CA)
STRANGER_CA = certificates.authority("front-proxy-ca")

TRUST = Trust(
    proxy=Proxy(
        pool=tls.Pool(PROXY_CA.pem + BARE_CA.pem),
        allowed_names=("front-proxy-client",),
        uid_headers=("X-Remote-Uid",),
    ),
    clients=tls.Pool(CLIENT_CA.pem),
)


class Connection:
    """A TLS connection whose peer presented these certificates."""

    def __init__(self, *presented: certificates.Issued):
        self.presented = presented
        self._sslobj = self

    def getpeercert(self, *, binary_form):
        assert binary_form
        return self.presented[0].der if self.presented else None

    def get_unverified_chain(self):
        return [_Presented(one.der) for one in self.presented]


class _Presented:
    def __init__(self, der: bytes):
        self.der = der

    def public_bytes(self, _form):
        return self.der


def headers(*pairs: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(pairs))


CLAIMS = headers(("X-Remote-User", "alice"), ("X-Remote-Group", "a"), ("X-Remote-Group", "b"))
TOKENS = {
    "good": {"authenticated": True, "user": {"username": "bot", "groups": ["bots"], "uid": "1"}},
    "bad": {"authenticated": False},
}


def an_authenticator(trust: Trust = TRUST, **how) -> Authenticator:
    reviewer = how.pop("reviewer", None) or fakes.FakeReviewer(
        lambda spec: TOKENS.get(spec["token"], TOKENS["bad"])
    )
    return Authenticator(lambda: trust, reviewer, lambda: NOW, **how)


PROXY_LEAF = issue("front-proxy-client", PROXY_CA)
ALICE = User("alice", groups=("a", "b", "system:authenticated"))


@pytest.mark.parametrize(
    "presented",
    [
        pytest.param((PROXY_LEAF,), id="named"),
        pytest.param((issue("front-proxy-client", MIDDLE), MIDDLE), id="through-an-intermediate"),
        pytest.param((issue("front-proxy-client", BARE_CA),), id="authority-without-key-usage"),
        pytest.param(
            (issue("front-proxy-client", PROXY_CA, purposes=(SERVER, CLIENT)),), id="both-purposes"
        ),
    ],
)
async def test_headers_are_believed_behind_the_proxys_certificate(presented):
    user = await an_authenticator().identify(CLAIMS, Connection(*presented))
    assert user == ALICE


@pytest.mark.parametrize(
    "presented",
    [
        pytest.param((issue("front-proxy-client", STRANGER_CA),), id="authority-of-the-same-name"),
        pytest.param((issue("other", PROXY_CA),), id="name-not-allowed"),
        pytest.param((issue("front-proxy-client", PROXY_CA, purposes=()),), id="no-purpose"),
        pytest.param(
            (issue("front-proxy-client", PROXY_CA, purposes=(SERVER,)),), id="for-servers"
        ),
        pytest.param((issue("front-proxy-client", PROXY_CA, end=NOW - DAY),), id="expired"),
        pytest.param((issue("front-proxy-client", PROXY_CA, start=NOW + DAY),), id="not-yet"),
        pytest.param((issue("front-proxy-client", MIDDLE),), id="intermediate-missing"),
        pytest.param((issue("front-proxy-client", PROXY_LEAF), PROXY_LEAF), id="signed-by-a-leaf"),
        pytest.param((issue("front-proxy-client"),), id="self-signed"),
    ],
)
async def test_a_certificate_that_is_not_the_proxys_is_refused(presented):
    with pytest.raises(Unauthorized):
        await an_authenticator().identify(CLAIMS, Connection(*presented))


async def test_headers_without_a_certificate_are_nobodys():
    assert await an_authenticator().identify(CLAIMS, None) == NOBODY
    assert await an_authenticator().identify(CLAIMS, Connection()) == NOBODY


async def test_a_users_certificate_is_that_user_whatever_the_headers_say():
    leaf = issue("carol", CLIENT_CA, organizations=("devs", "ops"))
    user = await an_authenticator().identify(CLAIMS, Connection(leaf))
    assert user == User("carol", groups=("devs", "ops", "system:authenticated"))


async def test_without_a_proxy_no_headers_are_believed():
    with pytest.raises(Unauthorized):
        await an_authenticator(Trust()).identify(CLAIMS, Connection(PROXY_LEAF))


async def test_any_name_will_do_where_none_is_listed():
    trust = Trust(proxy=Proxy(pool=tls.Pool(PROXY_CA.pem)))
    leaf = issue("whoever", PROXY_CA)
    assert await an_authenticator(trust).identify(CLAIMS, Connection(leaf)) == ALICE


async def test_trust_taken_away_is_gone_at_once():
    trusts = [TRUST]
    found = Authenticator(lambda: trusts[-1], fakes.FakeReviewer(dict), lambda: NOW)
    assert await found.identify(CLAIMS, Connection(PROXY_LEAF)) == ALICE
    trusts.append(Trust(proxy=Proxy(pool=tls.Pool(STRANGER_CA.pem))))
    with pytest.raises(Unauthorized):
        await found.identify(CLAIMS, Connection(PROXY_LEAF))


async def test_a_certificate_that_ends_is_good_for_nothing_on_a_connection_that_goes_on():
    now = [NOW]
    connection = Connection(issue("front-proxy-client", PROXY_CA, end=NOW + DAY))
    found = Authenticator(lambda: TRUST, fakes.FakeReviewer(dict), lambda: now[-1])
    assert await found.identify(CLAIMS, connection) == ALICE
    now.append(NOW + 2 * DAY)
    with pytest.raises(Unauthorized):
        await found.identify(CLAIMS, connection)


def test_every_line_of_every_header_is_read_and_none_split():
    sent = headers(
        ("x-remote-user", ""),
        ("X-REMOTE-USER", "alice"),
        ("X-Remote-Group", "a,b"),
        ("X-Remote-Group", "c"),
        ("X-Remote-Uid", "u-1"),
        ("X-Remote-Extra-Scopes%2fX", "1"),
        ("X-Remote-Extra-scopes%2fx", "2"),
        ("X-Remote-Extra-Empty", ""),
    )
    proxy = Proxy(
        pool=tls.Pool(""), user_headers=("X-Other", "X-Remote-User"), uid_headers=("X-Remote-Uid",)
    )
    first = headers(*[pair for pair in sent.items() if pair[1]])
    assert authn.proxied_user(proxy, first) == User(
        "alice",
        uid="u-1",
        groups=("a,b", "c"),
        extra=(("scopes/x", ("1", "2")),),
    )
    assert authn.proxied_user(proxy, headers(("X-Remote-Group", "a"))) is None


async def test_a_user_without_groups_is_authenticated():
    sent = headers(("X-Remote-User", "system:kube-aggregator"))
    user = await an_authenticator().identify(sent, Connection(PROXY_LEAF))
    assert user.groups == ("system:authenticated",)


async def test_a_good_token_is_its_user_and_is_asked_once():
    audit.CURRENT.set("abc")
    reviewer = fakes.FakeReviewer(lambda spec: TOKENS[spec["token"]])
    reviewer.delay = 0.01
    found = an_authenticator(reviewer=reviewer)
    sent = headers(("Authorization", "bearer good"))
    users = await asyncio.gather(*(found.identify(sent, None) for _ in range(20)))
    assert set(users) == {User("bot", uid="1", groups=("bots", "system:authenticated"))}
    assert len(reviewer.posted) == 1
    assert reviewer.audit_ids == ["abc"]


@pytest.mark.parametrize("value", ["Bearer bad", "Bearer ", "Basic abc", "Bearer"])
async def test_a_bad_credential_is_refused_and_not_anonymous(value):
    with pytest.raises(Unauthorized):
        await an_authenticator().identify(headers(("Authorization", value)), None)


async def test_a_token_for_another_audience_is_refused():
    status = {**TOKENS["good"], "audiences": ["theirs"]}
    found = an_authenticator(reviewer=fakes.FakeReviewer(lambda _: status), audiences=("ours",))
    with pytest.raises(Unauthorized):
        await found.identify(headers(("Authorization", "Bearer good")), None)


async def test_a_review_that_fails_is_tried_again_and_then_refused_and_never_kept():
    reviewer = fakes.FakeReviewer(lambda spec: TOKENS[spec["token"]])
    reviewer.error = ConnectionError("away")
    found = an_authenticator(reviewer=reviewer, deadlines=Deadlines(first_pause=0.001, attempts=3))
    sent = headers(("Authorization", "Bearer good"))
    with pytest.raises(Unauthorized):
        await found.identify(sent, None)
    assert len(reviewer.posted) == 3
    reviewer.error = None
    assert (await found.identify(sent, None)).name == "bot"


@pytest.mark.parametrize("header", ["Impersonate-User", "impersonate-extra-x"])
async def test_impersonation_is_refused_and_never_ignored(header):
    sent = headers(*CLAIMS.items(), (header, "bob"))
    with pytest.raises(Forbidden):
        await an_authenticator().identify(sent, Connection(PROXY_LEAF))
