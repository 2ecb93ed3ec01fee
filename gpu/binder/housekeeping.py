"""Housekeeping: phases that place nothing let what waits to be placed go first, for a while.

Records and numbers are as many writes as the placements that they tell of, and a launcher that comes while
they are written waits for the next pass. While there is news they are put off, and one write tells of
many placements then; so they are while a start is under way, of which news comes any moment. In a cluster where
nothing happens they come in the pass that they tell of.
"""

from dataclasses import dataclass
from typing import Final

MOST: Final = 1.0
"""Seconds that they are put off at most."""


@dataclass(slots=True)
class Housekeeping:
    """Whether the phases that may wait have their turn; one of each leadership."""

    _since: float | None = None
    """When they were first put off, since they last had their turn."""

    def waits(self, now: float, *, has_news: bool) -> bool:
        """Say whether they are put off once more, in seconds of the monotonic clock."""
        since = now if self._since is None else self._since
        is_put_off = has_news and now - since < MOST
        self._since = since if is_put_off else None
        return is_put_off

    @property
    def until(self) -> float | None:
        """When they have their turn at the latest, if they are put off."""
        return None if self._since is None else self._since + MOST
