"""Unanswered calls: made again while nobody knows what came of them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from gpu.ports import Outcome, Writer

PAUSE: Final = 0.05
"""Seconds before a call is made again that got no answer."""

_DEFINITE: Final = frozenset({None, Outcome.REFUSED, Outcome.GONE})

Answer = TypeVar("Answer")


async def again(writer: Writer, call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Make a call until it is answered; put a deadline around it.

    Raises what the call raises for a definite no and for an object that is not there, and what is no
    answer of the API server's at all.
    """
    while True:
        try:
            return await call()
        except Exception as error:
            if writer.outcome(error) in _DEFINITE:
                raise
        await asyncio.sleep(PAUSE)
