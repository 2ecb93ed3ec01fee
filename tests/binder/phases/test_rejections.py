"""Phase rejections, in whole passes: noted on claims, the launcher deleted, the node skipped and forgiven."""

import asyncio
from dataclasses import replace

import pytest

from gpu.binder import replaying
from gpu.cluster import errors
from gpu.config import Config
from gpu.objects import kinds
from gpu.settings import RawNames
from tests.binder import gated, raws, refusing
from tests.binder.gated import a_start, held
from tests.binder.phases.test_gates import a_rig, pinned, pod, stands
from tests.binder.refusing import rejected
from tests.fakes.recorder import HeardRecorder

NODES = ("n1", raws.a_node("n2", units=2))


async def a_pinned(*, units=None, nodes=NODES, **more):
    """A VM whose launcher was let through onto n1, with a held claim or template units."""
    start = a_start(units=units) if units else a_start(held=("a",), asks=1)
    claims = [] if units else [held("a")]
    rig = a_rig(nodes=nodes, claims=claims, starts=[start], **more)
    rig.passes.recorder = HeardRecorder()
    await rig.until_still()
    return rig


def again(rig, *, number=2, units=None, asks=None):
    """KubeVirt starts the VM anew: another VMI, another launcher."""
    start = a_start(held=("a",), asks=1) if not (units or asks) else a_start(units=units, asks=asks)
    (vmi,), (launcher,) = start["vmis"], start["pods"]
    vmi["metadata"]["uid"] = f"vmi-{number}"
    vmi["status"]["activePods"] = {f"pod-{number}": ""}
    launcher["metadata"] |= {"name": f"pod-{number}", "uid": f"pod-{number}"}
    if not (units or asks):
        raw = rig.claim("a")
        attached = raws.attached("vm", admission="adm-a", since="2026-01-02T03:04:00Z")
        rig.cluster.put(kinds.GPU_CLAIMS, {**raw, "status": {**raw["status"], **attached}})
    rig.store(vmis=[vmi], pods=[launcher])


async def test_a_refusal_is_noted_and_the_launcher_deleted():
    rig = await a_pinned()
    assert refusing.refuse(rig) == "n1"
    await rig.until_still()
    (item,) = rig.claim("a")["status"]["rejectedNodes"]
    assert (item["node"], item["until"]) == ("n1", "2026-01-02T03:14:05Z")
    assert len(item["fingerprint"]) == 32
    assert refusing.pod(rig) is None
    writes = [it for it in rig.writes() if it[0] == "delete" or it[1].endswith("/a")]
    assert writes[-1] == ("delete", "Pod tenant-a/pod-vm", None)
    assert "VirtualMachineInstance tenant-a/vm LauncherRefused!" in rig.passes.recorder.heard
    assert "GPUClaim tenant-a/a LauncherRefused!" in rig.passes.recorder.heard


async def test_the_next_start_of_the_vm_goes_elsewhere():
    rig = await a_pinned()
    refusing.refuse(rig)
    refusing.gone(rig)
    await rig.until_still()
    again(rig)
    await rig.until_still()
    assert pinned(rig, "pod-2") == "n2"
    assert stands(rig, "a")[:2] == ("Bound", "n2")


async def test_so_does_that_of_a_vm_with_template_claims_which_go_with_their_vmi():
    rig = await a_pinned(units={"h100": 1}, nodes=(raws.a_node("n1", units=2), "n2"))
    first = gated.template()
    assert refusing.refuse(rig) == "n1"
    await rig.until_still()
    assert (rig.claim(first), refusing.pod(rig)) == (None, None)
    refusing.gone(rig)
    again(rig, units={"h100": 1})
    await rig.until_still()
    assert pinned(rig, "pod-2") == "n2"


async def test_what_a_claim_notes_outlives_the_leader_and_what_is_in_memory_does_not():
    rig = await a_pinned()
    refusing.refuse(rig)
    await rig.until_still()
    refusing.gone(rig)
    again(rig)
    leader = rig.next_leader()
    await leader.until_still()
    assert pinned(leader, "pod-2") == "n2"
    other = await a_pinned(units={"h100": 1}, nodes=(raws.a_node("n1", units=2), "n2"))
    refusing.refuse(other)
    await other.until_still()
    refusing.gone(other)
    again(other, units={"h100": 1})
    leader = other.next_leader()
    await leader.until_still()
    assert pinned(leader, "pod-2") == "n1"


