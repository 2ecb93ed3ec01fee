"""HTTP/1.1 by hand over TLS: sends any bytes, reads an answer, hangs up when told to."""

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

PATIENCE: Final = 20.0
"""Seconds that an answer may take."""
_SHORT: Final = 0.5
"""The same where the server may rightly wait for more of a request that is none."""
_LINE: Final = 256 * 1024
_BODYLESS: Final = frozenset({204, 304})


@dataclass(frozen=True)
class Sent:
    """What is put on the wire. `leaves` hangs up: once it is sent, or with the head of the answer."""

    data: bytes
    method: str = "GET"
    leaves: str = ""  # "", "sent", "head"
    closes: bool = False
    """Whether the connection is of no use afterwards: its framing is broken."""


@dataclass(frozen=True)
class Got:
    """What came back; no status when the server closed without a word."""

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Wire:
    """One connection at a time to one address, opened anew when it was closed."""

    def __init__(self, port: int, tls: ssl.SSLContext) -> None:
        self._port = port
        self._tls = tls
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, what: Sent) -> Got:
        """Send and read one answer. A connection that the server has closed meanwhile is tried anew."""
        for _ in range(2):
            was_open = self._open is not None
            try:
                async with asyncio.timeout(_SHORT if what.closes else PATIENCE):
                    got = await self._sent(what)
            except TimeoutError:
                await self.close()
                if not what.closes:
                    raise
                got = Got()
            except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
                await self.close()
                got = Got()
            if got.status or what.leaves or what.closes or not was_open:
                return got
        return got

    async def close(self) -> None:
        """Hang up."""
        if self._open is not None:
            _, writer = self._open
            self._open = None
            writer.transport.abort()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    async def _sent(self, what: Sent) -> Got:
        if self._open is None:
            self._open = await asyncio.open_connection(
                "127.0.0.1", self._port, ssl=self._tls, limit=_LINE
            )
        reader, writer = self._open
        writer.write(what.data)
        await writer.drain()
        if what.leaves == "sent":
            await self.close()
            return Got()
        got, ends = await _answer(reader, what)
        if ends or what.closes or what.leaves:
            await self.close()
        return got


async def _answer(reader: asyncio.StreamReader, what: Sent) -> tuple[Got, bool]:
    head = await reader.readuntil(b"\r\n\r\n")
    while head.startswith(b"HTTP/1.1 100 "):  # go on, said by each on the way: all is sent already
        head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    status = int(first.split(" ")[1])
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.lower()] = value.strip()
    ends = headers.get("connection", "").lower() == "close"
    if what.leaves == "head" or what.method == "HEAD" or status in _BODYLESS:
        return Got(status, headers), ends
    return Got(status, headers, await _body(reader, headers)), ends


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "") != "chunked":
        length = headers.get("content-length")
        return await (reader.read() if length is None else reader.readexactly(int(length)))
    parts = []
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
        if size == 0:
            return b"".join(parts)
