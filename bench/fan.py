"""Many watches at once, each on a connection of its own: who was told of a change, and when."""

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator, Sequence
from typing import Final, cast

from bench.load import Aim

_SYNCED: Final = b"k8s.io/initial-events-end"
_TOLD: Final = b'"type":"MODIFIED"'
_KEPT: Final = 64
"""Bytes of what came last that are kept: a mark may come in two pieces."""
_FILES: Final = 24_000
_AT_ONCE: Final = 100
"""Connections opened at a time: each costs two TLS handshakes' worth of CPU, ours and the server's."""
STREAMING: Final = (
    "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
)


class Watcher(asyncio.Protocol):
    """One watch; it remembers when it had all objects, and when it was first told of a change since."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._tail = b""
        self._loop = asyncio.get_running_loop()
        self.synced = self._loop.create_future()
        self.told = self._loop.create_future()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        # Not asked what it is: uvloop's transports are no `asyncio.Transport`s.
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Look for marks."""
        seen = self._tail + data
        self._tail = seen[-_KEPT:]
        if not self.synced.done():
            if _SYNCED in seen:
                self.synced.set_result(self._loop.time())
        elif _TOLD in seen and not self.told.done():
            self._tail = b""
            self.told.set_result(self._loop.time())

    def connection_lost(self, error: Exception | None) -> None:
        """Fail whoever waits."""
        for future in (self.synced, self.told):
            if not future.done():
                future.set_exception(ConnectionError(f"the watch ended: {error}"))
                future.exception()  # asked for, so that nobody is warned of what nobody waited for

    def again(self) -> None:
        """Look for the next change."""
        self.told = self._loop.create_future()


def allow_connections() -> None:
    """Let this process, and what it starts, have as many connections as watches are opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


@contextlib.asynccontextmanager
async def watching(aim: Aim, paths: Sequence[str]) -> AsyncIterator[list[Watcher]]:
    """Watch each path for the length of the block; all have all there was when it begins."""
    watchers: list[Watcher] = []
    try:
        for begin in range(0, len(paths), _AT_ONCE):
            some = [Watcher(aim.request(path)) for path in paths[begin : begin + _AT_ONCE]]
            watchers += some
            await asyncio.gather(*(aim.attach(one) for one in some))
            await asyncio.gather(*(one.synced for one in some))
        yield watchers
    finally:
        for one in watchers:
            if one.transport is not None:
                one.transport.abort()


async def told(watchers: Sequence[Watcher], within: float) -> list[float]:
    """Return when each was told of a change, in loop time. Raises TimeoutError."""
    async with asyncio.timeout(within):
        found: list[float] = await asyncio.gather(*(one.told for one in watchers))
    for one in watchers:
        one.again()
    return found
