"""Bring a control plane up and down: etcd, kube-apiserver, kube-controller-manager, kube-scheduler.

`control_plane()` is a plane for the length of a block; `start()` and `stop()` are for one that
outlives its starter, found again by its directory. A plane needs about 4 s and 0.6 GB; several
run side by side.
"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

from devcluster import (
    binaries,
    clock,
    components,
    errors,
    kubeconfig,
    pki,
    plane,
    ports,
    state,
)

_AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""


@contextlib.asynccontextmanager
async def control_plane(
    directory: Path | None = None,
    *,
    aggregator_routing: bool = False,
    node_lifecycle: bool = False,
    guarded_owners: bool = False,
    audit: bool = False,
) -> AsyncIterator[plane.ControlPlane]:
    """Run a control plane for the length of the block; its processes die with ours, however it ends.

    Without `directory` everything lies in a temporary folder, removed at the end unless the block
    raised. In a given one, logs and certificates are kept, etcd's data is not.
    """
    options = components.Options(
        aggregator_routing=aggregator_routing,
        node_lifecycle=node_lifecycle,
        guarded_owners=guarded_owners,
        audit=audit,
    )
    built = await binaries.build()
    own = directory is None
    folder = Path(tempfile.mkdtemp(prefix="cozystack-gpu-")) if directory is None else directory
    with _reserve(None) as chosen:
        cp = _make(folder, chosen, options, built, tethered=True)
        try:
            await _bring_up(cp)
            yield cp
        finally:
            await cp.stop()
            shutil.rmtree(folder / "etcd", ignore_errors=True)
    if own:
        shutil.rmtree(folder, ignore_errors=True)


async def start(
    directory: Path, *, options: components.Options | None = None, port: int | None = None
) -> plane.ControlPlane:
    """Start a plane that outlives us, in `directory`, kube-apiserver on `port` (default: a free one).

    What an earlier plane left in `directory` is stopped if it runs, and removed.
    """
    built = await binaries.build()
    await stop(directory)
    with _reserve(port) as chosen:
        options = options or components.Options()
        cp = _make(directory, chosen, options, built, tethered=False)
        try:
            await _bring_up(cp)
        except BaseException:
            await cp.stop()
            raise
    return cp


async def load(directory: Path) -> plane.ControlPlane | None:
    """Return the plane written down in `directory`, running or not; None where there is none."""
    written = state.read(directory)
    if written is None:
        return None
    built = await binaries.build()
    site = components.Site(
        directory=directory,
        ports=written.ports,
        pki=pki.Authorities(directory / "pki"),
        binaries=built,
        options=written.options,
    )
    return plane.ControlPlane(site, dict(written.processes), tethered=False)


async def stop(directory: Path) -> tuple[str, ...]:
    """Stop what is written down in `directory`, remove the plane's files, keep its logs.

    Returns the names of the processes that were still running.
    """
    cp = await load(directory)
    if cp is None:
        return ()
    running = cp.running()
    await cp.stop()
    for name in ("etcd", "pki", "kubeconfigs", "helm", "kubectl", "bin"):
        shutil.rmtree(directory / name, ignore_errors=True)
    (directory / state.FILE).unlink(missing_ok=True)
    return running


@contextlib.contextmanager
def _reserve(api_server: int | None) -> Iterator[components.Ports]:
    """Hold a port for each component until all of them listen."""
    with contextlib.ExitStack() as stack:

        def free() -> int:
            return stack.enter_context(ports.reserve()).port

        given = free() if api_server is None else stack.enter_context(ports.claim(api_server)).port
        yield components.Ports(
            etcd=free(),
            etcd_peer=free(),
            api_server=given,
            controller_manager=free(),
            scheduler=free(),
        )


def _make(
    directory: Path,
    chosen: components.Ports,
    options: components.Options,
    built: Mapping[str, Path],
    *,
    tethered: bool,
) -> plane.ControlPlane:
    directory.mkdir(parents=True, exist_ok=True)
    made = pki.make(directory / "pki", now=clock.now())
    site = components.Site(
        directory=directory, ports=chosen, pki=made, binaries=built, options=options
    )
    cp = plane.ControlPlane(site, {}, tethered=tethered)
    users = {
        plane.ADMIN: ("system:masters",),
        components.CONTROLLER_MANAGER: (),
        components.SCHEDULER: (),
    }
    for name, groups in users.items():
        user = name if groups else f"system:{name}"
        pair = made.sign_client(name, user=user, groups=groups, now=clock.now())
        kubeconfig.write_certificate(site.kubeconfig(name), cp.endpoint, pair)
    (directory / "audit-policy.yaml").write_text(_AUDIT_POLICY, encoding="utf-8")
    return cp


async def _bring_up(cp: plane.ControlPlane) -> None:
    # kube-apiserver has a third of a second to do before it first asks etcd, which needs a tenth.
    await _together(cp, components.ETCD, components.API_SERVER)
    # Not these two: what they may do is there only once kube-apiserver is ready.
    await _together(cp, components.CONTROLLER_MANAGER, components.SCHEDULER)
    await cp.namespace_ready("default")


async def _together(cp: plane.ControlPlane, *names: str) -> None:
    """Start components at once and wait until all are ready; raises what the first to fail says."""
    try:
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(cp.start_process(name))
    except* errors.DevclusterError as caught:
        raise caught.exceptions[0] from None
