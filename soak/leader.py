"""One leader as it is built in `gpu.binder.lead`, with its passes driven one by one."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from gpu.binder.fence import Deposed, Fence
from gpu.binder.quarantine import Quarantine
from gpu.binder.replaying import Saves
from gpu.binder.report import PassReport
from gpu.binder.run_pass import Passes
from gpu.binder.term import Election
from gpu.binder.writer import ChangeWriter
from gpu.config import Config
from gpu.reading import FreshView
from soak.api import Api
from soak.line import Line
from soak.watch import Watch
from tests.fakes.clock import FakeClock


@dataclass(frozen=True)
class Skewed:
    """The clock of a leader's machine: it goes right, and it is not set as those of others are."""

    clock: FakeClock
    seconds: float = 0.0

    def now(self) -> datetime:
        """The time as this machine believes it to be."""
        return self.clock.now() + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        """Seconds: nobody sets this one."""
        return self.clock.monotonic()


async def _at_once(work: Any) -> Any:
    return work()


@dataclass
class Hold:
    """A lease; `blind` says that it lasts whatever the time is: asked a moment before a freeze."""

    clock: FakeClock
    until: float
    blind: bool = False

    @property
    def remaining(self) -> float:
        return 15.0 if self.blind else self.until - self.clock.monotonic()


@dataclass
class Leader:
    """One leadership. `passes` is None until it is elected."""

    api: Api
    clock: Skewed
    config: Config
    line: Line
    watch: Watch
    hold: Hold
    term: int = 0
    passes: Passes | None = None
    deposed: bool = False
    crashes: list[BaseException] = field(default_factory=list)
    task: "asyncio.Task[PassReport | None] | None" = None
    answered: PassReport | None = None
    """Of the last pass that only answered starts; None when there was none, or it came to no end."""
    replays: Path | None = None
    """Where each pass is saved, for `cozystack-gpu replay`."""

    async def elect(self) -> None:
        """Raise the term, wait, list."""
        view = FreshView(self.watch, self.line)
        fence = await Election(
            reader=self.watch,
            writer=self.line,
            view=view,
            config=self.config,
            clock=self.clock,
            hold=self.hold,
        ).win()
        pace = self.config.pace
        self.term = fence.term
        self.passes = Passes(
            view=view,
            writer=ChangeWriter(
                api=self.line,
                view=view,
                fence=Fence(term=fence.term, hold=self.hold),
                write_timeout=pace.write_timeout,
            ),
            quarantine=Quarantine(first=pace.quarantine_first, most=pace.quarantine_most),
            config=self.config,
            clock=self.clock,
            in_thread=_at_once,
            saves=Saves(directory=self.replays),
        )

    async def once(self, *, forced: bool = True) -> PassReport | None:
        """Run a pass; None when it was deposed, could not read, crashed, or froze in the middle."""
        return await self._run(self._once(forced=forced))

    async def answer(self) -> PassReport | None:
        """Run a pass that only answers starts; None as `once`."""
        return await self._run(self._answer((0,)))

    async def both(self, pauses: Sequence[int], *, forced: bool = True) -> PassReport | None:
        """Run a full pass, and beside it some that only answer starts; returns the full one's report.

        `pauses` are turns of the event loop before each of those.
        """
        return await self._run(self._both(pauses, forced=forced))

    async def _run(self, work: Coroutine[Any, Any, PassReport | None]) -> PassReport | None:
        assert self.task is None, "frozen"
        self.answered = None
        frozen = asyncio.ensure_future(self.line.frozen.wait())
        task = asyncio.ensure_future(work)
        await asyncio.wait({task, frozen}, return_when=asyncio.FIRST_COMPLETED)
        frozen.cancel()
        if not task.done():
            self.task = task
            return None
        return task.result()

    async def thaw(self) -> None:
        """Let a frozen pass go on to its end."""
        task, self.task = self.task, None
        if task is not None:
            self.line.thawed.set()
            await task

    async def kill(self) -> None:
        """Let a frozen pass go no further."""
        task, self.task = self.task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _both(self, pauses: Sequence[int], *, forced: bool) -> PassReport | None:
        full = asyncio.ensure_future(self._once(forced=forced))
        # Of those that answer, every second one beside the others: each list goes one by one.
        beside = [pauses[::2], pauses[1::2]] if len(pauses) > 1 else [pauses]
        left = {full, *(asyncio.ensure_future(self._answer(each)) for each in beside)}
        try:
            while left and not self.deposed:
                _, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        return None if full.cancelled() else full.result()

    async def _once(self, *, forced: bool) -> PassReport | None:
        assert self.passes is not None
        self.passes.saves.ask()
        return await self._lead(lambda passes: passes.once(forced=forced))

    async def _answer(self, pauses: Sequence[int]) -> PassReport | None:
        for pause in pauses:
            for _ in range(pause):
                await asyncio.sleep(0)
            found = await self._lead(lambda passes: passes.answer())
            if found is None:
                return None
            if self.answered is None or not self.answered.plan_problem:
                self.answered = found
        return self.answered

    async def _lead(self, work: Callable[[Passes], Awaitable[PassReport]]) -> PassReport | None:
        assert self.passes is not None
        try:
            return await work(self.passes)
        except Deposed:
            self.deposed = True
        except Exception as error:  # noqa: BLE001 -- the judge says which is a bug
            if self.line.outcome(error) is None:
                self.crashes.append(error)
        return None
