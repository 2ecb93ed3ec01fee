"""Phase gates, before KubeVirt lists a launcher: all is held for it, and it is let through no earlier."""

from dataclasses import replace

import pytest

from gpu import keys
from gpu.cluster import errors
from gpu.config import Config, PolicyMode
from gpu.objects import kinds
from gpu.objects.pods import MIGRATION_LABEL
from tests.binder import gated, raws
from tests.binder.gated import held, owner
from tests.binder.phases.test_gates import a_rig, pinned, stands, waits
from tests.fakes.clock import EPOCH
from tests.fakes.cluster import Fault
from tests.fakes.recorder import HeardRecorder

TPL = gated.template()
NOW = EPOCH.isoformat().replace("+00:00", "Z")


def a_start(name="vm", *, asks=1, owners=None, vmi=None, **named):
    """A VMI that lists nothing yet, and its launcher at the gate."""
    pod = gated.a_launcher(name, units=asks)
    pod["metadata"]["ownerReferences"] = [owner(name)] if owners is None else owners
    return {"vmis": [vmi or gated.a_vmi(name, pod=None, **named)], "pods": [pod]}


def just_attached(name="a"):
    """A claim that the webhook attached in this second."""
    found = held(name)
    found["status"]["attachedTo"]["since"] = NOW
    return found


async def lists(rig, name="vm", pod="pod-vm", **named):
    """KubeVirt lists a launcher; returns what the next pass writes, by kind of change."""
    rig.store(vmis=[gated.a_vmi(name, pod=pod, **named)])
    return dict((await rig.once()).written)


async def test_a_template_claim_is_made_and_held_before_the_vmi_lists_its_launcher():
    rig = a_rig(starts=[a_start(units={"h100": 1})])
    await rig.until_echo()
    assert stands(rig, TPL) == ("Bound", "n1", {"pod-vm": "n1"})
    assert pinned(rig) is None
    written = await lists(rig, units={"h100": 1})
    assert (written["Pin"], written.get("Attach"), written.get("Place")) == (1, None, None)
    assert pinned(rig) == "n1"


async def test_a_held_claim_notes_vmi_and_launcher_in_one_write_before_that():
    rig = a_rig(claims=[just_attached()], starts=[a_start(held=("a",))])
    first = (await rig.once()).written
    assert first["Attach"] == 1
    assert stands(rig, "a") == ("Bound", "n1", {"pod-vm": "n1"})
    assert rig.claim("a")["status"]["attachedTo"]["uid"] == "vmi-vm"
    assert pinned(rig) is None
    assert (await lists(rig, held=("a",)))["Pin"] == 1
    assert pinned(rig) == "n1"


async def test_records_and_numbers_wait_for_the_pin_a_second_at_most():
    start = a_start(units={"h100": 1})
    start["pods"][0]["metadata"]["creationTimestamp"] = NOW
    rig = a_rig(starts=[start])
    reports = await rig.until_echo()
    assert rig.cluster._objects.get(kinds.WORKLOADS, {}) == {}
    assert reports[-1].due == pytest.approx(rig.clock.monotonic() + 1.0)
    rig.clock.advance(1.0)
    await rig.until_still()
    assert rig.cluster._objects[kinds.WORKLOADS]
    assert pinned(rig) is None


def heard_of_vms(rig):
    return [it for it in rig.passes.recorder.heard if it.startswith("VirtualMachineInstance")]


async def test_they_do_not_wait_for_one_that_kubevirt_does_not_list():
    """Nor does a pass come every second for it."""
    rig = a_rig(starts=[a_start(units={"h100": 1})])
    reports = await rig.until_still()
    assert rig.cluster._objects[kinds.WORKLOADS]
    assert reports[-1].due is None


