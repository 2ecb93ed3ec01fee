"""Projection: when it publishes, what it remembers, whom it bothers."""

import asyncio
import contextlib
from dataclasses import replace

import pytest

from apiserver.projection import Pace, Projection
from apiserver.resources import base
from apiserver.wire import states
from apiserver.wire.status import TimedOut, Unavailable
from gpu.world import World
from tests.apiserver import fakes
from tests.apiserver.fakes import FAST, WORDS


@contextlib.asynccontextmanager
async def running(source: fakes.FakeSource, **how):
    projection = Projection(source, **{"pace": FAST, **how})
    async with asyncio.TaskGroup() as group:
        task = group.create_task(projection.run())
        try:
            yield projection
        finally:
            task.cancel()


def a_source(**texts: str) -> fakes.FakeSource:
    return fakes.FakeSource(fakes.words_world(tenant_a=texts))


async def names(projection: Projection, namespace: str = "tenant-a", **how) -> list[str]:
    _, state, _ = await projection.read(WORDS, namespace, **how)
    return [item.row.name for item in state.items]


async def test_a_list_is_computed_once_for_all_who_ask():
    computed = []

    def rows(world, namespace):
        computed.append(namespace)
        return fakes.words(world, namespace)

    counted = base.Resource(plural="words", singular="w", kind="W", description="", rows=rows)
    async with running(a_source(a="x")) as projection:
        await asyncio.gather(*(projection.read(counted, "tenant-a") for _ in range(50)))
    assert computed == ["tenant-a"]


async def test_a_read_right_after_a_change_waits_for_it():
    source = a_source(a="x")
    async with running(source) as projection:
        await names(projection)
        source.set(fakes.words_world(tenant_a={"b": "y"}))
        assert await names(projection) == ["b"]


async def test_any_version_is_answered_without_waiting():
    source = a_source(a="x")
    async with running(source) as projection:
        await names(projection)
        source.reachable = False
        source.set(fakes.words_world(tenant_a={"b": "y"}))
        async with asyncio.timeout(0.2):
            assert await names(projection, at_least=0) == ["a"]


async def test_a_version_asked_for_is_reached_by_a_proof():
    source = a_source(a="x")
    async with running(source) as projection:
        await names(projection)
        before = source.proofs
        source.version = 150
        _, _, version = await projection.read(WORDS, "tenant-a", at_least=150)
        assert (version, source.proofs >= before) == (150, True)
        with pytest.raises(TimedOut, match="Too large resource version: 151, current: 150"):
            await projection.read(WORDS, "tenant-a", at_least=151)


async def test_nothing_is_served_before_the_first_proof():
    source = a_source(a="x")
    source.reachable = False
    async with running(source) as projection:
        with pytest.raises(Unavailable):
            await names(projection)
        source.reachable = True
        assert await names(projection) == ["a"]


async def test_changes_nobody_looks_at_cost_no_proofs_and_are_there_when_somebody_does():
    source = a_source(a="x")
    pace = Pace(coalesce=0, interval=0, rest=0, interest=0.05, fresh=0.5, catch_up=0.5)
    async with running(source, pace=pace) as projection:
        await names(projection)
        await asyncio.sleep(0.1)
        before = source.proofs
        for number in range(5):
            source.set(fakes.words_world(tenant_a={"a": str(number)}))
            await asyncio.sleep(0.01)
        assert source.proofs == before
        source.set(fakes.words_world(tenant_a={"z": "new"}))
        assert await names(projection) == ["z"]


@pytest.mark.parametrize("at_least", [0, 100], ids=["from-anywhere", "from-what-it-knows"])
async def test_a_watch_is_told_of_what_changed_while_nobody_looked(at_least):
    """As after a restart: what it begins with holds at its version, and nothing else may change."""
    source = a_source(a="x")
    async with running(source) as projection:
        await asyncio.sleep(0.05)
        source.set(fakes.words_world(tenant_a={"b": "y"}))
        await asyncio.sleep(0.05)
        feed, state, _ = await projection.read(WORDS, "tenant-a", at_least=at_least)
        with projection.following(feed):
            newer = await projection.newer(feed, state, asyncio.get_running_loop().time() + 2)
        assert [item.row.name for item in (newer or state).items] == ["b"]


