"""Projection: when it publishes, what it remembers, whom it bothers."""

import asyncio
import contextlib

import pytest

from apiserver.projection import Pace, Projection
from apiserver.resources import base
from apiserver.wire.status import TimedOut, Unavailable
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
    pace = Pace(coalesce=0, interval=0, interest=0.05, fresh=0.5, catch_up=0.5)
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


async def test_a_burst_of_changes_is_published_few_times():
    source = a_source(a="x")
    pace = Pace(coalesce=0.01, interval=0.05, fresh=0.5)
    async with running(source, pace=pace) as projection:
        feed, _, _ = await projection.read(WORDS, "tenant-a")
        with projection.following(feed):
            for number in range(60):
                source.set(fakes.words_world(tenant_a={"a": str(number)}))
                await asyncio.sleep(0.002)
        await asyncio.sleep(0.1)
    assert 2 <= feed.serial <= 12


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
        bad = projection._feed(fragile, "tenant-b")
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


def test_a_slow_api_server_is_asked_less_often_and_still_once_a_second():
    followed = Projection(fakes.FakeSource())
    rests = [followed._rest(took) for took in (0.001, 0.05, 30.0)]
    assert rests == [0.2, 0.4, 1.0]
