"""An API server on a real socket that says what a test scripted, line by line."""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

from gpu.cluster import client, credentials
from gpu.objects.kinds import Kind

KIND = Kind("example.com", "v1", "things", "Thing")

Step = Callable[[web.Request], Awaitable[web.StreamResponse]]


def thing(name: str, version: int, **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": spec}


def event(what: str, body: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": what, "object": body}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def too_old() -> dict[str, Any]:
    return {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}


def listed(*items: Mapping[str, Any], version: int, more: str = "") -> Step:
    async def answer(_: web.Request) -> web.Response:
        meta = {"resourceVersion": str(version), "continue": more}
        return web.json_response({"kind": "ThingList", "metadata": meta, "items": items})

    return answer


def refused(code: int, body: Mapping[str, Any] | None = None, **headers: str) -> Step:
    async def answer(_: web.Request) -> web.Response:
        if body is None:
            return web.Response(status=code, text="no such thing\n", headers=headers)
        return web.json_response(body, status=code, headers=headers)

    return answer


def watched(*chunks: bytes, then: str = "end") -> Step:
    """Send chunks as they are, then `end` the stream, `cut` the line, or `hang` on in silence."""

    async def answer(request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse()
        await stream.prepare(request)
        for chunk in chunks:
            await stream.write(chunk)
            await asyncio.sleep(0.01)  # one chunk, one read
        if then == "hang":
            await asyncio.Event().wait()
        if then == "cut":
            assert request.transport is not None
            request.transport.abort()
        return stream

    return answer


def slow(seconds: float, step: Step) -> Step:
    async def answer(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await step(request)

    return answer


async def cut(request: web.Request) -> web.StreamResponse:
    """Take the request and say nothing."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@dataclass
class Scripted:
    """Plays `lists` and `watches` in order; after them lists repeat the last, watches hang.

    Any other request is played from `others`.
    """

    lists: deque[Step] = field(default_factory=deque)
    watches: deque[Step] = field(default_factory=deque)
    others: deque[Step] = field(default_factory=deque)
    requests: list[web.Request] = field(default_factory=list)
    port: int = 0
    _runner: web.AppRunner | None = None
    _last_list: Step | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._play)
        self._runner = web.AppRunner(app, shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, **how: Any) -> client.Client:
        return client.Client(credentials.fixed(self.url), **how)

    def asked(self, what: str) -> list[Mapping[str, str]]:
        """The queries of all requests of a sort: `list`, `watch` or `other`."""
        return [each.query for each in self.requests if _sort(each) == what]

    async def _play(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        self.requests.append(request)
        what = _sort(request)
        if what == "watch":
            step = self.watches.popleft() if self.watches else watched(then="hang")
        elif what == "list":
            step = self.lists.popleft() if self.lists else self._last_list
            self._last_list = step
        else:
            step = self.others.popleft()
        assert step is not None, "nothing is scripted for this request"
        return await step(request)


def _sort(request: web.Request) -> str:
    if request.query.get("watch") == "true":
        return "watch"
    return "list" if request.method == "GET" and request.path.endswith("/things") else "other"
