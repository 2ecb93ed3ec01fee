"""A stand-in for the host's API server: it replays what was recorded, echoes, and fails as it is told."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from tests.clients.host_options import RECORDED

ROOT: Final = "/apis/core.cozystack.io/v1alpha1"
GROUP: Final = {
    "name": "core.cozystack.io",
    "versions": [{"groupVersion": "core.cozystack.io/v1alpha1", "version": "v1alpha1"}],
    "preferredVersion": {"groupVersion": "core.cozystack.io/v1alpha1", "version": "v1alpha1"},
}
READ: Final = ["get", "list", "watch"]
WRITE: Final = ["create", "delete", "get", "list", "patch", "update", "watch"]
KINDS: Final[Mapping[str, tuple[str, list[str]]]] = {
    "options": ("Option", READ),
    "tenantmodules": ("TenantModule", READ),
    "tenantsecrets": ("TenantSecret", WRITE),
}
SCHEMA: Final = {"serverRelativeURL": "/openapi/v3/apis/core.cozystack.io/v1alpha1?hash=ABC"}


class StandIn:
    """What it is asked is kept; `refuses` makes it answer that status, `waits` makes it slow."""

    def __init__(self) -> None:
        self.asked: list[web.BaseRequest] = []
        self.bodies: list[bytes] = []
        self.refuses = 0
        self.waits = 0.0
        self.open_watches = 0

    def application(self) -> web.Application:
        """Return the server; every path goes to one place."""
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        self.bodies.append(await request.read())
        await asyncio.sleep(self.waits)
        if self.refuses:
            return _json({"kind": "Status", "code": self.refuses}, self.refuses)
        if request.path.startswith(f"{ROOT}/"):
            return await self._resource(request)
        return self._document(request)

    def _document(self, request: web.Request) -> web.Response:
        if request.path == "/apis":
            return _json({"kind": "APIGroupDiscoveryList", "items": [_aggregated()]})
        if request.path == "/apis/core.cozystack.io":
            return _json({"kind": "APIGroup", "apiVersion": "v1", **GROUP})
        if request.path == ROOT:
            return _json(
                {
                    "kind": "APIResourceList",
                    "apiVersion": "v1",
                    "groupVersion": "core.cozystack.io/v1alpha1",
                    "resources": [
                        {"name": name, "singularName": kind.lower(), "namespaced": True,
                         "group": "core.cozystack.io", "version": "v1alpha1", "kind": kind,
                         "verbs": verbs}
                        for name, (kind, verbs) in KINDS.items()
                    ],
                }
            )  # fmt: skip
        if request.path == "/openapi/v3":
            return _json({"paths": {"apis/core.cozystack.io/v1alpha1": SCHEMA}})
        if request.path.startswith("/openapi/v3/"):
            return _json({"openapi": "3.0.0", "info": {"title": "Cozy"}})
        return _json({"kind": "Status", "code": 404}, 404)

    async def _resource(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query and "tenantsecrets" in request.path:
            return await self._watch(request)
        for case, recorded in RECORDED.items():
            asked = recorded["request"]
            if case.startswith(("access-", "get-gpu-", "get-list-")) or "body" not in recorded:
                continue
            same = (asked["method"], asked["path"]) == (request.method, request.path_qs)
            accepted = request.headers.get("Accept", "*/*").replace("*/*", "application/json")
            if same and _accepts(asked) == accepted:
                return _recorded(recorded)
        said = {"method": request.method, "path": request.raw_path}
        return web.Response(
            status=201 if request.method == "POST" else 200,
            body=json.dumps({"kind": "Echo", **said}).encode(),
            headers={
                "Content-Type": "application/json",
                "X-Kubernetes-Pf-Flowschema-Uid": "flow",
                "Warning": '299 - "old"',
                "Connection": "X-Hop",
                "X-Hop": "one",
            },
        )

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        """Tell of one secret; then wait, or break off where the query says so."""
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b'{"type":"ADDED","object":{"kind":"TenantSecret"}}\n')
        self.open_watches += 1
        try:
            if request.query.get("fieldSelector") == "breaks":
                await response.write(b'{"type":"MODI')
                assert request.transport is not None
                request.transport.close()
                return response
            await asyncio.sleep(float(request.query.get("timeoutSeconds", "30")))
        finally:
            self.open_watches -= 1
        await response.write_eof()
        return response


def _accepts(asked: Mapping[str, Any]) -> str:
    return str(asked.get("headers", {}).get("Accept", "application/json"))


def _recorded(recorded: Mapping[str, Any]) -> web.Response:
    body = recorded["body"]
    text = body if isinstance(body, str) else json.dumps(body, separators=(",", ":")) + "\n"
    headers = {"Content-Type": recorded["contentType"], "Cache-Control": "no-cache, private"}
    return web.Response(status=recorded["status"], body=text.encode(), headers=headers)


def _json(content: Mapping[str, Any], code: int = 200) -> web.Response:
    return web.json_response(content, status=code)


def _aggregated() -> dict[str, Any]:
    kind = {"group": "core.cozystack.io", "version": "v1alpha1"}
    resources = [
        {"resource": name, "responseKind": {**kind, "kind": one}, "scope": "Namespaced",
         "singularResource": one.lower(), "verbs": verbs}
        for name, (one, verbs) in KINDS.items()
    ]  # fmt: skip
    versions = [{"version": "v1alpha1", "resources": resources, "freshness": "Current"}]
    return {"metadata": {"name": "core.cozystack.io"}, "versions": versions}
