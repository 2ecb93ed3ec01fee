"""Host: the host's own API server, asked as ourselves on behalf of a caller; answers are streamed."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
from yarl import URL

from gpu.cluster.credentials import Access

CONNECTIONS: Final = 0
"""No bound of our own: a watch holds a connection, and the limits of the face bound all others."""
CONNECT: Final = 5.0
"""Seconds until the host counts as away."""

BROKEN: Final = (aiohttp.ClientError, TimeoutError, OSError)
"""What asking the host breaks with."""


class Host:
    """One way to the host's API server; open it with `async with`."""

    def __init__(self, url: str, authorities: Path, access: Access) -> None:
        """Take a PEM file of authorities, read again when it changes, and who we are."""
        self.url = URL(url)
        self._file = authorities
        self._access = access
        self._seen: tuple[int, int] = (0, 0)
        self._tls: ssl.SSLContext | None = None
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    @contextlib.asynccontextmanager
    async def ask(
        self, method: str, target: str, headers: Mapping[str, str], body: Any = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send to a path with its query, both as they were written; raises one of BROKEN.

        The answer's body is read by whoever asks, undecoded.
        """
        if self._session is None:
            raise OSError("the way to the host is closed")
        named = await self._access.headers()
        sent = headers.copy() if hasattr(headers, "copy") else dict(headers)
        sent.update(named)
        context = await asyncio.to_thread(self._context)
        async with self._session.request(
            method,
            URL(f"{str(self.url).rstrip('/')}{target}", encoded=True),
            headers=sent,
            data=body,
            ssl=context if context is not None else True,
            allow_redirects=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        ) as answer:
            yield answer

    def _context(self) -> ssl.SSLContext | None:
        if self.url.scheme != "https":
            return None
        stat = self._file.stat()
        seen = (stat.st_mtime_ns, stat.st_ino)
        if self._tls is None or seen != self._seen:
            self._tls = ssl.create_default_context(cafile=str(self._file))
            self._seen = seen
        return self._tls
