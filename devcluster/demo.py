"""`make demo` and `make demo-down`: a plane of our own that stays, or somebody's cluster (external).

Our own lies in one folder of this user; a second demo stops what is left of the first. On an
external cluster, whose product is installed already, only objects with the demo's mark are touched.
"""

import contextlib
import logging
import os
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from devcluster import (
    binaries,
    chart,
    cleanup,
    control_plane,
    errors,
    examples,
    kubevirt,
    nodes_story,
    plane,
    product,
    progress,
    simulated,
    simulating,
    story,
    tenants,
    vm_story,
    vms,
)
from gpu.cluster import client, credentials
from gpu.cluster import errors as api
from gpu.objects import kinds

EXTERNAL: Final = "external"
_NO_KUBEVIRT: Final = "This cluster has no KubeVirt"
_ROOM: Final = 512 * 2**20
"""Bytes that etcd and the logs of one demo may want."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where the demo plays."""

    directory: Path
    port: int | None = None
    """Of kube-apiserver; None: a free one."""
    kubeconfig: Path | None = None
    """Of an external cluster; None: a plane of our own."""


def setting(environ: Mapping[str, str] = os.environ, *, port: int | None = None) -> Setting:
    """Read the setting from the environment: CLUSTER, KUBECONFIG, XDG_STATE_HOME."""
    base = environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    directory = Path(base) / "cozystack-gpu" / "demo"
    cluster = environ.get("CLUSTER", "")
    if cluster not in {"", EXTERNAL}:
        raise errors.DevclusterError(
            f"CLUSTER={cluster} is unknown: leave it out or set {EXTERNAL}."
        )
    if not cluster:
        return Setting(directory=directory, port=port)
    kubeconfig = environ.get("KUBECONFIG", "")
    if not kubeconfig:
        raise errors.DevclusterError(
            f"CLUSTER={EXTERNAL} needs KUBECONFIG, the cluster's kubeconfig."
        )
    return Setting(directory=directory, kubeconfig=Path(kubeconfig))


async def up(where: Setting) -> None:
    """Play the demo and leave it running; when it fails, nothing of ours keeps running."""
    if where.kubeconfig is not None:
        await _play_external(where, where.kubeconfig)
    else:
        await _play_own(where)


async def tell_more(where: Setting) -> None:
    """Tell the story of nodes on the running demo; where none runs, play the demo first."""
    kubeconfig = where.kubeconfig or await _running(where)
    async with await _client(kubeconfig) as admin:
        with _told():
            await _require_product(admin)
            if not await vms.are_served(admin):
                progress.say(f"{_NO_KUBEVIRT}: the story of nodes needs VMs and is left out.")
                return
            async with _nodes_served(admin, where):
                await nodes_story.tell(admin)


async def down(where: Setting) -> None:
    """Stop and remove exactly what `up` made."""
    if where.kubeconfig is not None:
        async with await _client(where.kubeconfig) as admin:
            with progress.step("removing the demo's objects"):
                async with _nodes_served(admin, where):
                    removed = await cleanup.remove(admin, nodes_story.MARK)
                    removed += await cleanup.remove(admin, story.MARK)
        progress.say(f"removed: {removed} objects")
        return
    stopped = await control_plane.stop(where.directory)
    if stopped:
        progress.say(f"stopped: {', '.join(stopped)}")
        progress.say(f"[dim]logs stay in {where.directory / 'logs'}[/dim]")
    else:
        progress.say("nothing of a demo was running")


async def _play_own(where: Setting) -> None:
    await binaries.build()
    begun = time.monotonic()
    _check_room(where.directory)
    if left := await control_plane.stop(where.directory):
        progress.say(f"[dim]stopped what was left of an earlier demo: {', '.join(left)}[/dim]")
    shutil.rmtree(where.directory / "logs", ignore_errors=True)
    with progress.step("control plane: etcd, kube-apiserver, controller manager, scheduler"):
        cp = await control_plane.start(where.directory, port=where.port)
    async with stopped_on_failure(cp), cp.admin() as admin:
        with progress.step("helm installs the chart: kinds, roles, Service, APIService"):
            gpu = await product.install(cp, admin, kubevirt=False)
        with progress.step("cozystack-gpu serve, under its ServiceAccount; its API is available"):
            await gpu.start()
            await gpu.available()
        ending = await story.tell(admin)
        took = ending.first_bound - begun
        progress.say(f"\n[dim]first claim Bound {took:.1f} s after the start[/dim]\n")
        await kubevirt.start(cp, admin, permitted=examples.permitted(nodes_story.RESOURCE))
        with progress.step("kubelet and virt-handler of the nodes, simulated"):
            await simulating.start(cp)
        await vm_story.tell(admin)
    _say_what_next(cp.kubeconfig, cp.site.binaries["kubectl"])


