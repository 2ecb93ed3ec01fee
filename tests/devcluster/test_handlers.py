"""The simulated virt-handler: what it writes of a VMI, compared with what was recorded."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from gpu.objects import kinds
from tests.devcluster.recorded import (
    HANDLERS,
    NAMESPACE,
    VM,
    a_cluster,
    recorded,
    running_launcher,
    running_vmi,
    scheduled,
)
from tests.devcluster.simulation import POD, Rig, conditions, phase, simulating

pytestmark = pytest.mark.looptime
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["hold"]}


def said(vmi: dict, types: set[str] = HANDLERS) -> list[tuple[str, str, str, str]]:
    """Return what a VMI's conditions of some types say."""
    return sorted(
        (c["type"], c["status"], c.get("reason", ""), c.get("message", ""))
        for c in vmi["status"]["conditions"]
        if c["type"] in types
    )


async def test_a_scheduled_guest_comes_up_as_it_was_recorded():
    fake = a_cluster()
    fake.put(kinds.VMIS, scheduled())
    async with simulating(fake) as rig:
        vmi = await rig.vmi_until(phase("Running"))
    known = recorded("vmi-running")
    assert said(vmi) == said(known)
    assert vmi["status"].keys() == known["status"].keys() | {"selinuxContext"}
    assert vmi["spec"] == known["spec"]
    assert [each["phase"] for each in vmi["status"]["phaseTransitionTimestamps"]] == [
        each["phase"] for each in known["status"]["phaseTransitionTimestamps"]
    ]
    assert {w.verb for w in fake.writes if w.kind == kinds.VMIS} == {"update"}


async def test_without_devices_or_on_command_a_guest_is_migratable():
    fake = a_cluster()
    plain = scheduled()
    del plain["spec"]["domain"]["devices"]["gpus"]
    fake.put(kinds.VMIS, plain)
    async with simulating(fake) as rig:
        assert conditions(await rig.vmi_until(phase("Running")))["LiveMigratable"] == ("True", "")
    fake = a_cluster()
    async with simulating(fake) as rig:
        rig.sim.machine("gpu-1").migratable = True
        fake.put(kinds.VMIS, scheduled())
        assert conditions(await rig.vmi_until(phase("Running")))["LiveMigratable"] == ("True", "")


async def test_a_guest_before_it_is_scheduled_is_not_touched():
    fake = a_cluster()
    vmi = scheduled()
    vmi["status"]["phase"] = "Scheduling"
    fake.put(kinds.VMIS, vmi)
    async with simulating(fake):
        await asyncio.sleep(60)
    assert not [w for w in fake.writes if w.kind == kinds.VMIS]


async def stopped(rig: Rig) -> None:
    """Delete the VMI; its finalizers hold it."""
    await rig.fake.delete(kinds.VMIS, VM, NAMESPACE)


async def test_a_deleted_guest_succeeds_and_its_launcher_follows():
    fake = a_cluster()
    fake.put(kinds.VMIS, running_vmi())
    fake.put(kinds.PODS, running_launcher())
    async with simulating(fake) as rig:
        await stopped(rig)
        await rig.vmi_until(phase("Succeeded"))
        await rig.pod_until(phase("Succeeded"))


async def test_a_stubborn_guest_is_killed_after_its_grace():
    fake = a_cluster()
    fake.put(kinds.VMIS, running_vmi())
    fake.put(kinds.PODS, running_launcher())
    async with simulating(fake) as rig:
        rig.sim.machine("gpu-1").stubborn = True
        began = asyncio.get_running_loop().time()
        await stopped(rig)
        await rig.vmi_until(phase("Failed"))
        assert 29 < asyncio.get_running_loop().time() - began < 32
        await rig.pod_until(phase("Failed"))


@pytest.mark.parametrize(
    ("crashed", "wanted"),
    [pytest.param(True, "Failed", id="crashed"), pytest.param(False, "Succeeded", id="shut-down")],
)
async def test_a_guest_ends_on_command_and_its_launcher_with_it(crashed, wanted):
    fake = a_cluster()
    fake.put(kinds.VMIS, running_vmi())
    fake.put(kinds.PODS, running_launcher())
    async with simulating(fake) as rig:
        await rig.vmi_until(phase("Running"))
        await asyncio.sleep(1)
        rig.sim.end_guest(NAMESPACE, VM, crashed=crashed)
        await rig.vmi_until(phase(wanted))
        await rig.pod_until(phase(wanted))


