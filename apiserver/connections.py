"""Connections: what is no HTTP request is refused as a Status, counted, seldom logged, and forgotten.

aiohttp answers it in plain text that names aiohttp, writes a stack for each, and leaves it, with its
connection and all that was sent, in a circle of objects until the garbage collector comes. Anybody can
send such bytes, without a credential.

Relied on, of aiohttp: `web.AppRunner` has its server made in `_make_server`; a `web.Server` is called
for the protocol of each connection; `web.RequestHandler.handle_error` makes the answer where there is
no request, and `log_exception` tells what it did not expect. `_messages`, where what is refused waits
for its turn, is read: who hangs up before that would leave the circle behind. Nothing is patched.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import structlog
from aiohttp import http_exceptions, web
from aiohttp.abc import AbstractStreamWriter

from apiserver import middleware, tls
from apiserver.http2 import heads
from apiserver.http2.connection import Connection as HTTP2Connection
from apiserver.refusals import Refusals, answer
from apiserver.request_metrics import RequestMetrics
from apiserver.wire import status
from apiserver.wire.status import StatusError

LINGER: Final = 0.5
"""Seconds that a connection stays after its refusal. Closed with bytes unread it is reset, and a client
that is still sending does not get to read why."""

# aiohttp's words quote what was sent, which may be a credential: they go nowhere.
_WHY: Final[tuple[tuple[type[Exception], str], ...]] = (
    (http_exceptions.InvalidHeader, "a header is not valid"),
    (http_exceptions.BadHttpMethod, "the method is not known"),
    (http_exceptions.BadStatusLine, "the request line is not valid"),
    (http_exceptions.InvalidURLError, "the target of the request is no URL"),
    (http_exceptions.ContentEncodingError, "the content encoding is not supported"),
    (http_exceptions.TransferEncodingError, "the transfer encoding is not valid"),
)
_TOO_MANY: Final = "Too many headers received"
_QUOTED: Final = 64
"""Characters of aiohttp's own words, which come before what it quotes."""

_Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

log = structlog.get_logger(__name__)


def refusal(error: BaseException) -> StatusError:
    """Say what was wrong with bytes that are no request, without a word of theirs."""
    if isinstance(error, http_exceptions.LineTooLong):
        return status.TooLong("the request line or a header is too long")
    for kind, why in _WHY:
        if isinstance(error, kind):
            return status.BadRequest(f"not a valid HTTP request: {why}")
    why = getattr(error, "message", "").partition(":")[0][:_QUOTED]
    if why == _TOO_MANY:
        return status.TooLong("too many headers")
    return status.BadRequest(f"not a valid HTTP request: {why.rstrip('.')}")


class Refused(web.Response):
    """The last answer on a connection. It bears no name and passes by the application's own hooks."""

    def __init__(self, error: StatusError) -> None:
        body, headers = answer(error)
        super().__init__(body=body, status=error.code, headers={**headers, "Connection": "close"})
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter:
        """Write all of it: aiohttp's own way puts its name among the headers, and says HTTP/1.0."""
        writer = request.writer
        await writer.write_headers(f"HTTP/1.1 {self.status} {self.reason}", self.headers)
        await writer.write_eof(self.body if isinstance(self.body, bytes) else b"")
        return writer

    async def write_eof(self, data: bytes = b"") -> None:  # noqa: ARG002 -- the body is written
        """Wait for the client to hang up, which ends this, and not for long."""
        await asyncio.sleep(LINGER)


