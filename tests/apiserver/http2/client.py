"""A client over HTTP/2 that does as it is told: nothing is repaired, hidden or refused before it is sent.

Frames and windows are `h2`'s, which judges what the server sends. GOAWAY is kept from it: a connection that
was told to go still has streams.
"""

import asyncio
import contextlib
import json
import ssl
from dataclasses import dataclass, field

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.settings import SettingCodes, Settings
from hyperframe.frame import Frame, GoAwayFrame

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SECONDS = 10.0
"""What is waited for comes long before, on a busy machine too."""
WIDE = 2**20
_HEAD = 9
_GOAWAY = 7


class StreamCutError(Exception):
    """The server reset the stream."""


@dataclass
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name):
        return dict(self.headers).get(name)

    @property
    def document(self):
        return json.loads(self.body)


@dataclass
class Stream:
    """One request, and what has come of its answer."""

    client: "Client"
    number: int
    interim: list[int] = field(default_factory=list)
    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)
    """Data frames."""
    ended: bool = False
    cut: int | None = None
    """The code of the server's RST_STREAM."""
    _lines: int = 0

    def send(self, data=b"", *, ends=False):
        """Send some of the body, as much as the windows allow or an error of `h2`."""
        self.client.h2.send_data(self.number, data, end_stream=ends)
        self.client.flush()

    async def send_all(self, data, *, ends=True):
        """Send the body in frames as wide as the windows are."""
        rest = memoryview(data)
        while rest and self.cut is None and not self.client.closed:
            if not self.room:
                await self.client.until(lambda: self.room or self.cut is not None)
                continue
            some, rest = rest[: self.room], rest[self.room :]
            self.send(bytes(some), ends=ends and not rest)

    @property
    def room(self):
        """How much of the body may be sent now."""
        h2 = self.client.h2
        if self.cut is not None:
            return 0
        return min(h2.local_flow_control_window(self.number), h2.max_outbound_frame_size)

    def reset(self, code=ErrorCodes.CANCEL):
        self.client.h2.reset_stream(self.number, code)
        self.client.flush()

    def widen(self, size):
        """Let the server send as much more on it."""
        self.client.h2.increment_flow_control_window(size, self.number)
        self.client.flush()

    async def begun(self):
        await self._until(lambda: self.status)
        return self.status

    async def answer(self):
        """Read to the end of the stream. Raises StreamCutError."""
        await self._until(lambda: self.ended)
        return Answer(self.status, self.headers, b"".join(self.pieces))

    async def line(self):
        """Read the next line of a stream as JSON; None at its end."""

        def whole():
            return b"".join(self.pieces).split(b"\n")[:-1]

        await self._until(lambda: self.ended or len(whole()) > self._lines)
        if len(whole()) <= self._lines:
            return None
        self._lines += 1
        return json.loads(whole()[self._lines - 1])

    async def is_cut(self):
        """Wait for the server's RST_STREAM; its code."""
        await self.client.until(lambda: self.cut is not None)
        return self.cut

    async def _until(self, true):
        await self.client.until(lambda: true() or self.cut is not None or self.client.closed)
        if not true():
            raise StreamCutError(f"stream {self.number}: {self.cut}")


