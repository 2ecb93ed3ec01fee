"""The product beside the cluster: chart, replicas under its ServiceAccount, simulated nodes, tenants."""

import pytest
import pytest_asyncio

from devcluster import chart, simulator, tenants
from devcluster.plane import ControlPlane
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site


@pytest_asyncio.fixture
async def admin(plane: ControlPlane):
    async with plane.admin() as client:
        yield client


async def test_a_simulated_node_takes_pods_at_once(plane: ControlPlane, admin):
    nodes = simulator.Simulator(admin)
    await nodes.add(simulator.Simulated(name="sim-pods", resources={"example.com/card": 2}))
    spec = {
        "containers": [
            {
                "name": "main",
                "image": "none",
                "resources": {"limits": {"example.com/card": "1"}},
            }
        ]
    }
    await admin.create(
        kinds.PODS, {"metadata": {"name": "on-sim", "namespace": "default"}, "spec": spec}
    )
    await plane.kubectl(
        "wait", "--for=jsonpath={.spec.nodeName}=sim-pods", "--timeout=60s", "pod/on-sim"
    )
    await admin.delete(kinds.PODS, "on-sim", "default", grace_period=0)
    await nodes.remove("sim-pods")


async def test_what_a_node_reports_can_be_changed(admin):
    nodes = simulator.Simulator(admin)
    taint = simulator.Taint(key="gpu", value="a")
    await nodes.add(simulator.Simulated(name="sim-change", resources={"example.com/x": 8}))
    await nodes.set_allocatable("sim-change", {"example.com/x": 3})
    await nodes.set_ready("sim-change", ready=False)
    await nodes.set_taints("sim-change", [taint])
    await nodes.cordon("sim-change")
    node = await admin.get(kinds.NODES, "sim-change")
    # Admission adds a taint of its own for the cordon; what we asked for stays.
    assert (
        node["status"]["allocatable"]["example.com/x"],
        node["status"]["allocatable"]["cpu"],
        [(c["type"], c["status"]) for c in node["status"]["conditions"]],
        node["spec"]["unschedulable"],
        taint.body() in node["spec"]["taints"],
    ) == ("3", "64", [("Ready", "False")], True, True)
    await nodes.uncordon("sim-change")
    node = await admin.get(kinds.NODES, "sim-change")
    assert "unschedulable" not in node["spec"]
    await nodes.remove("sim-change")


async def test_a_person_of_one_tenant_has_no_rights_in_another(plane: ControlPlane, admin):
    await chart.install_host(plane)
    await tenants.add(admin, "tenant-one", {"gpu.cozystack.io/total": 4})
    await tenants.add(admin, "tenant-two")
    person = tenants.acting(admin, "tenant-one")

    async def listed() -> bool:
        try:
            return (await person.list(kinds.PODS, "tenant-one")).items == ()
        except errors.Forbidden:  # the authorizer lags a little
            return False

    await site.until(listed, 60, "the person's rights known")
    with pytest.raises(errors.Forbidden):
        await person.list(kinds.PODS, "tenant-two")


async def test_setting_a_tenants_quotas_replaces_them(plane: ControlPlane, admin):
    await chart.install_host(plane)
    await tenants.add(admin, "tenant-three", {"gpu.cozystack.io/total": 4, "cpu": "2"})
    await tenants.set_quotas(admin, "tenant-three", {"gpu.cozystack.io/total": 1})
    release = await admin.get(kinds.HELM_RELEASES, "tenant-three", "tenant-root")
    assert release["spec"]["values"]["resourceQuotas"] == {"gpu.cozystack.io/total": 1}
