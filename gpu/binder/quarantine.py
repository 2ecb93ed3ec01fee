"""Quarantine: sets whose write was definitely refused, each left alone for its own growing delay.

So are sets whose writes end without an answer in one pass after the other: each of them ends the placing of
its pass for everybody. What a set holds then is known all the same: before the next pass it is read past
the cache and given a new version, so that no write of ours to it can arrive any more (decision 17).

Kept in the leader's memory: a new leader asks the API server once more, which costs one write.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from gpu.binder.changes import SetId

IN_A_ROW: Final = 3
"""Passes that writes of a namespace end unknown in, until its sets are left alone for it."""
MANY: Final = 3
"""Namespaces: what more of them have in common is the API server's, unless it answers others meanwhile."""


@dataclass(slots=True)
class _Term:
    until: float
    delay: float
    asked: bool = False
    answered: bool = True
    """It was refused; else nobody knows what became of its write."""


@dataclass(slots=True, kw_only=True)
class Quarantine:
    """Delays in seconds of the monotonic clock, doubled with each further refusal of the set."""

    first: float
    most: float
    _terms: dict[SetId, _Term] = field(default_factory=dict)
    _rows: dict[str, int] = field(default_factory=dict)
    """Phases in a row with a write of the namespace that ended unknown."""

    def refuse(self, set_id: SetId, now: float, *, judged: bool = True) -> float:
        """Put a set in, or in again for twice as long; returns the delay.

        One that was not `judged` is in for the first delay each time: what refused it says nothing
        of the set.
        """
        old = self._terms.get(set_id)
        delay = min(old.delay * 2, self.most) if old and judged else self.first
        self._terms[set_id] = _Term(now + delay, delay)
        return delay

    def unanswered(
        self, unknown: Collection[SetId], stored: Collection[SetId], now: float
    ) -> frozenset[SetId]:
        """Count placement writes of one phase that ended unknown; returns the sets that go in for it.

        `stored` are sets of it whose writes were stored. A server that answers nobody is not theirs to
        bear: where many namespaces got no answer, and no other got one, all counts begin anew.
        """
        groups, others = set(map(_group, unknown)), set(map(_group, stored))
        if len(groups) > MANY and not others - groups:
            self._rows.clear()
            return frozenset()
        for group in others - groups:
            self._rows.pop(group, None)
        for group in groups:
            self._rows[group] = self._rows.get(group, 0) + 1
        found = frozenset(it for it in unknown if self._rows[_group(it)] >= IN_A_ROW)
        for set_id in found:
            self.refuse(set_id, now)
            self._terms[set_id].answered = False
        return found

    def unread(self) -> None:
        """Note that the API server does not even tell what was written: no set is to blame."""
        self._rows.clear()

    def silent(self) -> frozenset[SetId]:
        """Return the sets that are in, or asked again just now, since their writes got no answer."""
        return frozenset(set_id for set_id, term in self._terms.items() if not term.answered)

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