class Connection(web.RequestHandler):
    """The protocol of one connection."""

    __slots__ = ("_is_refused", "_refusals")

    def __init__(self, manager: "Server", refusals: Refusals, **settings: Any) -> None:
        super().__init__(manager, **settings)
        self._refusals = refusals
        self._is_refused = False

    async def start(self) -> None:
        """Answer one request after another."""
        try:
            await super().start()
        except asyncio.CancelledError as error:
            # Waiting for the rest of a body, it notes its own task, and that keeps how it ended.
            middleware.forget(error)
            raise

    def data_received(self, data: bytes) -> None:
        """Take what comes, until something was refused: the parser is of no use after that."""
        if self._is_refused:
            return
        super().data_received(data)
        error = getattr(self._messages[-1][0], "exc", None) if self._messages else None
        if error is not None:
            self._is_refused = True
            # Through its frames it keeps itself, the connection, and what was sent last.
            middleware.forget(error)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,  # noqa: ARG002 -- aiohttp's signature
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002
    ) -> web.StreamResponse:
        """Answer what is no request, and what nobody expected.

        Raises ConnectionError where an answer has begun already.
        """
        if isinstance(exc, http_exceptions.HttpProcessingError):
            self._is_refused = True
            middleware.forget(exc)
            error = refusal(exc)
            self._refusals.note(error, request.remote or "")
            return Refused(error)
        if not isinstance(exc, ConnectionError):
            log.error("request failed", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun already")
        return Refused(middleware.unexpected())

    def log_exception(self, *args: Any, **named: Any) -> None:
        """Log what was not expected; a body that is not as its headers say is the client's fault."""
        exc = named.get("exc_info")
        if isinstance(exc, web.RequestPayloadError):
            middleware.forget(exc)
        else:
            super().log_exception(*args, **named)


class Door(asyncio.Protocol):
    """Stands for a connection until it is one: many a probe of a port never greets over TLS.

    A connection and its parser are a circle, which aiohttp ends when the connection is lost.
    """

    def __init__(self, behind: Callable[[str], asyncio.Protocol]) -> None:
        self._behind = behind

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the connection take over, of the protocol that both sides agreed on (ALPN)."""
        secured = transport.get_extra_info("ssl_object")
        agreed = secured.selected_alpn_protocol() if secured is not None else None
        connection = self._behind(agreed or "")
        transport.set_protocol(connection)
        connection.connection_made(transport)


class Server(web.Server):
    """Makes the protocol of each connection; the rest is as in the server it is made after."""

    def __init__(self, like: web.Server, refusals: Refusals, settings: Mapping[str, Any]) -> None:
        super().__init__(
            _expecting_nothing(like.request_handler, refusals),
            request_factory=like.request_factory,
            handler_cancellation=like.handler_cancellation,
        )
        self._refusals, self._settings = refusals, settings

    def __call__(self) -> Door:  # type: ignore[override]  # any protocol will do for a listener
        """Return the protocol of one more connection."""
        return Door(self._connection)

    def _connection(self, agreed: str) -> asyncio.Protocol:
        if agreed == tls.HTTP2:
            return HTTP2Connection(self, self._refusals, self._settings["keepalive_timeout"])
        loop = asyncio.get_running_loop()
        return Connection(self, self._refusals, loop=loop, **self._settings)


def _expecting_nothing(handler: _Handler, refusals: Refusals) -> _Handler:
    """Refuse whoever expects what nobody does (RFC 9110, 10.1.1): aiohttp does before any middleware."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPExpectationFailed as error:
            middleware.forget(error)
        refused = status.ExpectationFailed(heads.NOTHING_EXPECTED)
        refusals.note(refused, request.remote or "")
        return Refused(refused)

    return handle


class Runner(web.AppRunner):
    """An application with its listeners; `settings` are those of a connection in aiohttp."""

    def __init__(
        self,
        application: web.Application,
        metrics: RequestMetrics,
        *,
        handler_cancellation: bool,
        shutdown_timeout: float,
        **settings: Any,
    ) -> None:
        super().__init__(
            application,
            handler_cancellation=handler_cancellation,
            shutdown_timeout=shutdown_timeout,
        )
        self._refusals = Refusals(metrics)
        self._settings = settings

    def take_leave(self) -> None:
        """Tell clients over HTTP/2 that no more should come; who speaks HTTP/1.1 is told with each answer."""
        open_: list[Any] = [] if self.server is None else list(self.server.connections)
        for connection in open_:
            if isinstance(connection, HTTP2Connection):
                connection.take_leave()

    async def _make_server(self) -> Server:
        return Server(await super()._make_server(), self._refusals, self._settings)
