"""Whole passes over FakeCluster: what is written, in which order, and what a failure leads to."""

from dataclasses import replace
from typing import Any

import pytest

from gpu.binder import phases
from gpu.binder.report import Failed
from gpu.cluster import errors
from gpu.config import Config
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from gpu.ports import Outcome
from tests.binder import raws
from tests.binder.rig import Rig
from tests.fakes.cluster import Fault

CLAIM = {"finalizers": ["gpu.cozystack.io/claim"]}
CONTRACT = (
    "finalizers",
    "rejections",
    "attachments",
    "sets",
    "requests",
    "gates",
    "launchers",
    "moves",
    "lost",
    "orders",
    "release",
    "owners",
    "usage",
    "off",
    "status",
)
CONFLICT = errors.from_status({"code": 409, "reason": "Conflict", "message": "modified"})


def a_rig(*claims: raws.Raw, units: int = 8, **rig: Any) -> Rig:
    made = Rig(**rig)
    made.store(
        classes=[raws.a_class()],
        nodes=[raws.a_node(units=units)],
        namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant()],
        claims=list(claims),
    )
    return made


async def test_an_order_is_bound_by_two_writes_of_its_claim_in_one_pass():
    rig = a_rig(raws.a_claim())
    report = await rig.once()
    assert rig.writes(kinds.GPU_CLAIMS) == [
        ("patch", "GPUClaim tenant-a/x", None),
        ("patch", "GPUClaim tenant-a/x", "status"),
    ]
    assert rig.placed() == {"tenant-a/x": "n1"}
    assert report.written["AddFinalizer"] == 1
    assert report.written["Place"] == 1
    assert (report.failed, report.aborted, report.pending) == ((), False, 1)


async def test_an_unchanged_cluster_causes_no_write():
    rig = a_rig(raws.a_claim("x"), raws.a_claim("y", count=100))
    await rig.until_still()
    before = len(rig.cluster.writes)
    for _ in range(3):
        rig.clock.advance(60)
        assert (await rig.once()).written == {}
    assert len(rig.cluster.writes) == before


async def test_a_pass_whose_watch_lags_does_nothing_twice():
    rig = a_rig(raws.a_claim("x", count=5), raws.a_claim("y", count=5, at=1), lag=True)
    await rig.until_still()
    before = len(rig.cluster.writes)
    assert rig.placed() == {"tenant-a/x": "n1"}
    rig.window.show()
    assert (await rig.once()).written == {}
    assert len(rig.cluster.writes) == before


async def test_phases_run_in_the_order_of_the_contract():
    rig = a_rig()
    report = await rig.once()
    assert list(report.phases) == [row.name for row in phases.PASS]
    assert [name for name in CONTRACT if name in report.phases] == list(report.phases)


async def test_with_the_feature_off_nothing_is_placed_and_what_is_deleted_goes():
    gone = raws.a_claim("gone", meta=raws.DELETED)
    rig = a_rig(raws.a_claim("x"), gone, config=replace(Config(), enabled=False))
    reports = await rig.until_still()
    assert list(reports[0].phases) == ["finalizers", "attachments", "release", "usage", "off"]
    assert rig.claim("gone") is None
    assert rig.placed() == {}
    assert {kind for _, kind, _ in rig.writes()} == {
        "GPUClaim tenant-a/x",
        "GPUClaim tenant-a/gone",
        "GPUBinder binder",
    }


