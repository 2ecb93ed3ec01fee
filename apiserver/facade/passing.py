"""Pass a request to the host and its answer back, byte for byte; what a failure of the host looks like.

A host that cannot be reached is told of as kube-apiserver tells of it: 503 in plain text. One that
breaks off is broken off from: a body that ends early must not look like one that ended.
"""

from typing import Final

import structlog
from aiohttp import web
from prometheus_client import Counter

from apiserver import appkeys
from apiserver.facade import headers
from apiserver.facade.host import BROKEN, Host
from apiserver.wire import status

_REFUSED: Final = 400

log = structlog.get_logger(__name__)


async def serve(request: web.Request, host: Host) -> web.StreamResponse:
    """Let the host answer. Returns 503 when nobody is there; a stream cut in the middle is cut."""
    found = await unless_away(request, host)
    if found is None:
        failures(request).labels("request").inc()
        return gone()
    return found


async def unless_away(
    request: web.Request, host: Host, *, heals: bool = False
) -> web.StreamResponse | None:
    """Let the host answer; None when nobody is there.

    With `heals` also when it refuses, for whoever has an answer of its own instead.
    """
    if not request.raw_path.startswith("/"):  # a whole URL is for proxies, which this is none of
        raise status.no_such_path()
    sent = headers.onward(request.headers.items(), request[appkeys.USER], request[appkeys.AUDIT_ID])
    body = request.content if request.can_read_body else None
    response: web.StreamResponse | None = None
    try:
        async with host.ask(request.method, request.raw_path, sent, body) as answer:
            if heals and answer.status >= _REFUSED:
                return None
            response = web.StreamResponse(
                status=answer.status,
                reason=answer.reason,
                headers=headers.back(answer.headers.items()),
            )
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
    except BROKEN as error:
        if response is None or not response.prepared:
            log.warning(
                "the host cannot be reached",
                error=f"{type(error).__name__}: {error}",
                audit_id=request[appkeys.AUDIT_ID],
            )
            return None
        failures(request).labels("stream").inc()
        log.info("an answer of the host broke off", error=type(error).__name__)
        if request.transport is not None:
            request.transport.abort()
    return response


def failures(request: web.Request) -> Counter:
    """Return the counter of what the host left without an answer: `request`, `list`, `stream`."""
    return request.app[appkeys.SERVICES].metrics.host_failures


def gone() -> web.Response:
    """Return what kube-apiserver says of a server it cannot reach."""
    text = "error trying to reach service: the host does not answer\n"
    return web.Response(status=503, text=text, content_type="text/plain")