async def test_nobody_else_is_kept_from_the_node():
    rig = await a_pinned(nodes=(raws.a_node("n1", units=2), "n2"))
    refusing.refuse(rig)
    await rig.until_still()
    start = a_start("other", units={"h100": 1})
    rig.store(vmis=start["vmis"], pods=start["pods"])
    await rig.until_still()
    assert pinned(rig, "pod-other") == "n1"


async def test_a_vm_whose_only_node_refused_it_waits_and_says_so():
    rig = await a_pinned(nodes=("n1",))
    refusing.refuse(rig)
    refusing.gone(rig)
    await rig.until_still()
    again(rig)
    await rig.until_still()
    assert pinned(rig, "pod-2") is None
    assert stands(rig, "a")[:2] == ("Bound", "n1")
    told = [it for it in rig.claim("a")["status"]["conditions"] if it["type"] == "Waiting"]
    assert "1 node that refused the launcher is skipped for this VM" in told[0]["message"]
    rig.clock.advance(600)
    await rig.until_still()
    assert pinned(rig, "pod-2") == "n1"
    assert rejected(rig, "a") == []


async def test_it_is_not_left_to_wait_when_the_node_changes():
    rig = await a_pinned(nodes=("n1",))
    refusing.refuse(rig)
    refusing.gone(rig)
    await rig.until_still()
    again(rig)
    await rig.until_still()
    rig.store(nodes=[raws.a_node("n1", units=9)])
    await rig.until_still()
    assert (pinned(rig, "pod-2"), rejected(rig, "a")) == ("n1", [])


async def test_a_leader_wakes_when_a_rejection_is_over():
    rig = await a_pinned()
    refusing.refuse(rig)
    report = (await rig.until_still())[-1]
    assert report.due == pytest.approx(rig.clock.monotonic() + 600, abs=1)
    assert report.rejections == 1


async def test_after_a_refusal_everything_is_still_though_the_pod_is_shown_on():
    rig = await a_pinned()
    refusing.refuse(rig)
    refusing.gone(rig)
    await rig.until_still()
    assert (rejected(rig, "a"), stands(rig, "a")) == (["n1"], ("Bound", "n1", {}))
    assert [it for it in rig.writes() if it[0] == "delete"] == []
    rig.clock.advance(601)
    await rig.until_still()
    assert rejected(rig, "a") == []
    count = len(rig.cluster.writes)
    rig.clock.advance(30)
    await rig.until_still()
    assert len(rig.cluster.writes) == count


async def test_one_that_was_evicted_is_no_rejection():
    rig = await a_pinned()
    refusing.refuse(rig, reason="Evicted")
    await rig.until_still()
    assert rejected(rig, "a") == []
    assert refusing.pod(rig) is not None


async def test_a_launcher_that_is_not_bound_in_time_is_deleted_and_known_never_to_have_run():
    rig = await a_pinned()
    refusing.not_bound(rig)
    await rig.until_still()
    rig.clock.advance(59)
    await rig.until_still()
    assert (rejected(rig, "a"), refusing.pod(rig) is None) == ([], False)
    rig.clock.advance(1)
    await rig.until_still()
    assert (rejected(rig, "a"), refusing.pod(rig)) == (["n1"], None)
    (used,) = rig.claim("a")["status"]["attachedTo"]["pods"]
    assert used == {"uid": "pod-vm", "node": "n1", "ended": True}
    assert "VirtualMachineInstance tenant-a/vm LauncherUnschedulable!" in rig.passes.recorder.heard
    assert [it for it in rig.writes() if it[1].startswith("VirtualMachineInstance")] == []


async def test_the_pass_is_due_when_its_grace_is_over():
    rig = await a_pinned()
    refusing.not_bound(rig)
    report = (await rig.until_still())[-1]
    assert report.due == pytest.approx(rig.clock.monotonic() + 60, abs=1)


async def test_one_on_a_cordoned_node_waits_for_as_long_as_it_takes():
    rig = await a_pinned(nodes=("n1",))
    refusing.not_bound(rig)
    rig.store(nodes=[raws.a_node("n1", unschedulable=True)])
    for _ in range(3):
        await rig.until_still()
        rig.clock.advance(3600)
    assert refusing.pod(rig) is not None


