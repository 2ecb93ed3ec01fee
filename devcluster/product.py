"""The product on a plane: the chart, and `cozystack-gpu serve` as processes beside the cluster.

    async with product.running(cp) as gpu:          # chart, one replica, aggregated API available
        await gpu.start("replica-2")                # one more; leads only when the first is gone
        gpu.kill("replica-1")

A replica logs in as the chart's ServiceAccount, never as the administrator.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from devcluster import (
    addresses,
    chart,
    clock,
    commands,
    components,
    errors,
    pki,
    plane,
    probes,
    processes,
)
from gpu.cluster import client
from gpu.objects.kinds import Kind

FIRST: Final = "replica-1"
_SERVICE_NAMES = tuple(
    f"{chart.RELEASE}{tail}" for tail in ("", f".{chart.NAMESPACE}", f".{chart.NAMESPACE}.svc")
)
_ENDPOINT_SLICES = Kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")


@dataclass(frozen=True, slots=True)
class Replica:
    """One running `serve`: its identity (also its process's name), where it listens, its log."""

    identity: str
    address: str
    port: int
    log: Path

    @property
    def url(self) -> str:
        """Base URL to ask the server itself, past kube-apiserver."""
        host = "localhost" if self.address == "127.0.0.1" else self.address
        return f"https://{host}:{self.port}"


class Product:
    """The installed product: its replicas by identity, and the port kube-apiserver calls."""

    def __init__(
        self,
        cp: plane.ControlPlane,
        admin: client.Client,
        port: int,
        *,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        """`values` are the chart's own on this plane; what is configured later goes over them."""
        self.cp = cp
        self.admin = admin
        self.port = port
        self._values = values or {}
        self.replicas: dict[str, Replica] = {}
        names = (*_SERVICE_NAMES, addresses.own()) if self._sliced else _SERVICE_NAMES
        self.serving: pki.Pair = cp.pki.sign_server("cozystack-gpu", names=names, now=clock.now())

    async def start(
        self, identity: str = FIRST, *, flags: Sequence[str] = (), login: Path | None = None
    ) -> Replica:
        """Start a replica and wait until it is ready; the first one gets the Service's port.

        `flags` are more words for `serve`. `login` is another kubeconfig than the
        ServiceAccount's own, for a test that stands between the two.
        """
        known = self.replicas.get(identity)
        port = known.port if known else self._next_port()
        log = self.cp.site.log(identity)
        replica = Replica(identity, addresses.own() if self._sliced else "127.0.0.1", port, log)
        argv = self._argv("serve", login or await self.login())
        argv += (
            f"--bind-address={replica.address}",
            f"--port={port}",
            f"--tls-cert-file={self.serving.crt}",
            f"--tls-private-key-file={self.serving.key}",
            f"--identity={identity}",
            "--shutdown-delay=0",  # nobody here needs time to learn of red readiness
            self._of_starts,
            *flags,
        )
        command = processes.Command(name=identity, argv=argv, log=log)
        probe = probes.answers_ok(f"{replica.url}/readyz", self.cp.pki.ext_ca.crt)
        await self.cp.run(command, probe)
        self.replicas[identity] = replica
        if self._sliced:
            await self.route(identity, ready=True)
        return replica

    async def login(self) -> Path:
        """Return a kubeconfig of the chart's ServiceAccount, its token fresh."""
        return await self.cp.service_account_kubeconfig(chart.NAMESPACE, chart.SERVICE_ACCOUNT)

    async def stop(self, identity: str = FIRST) -> None:
        """Stop a replica as a rollout does: SIGTERM, and wait until it is gone."""
        await self.cp.stop_process(identity)

    def kill(self, identity: str = FIRST) -> None:
        """End a replica as a crash does: SIGKILL, at once."""
        processes.kill(self.cp.record(identity))

    def freeze(self, identity: str = FIRST) -> None:
        """Stop a replica's clock (SIGSTOP) until `thaw`."""
        processes.kill(self.cp.record(identity), signal.SIGSTOP)

    def thaw(self, identity: str = FIRST) -> None:
        """Let a frozen replica go on as if no time had passed."""
        processes.kill(self.cp.record(identity), signal.SIGCONT)

    async def available(self) -> None:
        """Wait until the aggregated API is available through kube-apiserver."""
        await chart.available(self.admin)

    async def route(self, identity: str, *, ready: bool) -> None:
        """Tell kube-apiserver, by an EndpointSlice, whether to send requests to a replica.

        Only with aggregator routing. Nobody fails over: set it False before stopping one.
        """
        replica = self.replicas[identity]
        name = f"{chart.RELEASE}-{identity}"
        body = {
            "metadata": {
                "name": name,
                "namespace": chart.NAMESPACE,
                "labels": {"kubernetes.io/service-name": chart.RELEASE},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [replica.address], "conditions": {"ready": ready}}],
            "ports": [{"name": chart.SLICE_PORT, "port": replica.port, "protocol": "TCP"}],
        }
        await self.admin.apply(
            _ENDPOINT_SLICES, name, body, chart.NAMESPACE, field_manager="devcluster"
        )

    async def configure(self, values: Mapping[str, Any] | None = None) -> None:
        """Install the chart anew with `values` over ours, as an upgrade that changes values does.

        What runs goes on as it was started. kube-apiserver learns of another set of webhooks a moment
        later.
        """
        merged = {**self._values, **(values or {})}
        await chart.install(self.cp, port=None if self._sliced else self.port, values=merged)

    async def teardown(self) -> str:
        """Do what the chart's pre-delete hook does, as a process of ours; return what it said."""
        return await commands.run(self._argv("teardown", await self.login()))

    async def uninstall(self) -> str:
        """Tear down, uninstall the chart, stop all replicas; return what helm said."""
        await self.teardown()
        said = await chart.uninstall(self.cp)
        for identity in tuple(self.replicas):
            await self.stop(identity)
        return said

    @property
    def _of_starts(self) -> str:
        """What the chart's deployment would tell the process of the webhooks of VMs."""
        is_on = self._values.get("vmWebhooks", {}).get("enabled", True)
        return "--vm-webhooks" if is_on else "--no-vm-webhooks"

    @property
    def _sliced(self) -> bool:
        return self.cp.site.options.aggregator_routing

    def _next_port(self) -> int:
        return self.cp.reserve_port() if self.replicas else self.port

    def _argv(self, verb: str, login: Path) -> tuple[str, ...]:
        words = ("-m", "apiserver", verb, f"--kubeconfig={login}", f"--namespace={chart.NAMESPACE}")
        return (sys.executable, *words)


async def install(
    cp: plane.ControlPlane,
    admin: client.Client,
    *,
    values: Mapping[str, Any] | None = None,
    port: int | None = None,
    kubevirt: bool = True,
) -> Product:
    """Install the host's kinds and the chart; no replica runs yet. `port` is kept, or a free one.

    `kubevirt` False leaves KubeVirt's kinds out, as chart.install_host says. With those kinds and no
    KubeVirt, starts are not judged unless `values` say so.
    """
    port = cp.reserve_port() if port is None else port
    values = {**(chart.STARTS_UNJUDGED if kubevirt else {}), **(values or {})}
    product = Product(cp, admin, port, values=values)
    routed = None if cp.site.options.aggregator_routing else port
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(chart.install_host(cp, kubevirt=kubevirt))
            group.create_task(chart.install(cp, port=routed, values=values))
    except* errors.DevclusterError as caught:
        raise caught.exceptions[0] from None
    return product


@contextlib.asynccontextmanager
async def running(
    cp: plane.ControlPlane,
    *,
    values: Mapping[str, Any] | None = None,
    flags: Sequence[str] = (),
    kubevirt: bool = True,
) -> AsyncIterator[Product]:
    """Install the product, start one replica, and stop what runs of it at the end of the block.

    The chart and its objects stay: the plane goes with them.
    """
    async with cp.admin() as admin:
        product = await install(cp, admin, values=values, kubevirt=kubevirt)
        try:
            await product.start(flags=flags)
            await product.available()
            yield product
        finally:
            for identity in tuple(product.replicas):
                if identity not in components.STOP_ORDER:
                    await product.stop(identity)
