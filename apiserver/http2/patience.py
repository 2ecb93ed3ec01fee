"""How many frames that ask for work and bring no request are borne with."""

from typing import Final

from h2 import events

FLOOD: Final = 1000
"""Frames that ask for work and bring no request, at once: pings, settings, priorities, empty data.

Resets are none: a tenant's cancelled requests come as such through kube-apiserver, which must not be sent away for
them. How many requests are under way, reset or not, is limited by itself (framing.PENDING).
"""
FLOOD_SECOND: Final = 100.0
"""As many more each second. CVE-2019-9511 to 9518 are such floods."""
_EMPTY_HANDED: Final = (
    events.PingReceived,
    events.PriorityUpdated,
    events.RemoteSettingsChanged,
)


def is_empty_handed(event: events.Event) -> bool:
    """Say whether a frame asks for work and brings nothing."""
    if isinstance(event, events.DataReceived):
        return not event.data and event.stream_ended is None
    return isinstance(event, _EMPTY_HANDED)


class Patience:
    """Of one connection: a bucket that each such frame empties and that fills again with time."""

    def __init__(self, now: float) -> None:
        self._left, self._at = float(FLOOD), now

    def bears(self, now: float) -> bool:
        """Take one more; False when it is a flood."""
        gained = (now - self._at) * FLOOD_SECOND
        self._left, self._at = min(self._left + gained, float(FLOOD)) - 1, now
        return self._left >= 0
