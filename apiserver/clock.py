"""SystemClock: the one place of the product that reads the wall clock."""

import time
from datetime import UTC, datetime


class SystemClock:
    """Wall time for what is stored, monotonic seconds for durations (gpu.ports.Clock)."""

    def now(self) -> datetime:
        """Return the wall time, in UTC."""
        return datetime.now(UTC)  # noqa: TID251 -- everything else is handed this clock

    def monotonic(self) -> float:
        """Return CLOCK_MONOTONIC, which runs on while the process is stopped by a signal."""
        return time.monotonic()
