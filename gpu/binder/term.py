"""Raise the term: what a new leader does before it places anything (domain contract 6).

The singleton GPUBinder `binder` carries the highest term; it is raised by compare-and-swap to one
above its own and above any claim's, since the singleton may have been made anew. After `fence_wait`
every API server's policy refuses placements of lower terms; then a consistent list of claims shows
all that any earlier leader placed.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog

from gpu import keys
from gpu.binder import bodies
from gpu.binder.fence import Deposed, Fence, Hold
from gpu.config import Config
from gpu.objects import binders
from gpu.objects.binders import GPUBinder
from gpu.objects.claims import GPUClaim
from gpu.objects.kinds import GPU_BINDERS
from gpu.ports import Clock, Outcome, Reader, Writer
from gpu.reading import FreshView

log = structlog.get_logger(__name__)

_PAUSE: Final = 0.2
"""Seconds after a lost race or an unclear answer."""
_REFUSED_PAUSE: Final = 2.0
"""Seconds after a definite no, as of a permission that is still to be granted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """What raising a term needs."""

    reader: Reader
    writer: Writer
    view: FreshView
    config: Config
    clock: Clock
    hold: Hold

    async def win(self) -> Fence:
        """Raise the term, wait, list; returns the fence to place under.

        Tries until it succeeds. Raises Deposed when the lease runs out meanwhile.
        """
        above = max((claim.term for claim in self.reader.items(GPUClaim)), default=0)
        while True:
            fence = Fence(term=await self._raised(above), hold=self.hold)
            await asyncio.sleep(self.config.pace.fence_wait)
            seen = await self._listed(fence)
            if seen < fence.term:
                return fence
            above = seen  # the singleton was made anew, and the store did not show this claim yet

    async def _raised(self, above: int) -> int:
        while True:
            limit = Fence(term=0, hold=self.hold).seconds(self.config.pace.write_timeout)
            try:
                async with asyncio.timeout(limit):
                    return await self._raise(above)
            except Exception as error:  # noqa: BLE001 -- judged in the call
                await self._pause("raising the term", error)

    async def _listed(self, fence: Fence) -> int:
        while True:
            try:
                async with asyncio.timeout(fence.seconds(self.config.pace.lease_duration)):
                    return await self.view.begin()
            except Deposed:
                raise
            except Exception as error:  # noqa: BLE001 -- judged in the call
                await self._pause("listing claims", error)

    async def _pause(self, doing: str, error: Exception) -> None:
        """Wait before the next attempt; what is no answer of the API server is a bug and raised."""
        outcome = Outcome.UNKNOWN if isinstance(error, TimeoutError) else None
        outcome = outcome or self.writer.outcome(error)
        if outcome is None:
            raise error
        log.warning("cannot lead yet", doing=doing, outcome=outcome.value, error=str(error))
        refused = outcome in {Outcome.REFUSED, Outcome.GONE}
        await asyncio.sleep(_REFUSED_PAUSE if refused else _PAUSE)

    async def _raise(self, above: int) -> int:
        stored = await self._singleton()
        term = max(stored.term, above) + 1
        answer = await self.writer.patch(
            GPU_BINDERS,
            keys.BINDER_NAME,
            bodies.raised_term(stored, term, self.config.identity, self.clock.now()),
            subresource="status",
            field_manager=keys.BINDER_MANAGER,
        )
        self.view.wrote(GPU_BINDERS, answer)
        return term

    async def _singleton(self) -> GPUBinder:
        """Read the singleton directly, or create it."""
        try:
            return binders.decode(await self.writer.get(GPU_BINDERS, keys.BINDER_NAME))
        except Exception as error:
            if self.writer.outcome(error) is not Outcome.GONE:
                raise
        made = await self.writer.create(
            GPU_BINDERS, bodies.new_binder(), field_manager=keys.BINDER_MANAGER
        )
        return binders.decode(made)


async def check(writer: Writer, fence: Fence) -> None:
    """Read the singleton directly; raises Deposed when it carries a higher term than ours.

    So does a singleton that is gone: policy then refuses every placement, until a term is raised.
    """
    try:
        stored = binders.decode(await writer.get(GPU_BINDERS, keys.BINDER_NAME))
    except Exception as error:
        if writer.outcome(error) is Outcome.GONE:
            raise Deposed("the GPUBinder that carries the term is gone") from error
        raise
    if stored.term > fence.term:
        raise Deposed(f"term {stored.term} of {stored.holder} is above ours, {fence.term}")
