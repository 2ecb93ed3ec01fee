"""Units are held of no class that would be gone when it is deleted: then what holds them would count for nothing."""

import pytest

from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds
from tests.binder import asking, gated, raws
from tests.binder.rig import Rig
from tests.binder.test_answers_pass import a_start, result
from tests.fakes.cluster import Fault, Write

BARE = {"finalizers": []}
NO = errors.from_status({"code": 403, "reason": "Forbidden", "message": "denied by a policy"})


def of_class(write: Write) -> bool:
    return write.kind == kinds.GPU_CLASSES and "finalizers" in write.body.get("metadata", {})


def a_rig(*claims: raws.Raw, **more: object) -> Rig:
    """One unit, of two classes: one that has our finalizer not yet, and one that has."""
    rig = Rig(**more)
    rig.store(
        classes=[raws.a_class("bare", meta=BARE), raws.a_class("other")],
        nodes=[raws.a_node(units=1)],
        namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant()],
        claims=list(claims),
    )
    return rig


async def test_an_order_of_a_class_whose_finalizer_is_refused_is_not_placed():
    rig = a_rig(
        raws.a_claim("first", class_name="bare", at=1),
        raws.a_claim("second", class_name="other", at=2),
    )
    rig.cluster.refuse(of_class, NO)
    await rig.until_still()
    assert rig.placed() == {"tenant-a/second": "n1"}


async def test_nor_where_it_is_not_known_whether_it_was_written():
    rig = a_rig(raws.a_claim("first", class_name="bare", at=1))
    assert keys.CLAIM_FINALIZER not in rig.claim("first")["metadata"].get("finalizers", [])
    rig.cluster.fail(Fault(1, executed=False))
    await rig.once()
    assert [verb for verb, what, _ in rig.writes(kinds.GPU_CLASSES)][:1] == ["patch"]
    assert rig.placed() == {}
    await rig.until_still()
    assert rig.placed() == {"tenant-a/first": "n1"}


async def test_a_class_is_guarded_and_used_in_the_same_pass():
    rig = a_rig(raws.a_claim("first", class_name="bare", at=1))
    await rig.once()
    assert rig.placed() == {"tenant-a/first": "n1"}
    found = await rig.cluster.get(kinds.GPU_CLASSES, "bare")
    assert found["metadata"]["finalizers"] == [keys.CLASS_FINALIZER]


async def test_a_lost_claim_of_it_stays_lost():
    lost = raws.a_claim("first", class_name="bare", at=1, status={"phase": "Lost"})
    rig = a_rig(lost)
    rig.cluster.refuse(of_class, NO)
    await rig.until_still()
    assert rig.claim("first")["status"]["phase"] == "Lost"


@pytest.mark.parametrize("answers", [True, False], ids=["answers alone", "full"])
async def test_a_start_that_asks_for_it_is_not_answered_before(answers):
    rig = a_rig(*a_start("t", class_name="bare"), config=asking.CONFIG)
    ends = rig.cluster.refuse(of_class, NO)
    await (rig.passes.answer() if answers else rig.once())
    assert result(rig, "t") is None
    ends()
    rig.clock.advance(10)
    await rig.until_still()
    assert result(rig, "t") == "Succeeded"


async def test_a_launcher_of_it_stays_at_the_gate():
    rig = a_rig()
    rig.store(**gated.a_start(units={"bare": 1}))
    ends = rig.cluster.refuse(of_class, NO)
    await rig.until_still()
    assert at_gate(rig)
    assert rig.placed() == {}
    ends()
    rig.clock.advance(10)
    await rig.until_still()
    assert not at_gate(rig)


def at_gate(rig: Rig) -> bool:
    pods = rig.cluster._objects[kinds.PODS].values()
    return any(pod["spec"].get("schedulingGates") for pod in pods)
