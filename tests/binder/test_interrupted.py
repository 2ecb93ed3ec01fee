"""Every prefix of the writes of a run, the last of them applied or not, a crash, then a new leader.

After it nothing is booked twice, no budget is exceeded, and everything stands as without the
interruption. Here: orders, classes, the feature off, usage records. The harness is `interrupting`.
"""

from dataclasses import replace

import pytest

from gpu import keys
from gpu.config import Config, UsageRecordMonitor
from tests.binder import interrupting, raws
from tests.binder.interrupting import Case, held
from tests.fakes.cluster import Fault

pytestmark = pytest.mark.long  # every prefix of the writes


def orders(*counts, tenant="tenant-a", **more):
    return [
        raws.a_claim(f"{tenant[-1]}{n}", tenant=tenant, count=count, at=n, **more)
        for n, count in enumerate(counts)
    ]


OFF = replace(Config(), enabled=False)
ANCHOR = replace(Config(), usage_record_monitor=UsageRecordMonitor.ANCHOR)
OTHER = raws.a_class("other", resource="nvidia.com/L4", meta={"finalizers": []})
GOING = {
    "deletionTimestamp": "2026-01-01T01:00:00Z",
    "finalizers": [keys.CLASS_FINALIZER],
}
ORDERS = {
    "one order": Case({"n1": 8}, orders(1)),
    "room for all": Case({"n1": 8, "n2": 8}, orders(5, 5, 3)),
    "room for some": Case({"n1": 4, "n2": 4}, orders(4, 4, 4)),
    "one after the other": Case({"n1": 4, "n2": 4}, orders(4, 4, 4), in_flight=1),
    "a budget for some": Case({"n1": 8}, orders(2, 2, 2), {"total": 4}),
    "two tenants": Case({"n1": 4}, orders(2, 2) + orders(2, tenant="tenant-b")),
    "with holds": Case({"n1": 8}, [held("held", count=3), *orders(5, 5)]),
    "with a deleted hold": Case(
        {"n1": 8},
        [raws.a_claim("old", count=8, meta=raws.DELETED, status=raws.bound("n1")), *orders(8)],
    ),
    "with a deleted order": Case({"n1": 8}, [raws.a_claim("old", meta=raws.DELETED), *orders(8)]),
    "too large for any node": Case({"n1": 4, "n2": 4}, orders(6, 4, 4)),
}
OTHERS = {
    "a class goes that nobody names": Case(
        {"n1": 8}, orders(1), more={"classes": [raws.a_class(), raws.a_class("old", meta=GOING)]}
    ),
    "a class waits for its last claim": Case(
        {"n1": 8}, [held("x")], more={"classes": [raws.a_class(meta=GOING)]}
    ),
    "a class goes with its last claim": Case(
        {"n1": 8}, [held("x", meta=raws.DELETED)], more={"classes": [raws.a_class(meta=GOING)]}
    ),
    "the feature off": Case({"n1": 8}, orders(1), config=OFF),
    "the feature off, a deleted hold": Case(
        {"n1": 8}, [held("x", meta=raws.DELETED), held("y")], config=OFF
    ),
    "records under a monitor": Case({"n1": 8}, [held("x"), *orders(1)], config=ANCHOR),
    "a record that says too little": Case(
        {"n1": 8},
        [held("x", count=2, meta={"uid": "uid-x"})],
        more={"workloads": [raws.a_record("x", owner="uid-x", units=1)]},
    ),
    "a record of nobody": Case(
        {"n1": 8}, [held("x")], more={"workloads": [raws.a_record("gone", owner="uid-gone")]}
    ),
    "a retired class": Case({"n1": 8}, orders(1), more={"classes": [raws.a_class(retired=True)]}),
    "a second class of another resource": Case(
        [raws.a_node("n1", units=2)],
        [*orders(2), raws.a_claim("other", class_name="other")],
        more={"classes": [raws.a_class(meta={"finalizers": []}), OTHER]},
    ),
}
CASES = ORDERS | OTHERS


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_whatever_is_cut_off_the_next_leader_makes_good(case):
    await interrupting.survives(case)


@pytest.mark.parametrize("case", ORDERS.values(), ids=ORDERS)
async def test_the_same_leader_goes_on_after_any_one_lost_reply(case):
    total, end = await interrupting.whole_run(case)
    for at in range(1, total + 1):
        for executed in (True, False):
            rig = interrupting.a_rig(case)
            rig.lag = True
            rig.cluster.fail(Fault(at=at, executed=executed))
            for _ in range(12):
                report = await rig.once()
                interrupting.check(rig, case)
                if not report.written and not report.failed:
                    break
            assert interrupting.bound(interrupting.picture(rig)) == interrupting.bound(end), (
                f"lost at write {at}, executed={executed}"
            )
