"""Quarantine: sets whose write was definitely refused, each left alone for its own growing delay.

Kept in the leader's memory: a new leader asks the API server once more, which costs one write.
"""

from dataclasses import dataclass, field

from gpu.binder.changes import SetId


@dataclass(slots=True)
class _Term:
    until: float
    delay: float


@dataclass(slots=True, kw_only=True)
class Quarantine:
    """Delays in seconds of the monotonic clock, doubled with each further refusal of the set."""

    first: float
    most: float
    _terms: dict[SetId, _Term] = field(default_factory=dict)

    def refuse(self, set_id: SetId, now: float) -> float:
        """Put a set in, or in again for twice as long; returns the delay."""
        old = self._terms.get(set_id)
        delay = min(old.delay * 2, self.most) if old else self.first
        self._terms[set_id] = _Term(now + delay, delay)
        return delay

    def accept(self, set_id: SetId) -> None:
        """Forget a set: its write was stored."""
        self._terms.pop(set_id, None)

    def held(self, now: float) -> frozenset[SetId]:
        """Return the sets to be left alone at this moment; forgets those long out and never back."""
        for set_id, term in tuple(self._terms.items()):
            if now >= term.until + self.most:
                del self._terms[set_id]
        return frozenset(set_id for set_id, term in self._terms.items() if now < term.until)

    def next_end(self, now: float) -> float | None:
        """Return when the next set comes out, or None when none is in."""
        return min((term.until for term in self._terms.values() if term.until > now), default=None)
