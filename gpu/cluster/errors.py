"""ApiError tree, built from metav1.Status; nothing above gpu.cluster sees another client's errors.

    ApiError
    ├── NotFound        404; `of_kind` when the server does not serve the kind at all
    ├── Conflict        409 Conflict: a precondition (resourceVersion, uid) did not hold
    ├── AlreadyExists   409 AlreadyExists
    ├── Gone            410 Gone or Expired: a resourceVersion or continue token is too old
    ├── Unauthorized    401
    ├── Forbidden       403
    ├── Invalid         422 (and 400 with reason Invalid)
    ├── Throttled       429; `retry_after` seconds
    ├── TooLarge        500 in etcd's words: the object would be larger than etcd takes
    ├── ServerFault     5xx, 504 among them
    └── Unreachable     no answer: refused, cut, timed out; `sent` when it may have been executed

Any other 4xx is a plain ApiError. Texts are capped here, once, so a log line cannot grow with what
a server says.
"""

# ruff: noqa: N818 -- the names are the reasons of metav1.Status, as every Kubernetes person knows them

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gpu import ports

BODY_CAP: Final = 64 * 1024
"""Bytes of an error body that are read at all."""
MESSAGE_CAP: Final = 2000
"""Characters of a message that are kept."""
CAUSES_CAP: Final = 20

TOO_LARGE: Final = "etcdserver: request is too large"
"""What etcd says before it does anything; kube-apiserver passes it on as a 500 (kubernetes 112152)."""

_CONFLICT: Final = 409
_SERVER_FAULTS: Final = range(500, 600)
_CLIENT_FAULTS: Final = range(400, 500)


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of `details.causes`: which field, and what is wrong with it."""

    reason: str
    message: str
    field: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """`details` of a Status, as far as anyone here looks at it; `retry_after` in seconds."""

    name: str = ""
    group: str = ""
    kind: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after: float | None = None


class ApiError(Exception):
    """The API server's 'no', or its silence. `status` is the HTTP code; 0 when there was none."""

    def __init__(
        self, status: int, reason: str, message: str, details: Details | None = None
    ) -> None:
        super().__init__(f"{status} {reason}: {_capped(message)}")
        self.status = status
        self.reason = reason
        self.message = _capped(message)
        self.details = details or Details()

    @property
    def outcome_unknown(self) -> bool:
        """Whether the request may have been executed although no success came back."""
        return False

    @property
    def definite(self) -> bool:
        """Whether the server judged this very request and will say no again: 4xx but 401, 409, 429.

        401 is left out with the two that domain contract 6 names: it judges the credentials of
        the process, so it must not put one object after another in quarantine.
        """
        return self.status in _CLIENT_FAULTS and not isinstance(
            self, Conflict | AlreadyExists | Throttled | Unauthorized
        )

    @property
    def outcome(self) -> ports.Outcome:
        """What the failed write means to the domain; AlreadyExists is a lost race, so CONFLICT."""
        if isinstance(self, NotFound):
            return ports.Outcome.GONE
        if isinstance(self, Conflict | AlreadyExists):
            return ports.Outcome.CONFLICT
        return ports.Outcome.REFUSED if self.definite else ports.Outcome.UNKNOWN


class NotFound(ApiError):
    """404: no such object, or no such kind."""

    @property
    def of_kind(self) -> bool:
        """Whether the kind itself is not served: only a missing object's Status names it."""
        return not self.details.name


class Conflict(ApiError):
    """409: somebody else wrote first; read again and decide again."""


class AlreadyExists(ApiError):
    """409: an object of that name is there."""


class Gone(ApiError):
    """410: the version asked for is compacted; list again."""


class Unauthorized(ApiError):
    """401: credentials are missing, wrong or expired."""


class Forbidden(ApiError):
    """403: RBAC, a policy, a webhook or a quota says no."""


class Invalid(ApiError):
    """422: the object breaks its schema or a rule of it."""


class Throttled(ApiError):
    """429: nothing was executed; try again after `retry_after` seconds."""

    @property
    def retry_after(self) -> float:
        """Seconds the server asks to wait; 1 when it does not say."""
        return 1.0 if self.details.retry_after is None else self.details.retry_after


class ServerFault(ApiError):
    """5xx: the server failed, perhaps after it executed the request."""

    @property
    def outcome_unknown(self) -> bool:
        """Always: a 504 often was executed, a 500 may have been."""
        return True


class TooLarge(ApiError):
    """500: etcd does not take an object so large. It judged this very request and will say no again."""

    @property
    def definite(self) -> bool:
        """Always: nothing was written, whoever filled the object."""
        return True


class Unreachable(ApiError):
    """No complete answer; `sent` says that the request may have reached the server."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(0, "Unreachable", message)
        self.sent = sent

    @property
    def outcome_unknown(self) -> bool:
        """Unless no connection was ever had."""
        return self.sent


_BY_REASON: Final[Mapping[str, type[ApiError]]] = {
    "AlreadyExists": AlreadyExists,
    "Expired": Gone,
    "Invalid": Invalid,
}
_BY_CODE: Final[Mapping[int, type[ApiError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: Throttled,
}


def from_status(status: Mapping[str, Any], code: int = 0) -> ApiError:
    """Build the error of a decoded metav1.Status; `code` is the HTTP code when the body has none."""
    number = status.get("code")
    number = number if isinstance(number, int) and number else code
    reason = _text(status.get("reason"))
    message = _text(status.get("message"))
    found = _BY_REASON.get(reason) or _BY_CODE.get(number)
    if found is None and number in _SERVER_FAULTS:
        found = TooLarge if message.endswith(TOO_LARGE) else ServerFault
    details = _details(status.get("details"))
    return (found or ApiError)(number, reason or str(number), message, details)


def from_answer(code: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """Build the error of an HTTP answer; a body that is no Status becomes the message, capped."""
    try:
        decoded = msgspec.json.decode(body)
    except msgspec.DecodeError:
        decoded = None
    if isinstance(decoded, dict) and decoded.get("kind") == "Status":
        status = {**decoded, "code": code}
    else:
        status = {"message": body[:MESSAGE_CAP].decode("utf-8", "replace").strip(), "code": code}
    if retry_after is not None and retry_after.isdigit():
        known = status.get("details")
        known = known if isinstance(known, dict) else {}
        status["details"] = {"retryAfterSeconds": int(retry_after), **known}
    return from_status(status, code)


def _details(raw: object) -> Details:
    if not isinstance(raw, dict):
        return Details()
    causes = raw.get("causes")
    wait = raw.get("retryAfterSeconds")
    return Details(
        name=_text(raw.get("name")),
        group=_text(raw.get("group")),
        kind=_text(raw.get("kind")),
        causes=tuple(
            Cause(_text(item.get("reason")), _text(item.get("message")), _text(item.get("field")))
            for item in (causes if isinstance(causes, list) else [])[:CAUSES_CAP]
            if isinstance(item, dict)
        ),
        retry_after=float(wait) if isinstance(wait, int | float) else None,
    )


def _text(value: object) -> str:
    return _capped(value) if isinstance(value, str) else ""


def _capped(text: str) -> str:
    return text if len(text) <= MESSAGE_CAP else text[: MESSAGE_CAP - 1] + "…"