async def test_a_burst_of_changes_is_published_few_times():
    source = a_source(a="x")
    pace = Pace(coalesce=0.01, interval=0.05, rest=0, owed=0, fresh=0.5)
    async with running(source, pace=pace) as projection:
        feed, _, _ = await projection.read(WORDS, "tenant-a")
        with projection.following(feed):
            for number in range(60):
                source.set(fakes.words_world(tenant_a={"a": str(number)}))
                await asyncio.sleep(0.002)
        await asyncio.sleep(0.1)
    assert 2 <= feed.serial <= 12


@pytest.mark.looptime
async def test_a_list_does_not_wait_for_a_refresh_that_cannot_come_so_soon():
    """Under steady changes a wait would be the same for everybody, and for nothing."""
    source = a_source(a="x")
    pace = replace(FAST, interval=0.2, owed=0, busy=0.1)
    async with running(source, pace=pace, in_thread=Gate()) as projection:
        await names(projection)
        began = asyncio.get_running_loop().time()
        source.set(fakes.words_world(tenant_a={"b": "y"}))
        assert await names(projection) == ["a"]
        assert asyncio.get_running_loop().time() == began
        await asyncio.sleep(0.15)
        assert await names(projection) == ["b"], "due within the wait"


async def test_a_list_waits_for_the_changes_before_it_and_not_for_those_after():
    source, gate = a_source(a="x"), Gate()
    async with running(source, in_thread=gate) as projection:
        await names(projection)
        gate.open.clear()
        source.set(fakes.words_world(tenant_a={"b": "y"}))
        await gate.waiting.wait()
        async with asyncio.TaskGroup() as group:
            read = group.create_task(names(projection))
            await asyncio.sleep(0.01)
            gate.waiting.clear()
            publish = projection._publish

            async def held():
                await asyncio.sleep(0.2)
                return await publish()

            projection._publish = held  # the next one comes late
            source.set(fakes.words_world(tenant_a={"c": "z"}))
            began = asyncio.get_running_loop().time()
            gate.open.set()
            assert await read == ["b"]
            assert asyncio.get_running_loop().time() - began < 0.15


async def test_lists_of_made_up_namespaces_are_forgotten_and_watched_ones_are_not():
    async with running(a_source(a="x"), most_feeds=10) as projection:
        feed, _, _ = await projection.read(WORDS, "tenant-a")
        with projection.following(feed):
            for number in range(50):
                await projection.read(WORDS, f"nowhere-{number}")
            again, _, _ = await projection.read(WORDS, "tenant-a")
        assert again is feed
        assert len(projection._feeds) <= 11


async def test_rows_that_fail_for_one_watched_list_do_not_stop_the_others(logs):
    def rows(world, namespace):
        if namespace == "tenant-b":
            raise RuntimeError("bug")
        return fakes.words(world, namespace)

    fragile = base.Resource(plural="words", singular="w", kind="W", description="", rows=rows)
    source = a_source(a="x")
    async with running(source) as projection:
        good, _, _ = await projection.read(fragile, "tenant-a")
        bad = projection._feeds.of(fragile, "tenant-b")
        with projection.following(bad), projection.following(good):
            source.set(fakes.words_world(tenant_a={"a": "new"}))
            newest = await projection.newer(good, good.history.latest, _soon())
            assert [item.row.cells[1] for item in newest.items] == ["new"]
            async with asyncio.timeout(1):
                while not logs:  # noqa: ASYNC110 -- a log line has no event
                    await asyncio.sleep(0.01)
    assert "list not computed" in {entry["event"] for entry in logs}