async def _running(where: Setting) -> Path:
    """Return the kubeconfig of the demo that runs; where none does, of one started now."""
    cp = await control_plane.load(where.directory)
    if cp is None or product.FIRST not in cp.running():
        await _play_own(where)
        cp = await control_plane.load(where.directory)
        assert cp is not None
    return cp.kubeconfig


@contextlib.asynccontextmanager
async def _nodes_served(admin: client.Client, where: Setting) -> AsyncIterator[None]:
    """Have kubelet and virt-handler of the demo's nodes simulated while the block runs.

    On a plane of our own a process does that all the time. Where nobody serves VMs there is nothing
    to do for them.
    """
    if where.kubeconfig is None or not await vms.are_served(admin):
        yield
        return
    # What a simulation logs of every guest is no part of the story.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    async with simulated.simulated(admin, adopting=True):
        yield


async def _play_external(where: Setting, kubeconfig: Path) -> None:
    async with await _client(kubeconfig) as admin:
        with _told():
            await _require_product(admin)
            async with _nodes_served(admin, where):
                with progress.step("removing what an earlier demo left"):
                    await cleanup.remove(admin, story.MARK)
                await story.tell(admin)
                if await vms.are_served(admin):
                    await vm_story.tell(admin)
                    await vm_story.end(admin)
                else:
                    progress.say(f"{_NO_KUBEVIRT}: the story of VMs is left out.")
    _say_what_next(kubeconfig, None)


async def _require_product(admin: client.Client) -> None:
    try:
        await admin.get(kinds.API_SERVICES, chart.API_SERVICE)
    except api.NotFound as error:
        raise errors.DevclusterError(
            f"The product is not installed on this cluster: helm install it first ({chart.CHART})."
        ) from error


@contextlib.asynccontextmanager
async def stopped_on_failure(cp: plane.ControlPlane) -> AsyncIterator[None]:
    """Stop the plane when the block fails; a dead child is the reason given, when there is one."""
    told = False
    try:
        with _told():
            yield
        told = True
    except Exception:
        cp.check()
        raise
    finally:
        if not told:
            await cp.stop()


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Turn a 'no' of the API server, or its silence, into a message for a person."""
    try:
        yield
    except api.ApiError as error:
        raise errors.DevclusterError(f"The API server's answer: {error}") from error


def _check_room(directory: Path) -> None:
    there = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(there).free
    if free < _ROOM:
        raise errors.DevclusterError(
            f"The disk is nearly full: {free // 2**20} MiB free at {there}, "
            f"{_ROOM // 2**20} MiB are needed."
        )


async def _client(kubeconfig: Path) -> client.Client:
    try:
        return client.Client(await credentials.load(kubeconfig))
    except credentials.LoginError as error:
        raise errors.DevclusterError(f"Cannot log in: {error}.") from error


def _say_what_next(kubeconfig: Path, kubectl: Path | None) -> None:
    acme, _ = examples.TENANTS
    progress.say("\n[bold]Try next[/bold]")
    progress.say(f"  export KUBECONFIG={kubeconfig}")
    if kubectl is not None and shutil.which("kubectl") is None:
        folder = kubeconfig.parents[1] / "bin"
        folder.mkdir(exist_ok=True)
        link = folder / "kubectl"
        link.unlink(missing_ok=True)
        link.symlink_to(kubectl)
        progress.say(f"  export PATH={folder}:$PATH")
    who = f"--as=somebody --as-group={tenants.group(acme)}"
    progress.say(f"  kubectl get gpuoffers -n {acme} {who}")
    progress.say("  kubectl get gpuclaims -A")
