"""What the guard holds back is told as it is once the pass is over."""

from gpu.objects import kinds
from tests.binder import raws
from tests.binder.rig import Rig

CLAIM = {"finalizers": ["gpu.cozystack.io/claim"]}


async def condition(rig: Rig) -> str:
    binder = await rig.cluster.get(kinds.GPU_BINDERS, "binder")
    found = {it["type"]: it["status"] for it in binder["status"]["conditions"]}
    return found["LossesHeldBack"]


async def test_an_order_that_takes_the_last_room_for_sets_held_back_is_followed_by_another_look():
    """12 sets on a cordoned node and room for 11 elsewhere: 10 move, 2 are held back, 1 unit is left."""
    rig = Rig()
    held = [raws.a_claim(f"h{n:02}", meta=CLAIM, status=raws.bound("n1"), at=n) for n in range(12)]
    rig.store(
        classes=[raws.a_class()],
        nodes=[raws.a_node("n1", units=12, unschedulable=True), raws.a_node("n2", units=11)],
        namespaces=[raws.a_tenant()],
        claims=held,
    )
    await rig.until_still()
    assert await condition(rig) == "True"
    rig.store(claims=[raws.a_claim("order", meta=CLAIM, at=50)])
    report = await rig.once()
    assert rig.placed()["tenant-a/order"] == "n2"
    assert (report.sets_held_back, report.again) == (2, True)
    await rig.until_still()
    assert await condition(rig) == "False"