FORGED = {
    "no owner": a_start(units={"h100": 1}, owners=[]),
    "an owner that is not its controller": a_start(
        units={"h100": 1}, owners=[owner(controller=False)]
    ),
    "the uid of another VMI": a_start(units={"h100": 1}, owners=[owner(uid="vmi-other")]),
    "another kind": a_start(units={"h100": 1}, owners=[owner(kind="Pod")]),
    "a VMI that lists another": a_start(
        vmi=gated.a_vmi(pod="pod-real", units={"h100": 1}), units={}
    ),
    "a VMI that goes": a_start(
        vmi=gated.a_vmi(pod=None, units={"h100": 1}, deleting=True), units={}
    ),
    "a VMI that is over": a_start(
        vmi=gated.a_vmi(pod=None, units={"h100": 1}, phase="Failed"), units={}
    ),
    "a VMI that asks for nothing": a_start(asks=1),
}


@pytest.mark.parametrize("name", FORGED)
async def test_nothing_is_prepared_for_a_pod_that_is_not_the_first_launcher_of_a_vmi(name):
    rig = a_rig(starts=[FORGED[name]])
    await rig.until_still()
    assert stands(rig, TPL) is None
    assert pinned(rig) is None


@pytest.mark.parametrize("label", [MIGRATION_LABEL, ""])
async def test_nothing_is_prepared_for_the_target_of_a_migration_or_any_other_pod(label):
    start = a_start(units={"h100": 1})
    labels = start["pods"][0]["metadata"]["labels"]
    start["pods"][0]["metadata"]["labels"] = labels | {label: "1"} if label else {}
    rig = a_rig(starts=[start])
    await rig.until_still()
    assert stands(rig, TPL) is None


async def test_nothing_is_prepared_where_no_policy_says_who_puts_the_gate_on_a_pod():
    config = replace(Config(), policies=PolicyMode.OFF)
    rig = a_rig(starts=[a_start(units={"h100": 1})], config=config)
    await rig.until_still()
    assert stands(rig, TPL) is None
    await lists(rig, units={"h100": 1})
    assert pinned(rig) == "n1"


async def test_one_without_room_makes_nothing_and_is_told_nothing_before_it_is_listed():
    rig = a_rig(nodes=[raws.a_node(units=1)], starts=[a_start(units={"h100": 2}, asks=2)])
    rig.passes.recorder = HeardRecorder()
    reports = await rig.until_still()
    assert stands(rig, TPL) is None
    assert not reports[0].written.get("CreateClaim")
    assert heard_of_vms(rig) == []
    await lists(rig, units={"h100": 2})
    assert heard_of_vms(rig) == ["VirtualMachineInstance tenant-a/vm NoFreeUnits!"]


async def test_one_over_its_budget_makes_nothing():
    rig = a_rig(quotas={"total": 0}, starts=[a_start(units={"h100": 1})])
    await rig.until_still()
    assert stands(rig, TPL) is None


async def test_one_is_prepared_in_its_turn_among_those_that_are_listed():
    """The older has the last unit, whether KubeVirt has listed its launcher or not."""
    younger = gated.a_start("young", units={"h100": 1}, at=2)
    rig = a_rig(nodes=[raws.a_node(units=1)], starts=[younger, a_start(units={"h100": 1}, at=1)])
    await rig.until_still()
    assert stands(rig, TPL) == ("Bound", "n1", {"pod-vm": "n1"})
    assert stands(rig, gated.template("young")) is None
    assert (pinned(rig), pinned(rig, "pod-young")) == (None, None)


async def test_what_was_prepared_goes_where_the_launcher_can_go_once_it_is_listed():
    rig = a_rig(nodes=["n1", raws.a_node("n2", units=8)], starts=[a_start(units={"h100": 1})])
    await rig.until_still()
    assert stands(rig, TPL)[1] == "n1"
    rig.store(nodes=[raws.a_node("n1", unschedulable=True)])
    await rig.until_still()
    await lists(rig, units={"h100": 1})
    await rig.until_still()
    assert stands(rig, TPL) == ("Bound", "n2", {"pod-vm": "n2"})
    assert pinned(rig) == "n2"


async def test_another_pod_than_was_prepared_for_is_let_through_when_it_is_the_one_that_is_listed():
    rig = a_rig(starts=[a_start(units={"h100": 1})])
    await rig.until_still()
    rig.store(pods=[gated.a_launcher("vm", uid="pod-2")])
    await lists(rig, pod="pod-2", units={"h100": 1})
    await rig.until_still()
    assert (pinned(rig, "pod-2"), pinned(rig)) == ("n1", None)
    assert stands(rig, TPL)[2] == {"pod-vm": "n1", "pod-2": "n1"}


