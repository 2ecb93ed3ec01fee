"""One HTTP session to one API server: deadlines, credentials, error tree, observations.

Knows HTTP and metav1.Status, not verbs of the API. Every request ends: with an answer, with an
ApiError, or by the caller's cancellation.
"""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Final

import aiohttp
import yarl
from multidict import CIMultiDict

from gpu.cluster import credentials, errors

USER_AGENT: Final = "cozystack-gpu"
DEADLINE: Final = 10.0
"""Seconds a request may take when the caller does not say."""
CONNECTIONS: Final = 64
Headers = tuple[tuple[str, str], ...]
"""Header lines; a name may come more than once (Impersonate-Group does)."""

_UNAUTHORIZED: Final = 401
_FIRST_FAULT: Final = 400
_SAFE_TO_REPEAT: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Observation:
    """One finished request, for metrics: `code` is 0 without an answer, `seconds` to its end."""

    verb: str
    resource: str
    code: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it goes out; `path` is escaped already and carries its query."""

    verb: str
    """The verb as RBAC names it; for metrics."""
    method: str
    path: str
    resource: str = ""
    body: bytes | None = None
    headers: Headers = ()
    deadline: float = DEADLINE
    """Seconds until the whole answer is there; for a stream, until its head is."""
    idle: float | None = None
    """A stream: seconds of silence after which it counts as cut."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer of any status."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Cut(Exception):  # noqa: N818 -- never leaves this module
    """A connection broken under a write; not one of aiohttp's own, which it would try again."""


_BROKEN: Final = (aiohttp.ClientError, _Cut, TimeoutError, OSError, RuntimeError)
"""What a request under way breaks with. RuntimeError is aiohttp's for a line that went between two
reads without a word (`StreamReader._wait`), and for a session that was closed."""


