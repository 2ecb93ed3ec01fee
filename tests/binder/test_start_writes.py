"""What a start asks of the API server: each write and each read of it is what somebody waits for."""

import pytest

from gpu.binder import confirming
from gpu.binder.confirms import ClaimsHeld
from gpu.binder.start_changes import Pin
from gpu.cluster import errors
from gpu.objects import kinds, pods
from gpu.objects.meta import ObjectKey
from tests.binder import gated, raws
from tests.binder.gated import a_start, held
from tests.binder.phases.test_gates import a_rig, pinned, stands
from tests.fakes.cluster import Fault


class Reads:
    """Objects that were read past the cache, in order."""

    def __init__(self, rig):
        self.keys = []
        self._get = rig.cluster.get
        rig.cluster.get = self.get

    async def get(self, kind, name, namespace=None, **how):
        self.keys.append(f"{kind.kind} {name}")
        return await self._get(kind, name, namespace, **how)


def of_the_start(rig):
    """Verb, kind and subresource of every write to claims and pods, in order."""
    return [
        (write.verb, write.kind.kind, write.subresource)
        for write in rig.cluster.writes
        if write.kind in {kinds.GPU_CLAIMS, kinds.PODS}
    ]


CREATE, STATUS, PIN = (
    ("create", "GPUClaim", None),
    ("patch", "GPUClaim", "status"),
    ("patch", "Pod", None),
)


async def test_a_start_by_class_takes_three_writes_and_no_read():
    rig = a_rig(starts=[a_start(units={"h100": 2})])
    reads = Reads(rig)
    await rig.until_still()
    assert pinned(rig) == "n1"
    assert of_the_start(rig) == [CREATE, STATUS, PIN]
    assert reads.keys == []


async def test_a_start_by_held_claims_takes_one_write_a_claim_and_the_pin():
    rig = a_rig(claims=[held("a"), held("b", at=1)], starts=[a_start(held=("a", "b"), asks=2)])
    reads = Reads(rig)
    await rig.until_still()
    assert pinned(rig) == "n1"
    assert of_the_start(rig) == [STATUS, STATUS, PIN]
    assert reads.keys == []
    assert {stands(rig, name)[2]["pod-vm"] for name in ("a", "b")} == {"n1"}
    assert {rig.claim(name)["status"]["attachedTo"]["uid"] for name in ("a", "b")} == {"vmi-vm"}


async def noted_only():
    """A start whose pin failed: its claim notes the launcher already."""
    rig = a_rig(claims=[held("a")], starts=[a_start(held=("a",))])
    rig.cluster.fail(
        Fault(at=2, error=errors.ApiError(503, "ServiceUnavailable", ""), executed=False)
    )
    await rig.once()
    assert pinned(rig) is None
    return rig


async def test_what_another_leader_noted_is_read_before_the_pin():
    """The answer was not ours to see."""
    rig = (await noted_only()).next_leader()
    reads = Reads(rig)
    await rig.until_still()
    assert pinned(rig) == "n1"
    assert "GPUClaim a" in reads.keys


async def test_what_an_earlier_pass_noted_is_not_read_again():
    rig = await noted_only()
    reads = Reads(rig)
    await rig.until_still()
    assert pinned(rig) == "n1"
    assert "GPUClaim a" not in reads.keys


async def test_what_an_earlier_pass_noted_is_read_when_the_claim_was_written_since():
    rig = await noted_only()
    await rig.cluster.patch(
        kinds.GPU_CLAIMS, "a", {"metadata": {"labels": {"team": "x"}}}, "tenant-a"
    )
    reads = Reads(rig)
    await rig.until_still()
    assert pinned(rig) == "n1"
    assert "GPUClaim a" in reads.keys


async def test_a_start_that_waits_is_noted_and_told_of_in_one_pass():
    rig = a_rig(
        nodes=[raws.a_node(units=1)], claims=[held("a")], starts=[a_start(held=("a",), asks=2)]
    )
    report = await rig.once()
    assert pinned(rig) is None
    assert stands(rig, "a") == ("Bound", "n1", {"pod-vm": ""})
    assert rig.claim("a")["status"]["attachedTo"]["uid"] == "vmi-vm"
    assert of_the_start(rig) == [STATUS, STATUS]
    assert not report.again
    rig.cluster.writes.clear()
    await rig.until_still()
    assert of_the_start(rig) == []


async def test_while_nothing_is_let_through_the_launcher_is_noted_all_the_same():
    """A claim that cannot be read keeps phase gates from looking."""
    rig = a_rig(claims=[held("a")], starts=[a_start(held=("a",))])
    rig.cluster.put(kinds.GPU_CLAIMS, raws.a_claim("broken") | {"spec": {"count": "many"}})
    await rig.once()
    assert pinned(rig) is None
    assert stands(rig, "a") == ("Bound", "n1", {"pod-vm": ""})


async def test_a_pod_that_has_ended_is_noted_whatever_waits_at_the_gate():
    """It frees units: phase gates may wait for those."""
    start = a_start(held=("a",))
    start["vmis"][0]["status"]["activePods"] = {"before": "n1", "pod-vm": ""}
    rig = a_rig(claims=[held("a")], starts=[start])
    rig.store(pods=[raws.a_pod("before", phase="Succeeded")])
    await rig.once()
    noted = rig.claim("a")["status"]["attachedTo"]["pods"]
    assert {"uid": "before", "node": "n1", "ended": True} in noted


def a_pin(pod="pod-vm"):
    confirm = ClaimsHeld(
        namespace="tenant-a", claims=(("a", "7"),), node="n1", vmi_uid="vmi-vm", pod=pod
    )
    launcher = pods.decode(gated.a_launcher())
    return Pin(
        vmi=ObjectKey("tenant-a", "vm"),
        vmi_uid="vmi-vm",
        pod=launcher,
        node="n1",
        set_id="tenant-a/a",
        raw={},
        confirm=(confirm,),
    )


@pytest.mark.parametrize(("pod", "is_met"), [("pod-vm", True), ("pod-other", False)])
async def test_an_answer_of_this_pass_is_looked_at_as_closely_as_what_is_read(pod, is_met):
    rig = a_rig()
    answer = held("a")
    answer["status"] |= raws.attached("vm", uid="vmi-vm", pods={pod: "n1"})
    stored = {(ObjectKey("tenant-a", "a"), "7"): answer}
    words = await confirming.unmet(a_pin(), rig.cluster, lambda *asked: stored.get(asked))
    assert (words == "") is is_met