async def test_what_was_prepared_is_given_back_when_vmi_and_launcher_go_unlisted():
    rig = a_rig(claims=[held("a")], starts=[a_start(held=("a",), units={"h100": 1}, asks=2)])
    await rig.until_still()
    assert stands(rig, TPL)[0] == "Bound"
    await rig.cluster.delete(kinds.PODS, "pod-vm", "tenant-a")
    await rig.cluster.delete(kinds.VMIS, "vm", "tenant-a")
    await rig.until_still()
    assert stands(rig, TPL) is None
    assert "attachedTo" not in rig.claim("a")["status"]
    assert waits(rig, "a") == ""


async def test_what_another_leader_prepared_is_asked_of_its_node():
    """The new one's view of pods may lag behind a pin."""
    rig = a_rig(claims=[held("a")], starts=[a_start(held=("a",))])
    await rig.until_still()
    rig = rig.next_leader()
    await rig.until_still()
    await rig.cluster.delete(kinds.PODS, "pod-vm", "tenant-a")
    await rig.cluster.delete(kinds.VMIS, "vm", "tenant-a")
    await rig.until_still()
    assert rig.claim("a")["status"]["attachedTo"]["pods"] == [{"uid": "pod-vm", "node": "n1"}]


async def test_what_was_prepared_and_then_pinned_without_an_answer_is_asked_of_its_node():
    rig = a_rig(claims=[held("a")], starts=[a_start(held=("a",))])
    await rig.until_still()
    lost = errors.ApiError(503, "ServiceUnavailable", "")
    rig.cluster.fail(Fault(at=1, error=lost, executed=False))
    assert "Pin" not in await lists(rig, held=("a",))
    await rig.cluster.delete(kinds.PODS, "pod-vm", "tenant-a")
    await rig.cluster.delete(kinds.VMIS, "vm", "tenant-a")
    await rig.until_still()
    assert rig.claim("a")["status"]["attachedTo"]["pods"] == [{"uid": "pod-vm", "node": "n1"}]


async def test_one_whose_pin_was_sent_may_have_run_though_it_was_last_seen_at_the_gate():
    """Nobody knows what became of that write, and pod and VMI are gone before it is asked about."""
    rig = a_rig(claims=[held("a")], starts=[gated.a_start(held=("a",))])
    lost = errors.ApiError(503, "ServiceUnavailable", "")
    for _ in range(2):  # after the first it is seen at the gate, and noted
        rig.cluster.fail(Fault(at=2, error=lost, executed=False))
        assert [it.change for it in (await rig.once()).failed] == ["Pin"]
    await rig.cluster.delete(kinds.PODS, "pod-vm", "tenant-a")
    await rig.cluster.delete(kinds.VMIS, "vm", "tenant-a")
    await rig.until_still()
    assert rig.claim("a")["status"]["attachedTo"]["pods"] == [{"uid": "pod-vm", "node": "n1"}]


async def test_a_pod_without_claims_is_let_go_no_earlier_than_it_is_listed():
    """Nor is that planned: the checker would refuse it, and all placing of the pass with it."""
    start = a_start(asks=0)
    start["vmis"][0]["metadata"]["annotations"] = {keys.RESOLVED_CLAIMS_ANNOTATION: "[]"}
    rig = a_rig(starts=[start])
    assert not any(it.plan_problem for it in await rig.until_still())
    assert pinned(rig) is None


async def test_a_launcher_by_a_raw_name_alone_is_left_until_it_is_listed():
    start = a_start(asks=2)
    start["vmis"][0]["metadata"]["annotations"] = {keys.RESOLVED_CLAIMS_ANNOTATION: "[]"}
    rig = a_rig(starts=[start])
    await rig.until_still()
    assert pinned(rig) is None
    assert not [it for it in rig.writes() if it[1].startswith("Pod")]
