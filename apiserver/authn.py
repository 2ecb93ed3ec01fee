"""Front-proxy headers behind a verified client certificate, else certificate, token, anonymous.

A credential that was presented and is not good ends in 401; it never falls through to anonymous.
Identity headers without the proxy's certificate are not read at all.
"""

import asyncio
import hashlib
import hmac
import secrets
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import structlog
from cryptography import x509
from multidict import CIMultiDictProxy

from apiserver import audit, tls
from apiserver.authz import Reviewer
from apiserver.identity import NOBODY, User
from apiserver.request_metrics import RequestMetrics
from apiserver.trust import Proxy, Trust
from apiserver.verdicts import Verdicts
from apiserver.wire.status import Forbidden, Unauthorized
from gpu.objects.kinds import TOKEN_REVIEWS

_BEARER: Final = "bearer "
_MOST_PEERS: Final = 1024

log = structlog.get_logger(__name__)


class _Peer(NamedTuple):
    """What a certificate is good for, under one Trust, until it ends."""

    is_proxy: bool
    user: User | None
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How long a token's review may take, and how its failures are retried, in seconds."""

    review: float = 10.0
    first_pause: float = 0.5
    growth: float = 1.5
    attempts: int = 5


class Authenticator:
    """Who is asking."""

    def __init__(
        self,
        trust: Callable[[], Trust],
        reviewer: Reviewer,
        now: Callable[[], datetime],
        *,
        audiences: tuple[str, ...] = (),
        deadlines: Deadlines | None = None,
        metrics: RequestMetrics | None = None,
    ) -> None:
        self._metrics = metrics
        self._trust = trust
        self._reviewer = reviewer
        self._now = now
        self._audiences = audiences
        self._deadlines = deadlines or Deadlines()
        self._secret = secrets.token_bytes(32)
        self._tokens: Verdicts[bytes, User | None] = Verdicts(seconds=10.0)
        self._peers: dict[bytes, _Peer] = {}
        self._peers_trust = trust()

    async def identify(
        self, headers: CIMultiDictProxy[str], connection: ssl.SSLObject | None
    ) -> User:
        """Return the caller. Raises Unauthorized for a bad credential, Forbidden to impersonators."""
        user = await self._user(headers, connection)
        # All names at once: they are gone through with each request.
        if "\nimpersonate-" in "\n".join(("", *headers)).lower():
            # kube-apiserver impersonates and then proxies; here it would be ignored, so it is refused.
            raise Forbidden("impersonation is not supported here: ask kube-apiserver")
        return user.authenticated()

    async def _user(self, headers: CIMultiDictProxy[str], connection: ssl.SSLObject | None) -> User:
        presented = tls.peer_certificates(connection)
        peer = self._peer(presented) if presented else None
        trust = self._trust()
        if peer is not None and peer.is_proxy and trust.proxy is not None:
            user = proxied_user(trust.proxy, headers)
            if user is not None:
                return user
        if peer is not None and peer.user is not None:
            if self._metrics is not None:
                left = (peer.until - self._now()).total_seconds()
                self._metrics.client_certificates.observe(left)
            return peer.user
        token = headers.get("Authorization", "")
        if token[: len(_BEARER)].lower() == _BEARER:
            return await self._token_user(token[len(_BEARER) :].strip())
        if token or presented:
            raise Unauthorized("Unauthorized")
        return NOBODY

    def _peer(self, presented: tuple[bytes, ...]) -> _Peer:
        trust = self._trust()
        if trust is not self._peers_trust or len(self._peers) > _MOST_PEERS:
            self._peers.clear()
            self._peers_trust = trust
        digest = hashlib.sha256(b"".join(presented)).digest()
        known = self._peers.get(digest)
        if known is None or known.until < self._now():
            known = self._peers[digest] = judge(trust, presented, self._now())
        return known

    async def _token_user(self, token: str) -> User:
        mark = hmac.digest(self._secret, token.encode(), "sha256")
        try:
            user = await self._tokens.get(mark, lambda: self._review(token))
        except Exception as error:
            log.warning("token not reviewed", error=type(error).__name__)
            raise Unauthorized("Unauthorized") from error
        if user is None:
            raise Unauthorized("Unauthorized")
        return user

    async def _review(self, token: str) -> User | None:
        spec: dict[str, Any] = {"token": token}
        if self._audiences:
            spec["audiences"] = list(self._audiences)
        body = {
            "apiVersion": TOKEN_REVIEWS.api_version,
            "kind": TOKEN_REVIEWS.kind,
            "spec": spec,
        }
        pause = self._deadlines.first_pause
        async with asyncio.timeout(self._deadlines.review):
            for attempt in range(1, self._deadlines.attempts + 1):
                try:
                    answer = await self._asked(body)
                    return token_user(answer["status"], self._audiences)
                except Exception:
                    if attempt == self._deadlines.attempts:
                        raise
                await asyncio.sleep(pause)
                pause *= self._deadlines.growth
        return None

    async def _asked(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        loop = asyncio.get_running_loop()
        begun, code = loop.time(), "<error>"
        try:
            answer = await self._reviewer.create(TOKEN_REVIEWS, body, audit_id=audit.CURRENT.get())
            code = "201"
            return answer
        finally:
            if self._metrics is not None:
                self._metrics.token_reviews.labels(code).inc()
                self._metrics.token_review_seconds.labels(code).observe(loop.time() - begun)


def judge(trust: Trust, presented: tuple[bytes, ...], now: datetime) -> _Peer:
    """Say what the peer's certificates are good for under a Trust."""
    nothing = _Peer(is_proxy=False, user=None, until=now)
    try:
        leaf, *between = [x509.load_der_x509_certificate(one) for one in presented]
        name = tls.common_name(leaf.subject)
    except ValueError:
        return nothing
    proxy = trust.proxy
    is_proxy = (
        proxy is not None
        and (not proxy.allowed_names or name in proxy.allowed_names)
        and proxy.pool.verify(leaf, between, now)
    )
    user = None
    if trust.clients is not None and name and trust.clients.verify(leaf, between, now):
        user = User(name, groups=tls.organizations(leaf.subject))
    return _Peer(is_proxy=is_proxy, user=user, until=leaf.not_valid_after_utc)


def proxied_user(proxy: Proxy, headers: CIMultiDictProxy[str]) -> User | None:
    """Read the user the proxy speaks for; None when it names nobody.

    Groups are every line of every group header, never split; extra keys are in lower case and
    percent-decoded.
    """
    named = [headers.get(header, "") for header in proxy.user_headers]
    name = next((one for one in named if one), "")
    if not name:
        return None
    groups = [
        value for header in proxy.group_headers for value in headers.getall(header, []) if value
    ]
    uids = [headers.get(header, "") for header in proxy.uid_headers]
    return User(
        name=name,
        uid=next((one for one in uids if one), ""),
        groups=tuple(groups),
        extra=_extra(proxy, headers),
    )


def _extra(proxy: Proxy, headers: CIMultiDictProxy[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: dict[str, list[str]] = {}
    prefixes = tuple(prefix.lower() for prefix in proxy.extra_prefixes)
    for header, value in headers.items():
        name = header.lower()
        if not name.startswith(prefixes):
            continue
        for prefix in prefixes:
            if name.startswith(prefix):
                found.setdefault(unquote(name[len(prefix) :]), []).append(value)
    return tuple((key, tuple(values)) for key, values in sorted(found.items()))


def token_user(found: Mapping[str, Any], audiences: tuple[str, ...]) -> User | None:
    """Read a TokenReview's status; None when the token is not good, or not for us."""
    if found.get("authenticated") is not True:
        return None
    if audiences and not set(audiences) & set(found.get("audiences") or ()):
        return None
    user = found.get("user") or {}
    extra = user.get("extra") or {}
    return User(
        name=user.get("username", ""),
        uid=user.get("uid", ""),
        groups=tuple(user.get("groups") or ()),
        extra=tuple((key, tuple(values)) for key, values in sorted(extra.items())),
    )
