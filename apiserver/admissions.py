"""What each webhook answers: decode, ask a view, within two seconds; the rules are in gpu.admission."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from apiserver.appkeys import Admit
from apiserver.views import Views
from apiserver.wire.status import BadRequest
from gpu.admission import orders, pods, review
from gpu.admission.review import Allowed, Answer, Review
from gpu.config import Config
from gpu.errors import DecodeError
from gpu.world import World

WITHIN: Final = 2.0
"""Seconds; kube-apiserver is told to wait three."""

Judge = Callable[[Review, World], Answer]


def build(views: Views, config: Config, quota_gate: Admit, starts: Admit) -> dict[str, Admit]:
    """Return the handlers by the names under which the chart registers them."""
    if not config.enabled:
        passed = dict.fromkeys(("tenants", "vmis", "pods"), always(Allowed()))
        return {"orders": always(orders.OFF), **passed}
    return {
        "orders": judged(views, lambda asked, world: orders.answer(asked, world, config)),
        "tenants": quota_gate,
        "vmis": starts,
        "pods": judged(views, lambda asked, world: pods.answer(asked, world, config)),
    }


def judged(views: Views, judge: Judge, *, within: float = WITHIN) -> Admit:
    """Return a handler that puts each review to a view; what a denial rests on is as new as it."""

    async def admit(request: Mapping[str, Any]) -> Mapping[str, Any]:
        asked = _decoded(request)
        try:
            async with asyncio.timeout(within):
                answer = await views.ask(
                    lambda world: judge(asked, world), rests_on=review.rests_on
                )
        except TimeoutError:
            answer = review.unavailable("the GPU service could not judge it in time: try again")
        return review.document(answer)

    return admit


def always(answer: Answer) -> Admit:
    """Return a handler that answers every review alike."""

    async def admit(request: Mapping[str, Any]) -> Mapping[str, Any]:
        _decoded(request)
        return review.document(answer)

    return admit


def _decoded(request: Mapping[str, Any]) -> Review:
    try:
        return review.decode(request)
    except DecodeError as error:
        raise BadRequest(f"not an AdmissionReview: request.{error}") from error
