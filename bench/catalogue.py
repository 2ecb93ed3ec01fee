"""The cluster that is measured: nodes with units to spare, one class, tenants without budgets."""

import functools
from typing import Final

from bench.flight import in_flight
from devcluster import simulator, tenants
from gpu.cluster import client
from gpu.objects import kinds

CLASS: Final = "bench"
RESOURCE: Final = "nvidia.com/BENCH_GPU"
POD_RESOURCE: Final = "bench.example.com/GPU"
"""What kube-scheduler's pods ask for; no class names it."""
NODES: Final = 100
UNITS: Final = 128
"""Units of a node: 12,800 in all, so that no order of the bench waits for room."""
TIGHT_CLASS: Final = "bench-tight"
TIGHT_RESOURCE: Final = "nvidia.com/BENCH_TIGHT_GPU"
TIGHT_UNITS: Final = 8
"""Units of it in all, on one node: nearly every order of it waits."""
TIGHT_TENANT: Final = "tenant-tight"
TENANT: Final = "tenant-bench"
PODS_NAMESPACE: Final = "bench-pods"
_WIDTH: Final = 16


async def add(admin: client.Client) -> None:
    """Create nodes, class and tenants; as the administrator."""
    await tenants.add(admin, TENANT)
    await tenants.add(admin, TIGHT_TENANT)
    await admin.create(kinds.NAMESPACES, {"metadata": {"name": PODS_NAMESPACE}})
    made = simulator.Simulator(admin)
    resources = {RESOURCE: UNITS, POD_RESOURCE: 8}
    nodes = (simulator.Simulated(name=node_name(i), resources=resources) for i in range(NODES))
    await in_flight(_WIDTH, (functools.partial(made.add, node) for node in nodes))
    await made.add(simulator.Simulated(name="bench-tight", resources={TIGHT_RESOURCE: TIGHT_UNITS}))
    await add_classes(admin)


async def add_classes(admin: client.Client) -> None:
    """Offer the class with room and the tight one."""
    for name, resource in ((CLASS, RESOURCE), (TIGHT_CLASS, TIGHT_RESOURCE)):
        spec = {
            "mode": "passthrough",
            "source": {"devicePlugin": {"resourceName": resource}},
            "displayName": "Bench",
        }
        await admin.create(kinds.GPU_CLASSES, {"metadata": {"name": name}, "spec": spec})


def node_name(index: int) -> str:
    """Return the name of a node by its number."""
    return f"bench-{index:03d}"
