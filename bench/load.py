"""Requests over connections that stay open, as fast as they are answered; cheaper than what it measures.

A client library takes as long for a request as the server: this one knows only what a GET of JSON needs.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import urlsplit

_OK: Final = (b"HTTP/1.1 200", b"HTTP/1.1 201")
_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length:"
_CHUNKED: Final = b"transfer-encoding: chunked"


_Connection: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """Where requests go, and what each brings along."""

    url: str
    tls: ssl.SSLContext | None = None
    headers: Mapping[str, str]

    async def connect(self) -> _Connection:
        """Open one connection."""
        parts = urlsplit(self.url)
        return await asyncio.open_connection(
            parts.hostname, parts.port, ssl=self.tls, limit=64 * 1024 * 1024
        )

    async def attach(self, protocol: asyncio.Protocol) -> None:
        """Open one connection for a protocol."""
        parts = urlsplit(self.url)
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: protocol, parts.hostname, parts.port, ssl=self.tls)

    def request(self, path: str, body: bytes = b"") -> bytes:
        """Return the bytes of a GET, or of a POST of JSON where there is a body."""
        lines = [
            f"{'POST' if body else 'GET'} {path} HTTP/1.1",
            f"Host: {urlsplit(self.url).netloc}",
        ]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass(slots=True)
class Took:
    """What a run of requests came to."""

    seconds: list[float]
    """Of each request."""
    whole: float
    """Of all of them, from the first sent to the last answered."""
    size: int
    """Bytes of the last body."""

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.seconds) / self.whole


class Pool:
    """Connections that are open, so that no figure has their handshakes in it."""

    def __init__(self, aim: Aim, opened: list[_Connection]) -> None:
        self._aim = aim
        self._opened = opened

    async def reads(self, path: str, count: int, body: bytes = b"") -> Took:
        """GET a path `count` times, or POST a body there, one at a time on each connection.

        Raises RuntimeError for any answer but 200 and 201.
        """
        took, left = Took([], 0.0, 0), iter(range(count))
        loop, request = asyncio.get_running_loop(), self._aim.request(path, body)
        began = loop.time()
        async with asyncio.TaskGroup() as group:
            for reader, writer in self._opened:
                group.create_task(_drain(reader, writer, request, left, took))
        took.whole = loop.time() - began
        return took


@contextlib.asynccontextmanager
async def connected(aim: Aim, width: int) -> AsyncIterator[Pool]:
    """Open so many connections for the length of the block."""
    opened = [await aim.connect() for _ in range(width)]
    try:
        yield Pool(aim, opened)
    finally:
        for _, writer in opened:
            writer.close()


async def _drain(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    request: bytes,
    left: Iterator[int],
    took: Took,
) -> None:
    loop = asyncio.get_running_loop()
    for _ in left:
        began = loop.time()
        writer.write(request)
        took.size = len(await answer(reader))
        took.seconds.append(loop.time() - began)


async def answer(reader: asyncio.StreamReader) -> bytes:
    """Read one answer's body. Raises RuntimeError unless it is 200 or 201."""
    head = await reader.readuntil(_END)
    lines = head.lower()
    if _CHUNKED in lines:
        body = await _chunks(reader)
    else:
        at = lines.index(_LENGTH) + len(_LENGTH)
        body = await reader.readexactly(int(lines[at : lines.index(b"\r\n", at)]))
    if not head.startswith(_OK):
        raise RuntimeError(f"{head[:40]!r}: {body[:200]!r}")
    return body


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    found = []
    while True:
        size = int((await reader.readline()).split(b";")[0], 16)
        data = await reader.readexactly(size + 2)
        if not size:
            return b"".join(found)
        found.append(data[:-2])
