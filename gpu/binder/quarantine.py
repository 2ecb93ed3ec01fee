"""Quarantine: sets whose write was definitely refused, each left alone for its own growing delay.

Kept in the leader's memory: a new leader asks the API server once more, which costs one write.
"""

from dataclasses import dataclass, field

from gpu.binder.changes import SetId


@dataclass(slots=True)
class _Term:
    until: float
    delay: float
    asked: bool = False


@dataclass(slots=True, kw_only=True)
class Quarantine:
    """Delays in seconds of the monotonic clock, doubled with each further refusal of the set."""

    first: float
    most: float
    _terms: dict[SetId, _Term] = field(default_factory=dict)

    def refuse(self, set_id: SetId, now: float, *, judged: bool = True) -> float:
        """Put a set in, or in again for twice as long; returns the delay.

        One that was not `judged` is in for the first delay each time: what refused it says nothing
        of the set.
        """
        old = self._terms.get(set_id)
        delay = min(old.delay * 2, self.most) if old and judged else self.first
        self._terms[set_id] = _Term(now + delay, delay)
        return delay

    def accept(self, set_id: SetId) -> None:
        """Forget a set: its write was stored."""
        self._terms.pop(set_id, None)

    def held(self, now: float) -> frozenset[SetId]:
        """Return the sets the pass that begins now leaves alone.

        When one set of a namespace comes out, all of that namespace are asked with it: orders of a
        tenant that was refused for a while are then still served oldest first. A set that came out
        and was not refused again by the next pass is forgotten.
        """
        for set_id, term in tuple(self._terms.items()):
            if term.asked and now >= term.until:
                del self._terms[set_id]
        asked = {_group(set_id) for set_id, term in self._terms.items() if now >= term.until}
        for set_id, term in self._terms.items():
            term.asked = _group(set_id) in asked
        return frozenset(set_id for set_id, term in self._terms.items() if not term.asked)

    def within(self, now: float) -> frozenset[SetId]:
        """Return the sets whose delay is not over, for a pass beside the others: it ends none."""
        return frozenset(set_id for set_id, term in self._terms.items() if term.until > now)

    def count(self, now: float) -> int:
        """Return how many sets are in."""
        return sum(now < term.until for term in self._terms.values())

    def next_end(self, now: float) -> float | None:
        """Return when the next set comes out, or None when none is in."""
        return min((term.until for term in self._terms.values() if term.until > now), default=None)


def _group(set_id: SetId) -> str:
    """Return the namespace of a claim's set; any other object is asked by itself."""
    return set_id.partition("/")[0]
