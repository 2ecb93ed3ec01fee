"""Clocks for tests: one that a test moves by hand, one that follows the event loop's time."""

import asyncio
from datetime import UTC, datetime, timedelta

EPOCH = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class FakeClock:
    """Both clocks of the Clock port stand still until `advance`."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self._start = start
        self._passed = 0.0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        return self._passed

    def advance(self, seconds: float) -> None:
        assert seconds >= 0, "time does not go back"
        self._passed += seconds


class LoopClock:
    """Both clocks follow the running loop: virtual time under looptime.

    `skip` moves this clock alone, as a freeze does: the process slept, its timers did not fire.
    """

    def __init__(self, start: datetime = EPOCH) -> None:
        self._start = start
        self._skipped = 0.0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() + self._skipped

    def skip(self, seconds: float) -> None:
        self._skipped += seconds
