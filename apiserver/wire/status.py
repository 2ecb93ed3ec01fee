# ruff: noqa: N818  -- named by the HTTP reason they stand for
"""StatusError tree and its metav1.Status: code, reason, details, causes.

    StatusError
    ├── BadRequest 400   Unauthorized 401   Forbidden 403   NotFound 404   MethodNotAllowed 405
    ├── NotAcceptable 406   Conflict 409   Expired 410   TooLarge 413   UnsupportedMediaType 415
    ├── ExpectationFailed 417   Invalid 422   TooManyRequests 429   TooLong 431
    └── InternalError 500   Unavailable 503   TimedOut 504

Texts are upstream's: clients match on `reason` and `details`, people search for the words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from apiserver.wire.values import Json, JsonObject


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of `details.causes`; `field` is a path as in `spec.items[0].value`."""

    reason: str
    message: str
    field: str = ""

    def document(self) -> JsonObject:
        """As JSON; empty members are left out."""
        parts = {"reason": self.reason, "message": self.message, "field": self.field}
        return {key: value for key, value in parts.items() if value}


@dataclass(frozen=True, slots=True)
class Details:
    """`details`: `kind` holds the plural resource name, as upstream's does."""

    name: str = ""
    group: str = ""
    kind: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after: int = 0

    def document(self) -> JsonObject:
        """As JSON; empty members are left out."""
        parts: dict[str, Json] = {"name": self.name, "group": self.group, "kind": self.kind}
        parts["causes"] = [cause.document() for cause in self.causes]
        parts["retryAfterSeconds"] = self.retry_after
        return {key: value for key, value in parts.items() if value}


@dataclass(frozen=True, slots=True)
class Extra:
    """What a few errors carry besides their Status: headers, or a token to go on with."""

    headers: Mapping[str, str] = field(default_factory=dict)
    continue_token: str = ""


class StatusError(Exception):
    """An answer that is not a success; the message is for the client's eyes."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(
        self, message: str, details: Details | None = None, extra: Extra | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details or Details()
        self.extra = extra or Extra()

    @property
    def headers(self) -> dict[str, str]:
        """Headers the answer needs; Retry-After follows from the details."""
        headers = dict(self.extra.headers)
        if self.details.retry_after:
            headers["Retry-After"] = str(self.details.retry_after)
        return headers

    def document(self) -> JsonObject:
        """Return the metav1.Status."""
        token = self.extra.continue_token
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": token} if token else {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": self.details.document(),
            "code": self.code,
        }


class BadRequest(StatusError):
    """400: the request cannot be understood."""

    code, reason = 400, "BadRequest"


class Unauthorized(StatusError):
    """401: a credential was presented and is not good."""

    code, reason = 401, "Unauthorized"


class Forbidden(StatusError):
    """403: the caller may not."""

    code, reason = 403, "Forbidden"


class NotFound(StatusError):
    """404: no such object or path."""

    code, reason = 404, "NotFound"


class MethodNotAllowed(StatusError):
    """405: the resource does not know the verb."""

    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(StatusError):
    """406: nothing the client accepts can be made."""

    code, reason = 406, "NotAcceptable"


class Expired(StatusError):
    """410: the version asked for is no longer known."""

    code, reason = 410, "Expired"


class TooLarge(StatusError):
    """413: the body is over the limit."""

    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(StatusError):
    """415: the body is of a type nobody reads here."""

    code, reason = 415, "UnsupportedMediaType"


class ExpectationFailed(StatusError):
    """417: something is expected that nobody does; upstream has no reason of its own for it."""

    code, reason = 417, "BadRequest"


class Invalid(StatusError):
    """422: understood, and wrong; every cause at once."""

    code, reason = 422, "Invalid"


class TooManyRequests(StatusError):
    """429: come back later."""

    code, reason = 429, "TooManyRequests"


class TooLong(StatusError):
    """431: the head of the request is over the limits; upstream has no reason of its own for it."""

    code, reason = 431, "BadRequest"


class InternalError(StatusError):
    """500: our fault; what it was stands in the log."""

    code, reason = 500, "InternalError"


class Unavailable(StatusError):
    """503: not yet, or not now."""

    code, reason = 503, "ServiceUnavailable"


class TimedOut(StatusError):
    """504: it took too long."""

    code, reason = 504, "Timeout"


def no_such_path() -> NotFound:
    """404 for a path nobody serves."""
    return NotFound("the server could not find the requested resource")


def no_such_object(group: str, plural: str, name: str) -> NotFound:
    """404 for an object that is not there."""
    full = f"{plural}.{group}" if group else plural
    return NotFound(f'{full} "{name}" not found', Details(name=name, group=group, kind=plural))


def method_not_allowed(allowed: Sequence[str]) -> MethodNotAllowed:
    """405; `allowed` are HTTP methods for the Allow header."""
    return MethodNotAllowed(
        "the server does not allow this method on the requested resource",
        extra=Extra(headers={"Allow": ", ".join(allowed)}),
    )


def not_supported(group: str, plural: str, verb: str) -> MethodNotAllowed:
    """405 for a verb that a resource does not have, as upstream says it."""
    return MethodNotAllowed(
        f'{verb} is not supported on resources of kind "{plural}.{group}"',
        Details(group=group, kind=plural),
    )


def not_acceptable(offers: Sequence[str]) -> NotAcceptable:
    """406 naming the media types that could be served."""
    return NotAcceptable(f"only the following media types are accepted: {', '.join(offers)}")


def unsupported_media_type(offers: Sequence[str]) -> UnsupportedMediaType:
    """415 naming the media types that are read."""
    return UnsupportedMediaType(
        "the body of the request was in an unknown format - "
        f"accepted media types include: {', '.join(offers)}"
    )


def internal(what: str) -> InternalError:
    """500 in upstream's words."""
    details = Details(causes=(Cause(reason="", message=what),))
    return InternalError(f"Internal error occurred: {what}", details)


def too_new(wanted: int, current: int) -> TimedOut:
    """504 for a resource version that has not been reached."""
    cause = Cause(reason="ResourceVersionTooLarge", message="Too large resource version")
    return TimedOut(
        f"Too large resource version: {wanted}, current: {current}",
        Details(causes=(cause,), retry_after=1),
    )


def watch_too_old(wanted: int, oldest: int) -> Expired:
    """410 for a watch whose start is forgotten."""
    return Expired(f"too old resource version: {wanted} ({oldest})")


def page_too_old(go_on: str) -> Expired:
    """410 for a continue token whose state is forgotten, with one that goes on without it."""
    return Expired(
        "The provided continue parameter is too old to display a consistent list result. "
        "You can start a new list without the continue parameter, or use the continue token in "
        "this response to retrieve the remainder of the results. Continuing with the provided "
        "token results in an inconsistent list - objects that were created, modified, or deleted "
        "between the time the first chunk was returned and now may show up in the list.",
        extra=Extra(continue_token=go_on),
    )


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> Invalid:
    """422 with every cause; one reads as itself, several in brackets."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    full = f"{kind}.{group}" if group else kind
    details = Details(name=name, group=group, kind=kind, causes=tuple(causes))
    return Invalid(f'{full} "{name}" is invalid: {joined}', details)


def try_later(message: str, seconds: int) -> Unavailable:
    """503 with Retry-After."""
    return Unavailable(message, replace(Details(), retry_after=seconds))
