"""Two leaders at once, and one that was frozen in mid-pass: no unit is ever booked twice."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gpu import keys
from gpu.binder.fence import Deposed
from gpu.binder.lead import Binder
from gpu.binder.report import PassReport
from gpu.cluster import errors
from gpu.cluster.caches import Caches
from gpu.config import Config
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from tests.binder import raws
from tests.binder.rig import Hold, Rig, at_once
from tests.fakes.clock import LoopClock
from tests.fakes.cluster import FakeCluster, Write

NO = errors.from_status({"code": 422, "reason": "Invalid", "message": "decided in a lower term"})
CLAIM = {"finalizers": ["gpu.cozystack.io/claim"]}


def with_policy(cluster: FakeCluster) -> FakeCluster:
    """Refuse placements of a lower term than GPUBinder's, as the fence policy does."""

    def is_lower(write: Write) -> bool:
        term = write.body.get("status", {}).get("term") if write.body else None
        if write.kind != kinds.GPU_CLAIMS or term is None:
            return False
        stored = cluster._objects[kinds.GPU_BINDERS][ObjectKey("", keys.BINDER_NAME)]
        return bool(term < stored["status"]["term"])

    cluster.refuse(is_lower, NO)
    return cluster


def booked(cluster: FakeCluster) -> Counter[str]:
    units: Counter[str] = Counter()
    for raw in cluster._objects[kinds.GPU_CLAIMS].values():
        if raw.get("status", {}).get("phase") == "Bound":
            units[raw["status"]["nodeName"]] += raw["spec"]["count"]
    return units


def fill(cluster: FakeCluster, orders: int, units: int) -> None:
    cluster.put(kinds.GPU_CLASSES, raws.a_class())
    cluster.put(kinds.NODES, raws.a_node(units=units))
    cluster.put(kinds.NAMESPACES, raws.a_tenant())
    for n in range(orders):
        cluster.put(kinds.GPU_CLAIMS, raws.a_claim(f"x{n:02d}", at=n, meta=CLAIM))


async def test_a_leader_that_was_frozen_places_nothing_after_the_thaw():
    old = Rig(cluster=with_policy(FakeCluster()), lag=True)
    fill(old.cluster, orders=4, units=4)
    old.window.show()
    new = old.next_leader()
    await new.until_still()
    assert booked(new.cluster) == {"n1": 4}
    new.cluster.put(kinds.GPU_CLAIMS, raws.a_claim("late", at=9, meta=CLAIM))
    before = len(new.cluster.writes)
    with pytest.raises(Deposed):
        await old.once()
    refused = [write for write in old.cluster.writes[before:] if "nodeName" in str(write.body)]
    assert all(write.body["status"]["term"] == 1 for write in refused)
    assert booked(new.cluster) == {"n1": 4}


async def test_a_frozen_leader_whose_lease_ran_out_sends_nothing_at_all():
    old = Rig(lag=True)
    fill(old.cluster, orders=4, units=4)
    old.window.show()
    old.hold.remaining = 0.0
    with pytest.raises(Deposed):
        await old.once()
    assert old.cluster.writes == []


async def test_a_leader_that_sees_a_higher_term_starts_no_pass():
    old = Rig()
    fill(old.cluster, orders=1, units=4)
    old.next_leader()
    with pytest.raises(Deposed, match="term 2"):
        await old.once()
    assert old.cluster.writes == []


@dataclass
class Seen:
    """An observer that keeps what it is told."""

    terms: list[int | None] = field(default_factory=list)
    reports: list[PassReport] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    def passed(self, report: PassReport) -> None:
        self.reports.append(report)

    def answered(self, report: PassReport) -> None:
        self.reports.append(report)

    def crashed(self, error: Exception) -> None:
        self.errors.append(error)

    def leading(self, term: int | None) -> None:
        self.terms.append(term)


def a_binder(cluster: Any, reader: Any, seen: Seen, name: str) -> Binder:
    return Binder(
        reader=reader,
        writer=cluster,
        config=replace(Config(), identity=name),
        clock=LoopClock(),
        observer=seen,
        in_thread=at_once,
    )


@pytest.mark.looptime
async def test_two_replicas_that_both_believe_to_lead_book_each_unit_once():
    cluster = with_policy(FakeCluster())
    fill(cluster, orders=0, units=12)
    caches, seen = Caches(cluster), [Seen(), Seen()]
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(caches.run())
        await caches.wait_synced()
        leaders = [
            tasks.create_task(a_binder(cluster, caches, seen[n], f"pod-{n}").lead(Hold()))
            for n in range(2)
        ]
        for n in range(30):
            await asyncio.sleep(0.2)
            await cluster.create(kinds.GPU_CLAIMS, raws.a_claim(f"x{n:02d}"))
        await asyncio.sleep(5)
        for task in (watching, *leaders):
            task.cancel()
    assert booked(cluster) == {"n1": 12}
    assert sorted(term for who in seen for term in who.terms if term is not None) == [1, 2]
    assert all(who.errors == [] for who in seen)


@pytest.mark.looptime
async def test_a_leader_binds_what_comes_and_returns_when_it_is_deposed():
    cluster = with_policy(FakeCluster())
    fill(cluster, orders=2, units=12)
    caches, seen = Caches(cluster), Seen()
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(caches.run())
        await caches.wait_synced()
        leading = tasks.create_task(a_binder(cluster, caches, seen, "pod-0").lead(Hold()))
        await asyncio.sleep(2.5)
        assert booked(cluster) == {"n1": 2}
        await cluster.create(kinds.GPU_CLAIMS, raws.a_claim("late"))
        await asyncio.sleep(0.001)
        assert booked(cluster) == {"n1": 3}
        await cluster.patch(
            kinds.GPU_BINDERS, keys.BINDER_NAME, {"status": {"term": 9}}, subresource="status"
        )
        await asyncio.wait_for(leading, 1)
        watching.cancel()
    assert seen.terms == [1, None]
    assert seen.errors == []