async def test_a_conflict_on_a_placement_ends_placing_for_this_pass_and_release_still_runs():
    rig = a_rig(
        raws.a_claim("x", meta=CLAIM),
        raws.a_claim("y", meta=CLAIM, at=1),
        raws.a_claim("gone", meta=raws.DELETED),
        config=replace(Config(), pace=replace(Config().pace, sets_in_flight=1)),
    )
    rig.cluster.fail(Fault(at=1, executed=False, error=CONFLICT))
    report = await rig.once()
    assert report.failed == (
        Failed(
            change="Place",
            object="GPUClaim tenant-a/x",
            set_id="tenant-a/x",
            outcome=Outcome.CONFLICT,
            words=str(CONFLICT),
        ),
    )
    assert (report.aborted, report.only_conflicts) == (True, True)
    names = [row.name for row in phases.PASS]
    assert list(report.phases) == [*names[: names.index("orders") + 1], "release", "off"]
    assert rig.claim("gone") is None
    assert rig.placed() == {}
    await rig.until_still()
    assert rig.placed() == {"tenant-a/x": "n1", "tenant-a/y": "n1"}


@pytest.mark.parametrize("executed", [True, False])
async def test_after_a_lost_reply_the_next_pass_knows_what_was_written(executed):
    rig = a_rig(
        raws.a_claim("x", count=5, meta=CLAIM),
        raws.a_claim("y", count=5, meta=CLAIM, at=1),
        lag=True,
    )
    rig.cluster.fail(Fault(at=1, executed=executed))
    assert (await rig.once()).aborted
    await rig.until_still()
    assert rig.placed() == {"tenant-a/x": "n1"}


async def test_a_claim_whose_finalizer_could_not_be_written_is_not_placed_in_this_pass():
    rig = a_rig(raws.a_claim("x"), raws.a_claim("y", at=1))
    rig.cluster.fail(Fault(at=1, executed=False, error=CONFLICT))
    report = await rig.once()
    assert not report.aborted
    assert rig.placed() == {"tenant-a/y": "n1"}
    await rig.until_still()
    assert rig.placed() == {"tenant-a/x": "n1", "tenant-a/y": "n1"}


async def test_a_claim_deleted_under_the_pass_leaves_its_units_to_the_next():
    rig = a_rig(
        raws.a_claim("x", count=8, meta=CLAIM),
        raws.a_claim("y", count=8, meta=CLAIM, at=1),
        lag=True,
    )
    rig.cluster._objects[kinds.GPU_CLAIMS].pop(ObjectKey("tenant-a", "x"))
    report = await rig.once()
    assert (report.aborted, report.failed, report.again) == (False, (), True)
    await rig.until_still()
    assert rig.placed() == {"tenant-a/y": "n1"}


async def test_a_deleted_hold_gives_its_units_to_the_order_that_waited():
    rig = a_rig(raws.a_claim("x", count=8), raws.a_claim("y", count=8, at=1))
    await rig.until_still()
    assert rig.placed() == {"tenant-a/x": "n1"}
    await rig.cluster.delete(kinds.GPU_CLAIMS, "x", "tenant-a")
    report = await rig.once()
    assert (report.again, report.awaits_release) == (True, True)
    await rig.until_still()
    assert rig.claim("x") is None
    assert rig.placed() == {"tenant-a/y": "n1"}


async def test_orders_are_bound_oldest_first():
    rig = a_rig(
        raws.a_claim("a", count=5, at=3),
        raws.a_claim("b", count=5, at=1),
        raws.a_claim("c", count=3, at=2),
    )
    await rig.until_still()
    assert rig.placed() == {"tenant-a/b": "n1", "tenant-a/c": "n1"}


async def test_a_template_claim_never_passes_here():
    label = {"labels": {"gpu.cozystack.io/template-claim": "true"}}
    rig = a_rig(raws.a_claim("x", meta=CLAIM | label))
    await rig.until_still()
    assert rig.placed() == {}


async def test_nothing_is_placed_while_a_claim_cannot_be_read():
    odd = raws.a_claim("odd", meta=CLAIM)
    odd["spec"]["count"] = "many"
    rig = a_rig(raws.a_claim("x"), odd)
    reports = await rig.until_still()
    assert rig.placed() == {}
    assert reports[-1].held_back == "tenant-a/odd"


