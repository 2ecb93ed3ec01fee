"""Network cards that KubeVirt permits beside GPUs: of no budget, and of no settings of ours."""

import pytest

from gpu.objects import kinds
from tests.binder import raws
from tests.binder.rig import Rig

NIC = "mellanox.com/cx6"


@pytest.mark.parametrize(("vendor", "is_gpu"), [("15B3", False), ("10DE", True)])
async def test_what_is_no_gpu_uses_up_no_budget_and_is_not_policed(vendor, is_gpu):
    rig = Rig()
    table = [{"resourceName": NIC, "pciVendorSelector": f"{vendor}:101D"}]
    table.append({"resourceName": raws.RESOURCE, "pciVendorSelector": "10DE:2330"})
    node = raws.a_node()
    node["status"]["allocatable"][NIC] = "8"
    rig.store(
        classes=[raws.a_class()],
        nodes=[node],
        namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant()],
        releases=[raws.a_release(total=1)],
        pods=[raws.a_pod(resource=NIC, units=2)],
        claims=[raws.a_claim()],
        kubevirts=[
            {
                "metadata": {"name": "kubevirt", "namespace": "cozy-kubevirt"},
                "spec": {"configuration": {"permittedHostDevices": {"pciHostDevices": table}}},
            }
        ],
    )
    await rig.until_still()
    assert rig.placed() == ({} if is_gpu else {"tenant-a/x": "n1"})
    (settings,) = rig.cluster._objects[kinds.CONFIG_MAPS].values()
    names = settings["data"]["resourceNames"].split(",")
    assert names == sorted([raws.RESOURCE, *([NIC] if is_gpu else [])])
