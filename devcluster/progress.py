"""One line per step for a person: what, how long, what is left; a spinner where there is a terminal."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import rich.console
import rich.markup

_WIDE = 120  # columns where there is no terminal to ask

console = rich.console.Console(
    highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _WIDE
)
"""Where progress goes; with no terminal behind it: plain lines, no spinner."""


@contextmanager
def step(what: str, *, left: str = "") -> Iterator[None]:
    """Show that `what` is going on, then that it is done and how long it took; `left` ends the line.

    Without a terminal a line is printed before as well, so that a log shows what hangs.
    """
    begun = time.monotonic()
    shown = rich.markup.escape(what)
    if console.is_terminal:
        with console.status(f"{shown} …"):
            yield
    else:
        console.print(f"… {shown}")
        yield
    tail = f", {left}" if left else ""
    console.print(f"[green]✓[/green] {shown} [dim]({lasted(time.monotonic() - begun)}{tail})[/dim]")


def say(what: rich.console.RenderableType) -> None:
    """Print one line, rich markup and all, or a table."""
    console.print(what)


def lasted(seconds: float) -> str:
    """Word a duration: `0.4 s`, `37 s`, `4 min 06 s`."""
    if seconds < 10:  # noqa: PLR2004 - from here on tenths say nothing
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
