"""A run as a table for people or as JSON for comparing."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from bench.figures import Figure, Run


def as_json(run: Run) -> dict[str, Any]:
    """Return the run as JSON; numbers in the figure's unit."""
    return {
        "machine": run.machine,
        "figures": [
            {
                "name": figure.name,
                "unit": figure.unit,
                **asdict(figure.spread),
                "goal": None if figure.goal is None else str(figure.goal),
                "met": None if figure.goal is None else figure.goal.met(figure.spread),
                "note": figure.note,
            }
            for figure in run.figures
        ],
        "remarks": list(run.remarks),
    }


def print_table(run: Run, console: Console) -> None:
    """Print the run; `p99` is left out where there are too few values to have one."""
    table = Table(box=box.SIMPLE_HEAD, title=run.machine, title_justify="left", pad_edge=False)
    table.add_column("figure")
    table.add_column("unit")
    for name in ("median", "p99", "min", "max", "n"):
        table.add_column(name, justify="right")
    table.add_column("goal")
    for figure in run.figures:
        table.add_row(*_row(figure))
    console.print(table)
    for line in (*_notes(run.figures), *run.remarks):
        console.print(f"· {line}", highlight=False)


def _notes(figures: Sequence[Figure]) -> Iterator[str]:
    """Yield each note once, with the figures it is about."""
    about: dict[str, list[str]] = {}
    for figure in figures:
        if figure.note:
            about.setdefault(figure.note, []).append(figure.name)
    return (f"{'; '.join(names)}: {note}" for note, names in about.items())


def _row(figure: Figure) -> tuple[str, ...]:
    spread = figure.spread
    goal = ""
    if figure.goal is not None:
        goal = f"{figure.goal} {'met' if figure.goal.met(spread) else 'NOT MET'}"
    return (
        figure.name,
        figure.unit,
        _number(spread.middle),
        _number(spread.p99) if spread.count >= ENOUGH else "-",
        _number(spread.low),
        _number(spread.high),
        str(spread.count),
        goal,
    )


ENOUGH = 50
"""Fewer values than this have a maximum, not a p99."""


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"
