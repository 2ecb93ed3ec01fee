"""A simulation over a fake cluster, in virtual time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from devcluster import simulated
from devcluster.simulated import Simulation
from gpu.cluster import errors
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from tests.devcluster.recorded import NAMESPACE, NODES, VM
from tests.fakes.cluster import FakeCluster

POD = "virt-launcher-vm-instance-one-wxppd"


class Rig:
    """The fake, the simulation over it, and questions."""

    def __init__(self, fake: FakeCluster, sim: Simulation) -> None:
        self.fake, self.sim = fake, sim

    async def found(
        self, kind: Kind, name: str, namespace: str | None = NAMESPACE
    ) -> dict[str, Any]:
        """Return an object, empty where there is none."""
        try:
            return await self.fake.get(kind, name, namespace)
        except errors.NotFound:
            return {}

    async def pod(self, name: str = POD) -> dict[str, Any]:
        return await self.found(kinds.PODS, name)

    async def vmi(self) -> dict[str, Any]:
        return await self.found(kinds.VMIS, VM)

    async def pod_until(
        self, what: Callable[[dict[str, Any]], bool], name: str = POD
    ) -> dict[str, Any]:
        """Wait until a pod is so; return it."""
        return await self._until(lambda: self.pod(name), what)

    async def vmi_until(self, what: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until the VMI is so; return it."""
        return await self._until(self.vmi, what)

    async def _until(self, ask: Any, what: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        for _ in range(4000):
            shown = await ask()
            if what(shown):
                return shown
            await asyncio.sleep(0.05)
        raise AssertionError(f"not within 200 s; its status is {shown.get('status')}")


@contextlib.asynccontextmanager
async def simulating(fake: FakeCluster) -> AsyncIterator[Rig]:
    """Serve the nodes of a fake cluster."""
    async with simulated.simulated(fake, adopting=True) as sim:
        for name in NODES:
            while True:
                with contextlib.suppress(KeyError):
                    sim.machine(name)
                    break
                await asyncio.sleep(0.01)
        yield Rig(fake, sim)


def phase(wanted: str) -> Callable[[dict[str, Any]], bool]:
    """Return whether an object is in a phase."""
    return lambda shown: bool(shown) and shown.get("status", {}).get("phase") == wanted


def gone(shown: dict[str, Any]) -> bool:
    """Whether an object is not there."""
    return not shown


def conditions(shown: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return status and reason of each condition, by type."""
    return {c["type"]: (c["status"], c.get("reason", "")) for c in shown["status"]["conditions"]}
