"""Many events, one pass at a time: coalescing, resync, fixed conflict delay, backoff on error.

However many events arrive while a pass runs, one more follows. An order is not delayed by anything
but a pass under way, with one exception: after a write whose outcome is unknown, or a pass that
crashed, the API server is given a growing pause, events or not. A conflict is tried again after a
fixed delay, earlier when an event comes, and grows nothing. A refused set has its own delay, at the
end of which the loop wakes by itself. What a direct read denied is looked at again after a few seconds:
a Lease, for one, is renewed without an event.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from traceback import walk_tb
from typing import Final, NoReturn, Protocol

import structlog

from gpu.binder.fence import Deposed
from gpu.binder.report import Observer, PassReport
from gpu.config import Config
from gpu.ports import Outcome

log = structlog.get_logger(__name__)

_FRAMES: Final = 8
"""Frames of a traceback that are logged, innermost last."""
_UNMET: Final = 5.0
"""Seconds until a change is looked at again that relied on what a direct read denied: not all of that is watched."""


class Once(Protocol):
    """Run one pass; unless forced, only if the cluster shows more than the last one's writes."""

    def __call__(self, *, forced: bool) -> Awaitable[PassReport]:
        """Raise Deposed when the leadership is over."""


class Loop:
    """Runs passes for ever. `signal` may be called from the event loop's thread only."""

    def __init__(
        self,
        once: Once,
        *,
        config: Config,
        observer: Observer,
        monotonic: Callable[[], float],
        resync: bool = True,
    ) -> None:
        """`resync`: run now and then though nothing happens. Off for passes that only answer starts."""
        self._once = once
        self._config = config
        self._observer = observer
        self._resync = resync
        self._monotonic = monotonic
        self._dirty = asyncio.Event()
        self._dirty.set()
        self._pause = 0.0
        """Seconds of the last backoff; 0 when the last pass was well."""
        self._not_before = 0.0
        self._due: float | None = None

    def signal(self) -> None:
        """Something changed: one more pass, however often this is called before it starts.

        The pass may find that it was only the echo of the last one's writes; one that is due by
        time (resync, a retry, the end of a quarantine) looks at everything anew.
        """
        self._dirty.set()

    async def run(self) -> NoReturn:
        """Run passes until cancelled. Raises Deposed when the leadership is over."""
        while True:
            forced = await self._wait()
            self._dirty.clear()
            try:
                report = await self._once(forced=forced)
            except Deposed:
                raise
            except Exception as error:  # noqa: BLE001 -- one pass's fault must not end the leader
                self._crashed(error)
            else:
                self._passed(report)

    async def _wait(self) -> bool:
        """Wait for a reason to run; True when it is the time, False when something changed."""
        pause = self._not_before - self._monotonic()
        if pause > 0:
            await asyncio.sleep(pause)
        if self._is_due():
            return True
        if self._dirty.is_set():
            return False
        left = None if self._due is None else max(self._due - self._monotonic(), 0.0)
        try:
            async with asyncio.timeout(left):
                await self._dirty.wait()
        except TimeoutError:
            return True
        return self._is_due()

    def _is_due(self) -> bool:
        return self._due is not None and self._monotonic() >= self._due

    def _crashed(self, error: Exception) -> None:
        self._back_off()
        self._due = self._not_before
        for cause in _leaves(error):
            log.error("pass failed", error=repr(cause), where=_where(cause), pause=self._pause)
        self._observer.crashed(error)

    def _passed(self, report: PassReport) -> None:
        if report.skipped:
            if not self._resync:
                self._due = None  # what was to be tried again is not asked for any more
            return
        now = self._monotonic()
        pace = self._config.pace
        due = []
        if report.retryable and not report.only_conflicts:
            self._back_off()
            due.append(self._not_before)
        else:
            self._pause = 0.0
            if report.only_conflicts:
                due.append(now + pace.conflict)
        if self._resync and (self._config.enabled or report.awaits_release):
            due.append(now + pace.resync)
        if any(item.outcome is Outcome.STALE for item in report.failed):
            due.append(now + _UNMET)
        due += [at for at in (report.quarantine_ends, report.due) if at is not None]
        self._due = min(due, default=None)
        if report.again:
            self.signal()
        if self._resync:
            self._observer.passed(report)
        else:
            self._observer.answered(report)

    def _back_off(self) -> None:
        pace = self._config.pace
        self._pause = min(max(self._pause * 2, pace.backoff_first), pace.backoff_most)
        self._not_before = self._monotonic() + self._pause


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Take groups of a TaskGroup apart."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error


def _where(error: BaseException) -> str:
    """Return the frames of a traceback without reading source files: this runs on the event loop."""
    frames = [
        f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}:{line}"
        for frame, line in walk_tb(error.__traceback__)
    ]
    return " > ".join(frames[-_FRAMES:])
