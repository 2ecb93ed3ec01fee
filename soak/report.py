"""Totals as a table for people, as JSON, and as the one line of progress."""

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from soak.campaign import Totals
from soak.line import Fault

FAULTS = tuple(fault.value for fault in Fault)


def line(totals: Totals, seconds: float) -> str:
    """Return where a run stands."""
    faults = ", ".join(f"{name} {totals.tally[name]}" for name in FAULTS if totals.tally[name])
    speed = totals.steps / seconds if seconds else 0.0
    return (
        f"{totals.steps} steps, {speed:.0f}/s, {totals.clusters} clusters, {totals.passes} passes; "
        f"{faults or 'no faults yet'}; violations {len(totals.failures)}"
    )


def as_json(totals: Totals, seed: str, seconds: float) -> dict[str, Any]:
    """Return the whole of it."""
    return {
        "seed": seed,
        "steps": totals.steps,
        "seconds": round(seconds, 1),
        "clusters": totals.clusters,
        "passes": totals.passes,
        "writes": totals.writes,
        "faults": {name: totals.tally[name] for name in FAULTS},
        "events": {
            name: number for name, number in sorted(totals.tally.items()) if name not in FAULTS
        },
        "violations": [
            {"seed": it.seed, "wrong": list(it.wrong), "steps": len(it.steps)}
            for it in totals.failures
        ],
    }


def print_table(totals: Totals, seed: str, seconds: float, console: Console) -> None:
    """Print the summary."""
    table = Table(box=box.SIMPLE_HEAD, title=f"soak, seed {seed}", title_justify="left")
    table.add_column("what")
    table.add_column("number", justify="right")
    for name, number in (
        ("steps", totals.steps),
        ("steps/s", round(totals.steps / seconds) if seconds else 0),
        ("clusters", totals.clusters),
        ("passes", totals.passes),
        ("writes", totals.writes),
        *((f"fault: {name}", totals.tally[name]) for name in FAULTS),
        *((name, n) for name, n in sorted(totals.tally.items()) if name not in FAULTS),
        ("violations", len(totals.failures)),
    ):
        table.add_row(name, str(number))
    console.print(table)
    for failure in totals.failures:
        console.print(
            f"seed {failure.seed}, {len(failure.steps)} of {failure.before} steps: "
            + "; ".join(failure.wrong),
            markup=False,
        )
