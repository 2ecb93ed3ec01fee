"""Raising the term: by compare-and-swap, above every claim's, before anything is placed."""

import asyncio
from typing import Any

import pytest

from gpu import keys
from gpu.binder import term
from gpu.binder.fence import Deposed, Fence
from gpu.binder.term import Election
from gpu.cluster import errors
from gpu.config import Config
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from gpu.reading import FreshView
from tests.binder import raws
from tests.binder.rig import Hold
from tests.binder.window import Window
from tests.fakes.clock import LoopClock
from tests.fakes.cluster import FakeCluster, Fault

pytestmark = pytest.mark.looptime

BINDER = ObjectKey("", keys.BINDER_NAME)


def an_election(cluster: FakeCluster, hold: Hold | None = None) -> Election:
    window = Window(cluster)
    return Election(
        reader=window,
        writer=cluster,
        view=FreshView(window, cluster),
        config=Config(identity="pod-1"),
        clock=LoopClock(),
        hold=hold or Hold(),
    )


def the_binder(cluster: FakeCluster) -> dict[str, Any]:
    return cluster._objects[kinds.GPU_BINDERS][BINDER]["status"]


def a_binder(at: int, **status: Any) -> raws.Raw:
    return {"metadata": {"name": "binder"}, "status": {"term": at, **status}}


async def test_the_first_leader_makes_the_singleton_and_waits_for_the_fence():
    cluster = FakeCluster()
    election = an_election(cluster)
    fence = await election.win()
    assert fence.term == 1
    assert asyncio.get_running_loop().time() == 2.0
    assert the_binder(cluster) == {
        "term": 1,
        "holder": "pod-1",
        "holderSince": "2026-01-02T03:04:05Z",
        "conditions": [
            {
                "type": "Leading",
                "status": "True",
                "reason": "Elected",
                "message": "pod-1 leads with term 1",
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            }
        ],
    }


async def test_the_next_leader_goes_one_higher_and_leaves_the_conditions_of_others():
    cluster = FakeCluster()
    others = {
        "type": "PoliciesCurrent",
        "status": "True",
        "reason": "Applied",
        "message": "ok",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    cluster.put(kinds.GPU_BINDERS, a_binder(41, conditions=[others]))
    assert (await an_election(cluster).win()).term == 42
    assert the_binder(cluster)["conditions"][0] == others
    assert [item["type"] for item in the_binder(cluster)["conditions"]] == [
        "PoliciesCurrent",
        "Leading",
    ]


async def test_a_singleton_made_anew_gets_a_term_above_every_claims():
    cluster = FakeCluster()
    cluster.put(kinds.GPU_CLAIMS, raws.a_claim(status=raws.bound(term=9)))
    assert (await an_election(cluster).win()).term == 10


async def test_a_claim_the_watch_did_not_show_yet_raises_the_term_once_more():
    cluster = FakeCluster()
    election = an_election(cluster)
    cluster.put(kinds.GPU_CLAIMS, raws.a_claim(status=raws.bound(term=9)))
    assert (await election.win()).term == 10
    assert the_binder(cluster)["term"] == 10


async def test_of_two_candidates_at_once_each_gets_a_term_of_its_own():
    cluster = FakeCluster()
    fences = await asyncio.gather(an_election(cluster).win(), an_election(cluster).win())
    assert sorted(fence.term for fence in fences) == [1, 2]
    assert the_binder(cluster)["term"] == 2


@pytest.mark.parametrize("executed", [True, False])
async def test_a_lost_reply_costs_at_most_one_number(executed):
    cluster = FakeCluster()
    cluster.put(kinds.GPU_BINDERS, a_binder(4))
    cluster.fail(Fault(at=1, executed=executed))
    fence = await an_election(cluster).win()
    assert fence.term == (6 if executed else 5)
    assert the_binder(cluster)["term"] == fence.term


async def test_a_missing_permission_is_waited_for():
    cluster = FakeCluster()
    no = errors.from_status({"code": 403, "reason": "Forbidden", "message": "not yet"})
    granted = cluster.refuse(lambda _: True, no)
    asyncio.get_running_loop().call_later(7, granted)
    assert (await an_election(cluster).win()).term == 1
    assert asyncio.get_running_loop().time() == pytest.approx(10.0)


async def test_whoever_loses_the_lease_while_waiting_does_not_lead():
    cluster, hold = FakeCluster(), Hold()
    asyncio.get_running_loop().call_later(1, setattr, hold, "remaining", 0.0)
    with pytest.raises(Deposed):
        await an_election(cluster, hold).win()


async def test_a_singleton_that_is_gone_deposes_too():
    with pytest.raises(Deposed, match="is gone"):
        await term.check(FakeCluster(), Fence(term=4, hold=Hold()))


async def test_a_higher_term_on_the_singleton_deposes():
    cluster = FakeCluster()
    cluster.put(kinds.GPU_BINDERS, a_binder(5, holder="pod-2"))
    await term.check(cluster, Fence(term=5, hold=Hold()))
    with pytest.raises(Deposed, match="term 5 of pod-2 is above ours, 4"):
        await term.check(cluster, Fence(term=4, hold=Hold()))
