"""What the garbage collector walks: as little as can be, since it holds every thread meanwhile.

Collecting is for circles of objects that nobody uses. Neither passes nor lists leave any, and what
they make is big: tables of all claims, which a collection goes through one by one, 30 to 190 ms at
10,000 claims. Young ones are collected only when there are as many new objects as there were old ones.
"""

import gc
from collections.abc import Awaitable, Callable
from typing import Final

_LEAST: Final = 500_000
"""New objects that are always let be: those of the first lists at 10,000 claims are 300,000."""
_TIMES: Final = 2
"""New objects for each that was there; the first pass and the first lists make nearly as many."""
_OLDER: Final = 10
"""So many collections of the young before one of all that came since the start."""


async def settle(filled: Callable[[], Awaitable[None]]) -> None:
    """Leave alone for ever what is there once it is `filled`, and what comes later, mostly."""
    gc.set_threshold(_LEAST, _OLDER, _OLDER)
    await filled()
    gc.collect()
    gc.freeze()
    gc.set_threshold(max(_LEAST, _TIMES * gc.get_freeze_count()), _OLDER, _OLDER)
