"""One connection over HTTP/2: many requests at once, none of which may end the others.

kube-apiserver sends what it asks of an aggregated server for all its users over one such connection (of a few
more when it has hundreds of watches). Over HTTP/1.1 it keeps 25 idle connections and opens one, TLS and all, for
each request that finds none (docs/decisions/0042-http2-is-served.md).

Frames, their order, HPACK and windows are `h2`'s (RFC 9113). Relied on, of it: a connection that said or was told
GOAWAY sends nothing more, so our farewell is a frame of our own.
"""

import asyncio
import contextlib
from typing import Any, Final, cast

import structlog
from aiohttp import web
from h2 import events, exceptions
from h2.errors import ErrorCodes
from hyperframe.frame import GoAwayFrame

from apiserver.http2 import framing
from apiserver.http2.patience import Patience, is_empty_handed
from apiserver.http2.stream import Stream
from apiserver.refusals import Refusals
from apiserver.wire.status import BadRequest, StatusError

PARTING: Final = 1.0
"""Seconds after the farewell, or the last answer, in which what was on its way must have come."""
_LAST: Final = 2**31 - 1
_FRAME: Final = 16 * 1024

log = structlog.get_logger(__name__)


class Connection(asyncio.Protocol):
    """The protocol of one connection, from its greeting over TLS on."""

    _task_handler = None
    """What aiohttp's server waits for where it lets a connection go; streams end with theirs."""

    def __init__(self, server: web.Server, refusals: Refusals, idle: float) -> None:
        self.server = server
        self.peername: Any = None
        self.sockname: Any = None
        self._refusals = refusals
        self._idle = idle
        self._h2 = framing.frames()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._streams: dict[int, Stream] = {}
        self._flushing = False
        self._written = 0
        """Bytes of answers that were not yet given to the transport."""
        self._unfinished = 0
        """Bytes that came since the last whole frame."""
        self._writable: asyncio.Future[None] | None = None
        """Set while the peer does not take what was written."""
        self._has_left = False
        self._parted = asyncio.Event()
        self._parting: asyncio.TimerHandle | None = None
        self._rested = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._patience = Patience(self._loop.time())

    # What the transport tells it.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet."""
        self._transport = cast(asyncio.Transport, transport)
        self.peername = transport.get_extra_info("peername")
        self.sockname = transport.get_extra_info("sockname")
        self.server.connection_made(cast(Any, self), self._transport)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(framing.WINDOW - framing.STREAM_WINDOW)
        self._flush()
        self._timer = self._loop.call_later(self._idle, self._look)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End all that goes on."""
        self._transport = None
        for timer in (self._timer, self._parting):
            if timer is not None:
                timer.cancel()
        self._timer = self._parting = None
        self._parted.set()
        self.resume_writing()
        for stream in tuple(self._streams.values()):
            stream.lose()
        # It keeps methods of its own, a circle that would wait for the garbage collector with all it has.
        vars(self._h2).clear()
        self.server.connection_lost(cast(Any, self), exc)

    def pause_writing(self) -> None:
        """Take no more from a peer that takes nothing: each of its frames may want an answer."""
        self._writable = self._loop.create_future()
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on."""
        waiting, self._writable = self._writable, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Take frames, until the connection is given up."""
        if self._parted.is_set():
            return
        try:
            found = self._h2.receive_data(data)
        except exceptions.ProtocolError as error:
            self._break_off(error)
            return
        self._unfinished = 0 if found else self._unfinished + len(data)
        if self._unfinished > framing.UNFINISHED:
            self._send_away()
            return
        for event in found:
            if self._is_flood(event):
                self._send_away()
                return
            self._deal_with(event)
        self._flush()

    def _deal_with(self, event: events.Event) -> None:
        match event:
            case events.RequestReceived():
                stream = self._streams[event.stream_id] = Stream(self, event.stream_id)
                # Names and values are bytes, since no encoding is set.
                stream.begin(cast(Any, event.headers), ends=event.stream_ended is not None)
            case events.WindowUpdated(stream_id=0) | events.RemoteSettingsChanged():
                for stream in tuple(self._streams.values()):
                    stream.widen()
            case events.DataReceived(stream_id=number, flow_controlled_length=size):
                if number in self._streams:
                    self._streams[number].feed(event.data, size)
                else:
                    self.give_back(number, size)
            case events.ConnectionTerminated():
                self._hang_up()  # `h2` sends nothing after it
            case _:
                self._tell(event)

    def _tell(self, event: events.Event) -> None:
        stream = self._streams.get(getattr(event, "stream_id", None) or 0)
        if stream is None:
            return
        match event:
            case events.WindowUpdated():
                stream.widen()
            case events.StreamEnded():
                stream.feed_end()
            case events.StreamReset():
                stream.lose()
            case _:
                pass

    def _break_off(self, error: Exception) -> None:
        """End a connection whose frames make no sense; the farewell is `h2`'s."""
        error.__traceback__ = None
        kind = type(error).__name__.removesuffix("Error")
        self.note(BadRequest(f"not valid HTTP/2: {kind}"))
        self._hang_up()

    def _is_flood(self, event: events.Event) -> bool:
        if isinstance(event, events.RequestReceived):
            return len(self._streams) >= framing.PENDING
        return is_empty_handed(event) and not self._patience.bears(self._loop.time())

    def _send_away(self) -> None:
        self.note(BadRequest("not valid HTTP/2: too much at once"))
        with contextlib.suppress(exceptions.ProtocolError):
            self._h2.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
        self._hang_up()

    def _hang_up(self) -> None:
        self._parted.set()
        self._flush()
        if self._transport is not None:
            self._transport.close()
        for stream in tuple(self._streams.values()):
            stream.lose()

    # What streams ask of it.

    def send_head(self, number: int, head: list[tuple[str, str]], *, ends: bool = False) -> None:
        """Send the head of an answer; with `ends` it has no body."""
        if self._transport is None:
            return
        with contextlib.suppress(exceptions.ProtocolError):  # reset, and its event is still to come
            self._h2.send_headers(number, head, end_stream=ends)
        self.flush_soon()

    def send_data(self, number: int, data: bytes, *, ends: bool) -> None:
        """Send some of an answer, no more than there is room for."""
        if self._transport is None:
            return
        with contextlib.suppress(exceptions.ProtocolError):
            self._h2.send_data(number, data, end_stream=ends)
        self._written += len(data)
        # Much of it: so that it is known whether the peer takes it. The only one: nothing else joins it.
        if self._written > framing.AHEAD or (ends and len(self._streams) == 1):
            self._flush()
        else:
            self.flush_soon()

    def room(self, number: int) -> int:
        """Return how many bytes of an answer can be sent now."""
        if self._transport is None:
            return _FRAME
        try:
            return min(self._h2.local_flow_control_window(number), self._h2.max_outbound_frame_size)
        except exceptions.ProtocolError:
            return _FRAME  # the stream is gone, and whoever sends is told so

    def give_back(self, number: int, size: int) -> None:
        """Let the client send as many more bytes."""
        if self._transport is None:
            return
        with contextlib.suppress(exceptions.ProtocolError):
            self._h2.acknowledge_received_data(size, number)
        self.flush_soon()

    def reset(self, number: int, code: ErrorCodes) -> None:
        """Cut a stream."""
        if self._transport is None:
            return
        with contextlib.suppress(exceptions.ProtocolError):
            self._h2.reset_stream(number, code)
        self.flush_soon()

    @property
    def is_full(self) -> bool:
        """Say whether the peer does not take what was written."""
        return self._writable is not None

    async def writable(self) -> None:
        """Wait until the peer takes what was written."""
        while self._writable is not None:
            await asyncio.shield(self._writable)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the transport knows."""
        if self._transport is None:
            return default
        return self._transport.get_extra_info(name, default)

    def note(self, error: StatusError) -> None:
        """Count and tell what is no request."""
        self._refusals.note(error, str(self.peername[0]) if self.peername else "")

    def over(self, number: int) -> None:
        """Forget a stream that has ended."""
        self._streams.pop(number, None)
        if self._streams:
            return
        self._rested = self._loop.time()
        self._part_soon()

    def flush_soon(self) -> None:
        """Send what is written, all of this turn of the loop at once."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._transport is None:
            return
        self._written = 0
        data = self._h2.data_to_send()
        if data:
            self._transport.write(data)

    # Its end.

    def take_leave(self) -> None:
        """Say that no more should come here: what goes on and what is on its way is answered still."""
        if self._has_left or self._transport is None:
            return
        self._has_left = True
        self._flush()
        farewell = GoAwayFrame(0, last_stream_id=_LAST, error_code=ErrorCodes.NO_ERROR)
        self._transport.write(farewell.serialize())
        self._part_soon()

    def close(self) -> None:
        """Take leave, and go as soon as nothing goes on."""
        self.take_leave()

    def _part_soon(self) -> None:
        """Go after the farewell, once nothing goes on and what was on its way must have come.

        RFC 9113, 6.8: what comes on a closed connection is lost to its sender, who may not send it again.
        """
        if not self._has_left or self._streams or self._transport is None:
            return
        if self._parting is not None:
            self._parting.cancel()
        self._parting = self._loop.call_later(PARTING, self._part)

    def _part(self) -> None:
        if not self._streams:
            self._hang_up()

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 -- aiohttp's signature
        """Wait for what goes on, so many seconds; then end it."""
        self.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._parted.wait()
        for stream in tuple(self._streams.values()):
            stream.lose()
        await self._all_over()
        self._hang_up()

    async def _all_over(self) -> None:
        await asyncio.gather(*(stream.ended() for stream in tuple(self._streams.values())))

    def _look(self) -> None:
        """Go when nothing was asked for long."""
        left = self._idle - (self._loop.time() - self._rested)
        if self._streams or left > 0:
            self._timer = self._loop.call_later(left if left > 0 else self._idle, self._look)
        else:
            self.close()
