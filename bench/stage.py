"""A plane with the product and a catalogue on it, and all that measuring needs of them."""

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass

from bench import bare, catalogue, scrape
from bench.scrape import Counters
from devcluster import chart, components, control_plane, plane, processes, product, tenants
from gpu import keys
from gpu.cluster import client, credentials, errors
from gpu.config import Config
from gpu.objects import kinds

_IN_FORCE = 10.0
_POLL = 0.1


@dataclass(frozen=True, slots=True)
class Stage:
    """One plane that is measured."""

    cp: plane.ControlPlane
    product: product.Product
    api: client.Client
    """The administrator: prepares and watches."""
    tenant: client.Client
    """Who orders and reads: a person with the tenant's own rights."""
    controller: client.Client
    """The product's own user: the only one who may write a placement."""
    direct: client.Client
    """The administrator at the product's own port: reads its metrics."""
    namespace: str = catalogue.TENANT
    class_name: str = catalogue.CLASS

    @property
    def process(self) -> processes.Record:
        """The process of the product."""
        return self.cp.record(product.FIRST)

    def cpu(self) -> dict[str, float]:
        """Return seconds of CPU by process; a busy rest of the machine spoils every figure."""
        pids = {name: self.cp.record(name).pid for name in (components.ETCD, components.API_SERVER)}
        pids |= {"product": self.process.pid, "bench": os.getpid()}
        found = {name: scrape.cpu_seconds(pid) for name, pid in pids.items()}
        rest = scrape.machine_cpu_seconds() - sum(found.values())
        return {**found, "rest of the machine": rest}

    @contextlib.asynccontextmanager
    async def orders_wait(self) -> AsyncIterator[None]:
        """Have orders and quotas taken unjudged: while orders wait, or while the product is stopped.

        In force within seconds; an order that would be refused is tried until it is not.
        """
        await self.product.configure(chart.UNATTENDED)
        await self._until_taken()
        try:
            yield
        finally:
            await self.product.configure()

    async def _until_taken(self) -> None:
        order = {
            "metadata": {"name": "unjudged", "namespace": self.namespace},
            "spec": {"className": "no-such-class", "count": 1},
        }
        async with asyncio.timeout(_IN_FORCE):
            while True:
                try:
                    await self.tenant.create(kinds.GPU_CLAIMS, order, dry_run=True)
                except errors.ApiError:
                    await asyncio.sleep(_POLL)
                else:
                    return

    async def product_counters(self) -> Counters:
        """Read the product's metrics about passes and the event loop."""
        answer = await self.direct.raw("GET", "/metrics", deadline=30)
        return scrape.parse(answer.body.decode(), "cozystack_gpu_", "rest_client_")

    async def claim_writes(self) -> dict[str, float]:
        """Return how many patches of claims kube-apiserver has answered with 200, by subresource."""
        answer = await self.api.raw("GET", "/metrics", deadline=30)
        counters = scrape.parse(answer.body.decode(), "apiserver_request_total")
        return {
            name: counters.total(
                "apiserver_request_total",
                group=keys.GROUP,
                resource="gpuclaims",
                verb="PATCH",
                subresource=name,
                code="200",
            )
            for name in ("", "status")
        }

    async def pod_writes(self) -> dict[str, float]:
        """Return how many bindings of pods and how many Events kube-apiserver has stored."""
        answer = await self.api.raw("GET", "/metrics", deadline=30)
        counters = scrape.parse(answer.body.decode(), "apiserver_request_total")
        wanted = {
            "bindings": {"resource": "pods", "subresource": "binding"},
            "Events": {"resource": "events", "subresource": ""},
        }
        return {
            name: counters.total("apiserver_request_total", verb="POST", code="201", **labels)
            for name, labels in wanted.items()
        }


@contextlib.asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    """Bring up plane, product and catalogue for the length of the block."""
    async with (
        control_plane.control_plane() as cp,
        product.running(cp) as running,
        on(cp, running) as made,
    ):
        await catalogue.add(made.api)
        await bare.install_copy(made.api)
        yield made


@contextlib.asynccontextmanager
async def on(cp: plane.ControlPlane, running: product.Product) -> AsyncIterator[Stage]:
    """Log in to a plane and the product on it for the length of the block."""
    url = running.replicas[product.FIRST].url
    async with (
        cp.admin() as api,
        client.Client(credentials.fixed(url, tls=_tls(cp))) as direct,
    ):
        yield Stage(
            cp=cp,
            product=running,
            api=api,
            tenant=tenants.acting(api, catalogue.TENANT),
            controller=api.acting_as(Config().controller_user),
            direct=direct,
        )


def _tls(cp: plane.ControlPlane) -> ssl.SSLContext:
    admin = cp.pki.pair(plane.ADMIN)
    context = ssl.create_default_context(cafile=str(cp.pki.ext_ca.crt))
    context.load_cert_chain(admin.crt, admin.key)
    return context
