"""KubeVirt's own virt-api and virt-controller beside the plane, nobody playing kubelet or virt-handler."""

from typing import Any

import pytest
import pytest_asyncio

from devcluster import kubevirt, processes, simulator, state
from devcluster.kubevirt import KubeVirt
from gpu.cluster import errors
from gpu.cluster.client import Client
from gpu.objects import kinds
from tests.real.site import H100, until

NAMESPACE = "default"
WITHIN = 60
"""Seconds, reached by failures alone: two large processes start and answer beside whatever else runs."""
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kv(fresh_plane):
    async with kubevirt.running(fresh_plane) as made:
        resources = {**kubevirt.NODE_RESOURCES, H100: 8}
        node = simulator.Simulated(name="kv-1", resources=resources, labels=kubevirt.NODE_LABELS)
        await simulator.Simulator(made.admin).add(node)
        yield made


def machine(name: str, *devices: str, strategy: str = "Always") -> dict[str, Any]:
    """Return a VM without disks that asks for devices by their names."""
    gpus = [{"name": f"gpu{number}", "deviceName": name} for number, name in enumerate(devices)]
    domain = {"devices": {"gpus": gpus}, "memory": {"guest": "64Mi"}}
    template = {"spec": {"domain": domain, "terminationGracePeriodSeconds": 0}}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"runStrategy": strategy, "template": template},
    }


async def define(kv: KubeVirt, name: str, *devices: str, strategy: str = "Always") -> None:
    await kv.admin.create(kinds.VMS, machine(name, *devices, strategy=strategy))


async def instance(kv: KubeVirt, name: str) -> dict[str, Any]:
    """Return the VM's instance, empty where there is none."""
    try:
        return await kv.admin.get(kinds.VMIS, name, NAMESPACE)
    except errors.NotFound:
        return {}


async def launcher(kv: KubeVirt, name: str) -> dict[str, Any]:
    """Wait until the VM's launcher pod has a node; return the pod."""

    async def bound() -> dict[str, Any]:
        found = await kv.admin.list(
            kinds.PODS, NAMESPACE, label_selector=f"vm.kubevirt.io/name={name}"
        )
        return next((dict(pod) for pod in found.items if pod["spec"].get("nodeName")), {})

    return dict(await until(bound, WITHIN, f"launcher of {name} bound"))


async def phase(kv: KubeVirt, name: str, wanted: str) -> dict[str, Any]:
    """Wait until the VM's instance is in a phase; return it."""

    async def there() -> dict[str, Any]:
        found = await instance(kv, name)
        return found if found.get("status", {}).get("phase") == wanted else {}

    return dict(await until(there, WITHIN, f"instance {name} {wanted}"))


async def test_both_are_written_down_for_whoever_stops_the_plane(kv: KubeVirt):
    written = state.read(kv.cp.directory)
    assert written is not None
    assert {kubevirt.API, kubevirt.CONTROLLER} <= set(written.processes)


async def test_a_vm_gets_its_instance_and_a_launcher_pod_with_the_units(kv: KubeVirt):
    await define(kv, "two", H100, H100)
    pod = await launcher(kv, "two")
    vmi = await phase(kv, "two", "Scheduling")
    owner = pod["metadata"]["ownerReferences"][0]
    compute = next(c for c in pod["spec"]["containers"] if c["name"] == "compute")
    assert (
        pod["metadata"]["generateName"],
        (owner["kind"], owner["uid"], owner["controller"]),
        pod["metadata"]["labels"]["kubevirt.io"],
        compute["resources"]["limits"][H100],
        pod["spec"]["nodeName"],
    ) == (
        "virt-launcher-two-",
        ("VirtualMachineInstance", vmi["metadata"]["uid"], True),
        "virt-launcher",
        "2",
        "kv-1",
    )


async def test_a_device_that_is_not_permitted_is_told_on_the_instance(kv: KubeVirt):
    await define(kv, "denied", "gpu.example.com/other")

    async def told() -> list[dict[str, Any]]:
        conditions = (await instance(kv, "denied")).get("status", {}).get("conditions", [])
        return [c for c in conditions if c["type"] == "Synchronized" and c["status"] == "False"]

    (condition,) = await until(told, WITHIN, "a condition Synchronized=False")
    assert condition["reason"] == "FailedCreate"
    assert condition["message"].endswith(
        "GPU gpu.example.com/other is not permitted in permittedHostDevices configuration"
    )


