"""The simulated kubelet: what it writes of a pod, compared with what was recorded."""

import asyncio

import pytest

from devcluster import machines
from devcluster.kubelets import CORE_EVENTS
from gpu.objects import kinds
from tests.devcluster.recorded import (
    H100,
    NAMESPACE,
    a_cluster,
    launcher,
    recorded,
    running_launcher,
    running_vmi,
)
from tests.devcluster.simulation import POD, conditions, gone, phase, simulating

pytestmark = pytest.mark.looptime
UID = "733d7ea8-c8a1-4dd7-b590-4457fb57b9fe"
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 60}


async def test_a_bound_pod_comes_to_run_as_it_was_recorded():
    fake = a_cluster()
    fake.put(kinds.PODS, launcher())
    async with simulating(fake) as rig:
        taken = await rig.pod_until(lambda pod: "containerStatuses" in pod["status"])
        assert taken["status"]["phase"] == "Pending"
        assert conditions(taken)["Ready"] == ("False", "ContainersNotReady")
        pod = await rig.pod_until(phase("Running"))
    status, known = pod["status"], recorded("launcher-running")["status"]
    assert conditions(pod) == {
        c["type"]: (c["status"], c.get("reason", "")) for c in known["conditions"]
    }
    assert status.keys() == known.keys()
    for container, before in zip(
        status["containerStatuses"], known["containerStatuses"], strict=True
    ):
        assert container.keys() == before.keys()
        assert (container["name"], container["ready"]) == (before["name"], True)
        assert list(container["state"]) == ["running"]
        assert "@sha256:" in container["imageID"]


