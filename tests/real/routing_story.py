"""The story of test_routing.py: kube-apiserver with aggregator routing, two replicas by slices."""

from devcluster import control_plane, product
from tests.real import site as sites

GROUP = "/apis/catalog.gpu.cozystack.io/v1alpha1"
FLAGS = (sites.UNCURED,)


async def test_either_replica_serves_alone(binaries_built, tmp_path):
    async with (
        control_plane.control_plane(tmp_path / "plane", aggregator_routing=True) as cp,
        product.running(cp, flags=FLAGS) as gpu,
    ):
        await gpu.start("replica-2", flags=FLAGS)
        # Nobody fails over: first the slice says no, then the process goes.
        await gpu.route(product.FIRST, ready=False)
        await gpu.stop(product.FIRST)
        await sites.until(lambda: serves(gpu), sites.LATE, "the second serves alone")
        await gpu.start(product.FIRST, flags=FLAGS)
        await gpu.route("replica-2", ready=False)
        await gpu.stop("replica-2")
        await sites.until(lambda: serves(gpu), sites.LATE, "the first serves alone")


async def serves(gpu: product.Product) -> bool:
    """Say whether each of some requests is answered: kube-apiserver learns of a slice a moment later."""
    return [(await gpu.admin.raw("GET", GROUP)).status for _ in range(5)] == [200] * 5
