"""`python -m bench [PART…]`: measure, print, end."""

import asyncio
import json
import sys
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from bench import api_scenarios, figures, report, scenarios, vm_scenarios
from bench.scale import Scale
from devcluster import errors


class Output(StrEnum):
    """How figures are printed."""

    TABLE = "table"
    JSON = "json"


_SCALE = Scale()
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(  # noqa: PLR0913 -- each is an option of the command line
    parts: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"{', '.join(scenarios.PARTS)}; all of these when none is named. "
            f"{', '.join(api_scenarios.PARTS)}: the served API, and of that reads and questions. "
            f"{', '.join(vm_scenarios.PARTS)}: the last is all others of VMs."
        ),
    ] = None,
    *,
    output: Annotated[Output, typer.Option("-o", "--output", help="table or json.")] = Output.TABLE,
    rounds: Annotated[int, typer.Option(min=1, max=20)] = _SCALE.rounds,
    orders: Annotated[
        int, typer.Option(min=1, max=5000, help="Orders of a burst.")
    ] = _SCALE.orders,
    singles: Annotated[
        int, typer.Option(min=1, max=1000, help="Orders one by one, a round.")
    ] = _SCALE.singles,
    reads: Annotated[
        int, typer.Option(min=1, max=10_000, help="Reads of each path, a round.")
    ] = _SCALE.reads,
    held: Annotated[
        int, typer.Option(min=100, max=12_000, help="Claims of the full house.")
    ] = _SCALE.held,
    lives: Annotated[
        int, typer.Option(min=1, max=1000, help="VMs of each kind one by one, a round.")
    ] = _SCALE.lives,
    starts: Annotated[
        int, typer.Option(min=2, max=380, help="VMs started at once.")
    ] = _SCALE.starts,
    limit: Annotated[float, typer.Option(min=10, help="Seconds after which it gives up.")] = 1200,
) -> None:
    """Measure the product on a control plane of its own; figures only compare within one run."""
    chosen = parts or list(scenarios.PARTS)
    unknown = sorted(set(chosen) - set(scenarios.ALL_PARTS))
    if unknown:
        known = ", ".join(scenarios.ALL_PARTS)
        raise typer.BadParameter(f"{', '.join(unknown)}: choose from {known}")
    scale = Scale(
        rounds=rounds,
        orders=orders,
        singles=singles,
        reads=reads,
        held=held,
        lives=lives,
        starts=starts,
    )
    try:
        run = asyncio.run(_measure(scale, chosen, limit))
    except errors.DevclusterError as error:
        sys.stderr.write(f"{error}\n")
        raise typer.Exit(1) from None
    if output is Output.JSON:
        sys.stdout.write(json.dumps(report.as_json(run), indent=2) + "\n")
    else:
        report.print_table(run, Console(width=None if sys.stdout.isatty() else 150))


async def _measure(scale: Scale, parts: list[str], limit: float) -> figures.Run:
    def say(line: str) -> None:
        sys.stderr.write(f"bench: {line}\n")

    async with asyncio.timeout(limit):
        return await scenarios.run(scale, say, parts)


if __name__ == "__main__":
    app()
