"""POST /admission/{name}: decode an AdmissionReview, call its handler, encode; no rule lives here."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import structlog
from aiohttp import web

from apiserver import appkeys
from apiserver.wire import status
from apiserver.wire.status import BadRequest, StatusError
from apiserver.wire.values import JsonObject, json_line

API_VERSION: Final = "admission.k8s.io/v1"

_FAILED: Final = status.InternalError.code
_UNAVAILABLE: Final = status.Unavailable.code

log = structlog.get_logger(__name__)


class Review(msgspec.Struct, rename="camel"):
    """An AdmissionReview as kube-apiserver sends it; the request is passed on whole."""

    request: dict[str, Any]
    api_version: str = ""
    kind: str = ""


async def review(request: web.Request) -> web.StreamResponse:
    """Answer a review. Whatever a handler raises becomes a refusal, never a failed call."""
    name = request.match_info["name"]
    services = request.app[appkeys.SERVICES]
    handler = services.admission.get(name)
    if handler is None:
        raise status.no_such_path()
    if request.content_type not in {"application/json", "application/octet-stream"}:
        raise status.unsupported_media_type(("application/json",))
    asked = decode(await request.read())
    begun = asyncio.get_running_loop().time()
    found = await _answer(name, handler, asked)
    took = asyncio.get_running_loop().time() - begun
    services.metrics.admissions.labels(name, outcome(found)).inc()
    services.metrics.admission_seconds.labels(name).observe(took)
    response = {"uid": asked["uid"], **found}
    answer: JsonObject = {
        "apiVersion": API_VERSION,
        "kind": "AdmissionReview",
        "response": response,
    }
    return web.Response(body=json_line(answer), content_type="application/json")


def decode(body: bytes) -> dict[str, Any]:
    """Return the `request` of a review. Raises BadRequest."""
    try:
        found = msgspec.json.decode(body, type=Review)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadRequest(f"not an AdmissionReview: {error}") from error
    if (found.kind, found.api_version) != ("AdmissionReview", API_VERSION):
        raise BadRequest(f"not an AdmissionReview of {API_VERSION}")
    if not isinstance(found.request.get("uid"), str):
        raise BadRequest("not an AdmissionReview: request.uid is missing")
    return found.request


def outcome(response: Mapping[str, Any]) -> str:
    """Say what became of a review: allowed, refused, unavailable (not judged), or failed (a bug)."""
    if response["allowed"]:
        return "allowed"
    code = response.get("status", {}).get("code", 0)
    return {_FAILED: "failed", _UNAVAILABLE: "unavailable"}.get(code, "refused")


async def _answer(name: str, handler: appkeys.Admit, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return await handler(asked)
    except StatusError as error:
        return {"allowed": False, "status": error.document()}
    except Exception:
        log.exception("admission failed", webhook=name)
        failed = status.internal(f"admission {name} failed")
        return {"allowed": False, "status": failed.document()}
