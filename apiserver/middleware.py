"""Around every handler: audit id, log, metrics, errors as Status, who, how much, how long, may they.

Outermost first: `observe`, `answer_errors`, `identify`, `bound`, `authorize`.
"""

import asyncio
import re
import ssl
import uuid
from typing import Final

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler
from multidict import CIMultiDictProxy

from apiserver import appkeys, audit
from apiserver.appkeys import Services
from apiserver.identity import User
from apiserver.lanes import Lane
from apiserver.wire import attributes, bodies, options, status
from apiserver.wire.attributes import Attributes
from apiserver.wire.status import Forbidden, StatusError, TimedOut, TooManyRequests
from apiserver.wire.values import json_line

NO_CACHE: Final = "no-cache, private"
ADMISSION: Final = "/admission/"
COMPONENT: Final = "cozystack-gpu"
_MOST_ID: Final = 64
_GONE: Final = 499
"""What is counted where the client hung up; nobody is answered it."""
_WATCHED: Final = 200
_READING: Final = frozenset({"GET", "HEAD"})
_METHODS: Final = _READING | {"POST", "PUT"}
_VERBS: Final = frozenset(
    {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
)
_NOT_PRINTED: Final = re.compile(r"[^\x21-\x7e]")

log = structlog.get_logger(__name__)


async def finish_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Put on every answer, streams too, what every answer has; name no software."""
    headers = response.headers
    headers.popall("Server", None)
    headers.setdefault("Cache-Control", NO_CACHE)
    headers.setdefault("X-Content-Type-Options", "nosniff")
    headers[audit.HEADER] = request.get(appkeys.AUDIT_ID, "")
    if request.app[appkeys.SERVICES].health.draining:
        # A connection kept open leads here after the listener is closed, and a POST is not tried again.
        response.force_close()
        headers["Connection"] = "close"


def error_response(error: StatusError) -> web.Response:
    """Return an error's Status as JSON under its own code."""
    return web.Response(
        body=json_line(error.document()),
        status=error.code,
        content_type="application/json",
        headers=error.headers,
    )


@web.middleware
async def observe(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give the request its audit id; count it and log it when it ends."""
    given = _NOT_PRINTED.sub("", request.headers.get(audit.HEADER, ""))[:_MOST_ID]
    audit_id = request[appkeys.AUDIT_ID] = given or str(uuid.uuid4())
    audit.CURRENT.set(audit_id)
    begun = asyncio.get_running_loop().time()
    code, response = _GONE, None
    try:
        response = await handler(request)
        code = response.status
        return response
    finally:
        took = asyncio.get_running_loop().time() - begun
        _count(request, response, code, took)


def _count(
    request: web.Request, response: web.StreamResponse | None, code: int, took: float
) -> None:
    about = request.get(appkeys.ATTRIBUTES)
    labels = request_labels(request, about)
    dry = "All" if request.query.get("dryRun") == bodies.ALL else ""
    served = request.app[appkeys.SERVICES].metrics.served
    if about is not None and about.is_long and code == _GONE:
        code = _WATCHED  # leaving is how a watch ends
    served.requests.labels(*labels, dry, str(code)).inc()
    if about is None or not about.is_long:
        if code == _GONE:
            served.aborts.labels(*labels).inc()
        served.request_seconds.labels(*labels, dry).observe(took)
        served.sli_seconds.labels(*labels, dry).observe(took)
    body = response.body if isinstance(response, web.Response) else None
    if isinstance(body, bytes) and request.method in _READING:
        served.response_sizes.labels(*labels).observe(len(body))
    user = request.get(appkeys.USER)
    log.info(
        "request",
        verb=about.verb if about else request.method,
        path=request.rel_url.raw_path[:256],
        code=code,
        seconds=round(took, 4),
        user=user.name if user else "",
        agent=request.headers.get("User-Agent", "")[:96],
        audit_id=request[appkeys.AUDIT_ID],
        peer=request.remote or "",
    )


def terminated(request: web.Request, code: str) -> None:
    """Count a request that is ended before it is done: by 429, or as `slow` reader of a watch."""
    labels = request_labels(request, request.get(appkeys.ATTRIBUTES))
    request.app[appkeys.SERVICES].metrics.served.terminations.labels(*labels, code).inc()


def request_labels(request: web.Request, about: Attributes | None) -> tuple[str, ...]:
    """Return verb, group, version, resource, subresource, scope, component; all bounded."""
    table = request.app[appkeys.RESOURCES]
    known = about is not None and (about.group, about.version, about.resource) in table
    if about is None or not known:
        method = request.method if request.method in _METHODS else "other"
        return (method, "", "", "", "", "", COMPONENT)
    scope = "resource" if about.name else "namespace" if about.namespace else "cluster"
    verb = about.verb.upper() if about.verb in _VERBS else "other"
    return (verb, about.group, about.version, about.resource, "", scope, COMPONENT)


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn whatever is raised into a Status; what nobody expected is a 500 and a stack in the log."""
    try:
        return await handler(request)
    except (StatusError, web.HTTPException) as error:
        response = error_response(as_status(error))
        # aiohttp keeps the refusal of a path nobody serves with the request.
        forget(error)
        return response
    except web.RequestPayloadError as error:  # not packed, or not framed, as its headers say
        forget(error)  # the body keeps it
        text = " ".join(str(error).split())[:128]
        return error_response(status.BadRequest(f"the body of the request cannot be read: {text}"))
    except Exception:
        log.exception("request failed", audit_id=request.get(appkeys.AUDIT_ID, ""))
        return error_response(unexpected())


def unexpected() -> StatusError:
    """Return the error for what nobody expected."""
    return status.internal("unexpected error; see the log under the audit id")


def forget(error: BaseException) -> None:
    """Cut an error off from where it was raised.

    Where something keeps the error that its frames keep, the two are a circle with all they hold, the
    headers and the connection: it stays until the garbage collector comes, which is rarely.
    """
    one: BaseException | None = error
    while one is not None:
        one.__traceback__ = None
        one = one.__cause__ or one.__context__


def as_status(error: StatusError | web.HTTPException) -> StatusError:
    """Return aiohttp's own refusals in Kubernetes' words."""
    match error:
        case StatusError():
            return error
        case web.HTTPMethodNotAllowed():
            return status.method_not_allowed(sorted(error.allowed_methods))
        case web.HTTPRequestEntityTooLarge():
            return status.TooLarge("the request body is larger than 3 MiB")
        case web.HTTPNotFound():
            return status.no_such_path()
        case _:
            return status.BadRequest(error.reason)


@web.middleware
async def identify(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Read what the request is about and who asks."""
    parts = attributes.segments(request.rel_url.raw_path)
    request[appkeys.ATTRIBUTES] = attributes.parse(request.method, parts, request.query)
    transport = request.transport
    connection: ssl.SSLObject | None = (
        transport.get_extra_info("ssl_object") if transport is not None else None
    )
    services = request.app[appkeys.SERVICES]
    callers = services.admission_callers
    is_admission = is_open(request[appkeys.ATTRIBUTES], request.method)
    if is_admission and not callers:
        return await handler(request)
    user = await _known(services, request.headers, connection)
    if is_admission:
        if user.name not in callers:
            raise Forbidden(f'user "{user.name[:64]}" may not call webhooks')
        return await handler(request)
    request[appkeys.USER] = user
    return await handler(request)


async def _known(
    services: Services, headers: CIMultiDictProxy[str], connection: ssl.SSLObject | None
) -> User:
    served, clock = services.metrics.served, asyncio.get_running_loop().time
    begun, result = clock(), "success"
    try:
        user = await services.authenticator.identify(headers, connection)
    except StatusError as error:
        result = "failure" if error.__cause__ is None else "error"
        raise
    finally:
        took = clock() - begun
        served.authentications.labels(result).inc()
        served.authentication_seconds.labels(result).observe(took)
        served.filter_seconds.labels("authentication").observe(took)
    served.authenticated.labels(user.sort).inc()
    return user


def is_open(about: Attributes, method: str) -> bool:
    """Say whether it is an admission call: unless told, kube-apiserver brings no credential."""
    return method == "POST" and not about.is_resource and about.path.startswith(ADMISSION)


@web.middleware
async def bound(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer within the deadline, and no more at a time than the limits say."""
    services = request.app[appkeys.SERVICES]
    about = request[appkeys.ATTRIBUTES]
    seconds = services.limits.seconds
    if text := request.query.get("timeout", ""):
        seconds = min(options.parse_duration(text) or seconds, seconds)
    if about.is_long and request.method == "GET":
        return await handler(request)
    kind = "readOnly" if request.method in _READING else "mutating"
    gauge = services.metrics.served.in_flight.labels(kind)
    gauge.inc()
    try:
        if is_exempt(request):
            # It takes no place: webhooks in flight send no question away.
            return await _within(seconds, request, handler)
        return await _in_lane(request.app[appkeys.LANES][kind], seconds, request, handler)
    finally:
        gauge.dec()


async def _in_lane(
    lane: Lane, seconds: float, request: web.Request, handler: Handler
) -> web.StreamResponse:
    name = _name(request)
    if not lane.enter(name):
        terminated(request, "429")
        details = status.Details(retry_after=1)
        raise TooManyRequests("too many requests, please try again later", details)
    try:
        return await _within(seconds, request, handler)
    finally:
        lane.leave(name)


async def _within(seconds: float, request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        async with asyncio.timeout(seconds):
            return await handler(request)
    except TimeoutError:
        raise TimedOut(f"request did not complete within {seconds:g}s") from None


def _name(request: web.Request) -> str:
    user = request.get(appkeys.USER)
    return user.name if user is not None else ""


def is_exempt(request: web.Request) -> bool:
    """Say whether the request is answered however busy the process is."""
    user = request.get(appkeys.USER)
    about = request[appkeys.ATTRIBUTES]
    return not about.is_resource or (user is not None and user.is_master)


@web.middleware
async def authorize(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Ask whether the user may."""
    user: User | None = request.get(appkeys.USER)
    if user is not None:
        await _allowed(request.app[appkeys.SERVICES], user, request[appkeys.ATTRIBUTES])
    return await handler(request)


async def _allowed(services: Services, user: User, about: Attributes) -> None:
    served, clock = services.metrics.served, asyncio.get_running_loop().time
    begun, result = clock(), "error"
    try:
        await services.authorizer.require(user, about)
        result = "allowed"
    except Forbidden:
        result = "denied"
        raise
    finally:
        took = clock() - begun
        served.authorizations.labels(result).inc()
        served.authorization_seconds.labels(result).observe(took)
        served.filter_seconds.labels("authorization").observe(took)


ORDER: Final = (observe, answer_errors, identify, bound, authorize)
