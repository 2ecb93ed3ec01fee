"""Lives of VMs on KubeVirt's real controllers, kubelet and virt-handler simulated."""

from datetime import datetime
from typing import Any

import pytest
import pytest_asyncio

from devcluster import kubevirt, machines, simulated, simulator
from devcluster.kubevirt import KubeVirt
from devcluster.simulated import Simulation
from gpu.cluster import errors
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from tests.real.site import H100, until

NAMESPACE = "default"
MIGRATIONS = Kind(
    "kubevirt.io", "v1", "virtualmachineinstancemigrations", "VirtualMachineInstanceMigration"
)
EVENTS = Kind("", "v1", "events", "Event")
WITHIN = 60
pytestmark = pytest.mark.asyncio(loop_scope="module")


class Site:
    """What a test works with."""

    def __init__(self, kv: KubeVirt, sim: Simulation) -> None:
        self.kv, self.sim, self.admin = kv, sim, kv.admin

    async def define(
        self, name: str, *, units: int = 1, strategy: str = "Always", **spec: Any
    ) -> None:
        """Make a VM without disks that asks for units by their raw resource name."""
        gpus = [{"name": f"gpu{number}", "deviceName": H100} for number in range(units)]
        domain = {"devices": {"gpus": gpus}, "memory": {"guest": "64Mi"}}
        template = {"spec": {"domain": domain, "terminationGracePeriodSeconds": 2, **spec}}
        meta = {"name": name, "namespace": NAMESPACE}
        vm = {"metadata": meta, "spec": {"runStrategy": strategy, "template": template}}
        await self.admin.create(kinds.VMS, vm)

    async def found(self, kind: Kind, name: str) -> dict[str, Any]:
        """Return an object, empty where there is none."""
        try:
            return await self.admin.get(kind, name, NAMESPACE)
        except errors.NotFound:
            return {}

    async def pods(self, name: str) -> list[dict[str, Any]]:
        """Return all launcher pods of a VM."""
        selector = f"vm.kubevirt.io/name={name}"
        return list((await self.admin.list(kinds.PODS, NAMESPACE, label_selector=selector)).items)

    async def vmi(self, name: str, phase: str = "Running", *, but: str = "") -> dict[str, Any]:
        """Wait until the VM's instance, not the one of uid `but`, is in a phase; return it."""

        async def there() -> dict[str, Any]:
            found = await self.found(kinds.VMIS, name)
            right = found.get("status", {}).get("phase") == phase
            return found if right and found["metadata"]["uid"] != but else {}

        return dict(await until(there, WITHIN, f"instance {name} {phase}"))

    async def vm(self, name: str, printed: str) -> dict[str, Any]:
        """Wait until the VM shows a status; return it."""

        async def there() -> dict[str, Any]:
            found = await self.found(kinds.VMS, name)
            return found if found.get("status", {}).get("printableStatus") == printed else {}

        return dict(await until(there, WITHIN, f"VM {name} {printed}"))

    async def pod(self, name: str, phase: str = "Running") -> dict[str, Any]:
        """Wait until a launcher of the VM is in a phase; return it."""

        async def there() -> dict[str, Any]:
            return next((p for p in await self.pods(name) if p["status"]["phase"] == phase), {})

        return dict(await until(there, WITHIN, f"launcher of {name} {phase}"))

    async def gone(self, name: str) -> None:
        """Wait until neither instance nor pods of the VM are there."""

        async def absent() -> bool:
            return not await self.found(kinds.VMIS, name) and not await self.pods(name)

        await until(absent, WITHIN, f"instance and pods of {name} gone")


def condition(shown: dict[str, Any], kind: str) -> dict[str, Any]:
    return next((c for c in shown["status"].get("conditions", []) if c["type"] == kind), {})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(fresh_plane):
    nodes = [simulator.Simulated(name=f"n-{number}", resources={H100: 8}) for number in (1, 2)]
    async with (
        kubevirt.running(fresh_plane) as kv,
        simulated.simulated(kv.admin, nodes) as sim,
    ):
        yield Site(kv, sim)


async def test_a_vm_starts_and_runs(site: Site):
    await site.define("web", units=2)
    vmi = await site.vmi("web")
    pod = await site.pod("web")
    vm = await site.vm("web", "Running")
    await until(lambda: ready(site, "web"), WITHIN, "VM web ready")
    node = pod["spec"]["nodeName"]
    movable = condition(vmi, "LiveMigratable")
    assert (vm["status"]["created"], vmi["status"]["nodeName"]) == (True, node)
    assert (movable["status"], movable["reason"]) == ("False", "HostDeviceNotLiveMigratable")
    assert [each["phase"] for each in vmi["status"]["phaseTransitionTimestamps"]] == [
        "Pending",
        "Scheduling",
        "Scheduled",
        "Running",
    ]
    assert site.sim.kubelets.units_on(node)[pod["metadata"]["uid"]][H100] == (
        "0000:00:00.0",
        "0000:01:00.0",
    )


