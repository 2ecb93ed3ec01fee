"""Phase usage: World in, records and monitors out."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpu import keys
from gpu.binder.changes import Change, DropRecord, WriteMonitor, WriteRecord
from gpu.binder.phase import Scene
from gpu.binder.phases import usage
from gpu.config import Config, UsageRecordMonitor
from gpu.model.sightings import Sightings
from gpu.model.usage import Deletion, Kept, Memory, Record, Standing
from gpu.objects.meta import ObjectKey
from tests.binder import raws
from tests.binder.scenes import NOW, scene_of

BOUND = raws.a_claim(meta={"uid": "uid-x"}, status=raws.bound("n1"))
OURS = keys.USAGE_MONITOR_NAME
RECORD = Record(
    name="gpuclaim-x",
    kind="gpuclaim",
    type="h100",
    resources=(("gpu.cozystack.io/h100", 1),),
    operational=True,
    labels=(("gpu.cozystack.io/class", "h100"),),
)
ANCHORED = replace(RECORD, labels=(*RECORD.labels, (keys.WORKLOAD_MONITOR_LABEL, OURS)))


def scene(
    *,
    mode: str = "auto",
    memory: Memory | None = None,
    skip: Iterable[str] = (),
    unserved: Iterable[str] = (),
    **objects: Any,
) -> Scene:
    world = raws.a_world(
        **{
            "classes": [raws.a_class()],
            "nodes": [raws.a_node()],
            "namespaces": [raws.a_tenant()],
            "claims": [BOUND],
            **objects,
        }
    )
    made = scene_of(
        replace(world, unserved=frozenset(unserved)),
        config=Config(usage_record_monitor=UsageRecordMonitor(mode)),
        skip=skip,
    )
    return replace(made, sightings=Sightings(records=memory or Memory()))


def changes(found: Scene) -> list[Change]:
    return list(usage.changes_of(found))


def written(found: Scene) -> list[tuple[str, Record]]:
    """The uid of what is there, and the record wanted."""
    return [(item.uid, item.record) for item in changes(found) if isinstance(item, WriteRecord)]


def told(found: Scene) -> Standing | None:
    changes(found)
    return found.findings.records


def deleted(times: int = 1, *, ago: float = 0) -> Memory:
    at = NOW - timedelta(seconds=ago)
    return Memory(deletions={"uid-x": Deletion(times=times, at=at)}, seen=times)


def test_a_hold_without_a_record_gets_one():
    found = scene()
    assert changes(found) == [WriteRecord(claim=found.world.claims[0], record=RECORD, uid="")]
    assert told(found) == Standing(kept=Kept.PLAIN)


def test_a_claim_placed_in_this_very_pass_gets_its_record_in_it():
    found = scene(claims=[raws.a_claim(meta={"uid": "uid-x"})])
    assert changes(found) == []
    found.draft.bind(found.world.claims[0], "n1")
    assert written(found) == [("", RECORD)]


def test_a_record_that_is_right_is_not_written():
    assert changes(scene(workloads=[raws.a_record()])) == []


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(raws.a_record(units=2), id="units"),
        pytest.param(raws.a_record(operational=False), id="operational"),
    ],
)
def test_a_record_that_differs_is_brought_to_what_it_should_be(stored):
    stored["metadata"]["uid"] = "uid-record"
    assert written(scene(workloads=[stored])) == [("uid-record", RECORD)]


def test_a_lost_claims_record_stays_and_is_not_operational():
    lost = raws.a_claim(meta={"uid": "uid-x"}, status={**raws.bound("n1"), "phase": "Lost"})
    found = scene(claims=[lost], workloads=[raws.a_record()])
    assert [record for _, record in written(found)] == [replace(RECORD, operational=False)]


def test_a_claim_that_is_being_deleted_keeps_its_record_and_gets_no_new_one():
    going = raws.a_claim(meta=raws.DELETED | {"uid": "uid-x"}, status=raws.bound("n1"))
    assert changes(scene(claims=[going])) == []
    assert changes(scene(claims=[going], workloads=[raws.a_record()])) == []
    found = scene(claims=[going], workloads=[raws.a_record(units=2)])
    assert [record for _, record in written(found)] == [RECORD]


USED = {"name": "vm", "admission": "a"}


@pytest.mark.parametrize(
    ("finalizers", "attached", "memory", "made"),
    [
        pytest.param([keys.CLAIM_FINALIZER], USED, Memory(), True, id="in use"),
        pytest.param(["foregroundDeletion", keys.CLAIM_FINALIZER], USED, Memory(), False, id="now"),
        pytest.param(["a.example.com/b"], USED, Memory(), False, id="let go"),
        pytest.param([keys.CLAIM_FINALIZER], None, Memory(), False, id="not in use"),
        pytest.param(
            [keys.CLAIM_FINALIZER], USED, Memory(remade=frozenset({"uid-x"})), False, id="once"
        ),
    ],
)
def test_a_record_that_a_deletion_took_is_made_anew_once_where_a_vm_holds_on(
    finalizers, attached, memory, made
):
    meta = raws.DELETED | {"uid": "uid-x", "finalizers": finalizers}
    going = raws.a_claim(meta=meta, status=raws.bound("n1") | {"attachedTo": attached})
    assert written(scene(claims=[going], memory=memory)) == [("", RECORD)] * made


def test_nothing_is_made_in_a_namespace_that_is_being_deleted():
    going = raws.a_tenant()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T01:00:00Z"
    assert changes(scene(namespaces=[going], mode="anchor")) == []


def test_where_the_host_serves_no_workloads_nothing_is_recorded_and_that_is_said():
    found = scene(unserved={"workloads"}, mode="anchor")
    assert changes(found) == []
    assert told(found) == Standing(kept=Kept.NOT_SERVED)


# Strays.


def drops(found: Scene) -> list[str]:
    return [str(item.key) for item in changes(found) if isinstance(item, DropRecord)]


def test_a_record_whose_claim_is_no_more_is_dropped():
    stray = raws.a_record("old", owner="uid-old")
    stray["metadata"]["uid"] = "uid-record"
    found = scene(workloads=[raws.a_record(), stray])
    assert changes(found) == [
        DropRecord(key=ObjectKey("tenant-a", "gpuclaim-old"), uid="uid-record")
    ]


def test_the_record_of_an_earlier_claim_of_the_same_name_is_dropped_before_the_new_one_is_made():
    found = scene(workloads=[raws.a_record(owner="uid-before")])
    assert drops(found) == ["tenant-a/gpuclaim-x"]
    assert written(found) == []


def test_a_second_record_of_one_claim_is_dropped():
    double = raws.a_record("y", owner="uid-x")
    assert drops(scene(workloads=[raws.a_record(), double])) == ["tenant-a/gpuclaim-y"]


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param(raws.a_record("y", owner="uid-y", owner_kind="Pod"), id="owned by a pod"),
        pytest.param(
            {"metadata": {"name": "pod-y", "namespace": "tenant-a"}, "status": {"kind": "vm"}},
            id="of the host",
        ),
        pytest.param(
            {"metadata": {"name": "gpuclaim-y", "namespace": "tenant-a"}, "status": {"kind": "a"}},
            id="of nobody",
        ),
    ],
)
def test_a_workload_that_is_not_ours_beyond_doubt_is_let_be(foreign):
    assert changes(scene(workloads=[raws.a_record(), foreign])) == []


def test_the_record_of_a_claim_that_cannot_be_read_is_kept():
    found = scene(workloads=[raws.a_record(), raws.a_record("odd", owner="uid-odd")])
    world = replace(found.world, unreadable_claims=frozenset({ObjectKey("tenant-a", "odd")}))
    assert drops(found) == ["tenant-a/gpuclaim-odd"]
    assert drops(replace(found, world=world)) == []


def test_a_foreign_workload_that_bears_a_records_name_is_told_of_and_let_be():
    foreign = raws.a_record(owner_kind="Pod")
    found = scene(workloads=[foreign])
    assert changes(found) == []
    assert told(found) == Standing(kept=Kept.NAME_TAKEN, taken=("tenant-a/gpuclaim-x",))


# Whose owner was taken off: a claim deleted with `--cascade=orphan`.


def an_orphan(claim="x", *, created="2026-01-01T00:00:00Z", **status):
    raw = raws.a_record(claim)
    meta = raw["metadata"] | {"uid": "uid-record", "creationTimestamp": created}
    return {"metadata": meta | {"ownerReferences": []}, "status": raw["status"] | status}


def a_holder(**meta):
    dated = {"uid": "uid-x", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return raws.a_claim(meta=dated | meta, status=raws.bound("n1"))


@pytest.mark.parametrize("meta", [{}, raws.DELETED], ids=["held", "going"])
def test_the_record_of_a_claim_that_is_still_there_is_owned_by_it_again(meta):
    found = scene(claims=[a_holder(**meta)], workloads=[an_orphan(operational=False)])
    assert written(found) == [("uid-record", RECORD)]
    assert drops(found) == []
    assert told(found) == Standing(kept=Kept.PLAIN)


def test_the_orphan_of_a_claim_that_is_gone_is_dropped():
    assert drops(scene(claims=[], workloads=[an_orphan()])) == ["tenant-a/gpuclaim-x"]


def test_a_later_claim_of_the_same_name_gets_a_record_of_its_own():
    later = a_holder(creationTimestamp="2026-01-01T00:00:01Z")
    found = scene(claims=[later], workloads=[an_orphan()])
    assert drops(found) == ["tenant-a/gpuclaim-x"]
    assert written(found) == []


def test_the_orphan_of_a_claim_that_cannot_be_read_is_kept():
    found = scene(workloads=[raws.a_record(), an_orphan("odd")])
    world = replace(found.world, unreadable_claims=frozenset({ObjectKey("tenant-a", "odd")}))
    assert drops(replace(found, world=world)) == []


# Under a monitor.


def test_an_anchored_namespace_gets_its_monitor_first_and_then_its_records():
    found = scene(mode="anchor")
    selector = ((keys.USAGE_MONITOR_SELECTOR_LABEL, "true"),)
    assert changes(found) == [WriteMonitor(namespace="tenant-a", uid="", selector=selector)]
    assert told(found) == Standing(kept=Kept.UNDER_MONITOR, anchored=True)
    assert written(scene(mode="anchor", monitors=[raws.a_monitor()])) == [("", ANCHORED)]


def test_a_namespace_without_holds_gets_no_monitor():
    waiting = raws.a_claim(meta={"uid": "uid-x"})
    assert changes(scene(mode="anchor", claims=[waiting])) == []


def test_records_made_without_a_monitor_are_put_under_it():
    found = scene(mode="anchor", monitors=[raws.a_monitor()], workloads=[raws.a_record()])
    assert [record for _, record in written(found)] == [ANCHORED]


@pytest.mark.parametrize("mode", ["none", "auto", "anchor"])
@pytest.mark.parametrize("selector", [{}, {"app": "web"}], ids=["empty", "another"])
def test_a_monitor_that_selects_pods_is_healed_whatever_the_mode(mode, selector):
    found = scene(mode=mode, monitors=[raws.a_monitor(selector=selector)])
    healed = [item for item in changes(found) if isinstance(item, WriteMonitor)]
    assert [(item.namespace, bool(item.uid)) for item in healed] == [("tenant-a", True)]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"memory": deleted()}, id="seen by this leader"),
        pytest.param({"monitors": [raws.a_monitor("tenant-b")]}, id="a monitor is there"),
        pytest.param(
            {
                "binders": [
                    {
                        "metadata": {"name": "binder"},
                        "status": {
                            "conditions": [
                                {
                                    "type": "RecordsKept",
                                    "status": "True",
                                    "reason": "HostDeletesRecords",
                                }
                            ]
                        },
                    }
                ]
            },
            id="said on GPUBinder",
        ),
    ],
)
def test_auto_anchors_once_a_host_was_seen_to_delete_records_by_whichever_leader(more):
    found = scene(**more)
    namespaces = [item.namespace for item in changes(found) if isinstance(item, WriteMonitor)]
    assert namespaces == ["tenant-a"]
    assert written(found) == []


def test_auto_without_the_kind_of_monitors_stays_plain():
    found = scene(memory=deleted(), unserved={"monitors"})
    assert written(found) == [("", RECORD)]


@pytest.mark.parametrize(
    ("mode", "memory", "standing"),
    [
        ("auto", deleted(), Standing(kept=Kept.HOST_DELETES, anchored=True)),
        ("none", deleted(), Standing(kept=Kept.PLAIN)),
        ("none", deleted(3), Standing(kept=Kept.HOST_DELETES, fought_over=1)),
        ("anchor", deleted(3), Standing(kept=Kept.HOST_DELETES, anchored=True, fought_over=1)),
    ],
)
def test_how_records_are_kept_is_told(mode, memory, standing):
    assert told(scene(mode=mode, memory=memory)) == standing


# No fight.


@pytest.mark.parametrize(
    ("memory", "made"),
    [
        pytest.param(deleted(1), True, id="once: at once"),
        pytest.param(deleted(2, ago=4), False, id="twice: not before 5 s"),
        pytest.param(deleted(2, ago=5), True, id="twice: after 5 s"),
        pytest.param(deleted(9, ago=3599), False, id="often: not before an hour"),
        pytest.param(deleted(9, ago=3600), True, id="often: after an hour"),
        pytest.param(Memory(missed={"uid-x": NOW}), False, id="missed just now: not yet"),
    ],
)
def test_a_deleted_record_is_made_anew_at_growing_distances(memory, made):
    found = scene(mode="none", memory=memory)
    assert bool(written(found)) is made


@pytest.mark.parametrize(
    ("skip", "left"),
    [
        ("Workload tenant-a/gpuclaim-x", ["DropRecord"]),
        ("Workload tenant-a/gpuclaim-old", ["WriteRecord"]),
        ("GPUClaim of nobody", ["WriteRecord", "DropRecord"]),
    ],
)
def test_a_record_in_quarantine_is_left_alone_and_the_others_are_written(skip, left):
    found = scene(workloads=[raws.a_record("old", owner="uid-old")], skip={skip})
    assert [type(item).__name__ for item in changes(found)] == left


def test_a_monitor_in_quarantine_is_left_alone():
    found = scene(mode="anchor", skip={f"WorkloadMonitor tenant-a/{OURS}"})
    assert changes(found) == []
