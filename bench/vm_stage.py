"""A plane on which VMs start: KubeVirt's own controllers, the product, nodes whose kubelets are simulated."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench import catalogue, scrape
from bench.flight import in_flight
from bench.stage import Stage
from bench.stage import on as stage_on
from devcluster import (
    control_plane,
    errors,
    kubevirt,
    product,
    simulating,
    simulator,
    tenants,
    vms,
)
from gpu.cluster import client
from gpu.cluster import errors as api_errors
from gpu.config import Config
from gpu.objects import kinds

NODES: Final = 20
UNITS: Final = 64
"""Units of a node: 1,280 in all, so that no start but those of the tight class waits for room."""
TIGHT_NODE: Final = "bench-tight"
_WIDTH: Final = 16
_IN_FORCE: Final = 30.0
_POLL: Final = 0.1
_REFUSER: Final = "vmis.gpu.cozystack.io"


@dataclass(frozen=True, slots=True)
class VMStage:
    """One plane on which starts of VMs are measured."""

    base: Stage
    owner: client.Client
    """Who makes, starts and stops VMs: a person with a tenant's own rights."""
    virt: client.Client
    """In the name of KubeVirt's controller: makes instances and launchers."""
    resource: str = catalogue.RESOURCE
    """What units of the class are called on a node."""

    def cpu(self) -> dict[str, float]:
        """Return seconds of CPU by process, KubeVirt's two and the simulated nodes among them."""
        found = self.base.cpu()
        for name in (kubevirt.API, kubevirt.CONTROLLER, simulating.PROCESS):
            found[name] = scrape.cpu_seconds(self.base.cp.record(name).pid)
            found["rest of the machine"] -= found[name]
        return found


@contextlib.asynccontextmanager
async def vm_stage(flags: Sequence[str] = ()) -> AsyncIterator[VMStage]:
    """Bring all of it up for the length of the block; `flags` are more words for the product."""
    async with (
        control_plane.control_plane() as cp,
        kubevirt.running(cp, permitted=_permitted()),
        product.running(cp, flags=flags, kubevirt=False) as running,
        stage_on(cp, running) as base,
    ):
        await simulating.start(cp)
        await _fill(base.api)
        made = VMStage(
            base=base,
            owner=tenants.acting(base.api, catalogue.TENANT, "super-admin"),
            virt=base.api.acting_as(Config().kubevirt_controller_user, ["system:masters"]),
        )
        await cp.namespace_ready(catalogue.TENANT)
        await _in_force(made)
        yield made


async def _fill(admin: client.Client) -> None:
    """Create tenant, nodes and classes; as the administrator."""
    await tenants.add(admin, catalogue.TENANT)
    made = simulator.Simulator(admin)
    nodes = [_node(catalogue.node_name(i), {catalogue.RESOURCE: UNITS}) for i in range(NODES)]
    nodes.append(_node(TIGHT_NODE, {catalogue.TIGHT_RESOURCE: catalogue.TIGHT_UNITS}))
    await in_flight(_WIDTH, (functools.partial(made.add, node) for node in nodes))
    await catalogue.add_classes(admin)


def _node(name: str, units: Mapping[str, int]) -> simulator.Simulated:
    """Return a node that launchers fit on."""
    resources = {**kubevirt.NODE_RESOURCES, "hugepages-2Mi": 0, "hugepages-1Gi": 0, **units}
    return simulator.Simulated(name=name, resources=resources, labels=kubevirt.NODE_LABELS)


def _permitted() -> dict[str, list[dict[str, Any]]]:
    """Return the devices of both classes as a KubeVirt object permits them."""
    resources = (catalogue.RESOURCE, catalogue.TIGHT_RESOURCE)
    devices = [
        {
            "pciVendorSelector": f"10DE:{number:04X}",
            "resourceName": resource,
            "externalResourceProvider": True,
        }
        for number, resource in enumerate(resources, start=1)
    ]
    return {"pciHostDevices": devices}


async def _in_force(made: VMStage) -> None:
    """Wait until the webhook refuses what it should: kube-apiserver learns of it a moment later."""
    probe = vms.instance(catalogue.TENANT, "probe", [vms.claim("none")])
    try:
        async with asyncio.timeout(_IN_FORCE):
            while True:
                try:
                    await made.virt.create(kinds.VMIS, probe, dry_run=True)
                except api_errors.ApiError as error:
                    if _REFUSER in error.message:
                        return
                await asyncio.sleep(_POLL)
    except TimeoutError as error:
        raise errors.NotReadyError(f"{_REFUSER} is not asked after {_IN_FORCE:.0f} s.") from error