async def ready(site: Site, name: str) -> bool:
    return bool((await site.found(kinds.VMS, name)).get("status", {}).get("ready"))


async def test_a_vm_that_is_stopped_gives_everything_back(site: Site):
    await site.define("short")
    await site.vmi("short")
    node = (await site.pod("short"))["spec"]["nodeName"]
    uid = (await site.pod("short"))["metadata"]["uid"]
    await kubevirt.command(site.admin, "stop", "short", NAMESPACE)
    await site.gone("short")
    await site.vm("short", "Stopped")

    async def given_back() -> bool:
        return uid not in site.sim.kubelets.units_on(node)

    await until(given_back, WITHIN, "its units given back on the node")


async def test_a_restart_is_another_instance_and_another_pod(site: Site):
    before, pod = await site.vmi("web"), await site.pod("web")
    await kubevirt.command(site.admin, "restart", "web", NAMESPACE)
    await site.vmi("web", but=before["metadata"]["uid"])

    async def other_alone() -> bool:
        names = [each["metadata"]["name"] for each in await site.pods("web")]
        return len(names) == 1 and pod["metadata"]["name"] not in names

    await until(other_alone, WITHIN, "another pod alone")


async def test_a_guest_that_crashes_is_started_anew_at_once(site: Site):
    before = await site.vmi("web")
    site.sim.end_guest(NAMESPACE, "web", crashed=True)
    await site.vmi("web", but=before["metadata"]["uid"])
    vm = await site.vm("web", "Running")
    assert "startFailure" not in vm["status"]


async def test_a_guest_that_shuts_itself_down_stays_down_when_only_failures_rerun(site: Site):
    await site.define("job", strategy="RerunOnFailure")
    await site.vmi("job")
    site.sim.end_guest(NAMESPACE, "job")
    await site.gone("job")
    await site.vm("job", "Stopped")


async def test_a_refusal_by_kubelet_backs_the_vm_off(site: Site):
    refusal = machines.out_of(H100, requested=1, used=8, capacity=8)
    for node in ("n-1", "n-2"):
        site.sim.refuse(node, refusal)
    await site.define("refused")
    vm = await site.vm("refused", "CrashLoopBackOff")
    failure = vm["status"]["startFailure"]
    retry = datetime.fromisoformat(failure["retryAfterTimestamp"])
    assert failure["consecutiveFailCount"] == 1

    async def told() -> list[dict[str, Any]]:
        found = await site.admin.list(EVENTS, NAMESPACE, field_selector=f"reason=OutOf{H100}")
        return [
            e for e in found.items if e["involvedObject"]["name"].startswith("virt-launcher-ref")
        ]

    (event,) = await until(told, WITHIN, "an event of the refusal")
    since = datetime.fromisoformat(event["lastTimestamp"])
    assert 9 <= (retry - since).total_seconds() <= 30, (
        "10 to 15 s after virt-controller has seen it"
    )
    assert event["message"] == (
        f"Node didn't have enough resource: {H100}, requested: 1, used: 8, capacity: 8"
    )
    for node in ("n-1", "n-2"):
        site.sim.machine(node).refusals.clear()
    await kubevirt.command(site.admin, "stop", "refused", NAMESPACE)
    await site.vm("refused", "Stopped")


async def test_a_refused_vm_that_nobody_runs_again_keeps_its_failed_pod(site: Site):
    for node in ("n-1", "n-2"):
        site.sim.refuse(node, machines.unavailable(H100, requested=1, available=0, healthy=8))
    await site.define("kept", strategy="Manual")
    await kubevirt.command(site.admin, "start", "kept", NAMESPACE)
    pod = await site.pod("kept", "Failed")
    await site.vmi("kept", "Failed")
    assert pod["status"]["reason"] == "UnexpectedAdmissionError"
    assert pod["status"]["message"] == (
        "Pod was rejected: Allocate failed due to requested number of devices unavailable "
        f"for {H100}. Requested: 1, Available: 0, which is unexpected"
    )
    for node in ("n-1", "n-2"):
        site.sim.machine(node).refusals.clear()
    await kubevirt.command(site.admin, "start", "kept", NAMESPACE)
    await site.vmi("kept")
    await site.admin.delete(kinds.VMS, "kept", NAMESPACE)


async def test_a_held_pod_stays_pending_until_it_is_let_go(site: Site):
    site.sim.hold(NAMESPACE, "late")
    await site.define("late")
    await site.vmi("late", "Scheduling")

    async def bound() -> str:
        return next((str(p["spec"].get("nodeName") or "") for p in await site.pods("late")), "")

    await until(bound, WITHIN, "launcher of late bound")
    assert "containerStatuses" not in (await site.pod("late", "Pending"))["status"]
    site.sim.let_go(NAMESPACE, "late")
    await site.vmi("late")
    await site.admin.delete(kinds.VMS, "late", NAMESPACE)