async def test_a_pod_without_a_node_is_not_touched():
    fake = a_cluster()
    gated = launcher()
    del gated["spec"]["nodeName"]
    gated["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    fake.put(kinds.PODS, gated)
    async with simulating(fake) as rig:
        await asyncio.sleep(60)
        assert await rig.pod() == gated | {"metadata": (await rig.pod())["metadata"]}
        assert not [w for w in fake.writes if w.kind == kinds.PODS]


async def test_units_that_live_pods_have_are_not_given_again():
    fake = a_cluster(units=3)
    for uid in ("one", "two"):
        fake.put(kinds.PODS, launcher(uid=uid))
    async with simulating(fake) as rig:
        ends = {
            uid: await rig.pod_until(lambda pod: not phase("Pending")(pod), f"virt-launcher-{uid}")
            for uid in ("one", "two")
        }
        (held,) = rig.sim.kubelets.units_on("gpu-1").values()
        assert held[H100] == ("0000:00:00.0", "0000:01:00.0")
        events = await fake.list(CORE_EVENTS)
    status = next(pod["status"] for pod in ends.values() if phase("Failed")(pod))
    words = f"Node didn't have enough resource: {H100}, requested: 2, used: 2, capacity: 3"
    assert status["reason"] == f"OutOf{H100}"
    assert status["message"] == f"Pod was rejected: {words}"
    assert "containerStatuses" not in status
    (event,) = events.items
    assert (event["reason"], event["message"], event["type"]) == (f"OutOf{H100}", words, "Warning")


async def test_a_pod_that_ended_has_given_its_units_back():
    fake = a_cluster(units=2)
    fake.put(kinds.PODS, launcher(uid="one"))
    async with simulating(fake) as rig:
        await rig.pod_until(phase("Running"), "virt-launcher-one")
        ended = {"status": {"phase": "Succeeded"}}
        await fake.patch(kinds.PODS, "virt-launcher-one", ended, NAMESPACE, subresource="status")
        fake.put(kinds.PODS, launcher(uid="two"))
        await rig.pod_until(phase("Running"), "virt-launcher-two")
        assert list(rig.sim.kubelets.units_on("gpu-1")) == ["two"]


async def test_a_pod_whose_object_was_removed_by_force_has_no_units_any_more():
    fake = a_cluster(units=2)
    fake.put(kinds.PODS, launcher(uid="one"))
    async with simulating(fake) as rig:
        await rig.pod_until(phase("Running"), "virt-launcher-one")
        await fake.delete(kinds.PODS, "virt-launcher-one", NAMESPACE)
        fake.put(kinds.PODS, launcher(uid="two"))
        await rig.pod_until(phase("Running"), "virt-launcher-two")


async def test_units_that_are_lost_refuse_new_pods_and_keep_running_ones():
    fake = a_cluster()
    fake.put(kinds.PODS, launcher(uid="one"))
    async with simulating(fake) as rig:
        await rig.pod_until(phase("Running"), "virt-launcher-one")
        rig.sim.machine("gpu-1").plugin_judges = True
        await rig.sim.lose_units("gpu-1", H100)
        await asyncio.sleep(1)
        fake.put(kinds.PODS, launcher(uid="two"))
        refused = await rig.pod_until(phase("Failed"), "virt-launcher-two")
        await rig.sim.find_units("gpu-1", H100)
        await asyncio.sleep(1)
        fake.put(kinds.PODS, launcher(uid="three"))
        await rig.pod_until(phase("Running"), "virt-launcher-three")
        assert phase("Running")(await rig.pod("virt-launcher-one"))
    assert refused["status"]["reason"] == "UnexpectedAdmissionError"
    assert (
        "no healthy devices present; cannot allocate unhealthy devices"
        in refused["status"]["message"]
    )


async def test_the_next_pods_are_refused_on_command_and_no_more():
    fake = a_cluster()
    async with simulating(fake) as rig:
        rig.sim.refuse("gpu-1", machines.Refusal("Evil", "for a test"), count=2)
        for uid in ("one", "two", "three"):
            fake.put(kinds.PODS, launcher(uid=uid))
        ends = [
            (await rig.pod_until(lambda pod: not phase("Pending")(pod), f"virt-launcher-{uid}"))[
                "status"
            ]
            for uid in ("one", "two", "three")
        ]
    assert sorted(status["phase"] for status in ends) == ["Failed", "Failed", "Running"]
    assert {status.get("message") for status in ends} == {None, "Pod was rejected: for a test"}


async def test_a_refusal_whose_write_was_outrun_is_written_once_more_not_judged_anew():
    fake = a_cluster()
    async with simulating(fake) as rig:
        rig.sim.refuse("gpu-1", machines.Refusal("Evil", "for a test"))
        fake.put(kinds.PODS, launcher())
        label = {"metadata": {"labels": {"new": "one"}}}
        await fake.patch(kinds.PODS, POD, label, NAMESPACE)
        assert (await rig.pod_until(phase("Failed")))["status"]["reason"] == "Evil"


async def test_ready_follows_the_readiness_gate():
    fake = a_cluster()
    pod = launcher()
    pod["status"]["conditions"] = [
        c | {"status": "False"} if c["type"] != "PodScheduled" else c
        for c in pod["status"]["conditions"]
    ]
    fake.put(kinds.PODS, pod)
    async with simulating(fake) as rig:
        shown = await rig.pod_until(phase("Running"))
        assert conditions(shown)["Ready"] == ("False", "ReadinessGatesNotReady")
        opened = [
            c | {"status": "True"} for c in shown["status"]["conditions"] if c["type"] != "Ready"
        ]
        await fake.patch(
            kinds.PODS, POD, {"status": {"conditions": opened}}, NAMESPACE, subresource="status"
        )
        await rig.pod_until(lambda pod: conditions(pod).get("Ready") == ("True", ""))


async def test_a_deleted_pod_without_a_guest_ends_and_its_object_goes():
    fake = a_cluster()
    fake.put(kinds.PODS, running_launcher(ownerReferences=[], finalizers=["hold"], **GOING))
    async with simulating(fake) as rig:
        pod = await rig.pod_until(phase("Succeeded"))
        assert conditions(pod)["Ready"] == ("False", "PodCompleted")
        assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
        await fake.patch(kinds.PODS, POD, {"metadata": {"finalizers": None}}, NAMESPACE)
        await rig.pod_until(gone)


async def test_a_launcher_whose_guest_does_not_stop_is_killed_after_its_grace():
    fake = a_cluster()
    fake.put(
        kinds.VMIS, running_vmi() | {"spec": {"terminationGracePeriodSeconds": 3600, "domain": {}}}
    )
    fake.put(kinds.PODS, running_launcher(finalizers=["hold"], **GOING))
    async with simulating(fake) as rig:
        rig.sim.machine("gpu-1").stubborn = True
        began = asyncio.get_running_loop().time()
        pod = await rig.pod_until(phase("Failed"))
        assert 55 < asyncio.get_running_loop().time() - began < 65
        assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
        await rig.vmi_until(phase("Failed"))


async def test_a_held_pod_is_left_alone_even_when_it_is_deleted():
    fake = a_cluster()
    async with simulating(fake) as rig:
        rig.sim.hold(NAMESPACE, POD)
        fake.put(kinds.PODS, launcher(finalizers=["hold"], **GOING))
        await asyncio.sleep(120)
        assert phase("Pending")(await rig.pod())
        rig.sim.let_go(NAMESPACE, POD)
        await rig.pod_until(phase("Failed"))


async def test_a_temporary_pod_ends_by_itself():
    fake = a_cluster()
    pod = launcher()
    pod["metadata"]["annotations"]["kubevirt.io/ephemeral-provisioning"] = "true"
    fake.put(kinds.PODS, pod)
    async with simulating(fake) as rig:
        await rig.pod_until(phase("Succeeded"))


async def test_a_slow_kubelet_takes_so_many_times_as_long():
    fake = a_cluster()
    async with simulating(fake) as rig:
        rig.sim.machine("gpu-1").slow(300)
        fake.put(kinds.PODS, launcher())
        await asyncio.sleep(29)
        assert phase("Pending")(await rig.pod())
        await asyncio.sleep(2)
        assert phase("Running")(await rig.pod())


async def test_a_restarted_kubelet_judges_running_pods_by_what_is_allocatable_now():
    fake = a_cluster()
    fake.put(kinds.PODS, launcher(uid="one"))
    async with simulating(fake) as rig:
        await rig.pod_until(phase("Running"), "virt-launcher-one")
        rig.sim.restart_kubelet("gpu-1")
        await asyncio.sleep(1)
        assert phase("Running")(await rig.pod("virt-launcher-one"))
        await rig.sim.lose_units("gpu-1", H100)
        await asyncio.sleep(1)
        rig.sim.restart_kubelet("gpu-1")
        pod = await rig.pod_until(phase("Failed"), "virt-launcher-one")
        assert pod["status"]["reason"] == f"OutOf{H100}"


async def test_a_dead_node_says_nothing_until_it_is_back():
    fake = a_cluster()
    async with simulating(fake) as rig:
        await asyncio.sleep(15)
        await rig.sim.kill("gpu-1")
        before = await rig.found(kinds.LEASES, "gpu-1", "kube-node-lease")
        fake.put(kinds.PODS, launcher())
        await asyncio.sleep(60)
        assert phase("Pending")(await rig.pod())
        assert await rig.found(kinds.LEASES, "gpu-1", "kube-node-lease") == before
        node = await rig.found(kinds.NODES, "gpu-1", None)
        assert conditions(node)["Ready"] == ("Unknown", "NodeStatusUnknown")
        assert [taint["effect"] for taint in node["spec"]["taints"]] == ["NoSchedule", "NoExecute"]
        await rig.sim.revive("gpu-1")
        await rig.pod_until(phase("Running"))
        node = await rig.found(kinds.NODES, "gpu-1", None)
        assert (conditions(node)["Ready"], node["spec"]) == (("True", "KubeletReady"), {})


async def test_leases_are_renewed_every_ten_seconds():
    fake = a_cluster()
    async with simulating(fake):
        await asyncio.sleep(95)
    leases = [w for w in fake.writes if w.kind == kinds.LEASES and w.key.name == "gpu-1"]
    assert [w.verb for w in leases[:2]] == ["patch", "create"]
    assert len(leases[1:]) == 10
    owner = leases[1].body["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], leases[1].body["spec"]["leaseDurationSeconds"]) == (
        "Node",
        "gpu-1",
        40,
    )
