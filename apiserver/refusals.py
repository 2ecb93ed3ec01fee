"""What is no request: counted, told of now and then, and answered without a word of it."""

import asyncio
from typing import Final

import structlog

from apiserver import middleware
from apiserver.request_metrics import RequestMetrics
from apiserver.wire.status import StatusError
from apiserver.wire.values import json_line

TOLD_EVERY: Final = 10.0
"""Seconds between log lines of what is no request; each says how many were not told since the last."""

log = structlog.get_logger(__name__)


def answer(error: StatusError) -> tuple[bytes, dict[str, str]]:
    """Return body and headers of a refusal. It bears no name and passes by the application's own hooks."""
    body = json_line(error.document())
    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Cache-Control": middleware.NO_CACHE,
        "X-Content-Type-Options": "nosniff",
    }
    return body, headers


class Refusals:
    """Counts what is no request, and tells of it now and then."""

    def __init__(self, metrics: RequestMetrics) -> None:
        self._metrics = metrics
        self._told = float("-inf")
        self._untold = 0

    def note(self, error: StatusError, peer: str) -> None:
        """Count one, and log it unless another was logged just now."""
        code = str(error.code)
        self._metrics.requests.labels("other", *[""] * 5, middleware.COMPONENT, "", code).inc()
        now = asyncio.get_running_loop().time()
        if now - self._told < TOLD_EVERY:
            self._untold += 1
            return
        log.warning(
            "no request", code=error.code, why=error.message, peer=peer, untold=self._untold
        )
        self._told, self._untold = now, 0
