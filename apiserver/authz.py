"""SubjectAccessReview with a short bounded cache; fails closed."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

import structlog

from apiserver import audit
from apiserver.identity import User
from apiserver.request_metrics import RequestMetrics
from apiserver.verdicts import Verdicts
from apiserver.wire import status
from apiserver.wire.attributes import Attributes
from apiserver.wire.selectors import Selector
from apiserver.wire.status import Details, Forbidden
from gpu.objects.kinds import SUBJECT_ACCESS_REVIEWS, Kind

OPEN_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz"})
"""Answered to anyone: kubelet's probes bring no credential. Paths below them are not."""

_LABELS: Final = {
    "=": "In", "in": "In", "!=": "NotIn", "notin": "NotIn", "exists": "Exists", "!": "DoesNotExist",
}  # fmt: skip
"""Operators of label selectors that a review can name: > and < are none of them."""

log = structlog.get_logger(__name__)


class Reviewer(Protocol):
    """Whoever answers TokenReviews and SubjectAccessReviews: kube-apiserver."""

    async def create(self, kind: Kind, body: Mapping[str, Any], *, audit_id: str) -> dict[str, Any]:
        """Post a review for the request with an audit id; returns it with its status."""


class Verdict(NamedTuple):
    """Allowed or not, and the authorizer's words."""

    allowed: bool
    reason: str = ""


class Authorizer:
    """Asks whether a user may do something; remembers the answer for seconds."""

    def __init__(
        self,
        reviewer: Reviewer,
        *,
        seconds: float = 10.0,
        most: int = 8192,
        deadline: float = 10.0,
        metrics: RequestMetrics | None = None,
    ) -> None:
        self._reviewer = reviewer
        self._deadline = deadline
        self._metrics = metrics
        self._is_failing = False
        self._verdicts: Verdicts[tuple[User, Attributes], Verdict] = Verdicts(
            seconds=seconds, most=most
        )

    async def require(self, user: User, attributes: Attributes) -> None:
        """Return when allowed. Raises Forbidden, or InternalError when nobody could be asked."""
        if user.is_master or (not attributes.is_resource and attributes.path in OPEN_PATHS):
            return
        try:
            verdict = await self._verdicts.get(
                (user, attributes), lambda: self._ask(user, attributes)
            )
        except Exception as error:
            self._note(f"{type(error).__name__}: {error}")
            raise status.internal("the access review failed") from error
        if not verdict.allowed:
            raise refusal(user, attributes, verdict.reason)

    def _note(self, error: str) -> None:
        """Log when reviews begin to fail and when they succeed again; metrics count each."""
        if error and not self._is_failing:
            log.warning("access not reviewed", error=error)
        if not error and self._is_failing:
            log.info("access is reviewed again")
        self._is_failing = bool(error)

    async def _ask(self, user: User, attributes: Attributes) -> Verdict:
        loop = asyncio.get_running_loop()
        begun, code = loop.time(), "<error>"
        try:
            async with asyncio.timeout(self._deadline):
                asked, audit_id = review(user, attributes), audit.CURRENT.get()
                answer = await self._reviewer.create(
                    SUBJECT_ACCESS_REVIEWS, asked, audit_id=audit_id
                )
            code = "201"
        finally:
            if self._metrics is not None:
                self._metrics.access_reviews.labels(code).inc()
                self._metrics.access_review_seconds.labels(code).observe(loop.time() - begun)
        self._note("")
        found = answer["status"]
        allowed = found.get("allowed") is True and found.get("denied") is not True
        return Verdict(allowed, str(found.get("reason") or ""))


def review(user: User, attributes: Attributes) -> dict[str, Any]:
    """Return the SubjectAccessReview that asks the question."""
    spec: dict[str, Any] = {"user": user.name, "groups": list(user.groups)}
    if user.uid:
        spec["uid"] = user.uid
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra}
    if attributes.is_resource:
        asked = {
            "namespace": attributes.namespace,
            "verb": attributes.verb,
            "group": attributes.group,
            "version": attributes.version,
            "resource": attributes.resource,
            "subresource": attributes.subresource,
            "name": attributes.name,
        }
        spec["resourceAttributes"] = {
            **{key: value for key, value in asked.items() if value},
            **_selectors(attributes.selector),
        }
    else:
        spec["nonResourceAttributes"] = {"path": attributes.path, "verb": attributes.verb}
    return {
        "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
        "kind": SUBJECT_ACCESS_REVIEWS.kind,
        "spec": spec,
    }


def _selectors(selector: Selector) -> dict[str, Any]:
    """Return what narrows the request; API servers before 1.31 take no notice of it.

    What cannot be said is left out: then more is asked for, and an authorizer that would have allowed
    the narrower part alone refuses.
    """
    labels = [
        {"key": one.key, "operator": _LABELS[one.operator], "values": sorted(one.values)}
        for one in selector.labels
        if one.operator in _LABELS
    ]
    fields = [
        {"key": one.field, "operator": "In" if one.equal else "NotIn", "values": [one.value]}
        for one in selector.fields
    ]
    found = {"labelSelector": labels, "fieldSelector": fields}
    return {name: {"requirements": parts} for name, parts in found.items() if parts}


def refusal(user: User, attributes: Attributes, reason: str) -> Forbidden:
    """Return the 403 in kube-apiserver's words."""
    if not attributes.is_resource:
        text = f'forbidden: User "{user.name}" cannot {attributes.verb} path "{attributes.path}"'
        return Forbidden(f"{text}: {reason}" if reason else text)
    resource = attributes.resource
    full = f"{resource}.{attributes.group}" if attributes.group else resource
    named = f'{full} "{attributes.name}"' if attributes.name else full
    shown = f"{resource}/{attributes.subresource}" if attributes.subresource else resource
    where = (
        f'in the namespace "{attributes.namespace}"'
        if attributes.namespace
        else "at the cluster scope"
    )
    text = (
        f'{named} is forbidden: User "{user.name}" cannot {attributes.verb} resource "{shown}" '
        f'in API group "{attributes.group}" {where}'
    )
    details = Details(name=attributes.name, group=attributes.group, kind=resource)
    return Forbidden(f"{text}: {reason}" if reason else text, details)