async def test_a_gated_pod_is_left_alone_and_runs_where_it_is_pinned(site: Site):
    compute = {"name": "compute", "image": "none.invalid/none:1"}
    spec = {"schedulingGates": [{"name": "example.com/wait"}], "containers": [compute]}
    meta = {"name": "gated", "namespace": NAMESPACE}
    made = await site.admin.create(kinds.PODS, {"metadata": meta, "spec": spec})
    await site.define("passes")
    await site.vmi("passes")  # the simulation has done a whole start meanwhile
    seen = await site.found(kinds.PODS, "gated")
    assert seen["status"]["conditions"][0]["reason"] == "SchedulingGated"
    assert seen["metadata"]["uid"] == made["metadata"]["uid"]
    named = {"key": "metadata.name", "operator": "In", "values": ["n-2"]}
    required = {"nodeSelectorTerms": [{"matchFields": [named]}]}
    pin = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    ungated = {"spec": {"schedulingGates": None, "affinity": pin}}
    await site.admin.patch(kinds.PODS, "gated", ungated, NAMESPACE)

    async def runs() -> bool:
        return (await site.found(kinds.PODS, "gated"))["status"]["phase"] == "Running"

    await until(runs, WITHIN, "the pod runs")
    assert (await site.found(kinds.PODS, "gated"))["spec"]["nodeName"] == "n-2"
    await site.admin.delete(kinds.PODS, "gated", NAMESPACE)
    await site.admin.delete(kinds.VMS, "passes", NAMESPACE)
    await site.gone("passes")


async def test_a_forced_migration_moves_a_guest_with_units(site: Site):
    for node in ("n-1", "n-2"):
        site.sim.machine(node).migratable = True
    await site.define("moving")
    before = await site.vmi("moving")
    source = await site.pod("moving")
    meta = {"generateName": "move-", "namespace": NAMESPACE}
    body = {"metadata": meta, "spec": {"vmiName": "moving"}}
    migration = (await site.admin.create(MIGRATIONS, body))["metadata"]["name"]

    async def phase() -> bool:
        found = await site.found(MIGRATIONS, migration)
        return bool(found.get("status", {}).get("phase") == "Succeeded")

    await until(phase, WITHIN, "the migration Succeeded")
    after = await site.vmi("moving")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert {before["status"]["nodeName"], after["status"]["nodeName"]} == {"n-1", "n-2"}
    ended = await site.pod("moving", "Succeeded")
    assert ended["metadata"]["name"] == source["metadata"]["name"]
    assert len(after["status"]["activePods"]) == 2
    await site.admin.delete(kinds.VMS, "moving", NAMESPACE)
    await site.gone("moving")


async def test_a_deleted_vm_leaves_nothing(site: Site):
    await site.define("brief")
    await site.vmi("brief")
    await site.admin.delete(kinds.VMS, "brief", NAMESPACE)
    await site.gone("brief")

    async def absent() -> bool:  # virt-controller lets the VM go after its instance
        return not await site.found(kinds.VMS, "brief")

    await until(absent, WITHIN, "VM brief gone")


async def test_a_rebooted_node_has_lost_its_guests_and_takes_them_anew(site: Site):
    before = await site.vmi("web")
    await site.sim.reboot(before["status"]["nodeName"])
    await site.vmi("web", but=before["metadata"]["uid"])


async def test_nothing_on_a_dead_node_ends_before_the_node_is_back(site: Site):
    node = (await site.vmi("web"))["status"]["nodeName"]
    pod = await site.pod("web")
    await site.sim.kill(node)
    await site.admin.delete(kinds.VMS, "web", NAMESPACE)

    async def leaving() -> bool:
        found = await site.found(kinds.PODS, pod["metadata"]["name"])
        return "deletionTimestamp" in found["metadata"]

    await until(leaving, WITHIN, "the launcher is told to go")
    lease = await site.admin.get(kinds.LEASES, node, "kube-node-lease")
    shown = await site.admin.get(kinds.NODES, node)
    assert condition(shown, "Ready")["status"] == "Unknown"
    assert (await site.vmi("web"))["metadata"]["deletionTimestamp"]
    await site.sim.revive(node)
    await site.gone("web")
    renewed = await site.admin.get(kinds.LEASES, node, "kube-node-lease")
    assert renewed["spec"]["renewTime"] > lease["spec"]["renewTime"]


async def test_a_node_whose_handler_is_silent_takes_no_new_guests(site: Site):
    await site.sim.mute("n-1", stale=True)

    async def closed() -> bool:
        labels = (await site.admin.get(kinds.NODES, "n-1"))["metadata"]["labels"]
        return bool(labels["kubevirt.io/schedulable"] == "false")

    await until(closed, WITHIN, "virt-controller gives n-1 up")
    await site.define("elsewhere")
    assert (await site.vmi("elsewhere"))["status"]["nodeName"] == "n-2"
    await site.sim.unmute("n-1")

    async def open_again() -> bool:
        return not await closed()

    await until(open_again, WITHIN, "virt-controller takes n-1 again")
