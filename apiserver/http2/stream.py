"""One request over HTTP/2 and its answer.

To aiohttp a stream is what its connection is in HTTP/1.1: protocol and transport of a request, and where its
answer is written. What it cuts or waits for is the stream alone.

Relied on, of aiohttp: a `web.Request` asks its protocol for `transport`, `peername`, `sockname` and
`ssl_context`; a `StreamReader` asks for `connected` and `_reading_paused`, and pauses and resumes; the writer
is an `AbstractStreamWriter`.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

import structlog
from aiohttp import http_exceptions, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import DeflateBuffer, RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from h2.errors import ErrorCodes
from multidict import CIMultiDict

from apiserver import middleware
from apiserver.http2 import heads
from apiserver.http2.carrier import Carrier
from apiserver.refusals import answer
from apiserver.wire.status import StatusError

STALLED: Final = 60.0
"""Seconds that an answer may wait for its client to take more of it."""
_AHEAD: Final = 16 * 1024
"""Bytes of a body that may wait for the handler, twice, before its client is told to wait."""
_OF_CONNECTION: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "upgrade"})
_CLOSE: Final = "close"

log = structlog.get_logger(__name__)


class Stream(AbstractStreamWriter):
    """A request from its head on, until it is answered or cut."""

    ssl_context = None
    length: int | None = None

    def __init__(self, connection: Carrier, number: int) -> None:
        self.number = number
        self.has_begun = False
        """Some of the answer was sent."""
        self.connected = True
        self.output_size = 0
        self.peername, self.sockname = connection.peername, connection.sockname
        self._connection = connection
        self._task: asyncio.Task[None] | None = None
        self._head: list[tuple[str, str]] = []
        self._is_answered = False
        self._is_asked = False
        """All of the request is there."""
        self._room: asyncio.Future[None] | None = None
        self._body: StreamReader | None = None
        self._sink: StreamReader | DeflateBuffer | None = None
        self._unread = 0
        """Bytes that came and were not yet given back to the client's window."""
        self._reading_paused = False

    # What the connection tells it.

    def begin(self, pairs: heads.Pairs, *, ends: bool) -> None:
        """Answer a request; with `ends` it has no body."""
        self._is_asked = ends
        try:
            message = heads.read(pairs)
        except StatusError as error:
            middleware.forget(error)
            work = self._refuse(error)
        else:
            work = self._serve(message, EMPTY_PAYLOAD if ends else self._receive(message))
        self._task = asyncio.get_running_loop().create_task(work)
        # What is cancelled before it begins never comes to a `finally`.
        self._task.add_done_callback(self._close)

    def feed(self, data: bytes, size: int) -> None:
        """Take some of the body: `size` bytes of the client's window."""
        self._unread += size
        if self._sink is not None and data:
            try:
                self._sink.feed_data(data, len(data))
            except http_exceptions.ContentEncodingError as error:
                self._spoil(error)
        if self._sink is None or not self._reading_paused:
            self._give_back()

    def feed_end(self) -> None:
        """Note that all of the body has come."""
        self._is_asked = True
        if self._sink is None:
            return
        try:
            self._sink.feed_eof()
        except http_exceptions.ContentEncodingError as error:
            self._spoil(error)

    def widen(self) -> None:
        """Go on sending: there may be room again."""
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def lose(self) -> None:
        """End it: the client is gone, or wants no answer any more."""
        self.connected = False
        if self._task is not None:
            self._task.cancel()

    async def ended(self) -> None:
        """Wait until nothing of it goes on."""
        if self._task is not None:
            await asyncio.wait([self._task])

    # The body, as aiohttp's reader wants its protocol.

    def _receive(self, message: RawRequestMessage) -> StreamReader:
        if message.headers.get("Expect", "").lower() == heads.CONTINUE:
            self._connection.send_head(self.number, [(":status", "100")])
        loop = asyncio.get_running_loop()
        # It asks of a protocol what a stream has (see the module).
        reader: Any = StreamReader(self, _AHEAD, loop=loop)  # type: ignore[arg-type]
        self._body = reader
        packed = message.compression
        self._sink = DeflateBuffer(reader, packed) if packed else reader
        return self._body

    def _spoil(self, error: BaseException) -> None:
        self._sink = None
        if self._body is not None:
            self._body.set_exception(web.RequestPayloadError(str(error)))
        middleware.forget(error)

    def pause_reading(self) -> None:
        """Have the client wait before it sends more."""
        self._reading_paused = True

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: ARG002, FBT001, FBT002 -- aiohttp's
        """Have it go on."""
        self._reading_paused = False
        self._give_back()

    def _give_back(self) -> None:
        unread, self._unread = self._unread, 0
        if unread:
            self._connection.give_back(self.number, unread)

    # The connection, as aiohttp's request wants it.

    @property
    def transport(self) -> Any:
        """Return what the request is cut by; None when it is gone."""
        return self if self.connected else None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the connection knows: who the peer is by its certificate."""
        return self._connection.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Say whether nothing can be sent any more."""
        return not self.connected

    def abort(self) -> None:
        """Cut the stream, and no other one."""
        if self.connected:
            self.connected = False
            self._connection.reset(self.number, ErrorCodes.INTERNAL_ERROR)

    # The answer, as aiohttp's writer.

    def enable_chunking(self) -> None:
        """Nothing: frames tell where an answer ends."""

    def enable_compression(self, encoding: str = "deflate", strategy: int | None = None) -> None:
        """Refuse: answers are compressed before. Raises NotImplementedError."""
        raise NotImplementedError(f"{encoding} {strategy}")

    async def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> None:
        """Keep the head of the answer until it is known whether a body follows."""
        head = [(":status", status_line.split(" ", 2)[1])]
        for name, value in headers.items():
            low = name.lower()
            if low not in _OF_CONNECTION:
                head.append((low, value))
            elif low == "connection" and value == _CLOSE:
                self._connection.take_leave()
        self._head = head

    def send_headers(self) -> None:
        """Send the head now."""
        self._send_head(ends=False)

    def _send_head(self, *, ends: bool) -> None:
        if self._head and self.connected:
            self._connection.send_head(self.number, self._head, ends=ends)
            self.has_begun = True
            self._is_answered = self._is_answered or ends
        self._head = []

    async def write(self, chunk: bytes | bytearray | memoryview) -> None:
        """Send some of the body. Raises ConnectionResetError when nobody takes it any more."""
        self._send_head(ends=False)
        await self._send(memoryview(chunk), ends=False)

    async def write_eof(self, chunk: bytes = b"") -> None:
        """Send the rest of the body. Raises ConnectionResetError as `write` does."""
        if self._is_answered:
            return
        if not chunk and self._head:
            self._send_head(ends=True)
            return
        self._send_head(ends=False)
        await self._send(memoryview(chunk), ends=True)
        self._is_answered = True

    async def drain(self) -> None:
        """Wait until the connection takes more."""
        await self._connection.writable()

    async def _send(self, data: memoryview, *, ends: bool) -> None:
        while True:
            if self._connection.is_full:
                await self._taken(self._connection.writable())
            if not self.connected:
                raise ConnectionResetError("the stream is closed")
            some = data[: self._connection.room(self.number)]
            data = data[len(some) :]
            if some or (ends and not data):
                self._connection.send_data(self.number, bytes(some), ends=ends and not data)
                self.output_size += len(some)
            if not data:
                return
            if not self._connection.room(self.number):
                await self._wait_for_room()

    async def _wait_for_room(self) -> None:
        self._room = asyncio.get_running_loop().create_future()
        try:
            await self._taken(self._room)
        finally:
            self._room = None

    async def _taken(self, waits: Awaitable[None]) -> None:
        """Wait for the client to take something, not for ever."""
        try:
            async with asyncio.timeout(STALLED):
                await waits
        except TimeoutError:
            self.abort()
            raise ConnectionResetError("the client takes nothing") from None

    # Its life.

    async def _refuse(self, error: StatusError) -> None:
        self._connection.note(error)
        body, headers = answer(error)
        try:
            await self.write_headers(f"HTTP/2.0 {error.code}", CIMultiDict(headers))
            await self.write_eof(body)
        except ConnectionError:
            log.debug("refusal not sent: connection lost")

    async def _serve(self, message: RawRequestMessage, body: StreamReader) -> None:
        server, task = self._connection.server, asyncio.current_task()
        # The stream stands for protocol and writer, and the task may be none to aiohttp's types.
        request: Any = server.request_factory(message, body, self, self, task)  # type: ignore[arg-type]
        try:
            response = await self._answered(request)
            await response.prepare(request)
            await response.write_eof()
        except ConnectionError:
            log.debug("answer not sent: connection lost")
        except asyncio.CancelledError as error:
            middleware.forget(error)
            raise
        except Exception as error:
            log.exception("request failed")
            middleware.forget(error)
        finally:
            request._task = None  # noqa: SLF001 -- as aiohttp does: the two are a circle

    async def _answered(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._connection.server.request_handler(request)
        except ConnectionError:
            raise
        except Exception as error:
            if self.has_begun:
                raise
            log.exception("request failed")
            middleware.forget(error)
            return middleware.error_response(middleware.unexpected())

    def _close(self, _task: asyncio.Task[None]) -> None:
        """End what is left: of an answer that cannot be finished, of a body that nobody reads."""
        if self.connected:
            if not self._is_answered:
                self._connection.reset(self.number, ErrorCodes.INTERNAL_ERROR)
            elif not self._is_asked:  # RFC 9113, 8.1: answered in full, the rest need not come
                self._connection.reset(self.number, ErrorCodes.NO_ERROR)
        self.connected = False
        self._sink = self._body = None
        self._give_back()
        self._task = None
        self._connection.over(self.number)