async def test_no_guest_of_an_unknown_name_can_end():
    async with simulating(a_cluster()) as rig:
        with pytest.raises(LookupError, match="VMI tenant-a/nobody is not there"):
            rig.sim.end_guest(NAMESPACE, "nobody")


async def test_a_guest_whose_launcher_is_deleted_shuts_down():
    fake = a_cluster()
    fake.put(kinds.VMIS, running_vmi())
    fake.put(kinds.PODS, running_launcher())
    async with simulating(fake) as rig:
        await asyncio.sleep(5)
        fake.put(kinds.PODS, running_launcher(deletionGracePeriodSeconds=60, **GOING))
        await rig.vmi_until(phase("Succeeded"))
        await rig.pod_until(phase("Succeeded"))


async def test_a_reboot_takes_the_guest_away():
    fake = a_cluster()
    fake.put(kinds.VMIS, running_vmi())
    fake.put(kinds.PODS, running_launcher())
    async with simulating(fake) as rig:
        await asyncio.sleep(1)
        await rig.sim.reboot("gpu-1")
        pod = await rig.pod_until(phase("Failed"))
        await rig.vmi_until(phase("Failed"))
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 255


async def test_a_dead_node_writes_of_no_guest():
    fake = a_cluster()
    async with simulating(fake) as rig:
        await rig.sim.kill("gpu-1")
        fake.put(kinds.VMIS, scheduled())
        await asyncio.sleep(60)
        assert phase("Scheduled")(await rig.vmi())
        await rig.sim.revive("gpu-1")
        await rig.vmi_until(phase("Running"))


def migrating() -> dict:
    """Return the recorded VMI at the moment when virt-controller has chosen its target."""
    vmi = recorded("vmi-migrating")
    state = vmi["status"]["migrationState"]
    del state["targetNodeAddress"], state["targetDirectMigrationNodePorts"]
    vmi["metadata"]["labels"]["kubevirt.io/migrationTargetNodeName"] = state["targetNode"]
    return vmi


def both_launchers(fake) -> tuple[str, str]:
    """Put the launchers of the migration's two ends; return their names."""
    vmi = recorded("vmi-migrating")
    owner = {**running_launcher()["metadata"]["ownerReferences"][0], "uid": vmi["metadata"]["uid"]}
    ours = {"kubevirt.io/created-by": vmi["metadata"]["uid"]}
    state = vmi["status"]["migrationState"]
    for name, node in ((state["sourcePod"], "gpu-1"), (state["targetPod"], "gpu-2")):
        pod = running_launcher(
            name=name, uid=f"uid-of-{name}", ownerReferences=[owner], labels=ours
        )
        pod["spec"]["nodeName"] = node
        fake.put(kinds.PODS, pod)
    return state["sourcePod"], state["targetPod"]


async def test_a_migration_goes_through_its_steps_and_the_source_ends():
    fake = a_cluster()
    source, target = both_launchers(fake)
    fake.put(kinds.VMIS, migrating())
    async with simulating(fake) as rig:
        vmi = await rig.vmi_until(
            lambda vmi: vmi["status"]["migrationState"].get("completed", False)
        )
        await rig.pod_until(phase("Succeeded"), source)
        assert phase("Running")(await rig.pod(target))
        await rig.vmi_until(
            lambda vmi: "kubevirt.io/migrationTargetNodeName" not in vmi["metadata"]["labels"]
        )
    written = [w.body["status"]["migrationState"] for w in fake.writes if w.kind == kinds.VMIS]
    news = [
        set(after) - set(before)
        for before, after in zip(
            [migrating()["status"]["migrationState"], *written], written, strict=False
        )
    ]
    assert [sorted(each) for each in news] == [
        ["targetDirectMigrationNodePorts", "targetNodeAddress"],
        ["mode", "startTimestamp", "targetNodeDomainDetected"],
        ["endTimestamp", "targetNodeDomainReadyTimestamp"],
        ["completed"],
        [],
    ]
    assert (vmi["status"]["nodeName"], vmi["metadata"]["labels"]["kubevirt.io/nodeName"]) == (
        "gpu-2",
        "gpu-2",
    )


