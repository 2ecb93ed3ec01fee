"""Discovery and OpenAPI of the host's group beside ours: as last seen, so that they never fail.

kube-apiserver reads them of whoever an APIService names. What the host says is asked for again and
again, as ourselves; while it was never reached, the group has our options alone. OpenAPI v2 has our
groups only: what reads schemas of the host's group there finds none.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog
from aiohttp import web

from apiserver import appkeys
from apiserver.facade import headers, passing
from apiserver.facade.host import BROKEN, Host
from apiserver.identity import User
from apiserver.resources.base import Resource
from apiserver.routes import answers, discovery, openapi
from apiserver.wire import negotiate
from apiserver.wire.negotiate import Subject
from apiserver.wire.values import Json, JsonObject, json_line
from gpu import keys

EVERY: Final = 30.0
"""Seconds between two readings."""
SOON: Final = 2.0
"""Seconds after one that failed."""
WITHIN: Final = 5.0
"""Seconds for each document."""
GROUP: Final = f"/apis/{keys.HOST_CORE_GROUP}"
ROOT: Final = f"{GROUP}/{keys.HOST_CORE_VERSION}"
_INDEXED: Final = ROOT.removeprefix("/")
_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_PUBLIC: Final = {"Cache-Control": "public"}

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Documents:
    """What is known of the host's documents; `run` keeps it fresh."""

    resource: Resource
    """Our options under the host's group: what the group has while the host was never seen."""
    me: User
    """Who asks for the documents: our service account."""
    plain: dict[str, JsonObject] = field(default_factory=dict)
    """The documents of the group and of its version, by path."""
    group: JsonObject | None = None
    """The group as aggregated discovery has it."""
    schema: JsonObject | None = None
    """The group's entry of the OpenAPI v3 index."""
    seen: bool = False
    """The host has answered at least once."""
    away: bool = False
    """It did not when it was last asked."""

    def __post_init__(self) -> None:
        made = discovery.build((self.resource,))
        self.plain = {path: made.plain[path] for path in (GROUP, ROOT)}
        self.group = _of_group(msgspec.json.decode(made.aggregated["v2"])["items"], "metadata")

    async def run(self, host: Host) -> None:
        """Read the host's documents, again and again, until cancelled."""
        while True:
            self.away = not await self.refresh(host)
            await asyncio.sleep(SOON if self.away else EVERY)

    async def refresh(self, host: Host) -> bool:
        """Read them once; True when all were read. What cannot be read stays as it was seen."""
        try:
            plain = {path: await self._read(host, path) for path in (GROUP, ROOT)}
            groups = await self._read(host, "/apis", _AGGREGATED)
            index = await self._read(host, "/openapi/v3")
        except (*BROKEN, ValueError) as error:
            log.info("documents of the host not read", error=f"{type(error).__name__}: {error}")
            return False
        self.plain = plain
        self.group = _of_group(groups.get("items") or [], "metadata") or self.group
        self.schema = (index.get("paths") or {}).get(_INDEXED)
        self.seen = True
        return True

    async def _read(self, host: Host, path: str, accept: str = "application/json") -> Any:
        sent = headers.onward([("Accept", accept)], self.me, "")
        async with asyncio.timeout(WITHIN), host.ask("GET", path, sent) as answer:
            body = await answer.read()
            if answer.status != HTTPStatus.OK:
                raise ValueError(f"{path} was answered {answer.status}")
        found = msgspec.json.decode(body)
        if not isinstance(found, dict):
            raise ValueError(f"{path} is no object")  # noqa: TRY004 -- bad input, not a bug
        return found

    async def one(self, request: web.Request, host: Host) -> web.StreamResponse:
        """Answer a discovery document of the group: the host's own, or as it was last seen."""
        passed = await passing.unless_away(request, host, heals=True)
        if passed is not None:
            return passed
        view = negotiate.choose(request.headers.get("Accept"), Subject.OTHER)
        return answers.document(request, self.plain[request[appkeys.ATTRIBUTES].path], view)

    async def groups(self, request: web.Request) -> web.StreamResponse:
        """GET /apis: our groups and the host's one, plain or aggregated."""
        ours = request.app[discovery.DOCUMENTS]
        version = negotiate.wants_aggregated(request.headers.get("Accept"))
        if version:
            found = msgspec.json.decode(ours.aggregated[version])
            body = json_line({**found, "items": _sorted([*found["items"], self.group], "metadata")})
            kind = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
            return answers.tagged(request, body, kind, _PUBLIC)
        listed = ours.plain["/apis"]
        theirs = {k: v for k, v in self.plain[GROUP].items() if k not in {"kind", "apiVersion"}}
        view = negotiate.choose(request.headers.get("Accept"), Subject.OTHER)
        groups: list[Any] = [*listed["groups"], theirs]  # type: ignore[misc]  # a list, as built
        response = answers.document(request, {**listed, "groups": _sorted(groups)}, view)
        response.headers["Vary"] = "Accept"
        return response

    async def index(self, request: web.Request) -> web.StreamResponse:
        """GET /openapi/v3: our documents and the host's one."""
        paths: dict[str, Json] = {**openapi.index(request.app[openapi.DOCUMENTS])}
        if self.schema is not None:
            paths[_INDEXED] = self.schema
        return answers.tagged(request, json_line({"paths": paths}), "application/json")


def _of_group(groups: list[Any], within: str) -> JsonObject | None:
    return next((one for one in groups if _name(one, within) == keys.HOST_CORE_GROUP), None)


def _sorted(groups: list[Any], within: str = "") -> list[Any]:
    return sorted((one for one in groups if one), key=lambda one: _name(one, within))


def _name(group: Mapping[str, Any], within: str) -> str:
    return str((group[within] if within else group)["name"])
