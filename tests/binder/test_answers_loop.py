"""A leader with `binding: request`: starts are answered at once, whatever its full passes wait for."""

import asyncio
from dataclasses import replace
from typing import Any, Self

import pytest

from gpu import keys
from gpu.cluster.caches import Caches
from gpu.config import Binding, Config
from gpu.objects import kinds
from gpu.objects.meta import format_time
from tests.binder import asking, interrupting, raws
from tests.binder.rig import Hold, drained
from tests.binder.slow import Slow
from tests.binder.test_fence import Seen, a_binder, fill, with_policy
from tests.fakes.cluster import FakeCluster

pytestmark = pytest.mark.looptime


class Led:
    """A leader over a cluster on which writes to some claims take as long as the test says."""

    def __init__(self, config: Config, *, orders: int = 2) -> None:
        self.cluster = with_policy(FakeCluster())
        fill(self.cluster, orders=orders, units=12)
        self.line = Slow(self.cluster)
        self.caches = Caches(self.cluster)
        self.seen = Seen()
        binder = a_binder(self.line, self.caches, self.seen, "pod-0")
        self.binder = replace(binder, config=replace(config, identity="pod-0"))

    async def __aenter__(self) -> Self:
        self.watching = asyncio.ensure_future(self.caches.run())
        await self.caches.wait_synced()
        self.leading = asyncio.ensure_future(self.binder.lead(Hold()))
        return self

    async def __aexit__(self, *_: object) -> None:
        await drained(self.watching, self.leading)

    async def ask(self, name: str, count: int = 1) -> None:
        """As the webhook does: create, attach, ask."""
        now = format_time(self.binder.clock.now())
        made = asking.claim(
            name, asks=[name], vm=name, id_=name, since=now, template=True, count=count
        )
        made["metadata"]["creationTimestamp"] = now
        status = made.pop("status")
        self.cluster.put(kinds.GPU_CLAIMS, made)
        for part in ("attachedTo", "bindRequest"):
            body = {"status": {part: status[part]}}
            await self.cluster.patch(kinds.GPU_CLAIMS, name, body, "tenant-a", subresource="status")

    async def told(self, name: str) -> Any:
        found = await self.cluster.get(kinds.GPU_CLAIMS, name, "tenant-a")
        return found["status"].get("bindRequest", {}).get("result")


async def test_a_start_is_answered_while_every_write_of_a_full_pass_takes_seconds():
    async with Led(asking.CONFIG) as led:
        led.line.stuck = lambda name: name.startswith("x")
        await asyncio.sleep(2.5)
        assert led.line.waiting
        await led.ask("t", 5)
        await asyncio.sleep(0.1)
        assert await led.told("t") == "Succeeded"
        assert led.line.waiting  # the full pass is in those writes still
        led.line.go.set()
        await asyncio.sleep(1)
        assert await led.told("t") == "Succeeded"
        assert led.seen.errors == []


async def test_starts_that_are_answered_at_a_time_take_each_unit_once():
    async with Led(asking.CONFIG, orders=0) as led:
        await asyncio.sleep(2.5)
        led.line.stuck = lambda name: name in {"t0", "t1", "t2", "t3"}
        for n in range(15):
            await led.ask(f"t{n}")
            await asyncio.sleep(0.01)
        await asyncio.sleep(1)
        told = [await led.told(f"t{n}") for n in range(4, 15)]
        assert None not in told
        led.line.go.set()
        await asyncio.sleep(1)
        told = [await led.told(f"t{n}") for n in range(15)]
        assert [told.count(it) for it in ("Succeeded", "Refused")] == [12, 3]
        assert led.seen.errors == []


async def test_under_gate_the_full_pass_answers_what_is_left_of_requests():
    async with Led(Config()) as led:
        await asyncio.sleep(2.5)
        await led.ask("t", 5)
        await asyncio.sleep(0.1)
        assert await led.told("t") == "Succeeded"
        assert [it for it in led.seen.reports if not it.phases.keys() - {"requests"}] == []


async def test_a_start_is_awaited_until_it_is_answered_and_only_where_it_is():
    async with Led(asking.CONFIG) as led:
        awaited = led.binder.awaited
        await asyncio.sleep(2.5)
        assert not awaited()
        led.line.stuck = lambda name: name == "t"
        await led.ask("t")
        await asyncio.sleep(0.1)
        assert led.line.waiting  # its answer is on its way
        assert awaited()
        led.line.go.set()
        await asyncio.sleep(0.1)
        assert not awaited()
        led.line.go.clear()
        led.line.stuck = lambda name: name == "u"
        await led.ask("u")
        await asyncio.sleep(0.1)
        assert awaited()
        await drained(led.leading)
        assert not awaited()  # the next leader's business


async def test_it_returns_when_it_is_deposed():
    async with Led(asking.CONFIG) as led:
        await asyncio.sleep(2.5)
        await led.cluster.patch(
            kinds.GPU_BINDERS, keys.BINDER_NAME, {"status": {"term": 9}}, subresource="status"
        )
        await led.ask("t")
        async with asyncio.timeout(1):
            await led.leading
        assert led.seen.terms[-1] is None


async def test_starts_and_orders_that_race_take_each_unit_once():
    async with Led(asking.CONFIG, orders=0) as led:
        await asyncio.sleep(2.5)
        for n in range(10):
            order = raws.a_claim(f"x{n}", count=1, meta=interrupting.OURS)
            await led.cluster.create(kinds.GPU_CLAIMS, order)
            await led.ask(f"t{n}")
        await asyncio.sleep(5)
        told = [await led.told(f"t{n}") for n in range(10)]
        claims = [await led.cluster.get(kinds.GPU_CLAIMS, f"x{n}", "tenant-a") for n in range(10)]
        bound = [raw for raw in claims if raw["status"]["phase"] == "Bound"]
        assert told.count("Succeeded") + len(bound) == 12
        assert None not in told
        assert led.seen.errors == []


def test_gate_is_the_default():
    assert Config().binding is Binding.GATE
