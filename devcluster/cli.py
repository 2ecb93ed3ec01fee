"""Commands build, up, down, demo, demo-story, demo-down, accept: parse, then one call each; an error is one message, not a traceback."""

import asyncio
import errno
import sys
from pathlib import Path
from typing import Annotated

import typer

from devcluster import accept as accept_
from devcluster import binaries, components, control_plane, errors, progress
from devcluster import demo as demo_
from devcluster import kubevirt as kubevirt_

app = typer.Typer(
    name="devcluster",
    help="A real Kubernetes control plane on this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Directory = Annotated[Path, typer.Argument(help="Folder of the plane.")]


@app.command()
def build() -> None:
    """Build the binaries that are not in the cache folder yet."""
    asyncio.run(binaries.build())


@app.command()
def up(
    directory: Directory,
    *,
    port: Annotated[
        int | None, typer.Option(help="Of kube-apiserver; a free one if absent.")
    ] = None,
    aggregator_routing: Annotated[
        bool, typer.Option(help="Reach aggregated servers by EndpointSlices.")
    ] = False,
    kubevirt: Annotated[
        bool, typer.Option("--kubevirt", help="With KubeVirt's virt-api and virt-controller.")
    ] = False,
) -> None:
    """Start a bare control plane and leave it running."""
    options = components.Options(aggregator_routing=aggregator_routing)
    asyncio.run(_up(directory, options, port, kubevirt=kubevirt))


async def _up(
    directory: Path, options: components.Options, port: int | None, *, kubevirt: bool
) -> None:
    with progress.step("control plane"):
        cp = await control_plane.start(directory, options=options, port=port)
    if kubevirt:
        async with demo_.stopped_on_failure(cp), cp.admin() as admin:
            await kubevirt_.start(cp, admin)
    progress.say(f"export KUBECONFIG={cp.kubeconfig}")


@app.command()
def down(directory: Directory) -> None:
    """Stop what `up` started in a folder."""
    stopped = asyncio.run(control_plane.stop(directory))
    progress.say(f"stopped: {', '.join(stopped) or 'nothing was running'}")


@app.command()
def demo(
    *,
    port: Annotated[
        int | None, typer.Option(help="Of kube-apiserver; a free one if absent.")
    ] = None,
) -> None:
    """Play the demo and leave it running."""
    asyncio.run(demo_.up(demo_.setting(port=port)))


@app.command()
def demo_story() -> None:
    """Tell of a cordon, a drain, a lost node and its return, on the demo."""
    asyncio.run(demo_.tell_more(demo_.setting()))


@app.command()
def demo_down() -> None:
    """Stop exactly what `demo` started."""
    asyncio.run(demo_.down(demo_.setting()))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def accept(
    context: typer.Context,
    checker: Annotated[Path, typer.Argument(help="The checker, a Python program.")],
    *,
    resource: Annotated[
        list[str] | None, typer.Option(help="Plural name of what to judge; all when none is given.")
    ] = None,
) -> None:
    """Judge served resources by a checker; further words are the checker's."""
    if not checker.is_file():
        raise errors.DevclusterError(f"There is no checker at {checker}: set WIRE_CHECK.")
    sys.exit(asyncio.run(accept_.run(checker, tuple(resource or ()), tuple(context.args))))


def main() -> None:
    """Run the command line; an expected failure is told in one message on stderr, status 1."""
    try:
        app()
    except errors.DevclusterError as error:
        sys.stderr.write(f"\n{error}\n")
        sys.exit(1)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        sys.stderr.write(f"\nThe disk is full: {error.filename or error}.\n")
        sys.exit(1)
