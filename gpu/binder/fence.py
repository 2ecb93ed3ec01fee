"""Fence: the leader's term and what is left of its lease; asked before each write.

A claim's resourceVersion does not protect a node's capacity from a leader that was frozen. The term
does: policy refuses placement writes of a lower one. The lease's own monotonic deadline keeps most
such writes from being sent at all.
"""

from dataclasses import dataclass
from typing import Protocol


class Deposed(Exception):  # noqa: N818 -- a state, not a fault: the caller gives up the lease
    """The lease ran out by our own clock, or somebody raised a higher term."""


class Hold(Protocol):
    """One leadership, from winning the lease to losing it."""

    @property
    def remaining(self) -> float:
        """Seconds until the lease may be another's, by our own monotonic clock; 0 or less: over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """One leadership and its term."""

    term: int
    hold: Hold

    def valid(self) -> bool:
        """Say whether a write may still be sent."""
        return self.hold.remaining > 0

    def seconds(self, most: float) -> float:
        """Return how long a write may take: it ends before the lease does.

        Raises Deposed when nothing is left.
        """
        if not self.valid():
            raise Deposed("the lease has run out")
        return min(most, self.hold.remaining)
