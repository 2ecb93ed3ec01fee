"""A proxy between the product and kube-apiserver that counts writes and cuts the line at one.

The product keeps its own credentials: the proxy terminates TLS and passes every header on, so a
service account's token is judged by the real API server. `Cut` says at which write the line goes,
before the request was forwarded (it was never written) or after (written, but the answer is lost).
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import aiohttp
from aiohttp import web

from devcluster import chart, kubeconfig
from tests.real import site as sites
from tests.real.site import Site

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host"})


class When(StrEnum):
    """Which half of the exchange is lost."""

    BEFORE = "before"
    AFTER = "after"


@dataclass
class CuttingProxy:
    """Its address, what it has seen, and where it cuts next."""

    upstream: str
    upstream_ssl: ssl.SSLContext
    counts: Callable[[str, str], bool]
    """Which requests are counted, from method and path."""
    cut_at: int | None = None
    when: When = When.BEFORE
    on_cut: Callable[[], Awaitable[None]] | None = None
    before: Callable[[web.Request], Awaitable[None]] | None = None
    """Awaited with each request before it is forwarded: a slow line, or one that takes no more of some."""
    seen: list[tuple[str, str]] = field(default_factory=list)
    cuts: int = 0
    url: str = ""
    login: Path = Path()
    """Kubeconfig of the product's ServiceAccount that goes through here."""

    def cut(self, at: int, when: When, then: Callable[[], Awaitable[None]] | None = None) -> None:
        """Cut at the `at`-th counted write from now on (1 is the next one)."""
        self.cut_at, self.when, self.on_cut = len(self.seen) + at, when, then

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Forward one request; a watch's body is passed on as it comes."""
        if self.before is not None:
            await self.before(request)
        mine = False
        if request.method in WRITES and self.counts(request.method, request.path):
            self.seen.append((request.method, request.path))
            mine = self.cut_at is not None and len(self.seen) == self.cut_at
        if mine and self.when is When.BEFORE:
            return await self._drop(request)
        body = await request.read()
        headers = [(k, v) for k, v in request.headers.items() if k.lower() not in HOP_BY_HOP]
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(
                request.method,
                self.upstream + request.raw_path,
                headers=headers,
                data=body or None,
                ssl=self.upstream_ssl,
                timeout=aiohttp.ClientTimeout(total=None),
                skip_auto_headers={"User-Agent", "Content-Type", "Accept", "Accept-Encoding"},
            ) as answer,
        ):
            if mine:
                await answer.read()
                return await self._drop(request)
            response = web.StreamResponse(status=answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in HOP_BY_HOP:
                    response.headers.add(name, value)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    async def _drop(self, request: web.Request) -> web.StreamResponse:
        self.cuts += 1
        if self.on_cut is not None:
            await self.on_cut()
        if request.transport is not None:
            request.transport.abort()
        raise asyncio.CancelledError


@contextlib.asynccontextmanager
async def cutting_proxy(
    upstream: str,
    upstream_ssl: ssl.SSLContext,
    serving: ssl.SSLContext,
    port: int,
    counts: Callable[[str, str], bool],
) -> AsyncIterator[CuttingProxy]:
    """Serve the proxy on 127.0.0.1:port until the block ends."""
    proxy = CuttingProxy(upstream=upstream, upstream_ssl=upstream_ssl, counts=counts)
    app = web.Application(client_max_size=16 * 2**20)
    app.router.add_route("*", "/{tail:.*}", proxy.handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=serving).start()
        proxy.url = f"https://127.0.0.1:{port}"
        yield proxy
    finally:
        await runner.cleanup()


def placements(_method: str, path: str) -> bool:
    """Count the product's writes of its own kinds, but not the leader's term."""
    return "/apis/gpu.cozystack.io/" in path and "gpubinders" not in path


@contextlib.asynccontextmanager
async def between(
    site: Site, counts: Callable[[str, str], bool] = placements
) -> AsyncIterator[CuttingProxy]:
    """Stand between a site's product and its kube-apiserver; start replicas with its `login`."""
    pki = site.cp.pki
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = pki.sign_server("cutting-proxy", names=("localhost",), now=sites.now())
    serving.load_cert_chain(pair.crt, pair.key)
    upstream = ssl.create_default_context(cafile=str(pki.serving_ca.crt))
    port = site.cp.reserve_port()
    async with cutting_proxy(site.cp.server, upstream, serving, port, counts) as proxy:
        endpoint = kubeconfig.Endpoint(proxy.url, pki.ext_ca.crt)
        proxy.login = await site.cp.service_account_kubeconfig(
            chart.NAMESPACE, chart.SERVICE_ACCOUNT, via=endpoint
        )
        yield proxy
