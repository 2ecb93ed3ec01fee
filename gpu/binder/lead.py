"""What a replica runs while it holds the lease: raise the term, then pass after pass."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from gpu.binder import news, phases
from gpu.binder.fence import Deposed, Hold
from gpu.binder.loop import Loop
from gpu.binder.phase import Phase
from gpu.binder.quarantine import Quarantine
from gpu.binder.replaying import Saves
from gpu.binder.report import Observer
from gpu.binder.run_pass import Passes
from gpu.binder.term import Election
from gpu.binder.writer import ChangeWriter
from gpu.config import Binding, Config
from gpu.ports import Clock, Reader, Recorder, Writer
from gpu.reading import FreshView, InThread

ANSWERING: Final = 4
"""Passes that only answer starts and may be under way at once: a slow write holds up those of its own alone."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Awaited:
    """Says whether starts wait for an answer of this replica: of the leader alone, as its passes see it."""

    passes: Passes | None = None

    def __call__(self) -> bool:
        """Say whether any does now; cheap until a claim changes."""
        return self.passes is not None and self.passes.is_awaited()


@dataclass(frozen=True, slots=True, kw_only=True)
class Binder:
    """The binder as `apiserver/wiring.py` wires it; one per process, idle until it leads."""

    reader: Reader
    writer: Writer
    config: Config
    clock: Clock
    observer: Observer
    table: tuple[Phase, ...] = phases.PASS
    in_thread: InThread = asyncio.to_thread
    recorder: Recorder = field(default_factory=news.Silent)
    saves: Saves = field(default_factory=Saves)
    awaited: Awaited = field(default_factory=Awaited)

    async def lead(self, hold: Hold) -> None:
        """Lead until cancelled, or until the leadership is over, and then return.

        The reader's stores are synced when this is called. Cancelling it (the lease is lost, the
        process ends) leaves writes in flight in doubt: the next leader lists consistently, and
        policy refuses what arrives after its term.
        """
        pace = self.config.pace
        view = FreshView(self.reader, self.writer)
        try:
            fence = await Election(
                reader=self.reader,
                writer=self.writer,
                view=view,
                config=self.config,
                clock=self.clock,
                hold=hold,
            ).win()
            self.observer.leading(fence.term)
            log.info("leading", term=fence.term, identity=self.config.identity)
            passes = Passes(
                view=view,
                writer=ChangeWriter(
                    api=self.writer, view=view, fence=fence, write_timeout=pace.write_timeout
                ),
                quarantine=Quarantine(first=pace.quarantine_first, most=pace.quarantine_most),
                config=self.config,
                clock=self.clock,
                table=self.table,
                in_thread=self.in_thread,
                recorder=self.recorder,
                saves=self.saves,
            )
            loop = Loop(
                passes.once,
                config=self.config,
                observer=self.observer,
                monotonic=self.clock.monotonic,
            )
            ends = [self.reader.subscribe(loop.signal)]
            answers: list[Loop] = []
            if self.config.binding is Binding.REQUEST:
                answers = self._answers(passes, loop)
                ends += [self.reader.subscribe(one.signal) for one in answers]
                self.awaited.passes = passes
            self.saves.wake = loop.signal
            try:
                await _run(loop, answers)
            finally:
                self.saves.wake = self.awaited.passes = None
                for end in ends:
                    end()
        except Deposed as error:
            log.warning("no longer leading", reason=str(error))
        finally:
            self.observer.leading(None)

    def _answers(self, passes: Passes, full: Loop) -> list[Loop]:
        """Return the loops of passes that only answer starts, beside that of full ones."""
        found = [
            Loop(
                passes.answer,
                config=self.config,
                observer=self.observer,
                monotonic=self.clock.monotonic,
                resync=False,
            )
            for _ in range(ANSWERING)
        ]

        def wake() -> None:
            for one in found:
                one.signal()

        passes.wake, passes.wake_answers = full.signal, wake
        return found


async def _run(loop: Loop, answers: Sequence[Loop]) -> None:
    """Run passes until cancelled. Raises Deposed when the leadership is over."""
    if not answers:
        await loop.run()
    try:
        async with asyncio.TaskGroup() as tasks:
            for one in (loop, *answers):
                tasks.create_task(one.run())
    except ExceptionGroup as group:
        deposed, others = group.split(Deposed)
        if deposed is None or others is not None:
            raise
        words = "; ".join(dict.fromkeys(map(str, deposed.exceptions)))
        raise Deposed(words) from group