async def test_missing_settings_are_written_and_edited_ones_healed_and_told():
    rig = a_rig()
    report = await rig.once()
    assert report.settings_healed
    key = ObjectKey("cozy-system", "cozystack-gpu-settings")
    good = {"resourceNames": raws.RESOURCE, "rawResourceNames": "denied"}
    assert rig.cluster._objects[kinds.CONFIG_MAPS][key]["data"] == good
    await rig.until_still()
    await rig.cluster.patch(
        kinds.CONFIG_MAPS, key.name, {"data": {"resourceNames": "by hand"}}, key.namespace
    )
    assert "by hand" in (await rig.once()).settings_healed
    assert rig.cluster._objects[kinds.CONFIG_MAPS][key]["data"] == good
    assert (await rig.once()).settings_healed == ""


async def test_the_echo_of_our_own_writes_is_no_reason_for_a_pass():
    rig = a_rig(raws.a_claim("x"), raws.a_claim("y", count=100))
    assert not (await rig.passes.once(forced=False)).skipped
    rig.window.show()
    assert (await rig.passes.once(forced=False)).skipped
    assert not (await rig.passes.once(forced=True)).skipped


async def test_a_change_by_somebody_else_beside_the_echo_is_a_reason():
    rig = a_rig(raws.a_claim("x"))
    await rig.passes.once(forced=False)
    rig.cluster.put(kinds.GPU_CLAIMS, raws.a_claim("y"))
    rig.window.show()
    report = await rig.passes.once(forced=False)
    assert not report.skipped
    assert rig.placed() == {"tenant-a/x": "n1", "tenant-a/y": "n1"}


async def test_what_came_while_the_pass_was_writing_is_not_taken_for_an_echo():
    rig = a_rig(raws.a_claim("x"))

    def order_meanwhile(write: Any) -> bool:
        if write.subresource == "status" and rig.claim("y") is None:
            rig.cluster.put(kinds.GPU_CLAIMS, raws.a_claim("y"))
            rig.window.show()
        return False

    rig.cluster.refuse(order_meanwhile, CONFLICT)
    await rig.passes.once(forced=False)
    assert rig.placed() == {"tenant-a/x": "n1"}
    assert not (await rig.passes.once(forced=False)).skipped
    assert rig.placed() == {"tenant-a/x": "n1", "tenant-a/y": "n1"}


@pytest.mark.parametrize("what", ["failed", "released", "gone"])
async def test_a_pass_that_left_work_undone_is_followed_by_a_whole_one(what):
    meta = raws.DELETED if what == "released" else CLAIM
    rig = a_rig(raws.a_claim("x", meta=meta), raws.a_claim("y", meta=CLAIM))
    if what == "failed":
        rig.cluster.fail(Fault(at=1, executed=False, error=CONFLICT))
    if what == "gone":
        rig.cluster._objects[kinds.GPU_CLAIMS].pop(ObjectKey("tenant-a", "x"))
    await rig.passes.once(forced=False)
    rig.window.show()
    assert not (await rig.passes.once(forced=False)).skipped


@pytest.mark.parametrize(
    ("observed", "units"),
    [("2026-01-02T03:02:05Z", 2), ("2026-01-02T03:01:04Z", 8), (None, 8)],
    ids=["two minutes old", "three minutes old", "no time at all"],
)
async def test_inventory_that_is_stale_is_unknown_and_frees_or_takes_nothing(observed, units):
    devices = [{"id": f"gpu-{n}", "resourceName": raws.RESOURCE, "healthy": True} for n in range(2)]
    rig = a_rig(raws.a_claim("x", count=units))
    rig.store(
        inventory=[raws.an_inventory("n1", status={"devices": devices, "observedAt": observed})]
    )
    rig.cluster.put(kinds.GPU_CLAIMS, raws.a_claim("y", count=units, at=1))
    await rig.until_still()
    assert rig.placed() == {"tenant-a/x": "n1"}
    stored = rig.cluster._objects[kinds.GPU_NODES][ObjectKey("", "n1")]["status"]
    assert stored["resources"] == [{"name": raws.RESOURCE, "held": units, "free": 0}]
