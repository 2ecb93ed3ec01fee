"""Typed AppKey and RequestKey constants: all state a handler can reach."""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aiohttp import web
from multidict import CIMultiDictProxy

from apiserver.checks import Health
from apiserver.identity import User
from apiserver.lanes import Lane
from apiserver.metrics import Metrics
from apiserver.projection import Projection
from apiserver.resources.base import Resource
from apiserver.views import Views
from apiserver.wire.attributes import Attributes


class Authenticates(Protocol):
    """Says who is asking."""

    async def identify(
        self, headers: CIMultiDictProxy[str], connection: ssl.SSLObject | None
    ) -> User:
        """Return the caller. Raises Unauthorized or Forbidden."""


class Authorizes(Protocol):
    """Says whether they may."""

    async def require(self, user: User, attributes: Attributes) -> None:
        """Return when allowed. Raises Forbidden or InternalError."""


class Mounts(Protocol):
    """Serves paths of its own, before ours."""

    def mount(self, app: web.Application) -> None:
        """Add its routes."""


Admit = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""An admission handler: the `request` of an AdmissionReview to its `response` without the uid.

Raises StatusError to refuse with that Status.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What `/version` says."""

    version: str = "0.0.0"
    commit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one process takes on at a time, and for how long."""

    reading: int = 400
    mutating: int = 200
    share: float = 0.5
    """The part of those that one user may have at a time."""
    seconds: float = 60.0
    """A request that is not a watch is answered within this, or with 504."""
    write: float = 15.0
    """A watcher that takes nothing for this long is let go."""
    bookmark: float = 60.0
    last_bookmark: float = 2.0
    """So long before its end a watch gets its last bookmark."""
    shortest_watch: float = 1800.0
    """A watch without timeoutSeconds lasts once to twice this."""
    partings: float = 500.0
    """So many watches a second are let go when the process ends, or more where that took too long."""
    parting: float = 5.0
    """All of them have been let go within this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Everything the HTTP face works with; wiring.py builds it."""

    authenticator: Authenticates
    authorizer: Authorizes
    projection: Projection
    views: Views | None = None
    """Whom questions are put to; None with the feature off."""
    metrics: Metrics
    health: Health = field(default_factory=Health)
    resources: tuple[Resource, ...] | None = None
    """What is served; None is the product's own table."""
    facade: Mounts | None = None
    """Who answers for the host's group; None: nobody, as it is not ours."""
    admission: Mapping[str, Admit] = field(default_factory=dict)
    admission_callers: frozenset[str] = frozenset()
    """Who alone may ask a webhook; empty: anybody, as kube-apiserver brings no credential unasked."""
    build: Build = field(default_factory=Build)
    limits: Limits = field(default_factory=Limits)


SERVICES: Final = web.AppKey("services", Services)
RESOURCES: Final = web.AppKey("resources", Mapping[tuple[str, str, str], Resource])
"""By group, version and plural."""

LANES: Final = web.AppKey("lanes", Mapping[str, Lane])
"""By kind of request, as metrics name it: readOnly, mutating."""

USER: Final = web.RequestKey("user", User)
ATTRIBUTES: Final = web.RequestKey("attributes", Attributes)
AUDIT_ID: Final = web.RequestKey("audit_id", str)
