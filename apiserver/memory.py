"""What the garbage collector walks, as little as can be; and that what is free goes back to the system.

Collecting is for circles of objects that nobody uses. Neither passes nor lists leave any, and what
they make is big: tables of all claims, which a collection goes through one by one, 30 to 190 ms at
10,000 claims, while no thread runs. Young ones are collected only when there are as many new objects as
there were old ones.

Memory that was given free is another matter: each connection has 256 KiB for what comes over TLS, and
glibc keeps what lies below something in use. A thousand connections that come and go would leave up to
all they had, though the next thousand could have it.
"""

import asyncio
import ctypes
import gc
from collections.abc import Awaitable, Callable
from typing import Final

_LEAST: Final = 500_000
"""New objects that are always let be: those of the first lists at 10,000 claims are 300,000."""
_TIMES: Final = 2
"""New objects for each that was there; the first pass and the first lists make nearly as many."""
_OLDER: Final = 10
"""So many collections of the young before one of all that came since the start."""
_GIVEN_BACK: Final = 10.0
"""Seconds between two times that free memory is given back. It takes 0.2 ms where nothing is free, and
2 to 14 ms after a thousand connections; what is used again costs a page fault for each 4 KiB."""


async def keep_small(filled: Callable[[], Awaitable[None]]) -> None:
    """See to it for ever that little memory is used, and little time on that."""
    await settle(filled)
    await give_back()


async def settle(filled: Callable[[], Awaitable[None]]) -> None:
    """Leave alone for ever what is there once it is `filled`, and what comes later, mostly."""
    gc.set_threshold(_LEAST, _OLDER, _OLDER)
    await filled()
    gc.collect()
    gc.freeze()
    gc.set_threshold(max(_LEAST, _TIMES * gc.get_freeze_count()), _OLDER, _OLDER)


async def give_back(every: float = _GIVEN_BACK) -> None:
    """Have what is free given back every so many seconds, in a thread that holds up no other.

    Returns at once where the C library has no such call (it is glibc's).
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while trim is not None:
        await asyncio.sleep(every)
        await asyncio.to_thread(trim, 0)