async def test_a_migration_begins_only_when_its_target_is_named():
    fake = a_cluster()
    vmi = migrating()
    del vmi["metadata"]["labels"]["kubevirt.io/migrationTargetNodeName"]
    fake.put(kinds.VMIS, vmi)
    async with simulating(fake):
        await asyncio.sleep(60)
    assert not [w for w in fake.writes if w.kind == kinds.VMIS]


async def test_a_migration_that_fails_leaves_the_guest_where_it_was():
    fake = a_cluster()
    source, target = both_launchers(fake)
    async with simulating(fake) as rig:
        rig.sim.machine("gpu-1").migrations_fail = True
        fake.put(kinds.VMIS, migrating())
        vmi = await rig.vmi_until(lambda vmi: vmi["status"]["migrationState"].get("failed", False))
        assert vmi["status"]["nodeName"] == "gpu-1"
        await rig.pod_until(phase("Failed"), target)
        assert phase("Running")(await rig.pod(source))


async def test_a_migration_waits_for_a_target_that_is_dead():
    fake = a_cluster()
    async with simulating(fake) as rig:
        await rig.sim.kill("gpu-2")
        fake.put(kinds.VMIS, migrating())
        await asyncio.sleep(60)
        assert "targetNodeAddress" not in (await rig.vmi())["status"]["migrationState"]
        await rig.sim.revive("gpu-2")
        await rig.vmi_until(lambda vmi: vmi["status"]["nodeName"] == "gpu-2")


async def test_a_write_that_is_outrun_is_made_again():
    fake = a_cluster()
    async with simulating(fake) as rig:
        fake.put(kinds.VMIS, scheduled())
        for number in range(20):  # virt-controller writes labels meanwhile
            labels = {"metadata": {"labels": {"seen": str(number)}}}
            await fake.patch(kinds.VMIS, VM, labels, NAMESPACE)
            await asyncio.sleep(0.01)
        vmi = await rig.vmi_until(phase("Running"))
        assert vmi["metadata"]["labels"]["seen"] == "19"


async def test_heartbeats_come_every_minute_and_stop_on_command():
    fake = a_cluster()
    async with simulating(fake) as rig:
        await asyncio.sleep(200)
        node = await rig.found(kinds.NODES, "gpu-1", None)
        assert node["metadata"]["labels"]["kubevirt.io/schedulable"] == "true"
        assert beats(fake) == 4
        await rig.sim.mute("gpu-1", stale=True)
        stale = (await rig.found(kinds.NODES, "gpu-1", None))["metadata"]["annotations"]
        age = datetime.now(UTC) - datetime.fromisoformat(stale["kubevirt.io/heartbeat"])  # noqa: TID251
        assert age > timedelta(minutes=9)
        await asyncio.sleep(200)
        assert beats(fake) == 5
        await rig.sim.unmute("gpu-1")
        assert beats(fake) == 6


def beats(fake) -> int:
    """Count the heartbeats of gpu-1."""
    return len(
        [
            w
            for w in fake.writes
            if w.kind == kinds.NODES
            and w.key.name == "gpu-1"
            and "annotations" in w.body.get("metadata", {})
        ]
    )


async def test_guests_and_pods_at_rest_ask_for_no_writes():
    fake = a_cluster()
    fake.put(kinds.VMIS, running_vmi())
    fake.put(kinds.PODS, running_launcher())
    async with simulating(fake) as rig:
        await asyncio.sleep(1)
        before = len(fake.writes)
        rig.sim.look_again("gpu-1")
        await asyncio.sleep(8)
        assert len(fake.writes) == before
    assert (await rig.pod())["metadata"]["name"] == POD


async def test_a_simulation_that_breaks_says_so_at_its_end():
    fake = a_cluster()

    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("broken for a test")

    fake.update = broken

    async def broken_at_work() -> None:
        async with simulating(fake) as rig:
            fake.put(kinds.VMIS, scheduled())
            await rig.sim.ended.wait()

    with pytest.raises(ExceptionGroup) as caught:
        await broken_at_work()
    assert caught.group_contains(RuntimeError, match="broken for a test")
