"""Usage records over whole passes: with their host, against one that deletes them, under new leaders."""

from dataclasses import replace
from typing import Any

from gpu import keys
from gpu.config import Config, UsageRecordMonitor
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from tests.binder import raws
from tests.binder.rig import Rig

CLAIM = {"finalizers": [keys.CLAIM_FINALIZER]}
RESYNC = 30.0


def a_rig(*names: str, **rig: Any) -> Rig:
    made = Rig(**rig)
    made.store(
        classes=[raws.a_class()],
        nodes=[raws.a_node()],
        namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant()],
        claims=[raws.a_claim(name, at=at, meta=CLAIM) for at, name in enumerate(names)],
    )
    return made


def stored(rig: Rig, kind: kinds.Kind = kinds.WORKLOADS) -> dict[str, dict[str, Any]]:
    found = rig.cluster._objects.get(kind, {})
    return {key.name: raw for key, raw in found.items()}


async def host(rig: Rig, *, always: bool = False) -> int:
    """Delete Workloads without a monitor that is there, as Cozystack does; returns how many.

    `always`: one that deletes them whatever their labels.
    """
    monitors = set(rig.cluster._objects.get(kinds.WORKLOAD_MONITORS, {}))
    doomed = [
        key
        for key, raw in rig.cluster._objects.get(kinds.WORKLOADS, {}).items()
        if always
        or ObjectKey(key.namespace, raw["metadata"]["labels"].get(keys.WORKLOAD_MONITOR_LABEL, ""))
        not in monitors
    ]
    for key in doomed:
        await rig.cluster.delete(kinds.WORKLOADS, key.name, key.namespace)
    return len(doomed)


async def resynced(rig: Rig) -> None:
    rig.clock.advance(RESYNC)
    await rig.once()


def condition(rig: Rig, kind: str = "RecordsKept") -> tuple[str, str]:
    (binder,) = stored(rig, kinds.GPU_BINDERS).values()
    found = {item["type"]: item for item in binder["status"]["conditions"]}
    return found[kind]["status"], found[kind]["reason"]


async def test_a_bound_claim_has_its_record_in_the_same_pass():
    rig = a_rig("x")
    await rig.once()
    record = stored(rig)["gpuclaim-x"]
    claim = rig.claim("x")
    assert claim is not None
    assert record["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "gpu.cozystack.io/v1alpha1",
            "kind": "GPUClaim",
            "name": "x",
            "uid": claim["metadata"]["uid"],
            "controller": False,
        }
    ]
    assert record["status"] == {
        "kind": "gpuclaim",
        "type": "h100",
        "operational": True,
        "resources": {"gpu.cozystack.io/h100": "1"},
    }
    assert stored(rig, kinds.WORKLOAD_MONITORS) == {}
    await rig.until_still()
    assert condition(rig) == ("True", "NoMonitor")


async def test_a_host_that_deletes_records_makes_the_leader_keep_them_under_a_monitor_once():
    names = [f"c{number}" for number in range(5)]
    rig = a_rig(*names)
    await rig.until_still()
    assert await host(rig) == len(names)
    await rig.until_still()
    assert stored(rig) == {}
    await resynced(rig)
    await rig.until_still()
    assert await host(rig) == 0
    (monitor,) = stored(rig, kinds.WORKLOAD_MONITORS).values()
    assert monitor["spec"]["selector"] == {keys.USAGE_MONITOR_SELECTOR_LABEL: "true"}
    labels = [raw["metadata"]["labels"] for raw in stored(rig).values()]
    assert [item[keys.WORKLOAD_MONITOR_LABEL] for item in labels] == [keys.USAGE_MONITOR_NAME] * 5
    made = [write for write in rig.writes(kinds.WORKLOADS) if write[0] != "delete"]
    assert len(made) == 2 * len(names)
    assert len(rig.writes(kinds.WORKLOAD_MONITORS)) == 1
    assert condition(rig) == ("True", "HostDeletesRecords")
    before = len(rig.cluster.writes)
    for _ in range(3):
        await resynced(rig)
    assert len(rig.cluster.writes) == before