def _soon() -> float:
    return asyncio.get_running_loop().time() + 1


async def test_waiting_for_a_newer_state_ends_with_the_time_or_the_process():
    async with running(a_source(a="x")) as projection:
        feed, state, _ = await projection.read(WORDS, "tenant-a")
        loop = asyncio.get_running_loop()
        assert await projection.newer(feed, state, loop.time() + 0.02) is None
        loop.call_later(0.02, projection.close)
        assert await projection.newer(feed, state, loop.time() + 5) is None


async def test_a_broken_proof_is_said_once(logs):
    source = a_source(a="x")
    source.reachable = False
    async with running(source):
        await asyncio.sleep(0.1)
    assert [entry["event"] for entry in logs].count("progress not proved") == 1
    assert source.proofs > 2


class Gate:
    """In the place of a worker thread: work waits until the test opens it."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.waiting = asyncio.Event()

    async def __call__(self, work):
        if not self.open.is_set():
            self.waiting.set()
        await self.open.wait()
        return work()


@contextlib.asynccontextmanager
async def being_computed(source, gate, **how):
    """A projection that somebody has read, and that is at work on a newer world now."""
    pace = replace(FAST, fresh=0.01)
    async with running(source, pace=pace, in_thread=gate, **how) as projection:
        await names(projection)
        gate.open.clear()
        source.set(fakes.words_world(tenant_a={"b": "y"}))
        await gate.waiting.wait()
        yield projection
        gate.open.set()


async def test_a_reader_does_not_wait_for_a_newer_world_to_be_computed():
    source, gate = a_source(a="x"), Gate()
    async with being_computed(source, gate) as projection:
        async with asyncio.timeout(1):
            _, state, version = await projection.read(WORDS, "tenant-a")
        assert ([item.row.name for item in state.items], version) == (["a"], 100)
        gate.open.set()
        _, state, version = await projection.read(WORDS, "tenant-a", at_least=110)
        assert ([item.row.name for item in state.items], version) == (["b"], 110)


async def test_what_is_published_does_not_hold_at_the_version_of_a_world_being_computed():
    source, gate = a_source(a="x"), Gate()
    async with being_computed(source, gate) as projection:
        source.version = 150
        assert projection.proved() == 100
        with pytest.raises(TimedOut, match="current: 100"):
            await projection.read(WORDS, "tenant-a", at_least=110)


async def test_a_change_while_a_world_is_computed_is_published_next():
    source, gate = a_source(a="x"), Gate()
    async with being_computed(source, gate) as projection:
        source.set(fakes.words_world(tenant_a={"c": "z"}))
        gate.open.set()
        assert await names(projection, at_least=120) == ["c"]


async def test_lists_read_lately_are_computed_before_they_are_asked_for_and_others_are_not():
    computed = []

    def rows(world, namespace):
        computed.append(namespace)
        return fakes.words(world, namespace)

    counted = base.Resource(plural="words", singular="w", kind="W", description="", rows=rows)
    source = fakes.FakeSource(fakes.words_world(tenant_a={"a": "x"}, tenant_b={}, tenant_c={}))
    pace = replace(FAST, followed=2, interest=0.3)
    async with running(source, pace=pace) as projection:
        for name in ("tenant-a", "tenant-b", "tenant-c"):
            await projection.read(counted, name)
        computed.clear()
        source.set(fakes.words_world(tenant_a={"a": "y"}, tenant_b={}, tenant_c={}))
        await projection.read(counted, "tenant-c", at_least=source.version)
        assert computed == ["tenant-c", "tenant-b"]
        await asyncio.sleep(0.3)
        computed.clear()
        source.set(fakes.words_world(tenant_a={"a": "z"}, tenant_b={}, tenant_c={}))
        await projection.read(counted, "tenant-a", at_least=source.version)
        assert computed == ["tenant-a"]


async def test_many_lists_leave_the_thread_to_others_now_and_then():
    tenants = {f"tenant_{number}": {"a": "x"} for number in range(20)}
    source = fakes.FakeSource(fakes.words_world(**tenants))
    jobs = []

    async def in_thread(work):
        jobs.append(work)
        return work()

    async with running(source, in_thread=in_thread) as projection:
        await projection.read(WORDS, "tenant-0")
        jobs.clear()
        _, state, _ = await projection.read(WORDS, "")
    assert (len(state.items), len(jobs)) == (20, 4), "eight lists each, then all of them as one"


async def test_nothing_that_takes_long_is_done_in_the_loop_when_states_are_shown(monkeypatch):
    """With a thousand tenants it held the loop for hundreds of milliseconds."""
    beside = []

    async def in_thread(work):
        beside.append(True)
        try:
            return work()
        finally:
            beside.pop()

    for name in ("first", "following", "merged"):
        real = getattr(states, name)

        def made(*args, real=real, **how):
            assert beside, "worked out in the event loop"
            return real(*args, **how)

        monkeypatch.setattr(states, name, made)
    source = fakes.FakeSource(fakes.words_world(tenant_a={"a": "x"}, tenant_b={"b": "y"}))
    async with running(source, in_thread=in_thread) as projection:
        await projection.read(WORDS, "")
        source.set(fakes.words_world(tenant_a={"a": "z"}, tenant_b={"b": "y"}))
        _, state, _ = await projection.read(WORDS, "")
    assert [item.row.cells[1] for item in state.items] == ["z", "y"]


async def test_a_world_no_list_can_be_computed_of_ends_only_the_lists(logs, monkeypatch):
    def broken(_world):
        raise RuntimeError("bug")

    source = a_source(a="x")
    async with running(source) as projection:
        await names(projection)
        monkeypatch.setattr(World, "snapshot", property(broken))
        source.set(fakes.words_world(tenant_a={"b": "y"}))
        assert await names(projection) == ["b"]
    assert logs == []


@pytest.mark.looptime
async def test_a_slow_api_server_is_asked_less_often_and_still_once_a_second():
    source = a_source(a="x")
    proof = source.progress

    async def slow(seconds):
        await asyncio.sleep(seconds)
        await proof()

    asked = []
    for seconds in (0.001, 0.05, 1.5):
        source.proofs, source.progress = 0, lambda seconds=seconds: slow(seconds)
        async with running(source, pace=Pace(), in_thread=Gate()) as projection:
            for number in range(200):
                projection._last_read = asyncio.get_running_loop().time()
                source.set(fakes.words_world(tenant_a={"a": str(number)}))
                await asyncio.sleep(0.1)
        asked.append(source.proofs)
    # 20 s each; a round is the proof and a rest of 0.2, 0.4 and 1 s, of which a second may be put off.
    assert asked == [pytest.approx(105, abs=2), pytest.approx(47, abs=2), pytest.approx(8, abs=1)]


@pytest.mark.looptime
async def test_what_comes_and_goes_at_once_after_a_quiet_time_is_seen_to_come_and_to_go():
    """kubectl takes a tenth of a second from one command to the next."""
    source = a_source(a="x")
    async with running(source, pace=Pace(), in_thread=Gate()) as projection:
        feed, state, _ = await projection.read(WORDS, "tenant-a")
        seen = []
        with projection.following(feed):
            for texts in ({"a": "x", "b": "y"}, {"a": "x"}, {"a": "x", "b": "y"}):
                source.set(fakes.words_world(tenant_a=texts))
                state = await projection.newer(feed, state, _soon())
                seen.append([item.row.name for item in state.items])
                await asyncio.sleep(0.02)
    assert seen == [["a", "b"], ["a"], ["a", "b"]]
    assert asyncio.get_running_loop().time() < 0.3
