"""GET /openapi/v2 and /openapi/v3, with ETags and hashes; static bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from apiserver.routes import answers
from apiserver.wire import negotiate, status
from apiserver.wire.negotiate import Subject
from apiserver.wire.values import Json, json_line
from openapi import document

_JSON: Final = "application/json"
_YEAR: Final = "Fri, 31 Dec 9999 23:59:59 GMT"


@dataclass(frozen=True, slots=True)
class Documents:
    """The served documents as bytes."""

    v2: bytes
    v3: Mapping[str, bytes]
    """By `apis/GROUP/VERSION`."""


DOCUMENTS: Final = web.AppKey("openapi", Documents)


def build() -> Documents:
    """Encode the documents once."""
    v3 = {path: json_line(content) for path, content in document.v3().items()}
    return Documents(json_line(document.v2()), v3)


async def v2(request: web.Request) -> web.StreamResponse:
    """GET /openapi/v2: Swagger 2.0."""
    negotiate.choose(request.headers.get("Accept"), Subject.OTHER)
    return answers.tagged(request, request.app[DOCUMENTS].v2, _JSON)


async def v3_index(request: web.Request) -> web.StreamResponse:
    """GET /openapi/v3: where each version's document is, by its hash."""
    return answers.tagged(request, json_line({"paths": index(request.app[DOCUMENTS])}), _JSON)


def index(documents: Documents) -> dict[str, Json]:
    """Return where each version's document is, by its path."""
    return {
        path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={answers.etag(body)}"}
        for path, body in documents.v3.items()
    }


async def v3(request: web.Request) -> web.StreamResponse:
    """GET /openapi/v3/apis/GROUP/VERSION; under its own hash it never changes.

    A wrong hash gets the current document and no redirect: the aggregator makes a 502 of those.
    """
    path = f"apis/{request.match_info['group']}/{request.match_info['version']}"
    body = request.app[DOCUMENTS].v3.get(path)
    if body is None:
        raise status.no_such_path()
    negotiate.choose(request.headers.get("Accept"), Subject.OTHER)
    headers = {}
    if request.query.get("hash") == answers.etag(body):
        headers = {"Cache-Control": "public, immutable", "Expires": _YEAR}
    return answers.tagged(request, body, _JSON, headers)