async def test_a_next_leader_does_not_try_again_without_a_monitor():
    rig = a_rig("x")
    await rig.until_still()
    await host(rig)
    await rig.until_still()
    await resynced(rig)
    await rig.until_still()
    later = rig.next_leader()
    later.store(claims=[raws.a_claim("y", at=9, meta=CLAIM)])
    await later.until_still()
    assert await host(later) == 0
    assert set(stored(later)) == {"gpuclaim-x", "gpuclaim-y"}
    assert condition(later) == ("True", "HostDeletesRecords")


async def test_against_one_who_deletes_every_record_writes_grow_ever_more_seldom():
    config = replace(Config(), usage_record_monitor=UsageRecordMonitor.ANCHOR)
    rig = a_rig("x", config=config)
    await rig.until_still()
    hours = 3
    for _ in range(hours * int(3600 / RESYNC)):
        await host(rig, always=True)
        await rig.once()
        await resynced(rig)
    made = [write for write in rig.writes(kinds.WORKLOADS) if write[0] != "delete"]
    assert len(made) <= 10
    assert condition(rig) == ("False", "HostDeletesRecords")


async def test_with_the_feature_off_records_are_kept_and_follow_their_claims():
    rig = a_rig("x", "y")
    await rig.until_still()
    off = rig.next_leader(config=replace(Config(), enabled=False))
    await off.cluster.delete(kinds.WORKLOADS, "gpuclaim-y", "tenant-a")
    await off.cluster.patch(
        kinds.WORKLOADS, "gpuclaim-x", {"status": {"operational": False}}, "tenant-a"
    )
    await off.until_still()
    assert {name: raw["status"]["operational"] for name, raw in stored(off).items()} == {
        "gpuclaim-x": True,
        "gpuclaim-y": True,
    }


async def test_where_workloads_are_served_later_records_come_then():
    rig = a_rig("x")
    rig.cluster.unserve(kinds.WORKLOADS)
    await rig.until_still()
    assert (condition(rig), rig.writes(kinds.WORKLOADS)) == (("Unknown", "KindNotServed"), [])
    rig.cluster.serve(kinds.WORKLOADS)
    await rig.until_still()
    assert (condition(rig), set(stored(rig))) == (("True", "NoMonitor"), {"gpuclaim-x"})


async def test_a_condition_that_others_wrote_meanwhile_stays():
    rig = a_rig("x", lag=True)
    policies = {"type": "PoliciesCurrent", "status": "True", "reason": "Current", "message": "m"}
    await rig.cluster.apply(
        kinds.GPU_BINDERS,
        keys.BINDER_NAME,
        {"status": {"conditions": [policies]}},
        field_manager=keys.POLICIES_MANAGER,
        subresource="status",
    )
    report = await rig.once()
    assert report.failed == ()
    assert condition(rig, "PoliciesCurrent") == ("True", "Current")
    assert condition(rig) == ("True", "NoMonitor")


async def test_a_deletion_is_looked_at_again_a_second_later_and_told_once():
    rig = a_rig("x")
    await rig.until_still()
    await host(rig)
    reports = await rig.until_still()
    assert [report.due for report in reports] == [rig.clock.monotonic() + 1] * len(reports)
    rig.clock.advance(1)
    reports = await rig.until_still()
    assert [report.records_deleted for report in reports] == [1] + [0] * (len(reports) - 1)
    assert [report.due for report in reports] == [None] * len(reports)


async def test_a_claim_that_goes_while_its_vm_runs_gets_a_record_that_was_taken_anew_once():
    """Garbage collection takes it in a foreground deletion; a host that takes every one is let be."""
    used = raws.bound() | raws.attached(uid="vmi-1", pods={"p": "n1"})
    rig = a_rig()
    rig.store(
        claims=[raws.a_claim("x", meta=raws.DELETED, status=used)],
        vmis=[raws.a_vmi(node="n1", pods={"p": "n1"})],
        pods=[raws.a_pod("p")],
    )
    for _ in range(3):
        await rig.until_still()
        await host(rig, always=True)
        await resynced(rig)
    made = [write for write in rig.writes(kinds.WORKLOADS) if write[0] != "delete"]
    assert len(made) == 1
    assert rig.claim("x") is not None
    assert condition(rig) == ("True", "NoMonitor")