class Client(asyncio.Protocol):
    """A connection."""

    def __init__(self, window, *, acknowledges, greets):
        self.streams: dict[int, Stream] = {}
        self.frames: list[tuple[str, int, int]] = []
        """Kind, stream and length of every frame that came."""
        self.farewells: list[tuple[int, int]] = []
        """Of each GOAWAY: the last stream, the code."""
        self.closed = False
        self.pongs = 0
        self.settings: dict[int, int] = {}
        self.transport: asyncio.Transport = None
        self.greets = greets
        self.corked = False
        """What is sent waits, to go out at once."""
        self.deaf = False
        """What comes is for streams that `h2` knows nothing of."""
        self._acknowledges = acknowledges
        self._bytes = bytearray()
        self._waiting: list[asyncio.Future[None]] = []
        self.h2 = H2Connection(
            H2Configuration(
                header_encoding="utf-8",
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        initial = {SettingCodes.ENABLE_PUSH: 0, SettingCodes.INITIAL_WINDOW_SIZE: window}
        self.h2.local_settings = Settings(client=True, initial_values=initial)

    # What comes.

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self._bytes += data
        while len(self._bytes) >= _HEAD:
            frame, length = Frame.parse_frame_header(memoryview(bytes(self._bytes[:_HEAD])))
            if len(self._bytes) < _HEAD + length:
                break
            whole = bytes(self._bytes[: _HEAD + length])
            del self._bytes[: _HEAD + length]
            self.frames.append((type(frame).__name__, frame.stream_id, length))
            if isinstance(frame, GoAwayFrame):
                frame.parse_body(memoryview(whole[_HEAD:]))
                self.farewells.append((frame.last_stream_id, frame.error_code))
            elif not self.deaf:
                self._take(self.h2.receive_data(whole))
        self.flush()
        self._wake()

    def _take(self, found):
        for event in found:
            stream = self.streams.get(getattr(event, "stream_id", None))
            match event:
                case events.InformationalResponseReceived(headers=headers):
                    stream.interim.append(int(dict(headers)[":status"]))
                case events.ResponseReceived(headers=[(_, status), *headers]):
                    stream.status, stream.headers = int(status), headers
                case events.DataReceived(data=data, flow_controlled_length=size):
                    stream.pieces.append(data)
                    if self._acknowledges:
                        self.h2.acknowledge_received_data(size, stream.number)
                case events.StreamEnded():
                    stream.ended = True
                case events.StreamReset(error_code=code):
                    stream.cut = int(code)
                case events.PingAckReceived():
                    self.pongs += 1
                case events.RemoteSettingsChanged(changed_settings=changed):
                    self.settings |= {one.setting: one.new_value for one in changed.values()}

    def connection_lost(self, exc):  # noqa: ARG002 -- the protocol's shape
        self.closed = True
        self._wake()

    def _wake(self):
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    async def until(self, true):
        """Wait until something that came made it true."""
        async with asyncio.timeout(SECONDS):
            while not true():
                waits = asyncio.get_running_loop().create_future()
                self._waiting.append(waits)
                await waits

    # What is sent.

    def flush(self):
        if not self.greets or self.corked or self.transport.is_closing():
            return
        data = self.h2.data_to_send()
        if data:
            self.transport.write(data)

    def send_raw(self, *frames):
        """Send bytes and frames that `h2` knows nothing of."""
        self.transport.write(
            b"".join(one if isinstance(one, bytes) else one.serialize() for one in frames)
        )

    def begin(self, method, path, headers=(), *, ends=True):
        """Send the head of a request."""
        pseudo = [(":method", method), (":scheme", "https"), (":authority", "x"), (":path", path)]
        return self.begin_with([*pseudo, *headers], ends=ends)

    def begin_with(self, pairs, *, ends=True):
        """Send these headers as the head of a request, whatever they are."""
        number = self.h2.get_next_available_stream_id()
        stream = self.streams[number] = Stream(self, number)
        self.h2.send_headers(number, pairs, end_stream=ends)
        self.flush()
        return stream

    async def request(self, method, path, headers=(), body=b""):
        """Send a request and read its answer."""
        stream = self.begin(method, path, headers, ends=not body)
        if body:
            await stream.send_all(body)
        return await stream.answer()

    async def pinged(self):
        """Wait until the server has dealt with all that was sent before."""
        before = self.pongs
        self.h2.ping(b"12345678")
        self.flush()
        await self.until(lambda: self.pongs > before or self.closed)

    async def over(self):
        """Wait for the server to close the connection."""
        await self.until(lambda: self.closed)

    def abort(self):
        self.transport.abort()


def secure(authority, *, offers=("h2",), certificate=None):
    """Return a client's TLS context."""
    context = ssl.create_default_context(cadata=authority)
    if offers:
        context.set_alpn_protocols(list(offers))
    if certificate:
        context.load_cert_chain(*certificate)
    return context


@contextlib.asynccontextmanager
async def opened(port, context, *, window=WIDE, acknowledges=True, greets=True):
    """Open a connection, with a window of so many bytes for each answer, given back when it acknowledges."""
    loop = asyncio.get_running_loop()
    transport, client = await loop.create_connection(
        lambda: Client(window, acknowledges=acknowledges, greets=greets), "127.0.0.1", port,
        ssl=context, server_hostname="localhost",
    )  # fmt: skip
    agreed = transport.get_extra_info("ssl_object").selected_alpn_protocol()
    assert agreed == "h2"
    if greets:
        client.h2.initiate_connection()
        client.h2.increment_flow_control_window(2**31 - 2**16 - 1)
        client.flush()
        await client.until(lambda: client.settings)
    try:
        yield client
    finally:
        transport.abort()
        with contextlib.suppress(TimeoutError):
            await client.over()