async def test_a_device_permitted_later_is_given(kv: KubeVirt):
    listed = {"resourceName": "example.com/late", "externalResourceProvider": True}
    added = [*kubevirt.PERMITTED["pciHostDevices"], {**listed, "pciVendorSelector": "10DE:1"}]
    await kv.permit({**kubevirt.PERMITTED, "pciHostDevices": added})
    await simulator.Simulator(kv.admin).set_allocatable("kv-1", {"example.com/late": 1})
    await define(kv, "late", "example.com/late")
    assert (await launcher(kv, "late"))["spec"]["nodeName"] == "kv-1"
    await kv.permit(kubevirt.PERMITTED)
    found = await kv.admin.get(kinds.KUBEVIRTS, "kubevirt", kubevirt.NAMESPACE)
    assert found["spec"]["configuration"]["permittedHostDevices"] == kubevirt.PERMITTED


async def test_start_and_stop_answer(kv: KubeVirt):
    await define(kv, "halted", H100, strategy="Halted")
    assert await instance(kv, "halted") == {}
    await kubevirt.command(kv.admin, "start", "halted", NAMESPACE)
    await launcher(kv, "halted")
    with pytest.raises(errors.Conflict, match="VM is already running"):
        await kubevirt.command(kv.admin, "start", "halted", NAMESPACE)
    await kubevirt.command(kv.admin, "stop", "halted", NAMESPACE)

    async def leaving() -> bool:
        found = await instance(kv, "halted")
        return not found or "deletionTimestamp" in found["metadata"]

    await until(leaving, WITHIN, "the instance of a stopped VM leaves")


async def test_only_the_handler_may_say_that_a_guest_runs(kv: KubeVirt):
    await define(kv, "guest", H100)
    pod = await launcher(kv, "guest")
    await report_running(kv, pod)
    await phase(kv, "guest", "Scheduled")
    for who, kept in ((kv.admin, "Scheduled"), (kv.handler(), "Running")):
        stored = await until(lambda who=who: says_running(kv, who), WITHIN, "a write of the phase")
        assert stored["status"]["phase"] == kept


async def says_running(kv: KubeVirt, who: Client) -> dict[str, Any]:
    """Write that the guest runs; nothing where virt-controller wrote in between."""
    found = await instance(kv, "guest")
    found["status"]["phase"] = "Running"
    try:
        return dict(await who.update(kinds.VMIS, found))
    except errors.Conflict:
        return {}


async def report_running(kv: KubeVirt, pod: dict[str, Any]) -> None:
    """Report a pod running, as its kubelet would."""
    started = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    containers = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "restartCount": 0,
            "ready": True,
            "state": started,
        }
        for container in pod["spec"]["containers"]
    ]
    types = ("Initialized", "ContainersReady", "Ready")
    status = {
        "phase": "Running",
        "podIP": "10.244.0.9",
        "podIPs": [{"ip": "10.244.0.9"}],
        "conditions": [{"type": name, "status": "True"} for name in types],
        "containerStatuses": containers,
    }
    name = pod["metadata"]["name"]
    await kv.admin.patch(
        kinds.PODS,
        name,
        {"status": status},
        NAMESPACE,
        subresource="status",
        content_type="application/strategic-merge-patch+json",
    )


async def test_without_virt_api_a_vm_is_refused_and_what_runs_stays(kv: KubeVirt):
    before = await instance(kv, "two")
    pod = await launcher(kv, "two")
    kv.kill(kubevirt.API)
    await processes.gone(kv.cp.record(kubevirt.API), within=WITHIN)
    await kv.stop(kubevirt.CONTROLLER)
    with pytest.raises(errors.ApiError, match="failed calling webhook"):
        await define(kv, "refused", H100)
    await kv.start_both()
    await define(kv, "taken", H100)
    await launcher(kv, "taken")
    after = await instance(kv, "two")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert (await launcher(kv, "two"))["metadata"]["uid"] == pod["metadata"]["uid"]


async def test_both_go_on_once_volumes_can_be_imported(kv: KubeVirt):
    before = [kv.cp.record(name).pid for name in (kubevirt.API, kubevirt.CONTROLLER)]
    await kv.import_volumes()
    after = [kv.cp.record(name).pid for name in (kubevirt.API, kubevirt.CONTROLLER)]
    assert not set(before) & set(after)
    await define(kv, "afterwards", H100)
    await launcher(kv, "afterwards")


async def test_stopping_leaves_nothing_running(kv: KubeVirt):
    records = [kv.cp.record(name) for name in (kubevirt.API, kubevirt.CONTROLLER)]
    await kv.end()
    assert not any(processes.is_running(record) for record in records)
    assert not {kubevirt.API, kubevirt.CONTROLLER} & set(kv.cp.running())
