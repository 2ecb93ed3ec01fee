"""PASS: the ordered table of phases and when each runs; the order is the design (domain contract 6).

A step of the contract that is not built yet has no row. Still to come, each in its place:
`attachments`, `sets` and `requests` before `orders` (and `moves`, `lost` before it too), `usage`
after `release`, with the complete binder; `gates` after `requests`, with the launcher pods.
"""

from typing import Final

from gpu.binder.phase import Phase
from gpu.binder.phases import finalizers, release

PASS: Final = (
    Phase(name="finalizers", changes=finalizers.changes_of, when_disabled=True),
    # attachments, sets, requests, gates, moves, lost
    Phase(name="release", changes=release.changes_of, when_disabled=True, after_failed_write=True),
    # usage (when_disabled)
)
