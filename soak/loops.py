"""An event loop whose time jumps: nobody waits for a timer, and threads are run on the spot."""

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_REAL_WAIT = 10.0
"""Seconds of real time in which somebody may still wake a loop that has nothing to do."""


class _Jumping:
    """A selector that never waits: the time it was to wait for has passed at once."""

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            # At its end a loop waits for a real thread, which closes the executor and wakes it.
            if woken := self._real.select(_REAL_WAIT):
                return list(woken)
            raise RuntimeError("every task waits and no timer runs: nothing will ever happen")
        self.now += max(timeout, 0.0)
        return []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _OnTheSpot(ThreadPoolExecutor):
    """Run work where it is submitted: a thread's timing would make a seed worthless."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 -- whoever awaits it gets it
            done.set_exception(error)
        return done


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)  # type: ignore[arg-type]  # a selector by __getattr__
        self.set_default_executor(_OnTheSpot())

    def time(self) -> float:
        return self._jumping.now


def run(main: Any) -> Any:
    """Run a coroutine to its end in virtual time."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(main)
