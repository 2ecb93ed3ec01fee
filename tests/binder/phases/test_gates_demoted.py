"""Starts that fail again and again, in whole passes: later, after all others, said, and forgiven."""

from datetime import timedelta

import pytest

from gpu.model.demotions import Demotions, Failing
from gpu.model.sightings import Sightings
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from tests.binder import raws, refusing
from tests.binder.gated import a_start, held
from tests.binder.phases.test_gates import a_rig, pinned, waits


async def fails(rig, *, times, first=1):
    """So many starts of VM `vm` in a row that come up to a Failed VMI; template units, one each."""
    for number in range(first, first + times):
        comes(rig, number)
        await rig.until_still()
        refusing.report(rig, "Failed")
        await rig.until_still()
        for kind, name in ((kinds.PODS, f"pod-{number}"), (kinds.VMIS, "vm")):
            del rig.cluster._objects[kind][ObjectKey("tenant-a", name)]
        rig.clock.advance(301)  # KubeVirt's own back-off, and what a pod's end takes to be known
        for claim in list(rig.cluster._objects[kinds.GPU_CLAIMS].values()):
            if not claim["metadata"]["name"].startswith("tpl-"):
                continue
            del rig.cluster._objects[kinds.GPU_CLAIMS][
                ObjectKey("tenant-a", claim["metadata"]["name"])
            ]
        await rig.once()


def comes(rig, number, *, vm="vm", units=1, at=0):
    start = a_start(vm, units={"h100": units}, at=at)
    (vmi,), (launcher,) = start["vmis"], start["pods"]
    vmi["metadata"]["uid"] = f"vmi-{vm}-{number}"
    vmi["status"]["activePods"] = {f"pod-{number}": ""}
    launcher["metadata"] |= {"name": f"pod-{number}", "uid": f"pod-{number}"}
    rig.store(vmis=[vmi], pods=[launcher])


def known(rig):
    return rig.passes.sightings.demotions.failing.get("tenant-a/vm")


async def test_failures_in_a_row_are_counted_and_the_delay_grows():
    rig = a_rig(nodes=(raws.a_node("n1", units=1),))
    await fails(rig, times=1)
    assert known(rig).failures == 1
    await fails(rig, times=2, first=2)
    assert known(rig).failures == 3


async def test_one_that_is_demoted_waits_and_says_so_until_its_turn():
    rig = a_rig(nodes=(raws.a_node("n1", units=4),))
    await fails(rig, times=5)
    comes(rig, 6)
    await rig.until_still()
    refusing.report(rig, "Failed")
    await rig.until_still()
    refusing.gone(rig, "pod-6")
    rig.clock.advance(1)
    comes(rig, 7)
    report = (await rig.until_still())[-1]
    assert (pinned(rig, "pod-7"), report.starts_demoted) == (None, 1)
    assert 0 < report.due - rig.clock.monotonic() <= 160
    rig.clock.advance(160)
    await rig.until_still()
    assert pinned(rig, "pod-7") == "n1"


async def test_a_turn_that_comes_while_a_pass_runs_is_due_at_once():
    """That pass looked before it came, and a later look would not see that it is due."""
    rig = a_rig(nodes=(raws.a_node("n1", units=4),))
    until = rig.clock.now() + timedelta(seconds=40)
    failing = {"tenant-a/vm": Failing(failures=4, vmi="before", until=until)}
    rig.passes.sightings = Sightings(demotions=Demotions(failing=failing, began=True))
    comes(rig, 7)
    turn = (await rig.until_still())[-1].due
    assert pinned(rig, "pod-7") is None
    rig.clock.advance(turn - rig.clock.monotonic() - 0.1)
    rig.cluster.refuse(lambda _: bool(rig.clock.advance(0.2)), RuntimeError("never"))
    rig.store(claims=[raws.a_claim("other", at=9)])
    report = await rig.once()
    assert rig.clock.monotonic() > turn
    assert report.due == pytest.approx(rig.clock.monotonic(), abs=0.01)


async def test_a_demoted_start_takes_nothing_from_a_younger_one_or_a_younger_order():
    rig = a_rig(nodes=(raws.a_node("n1", units=1),))
    await fails(rig, times=3)
    comes(rig, 4, at=0)
    comes(rig, 5, vm="other", at=30)
    await rig.until_still()
    assert (pinned(rig, "pod-4"), pinned(rig, "pod-5")) == (None, "n1")


async def test_nor_from_an_order():
    rig = a_rig(nodes=(raws.a_node("n1", units=1),))
    await fails(rig, times=3)
    comes(rig, 4, at=0)
    rig.store(claims=[raws.a_claim("order", at=40)])
    await rig.until_still()
    assert rig.placed() == {"tenant-a/order": "n1"}
    assert pinned(rig, "pod-4") is None


async def test_its_held_claims_say_why_it_waits():
    rig = a_rig(nodes=("n1",), claims=[held("a")], starts=[a_start(held=("a",), asks=1)])
    until = rig.clock.now() + timedelta(seconds=40)
    failing = {"tenant-a/vm": Failing(failures=4, vmi="before", until=until)}
    rig.passes.sightings = Sightings(demotions=Demotions(failing=failing, began=True))
    await rig.until_still()
    assert (waits(rig, "a"), pinned(rig)) == ("StartsFail", None)
    rig.clock.advance(40)
    await rig.until_still()
    assert (waits(rig, "a"), pinned(rig)) == ("", "n1")


@pytest.mark.parametrize("runs", [True, False])
async def test_a_guest_that_runs_for_a_minute_is_well_again(runs):
    rig = a_rig(nodes=(raws.a_node("n1", units=1),))
    await fails(rig, times=3)
    comes(rig, 4)
    await rig.until_still()
    refusing.bind(rig, "pod-4")
    refusing.report(rig, "Running")
    await rig.until_still()
    rig.clock.advance(60 if runs else 59)
    await rig.until_still()
    assert (known(rig) is None) is runs