async def test_one_at_the_gate_is_never_deleted():
    rig = a_rig(nodes=(raws.a_node("n1", units=1),), starts=[a_start(units={"h100": 2})])
    await rig.until_still()
    raw = pod(rig)
    told = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    rig.cluster.put(kinds.PODS, {**raw, "status": {**raw["status"], "conditions": [told]}})
    for _ in range(3):
        rig.clock.advance(3600)
        await rig.until_still()
    assert pinned(rig) is None
    assert [it for it in rig.writes() if it[0] == "delete"] == []


async def test_a_launcher_that_is_bound_at_the_last_moment_is_left_alone():
    rig = await a_pinned()
    refusing.not_bound(rig)
    await rig.until_still()
    rig.clock.advance(60)
    rig.window.show()
    refusing.bind(rig)  # the watch has not shown it yet
    rig.lag = True
    report = await rig.once()
    assert [(it.change, it.outcome.value) for it in report.failed] == [("DeletePod", "stale")]
    assert refusing.pod(rig) is not None


async def test_a_deletion_that_is_late_meets_another_version_and_does_nothing():
    rig = await a_pinned()
    refusing.not_bound(rig)
    await rig.until_still()
    rig.clock.advance(60)
    rig.window.show()
    raw = refusing.pod(rig)
    meta = {**raw["metadata"], "labels": {**raw["metadata"]["labels"], "seen": "later"}}
    rig.cluster.put(kinds.PODS, {**raw, "metadata": meta})
    rig.lag = True
    report = await rig.once()
    assert [(it.change, it.outcome.value) for it in report.failed] == [("DeletePod", "conflict")]
    assert report.aborted is False
    rig.lag = False
    await rig.until_still()
    assert refusing.pod(rig) is None


async def test_a_note_that_is_refused_keeps_the_launcher_until_it_is_stored():
    rig = await a_pinned()
    refusing.refuse(rig)
    denied = errors.from_status({"code": 403, "reason": "Forbidden", "message": "no"})
    end = rig.cluster.refuse(
        lambda write: "rejectedNodes" in (write.body or {}).get("status", {}), denied
    )
    await rig.once()
    assert refusing.pod(rig) is not None
    end()
    rig.clock.advance(60)
    await rig.until_still()
    assert (rejected(rig, "a"), refusing.pod(rig)) == (["n1"], None)


async def test_a_launcher_without_claims_is_remembered_too():
    config = replace(Config(), raw_names=RawNames.ALLOWED)
    rig = a_rig(nodes=(raws.a_node("n1", units=1), "n2"), starts=[a_start(asks=1)], config=config)
    await rig.until_still()
    assert refusing.refuse(rig) == "n1"
    await rig.until_still()
    assert refusing.pod(rig) is None
    refusing.gone(rig)
    again(rig, asks=1)
    await rig.until_still()
    assert pinned(rig, "pod-2") == "n2"


async def test_many_that_are_over_are_taken_off_a_few_at_a_time_and_all_in_the_end():
    over = {"node": "n1", "until": "2026-01-01T00:00:00Z"}
    claims = [held(f"c{n}", vm=f"vm{n}", rejectedNodes=[over]) for n in range(100)]
    for claim in claims:
        del claim["status"]["attachedTo"]
    rig = a_rig(nodes=(raws.a_node("n1", units=200),), claims=claims)
    first = await rig.once()
    assert first.written["Reject"] == 64
    second = await rig.once()
    assert second.written["Reject"] == 36
    assert all(rejected(rig, f"c{n}") == [] for n in range(100))


async def test_a_saved_pass_with_rejections_is_decided_alike(tmp_path):
    rig = await a_pinned()
    rig.passes.saves = replaying.Saves(directory=tmp_path)
    rig.passes.in_thread = asyncio.to_thread
    refusing.refuse(rig)
    rig.passes.saves.ask()
    await rig.once()
    (data,) = await asyncio.to_thread(lambda: [it.read_bytes() for it in tmp_path.glob("*.json")])
    saved = replaying.decode(data)
    assert [it.pod for it in saved.sightings.rejections.kept] == ["pod-vm"]
    assert any("Reject GPUClaim tenant-a/a" in line for line in saved.decisions)
    assert replaying.decide(saved) == saved.decisions
