"""The simulation as a process of a plane, without KubeVirt: pods run, are refused, go, outlive it."""

import pytest

from devcluster import simulating, simulator
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real.site import H100, LATE, until

NAMESPACE = "default"
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


async def test_pods_run_while_it_does_and_stay_when_it_ends(fresh_plane):
    async with fresh_plane.admin() as admin:
        await simulating.start(fresh_plane)
        node = simulator.Simulated(name="n-1", resources={H100: 2})
        await simulator.Simulator(admin).add(node)

        async def make(name: str, units: int, node: str | None = None) -> None:
            limits = {"limits": {H100: str(units)}}
            container = {"name": "main", "image": "none.invalid/none:1", "resources": limits}
            spec = {"containers": [container], "nodeName": node}
            meta = {"name": name, "namespace": NAMESPACE}
            await admin.create(kinds.PODS, {"metadata": meta, "spec": spec})

        async def phase(name: str) -> str:
            return str((await admin.get(kinds.PODS, name, NAMESPACE))["status"]["phase"])

        async def ended(name: str) -> bool:
            try:
                await phase(name)
            except errors.NotFound:
                return True
            return False

        await make("one", 2)
        await until(lambda: equal(phase("one"), "Running"), LATE, "pod one runs")
        await make("two", 1, node="n-1")  # past the scheduler, which would not have it
        await until(lambda: equal(phase("two"), "Failed"), LATE, "pod two refused")
        refused = (await admin.get(kinds.PODS, "two", NAMESPACE))["status"]
        assert refused["message"] == (
            "Pod was rejected: Node didn't have enough resource: "
            f"{H100}, requested: 1, used: 2, capacity: 2"
        )
        await admin.delete(kinds.PODS, "two", NAMESPACE)
        await until(lambda: ended("two"), LATE, "pod two gone")
        await fresh_plane.stop_process(simulating.PROCESS)
        await admin.delete(kinds.PODS, "one", NAMESPACE)
        assert await phase("one") == "Running"
        await simulating.start(fresh_plane)
        await until(lambda: ended("one"), LATE, "pod one gone once its node is served again")


async def equal(asked, wanted: str) -> bool:
    return await asked == wanted
