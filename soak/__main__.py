"""`python -m soak --steps N --seed S`: run, tell of progress, save failures, end."""

import json
import secrets
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from soak import campaign, failures, report, shrink

TELLS = 2.0
"""Seconds between two lines of progress."""


class Output(StrEnum):
    """How the summary is printed."""

    TABLE = "table"
    JSON = "json"


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    *,
    steps: Annotated[int, typer.Option(min=1, help="Steps in all.")] = 20_000,
    seed: Annotated[str, typer.Option(help="Of everything; drawn and printed when empty.")] = "",
    minutes: Annotated[float | None, typer.Option(min=0.01, help="End after so long.")] = None,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="Processes.")] = 1,
    output: Annotated[Output, typer.Option("-o", "--output", help="table or json.")] = Output.TABLE,
    failed: Annotated[Path, typer.Option(help="Folder of failures.")] = Path("build/soak"),
    again: Annotated[Path | None, typer.Option(help="Run a saved failure again.")] = None,
    replays: Annotated[
        Path | None, typer.Option(help="With --again: save each pass here, the newest are kept.")
    ] = None,
) -> None:
    """Run the binder on simulated clusters under faults; ends with 1 when something is wrong."""
    if again is not None:
        raise typer.Exit(_again(again, replays))
    seed = seed or secrets.token_hex(4)
    plan = campaign.Plan(steps, seed, jobs, minutes and minutes * 60)
    began, said, saved = time.monotonic(), time.monotonic(), 0
    sys.stderr.write(f"soak: seed {seed}\n")

    def told(totals: campaign.Totals) -> None:
        nonlocal said, saved
        for failure in totals.failures[saved:]:
            sys.stderr.write(f"soak: {failure.wrong[0]}\n")
            sys.stderr.write(f"soak: saved {failures.save(failure, failed)}\n")
        saved = len(totals.failures)
        if time.monotonic() - said >= TELLS:
            said = time.monotonic()
            sys.stderr.write(f"soak: {report.line(totals, said - began)}\n")

    totals = campaign.run(plan, told)
    seconds = time.monotonic() - began
    if output is Output.JSON:
        sys.stdout.write(json.dumps(report.as_json(totals, seed, seconds), indent=2) + "\n")
    else:
        console = Console(width=None if sys.stdout.isatty() else 150)
        report.print_table(totals, seed, seconds, console)
    raise typer.Exit(1 if totals.failures else 0)


def _again(path: Path, replays: Path | None) -> int:
    failure = failures.load(path)
    done = shrink.replay(failure.seed, failure.steps, replays=replays)
    for index, step in enumerate(failure.steps):
        sys.stdout.write(f"{index:4} {step.name}\n")
    words = "; ".join(done.wrong) if done.wrong else "nothing is wrong any more"
    sys.stdout.write(f"step {done.step}: {words}\n")
    return 1 if done.wrong else 0


if __name__ == "__main__":
    app()
