"""Proofs: which kinds were shown to be current, and when; one proof of a kind serves all who came before.

Kinds are proved beside each other: who needs one of them does not wait for the others.
"""

import asyncio
import math
from collections import defaultdict
from typing import Protocol

import structlog

from gpu.model.premises import Premises
from gpu.objects.meta import HasMeta

log = structlog.get_logger(__name__)


class Prover(Protocol):
    """Whoever can have the cache of a kind catch up."""

    async def prove(self, view: type[HasMeta]) -> None:
        """Have one kind catch up with now; at once where it is not served. Raises what an API server does."""


class Proofs:
    """The proofs of one source. Its methods belong to one event loop."""

    def __init__(self, source: Prover, *, within: float) -> None:
        self._source = source
        self._within = within
        self._begun: defaultdict[type[HasMeta], float] = defaultdict(lambda: -math.inf)
        """When the last proof of a kind that came to its end was begun, in loop time."""
        self._turns: defaultdict[type[HasMeta], asyncio.Lock] = defaultdict(asyncio.Lock)

    async def since(self, came: float, views: Premises) -> bool:
        """Have kinds shown as they were at `came` or later; False where that cannot be had in time."""
        try:
            async with asyncio.timeout(self._within), asyncio.TaskGroup() as tasks:
                for view in views:
                    tasks.create_task(self._prove(came, view))
        except Exception as error:  # noqa: BLE001 -- an answer stands then, as of a moment ago
            first = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            log.warning("caches not proved current", error=f"{type(first).__name__}: {first}")
            return False
        return True

    async def _prove(self, came: float, view: type[HasMeta]) -> None:
        async with self._turns[view]:
            if self._begun[view] < came:
                began = asyncio.get_running_loop().time()
                await self._source.prove(view)
                self._begun[view] = began
