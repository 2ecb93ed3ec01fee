"""Proofs: how what a refusal rests on is had current: objects read, kinds left to settle, or proved.

One proof of a kind serves all who came before it, and all that a refusal rests on is looked after at
once: who needs one thing does not wait for others.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Protocol

import structlog

from gpu.model.premises import Named, Premises
from gpu.objects.meta import HasMeta, ObjectKey

log = structlog.get_logger(__name__)


class Prover(Protocol):
    """Whoever can say how current the caches are, and have them catch up."""

    def is_live(self, view: type[HasMeta]) -> bool:
        """Say whether what is written of a kind is known to come by itself, as it is written."""

    async def settle(self, views: Sequence[type[HasMeta]], until: float) -> None:
        """Wait until a loop time, then for silence of kinds that are live; for a moment only."""

    async def prove(self, view: type[HasMeta]) -> None:
        """Have one kind catch up with now; at once where it is not served. Raises what an API server does."""

    async def read(self, view: type[HasMeta], key: ObjectKey) -> None:
        """Have one object shown as it is now, or as absent. Raises what an API server does."""


class Proofs:
    """The proofs of one source. Its methods belong to one event loop."""

    def __init__(self, source: Prover, *, settle: float, within: float) -> None:
        self._source = source
        self._seconds = settle
        self._within = within
        self._begun: defaultdict[type[HasMeta], float] = defaultdict(lambda: -math.inf)
        """When the last proof of a kind that came to its end was begun, in loop time."""
        self._turns: defaultdict[type[HasMeta], asyncio.Lock] = defaultdict(asyncio.Lock)

    async def since(self, came: float, premises: Premises) -> bool:
        """Have all of it shown as it was at `came` or later; False where that cannot be had in time.

        Of a kind whose watch is well that is as good as sure: what lags by more than the time to
        settle is missed.
        """
        kinds = [one for one in premises if not isinstance(one, Named)]
        try:
            async with asyncio.timeout(self._within), asyncio.TaskGroup() as tasks:
                for one in premises:
                    if isinstance(one, Named):
                        tasks.create_task(self._read(came, one))
                tasks.create_task(self._settle(came, kinds))
        except Exception as error:  # noqa: BLE001 -- an answer stands then, as of a moment ago
            log.warning("caches not proved current", error=_told(error))
            return False
        return True

    async def _read(self, came: float, one: Named) -> None:
        try:
            await self._source.read(one.view, one.key)
        except Exception:  # noqa: BLE001 -- what cannot be read alone is asked for with its kind
            await self._prove(came, one.view)

    async def _settle(self, came: float, kinds: Collection[type[HasMeta]]) -> None:
        live = [view for view in kinds if self._source.is_live(view)]
        async with asyncio.TaskGroup() as tasks:
            for view in set(kinds).difference(live):
                tasks.create_task(self._prove(came, view))
            if live:
                await self._source.settle(live, came + self._seconds)
            for view in live:
                if not self._source.is_live(view):
                    tasks.create_task(self._prove(came, view))

    async def _prove(self, came: float, view: type[HasMeta]) -> None:
        async with self._turns[view]:
            if self._begun[view] < came:
                began = asyncio.get_running_loop().time()
                await self._source.prove(view)
                self._begun[view] = began


def _told(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
