"""Questions asked over and over until something is ready."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path

import aiohttp

from devcluster import pki

Probe = Callable[[], Awaitable[bool]]
_PATIENCE = aiohttp.ClientTimeout(total=2)


def answers_ok(url: str, ca: Path, client: pki.Pair | None = None, *, saying: str = "") -> Probe:
    """Return a probe that is True once a GET of `url` is answered with 200, and `saying` is in it.

    `ca` is what an https server must be signed by; `client` the certificate to log in with.
    """
    context = ssl.create_default_context(cafile=str(ca))
    if client is not None:
        context.load_cert_chain(client.crt, client.key)

    async def probe() -> bool:
        # A session a question: a kept connection would outlive the server it asked.
        connector = aiohttp.TCPConnector(ssl=context, force_close=True)
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=_PATIENCE) as session,
                session.get(url) as answer,
            ):
                return answer.status == HTTPStatus.OK and saying in await answer.text()
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    return probe


async def until(probe: Probe, *, within: float, every: float = 0.02) -> bool:
    """Ask until the probe says True; False after `within` seconds."""
    try:
        async with asyncio.timeout(within):
            while not await probe():  # noqa: ASYNC110 - a server tells nobody when it is ready
                await asyncio.sleep(every)
    except TimeoutError:
        return False
    return True