async def _once(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Keep aiohttp from silently repeating a PUT or DELETE whose line was cut.

    The first one may have been executed; its repetition then is answered 409 or 404, which would
    read as somebody else's write.
    """
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        if request.method in _SAFE_TO_REPEAT:
            raise
        raise _Cut(str(error)) from error


class Session:
    """An aiohttp session, opened on first use; close it with `close()`."""

    def __init__(
        self,
        access: credentials.Access,
        *,
        connections: int = CONNECTIONS,
        observe: Callable[[Observation], None] | None = None,
        user_agent: str = USER_AGENT,
    ) -> None:
        self.access = access
        self._connections = connections
        self._observe = observe
        self._user_agent = user_agent
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._streams: set[aiohttp.ClientResponse] = set()

    async def close(self) -> None:
        """Close every connection, for good; requests under way and later fail as Unreachable."""
        self._closed = True
        for response in self._streams:
            # aiohttp forgets who waits in a stream when its session is closed, timer and all.
            response.content.set_exception(aiohttp.ClientConnectionError("the client was closed"))
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def ask(self, request: Request) -> Answer:
        """Send, and read the whole answer, whatever its status. Raises Unreachable.

        A 401 reads the credentials again; where they changed, the request is sent once more.
        """
        login = await self._login(request)
        answer = await self._send(request, login)
        if answer.status == _UNAUTHORIZED and await self.access.renew(login):
            answer = await self._send(request, self.access.login)
        return answer

    async def expect(self, request: Request) -> Answer:
        """Send, and return the answer of a request that succeeded; raises ApiError otherwise."""
        answer = await self.ask(request)
        if answer.status >= _FIRST_FAULT:
            raise errors.from_answer(
                answer.status, answer.body[: errors.BODY_CAP], answer.headers.get("Retry-After")
            )
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a stream and give its chunks; ApiError instead when it is refused or breaks."""
        login = await self._login(request)
        response = await self._open(request, login)
        try:
            if response.status == _UNAUTHORIZED and await self.access.renew(login):
                response.close()
                response = await self._open(request, self.access.login)
            if response.status >= _FIRST_FAULT:
                body = await response.content.read(errors.BODY_CAP)
                raise errors.from_answer(response.status, body, response.headers.get("Retry-After"))
            self._streams.add(response)
            yield _chunks(response)
        except _BROKEN as error:
            raise _unreachable(error, sent=True) from error
        finally:
            self._streams.discard(response)
            response.close()  # the rest of a stream is never read, so the connection is not reused

    async def _login(self, request: Request) -> credentials.Login:
        if self._closed:
            raise errors.Unreachable("the client is closed", sent=False)
        try:
            async with asyncio.timeout(request.deadline):
                await self.access.headers()
        except TimeoutError as error:
            raise errors.Unreachable(
                "the credentials cannot be read in time", sent=False
            ) from error
        return self.access.login

    async def _send(self, request: Request, login: credentials.Login) -> Answer:
        trail = SimpleNamespace(connected=False)
        started, status = time.monotonic(), 0
        try:
            async with self._request(
                request, login, trail, aiohttp.ClientTimeout(total=request.deadline)
            ) as response:
                body = await response.read()
                status = response.status
                return Answer(status, response.headers, body)
        except _BROKEN as error:
            raise _unreachable(error, sent=trail.connected) from error
        finally:
            self._observed(request, status, started)

    async def _open(self, request: Request, login: credentials.Login) -> aiohttp.ClientResponse:
        trail = SimpleNamespace(connected=False)
        started, status = time.monotonic(), 0
        timeout = aiohttp.ClientTimeout(total=None, sock_read=request.idle)
        try:
            async with asyncio.timeout(request.deadline):
                response = await self._request(request, login, trail, timeout)
            status = response.status
        except _BROKEN as error:
            raise _unreachable(error, sent=trail.connected) from error
        finally:
            self._observed(request, status, started)
        return response

    def _request(
        self,
        request: Request,
        login: credentials.Login,
        trail: SimpleNamespace,
        timeout: aiohttp.ClientTimeout,
    ) -> "aiohttp.client._RequestContextManager":
        if self._session is None:
            self._session = self._start()
        return self._session.request(
            request.method,
            yarl.URL(f"{login.server}{request.path}", encoded=True),
            data=request.body,
            headers=CIMultiDict([*login.headers.items(), *request.headers]),
            ssl=login.tls if login.tls is not None else True,
            server_hostname=login.server_hostname,
            proxy=login.proxy,
            timeout=timeout,
            allow_redirects=False,  # a redirect would carry the token elsewhere
            trace_request_ctx=trail,
        )

    def _start(self) -> aiohttp.ClientSession:
        trace = aiohttp.TraceConfig()
        trace.on_connection_create_end.append(_connected)
        trace.on_connection_reuseconn.append(_connected)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=self._connections, keepalive_timeout=30.0, socket_factory=_socket
            ),
            headers={
                "User-Agent": self._user_agent,
                "Accept": "application/json",
                # Compressing costs both sides more than a cluster's network saves.
                "Accept-Encoding": "identity",
            },
            skip_auto_headers=("Content-Type",),
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=[trace],
            middlewares=(_once,),
        )

    def _observed(self, request: Request, status: int, started: float) -> None:
        if self._observe is not None:
            seconds = time.monotonic() - started
            self._observe(Observation(request.verb, request.resource, status, seconds))


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async for chunk in response.content.iter_any():
        yield chunk


async def _connected(
    _session: aiohttp.ClientSession, context: SimpleNamespace, _params: object
) -> None:
    # From here on the server may have got the request, whatever happens to the connection.
    context.trace_request_ctx.connected = True


def _socket(info: aiohttp.AddrInfoType) -> socket.socket:
    """Make a socket that notices a dead peer in 30 s, although a watch may say nothing for long."""
    made = socket.socket(info[0], info[1], info[2])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 15),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 30_000),  # milliseconds
    ):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


def _unreachable(error: Exception, *, sent: bool) -> errors.Unreachable:
    words = str(error) or "no answer in time"
    return errors.Unreachable(f"{type(error).__name__.lstrip('_')}: {words}", sent=sent)
