"""What cannot be watched is computed when it is read, and by the configuration of the process."""

import asyncio
from dataclasses import replace

import pytest

from apiserver import resources
from apiserver.resources import base
from gpu.config import Config, Guard
from gpu.world import World
from tests.apiserver import fakes
from tests.apiserver.fakes import FAST, WORDS
from tests.apiserver.test_projection import running
from tests.builders import a_claim, a_class, a_namespace, a_node


def text(state):
    (item,) = state.items
    return item.row.body["spec"]["text"]


async def test_what_is_read_and_not_watched_is_not_computed_at_each_change():
    computed = []

    def rows(world, namespace):
        computed.append(namespace)
        return fakes.words(world, namespace)

    counted = base.Resource(
        plural="plans", singular="p", kind="P", description="", rows=rows, verbs=("get", "list")
    )
    source = fakes.FakeSource(fakes.words_world(tenant_a={"a": "x"}))
    async with running(source, pace=replace(FAST, interest=30)) as projection:
        await projection.read(counted, "tenant-a")
        source.set(fakes.words_world(tenant_a={"a": "y"}))
        await projection.read(WORDS, "tenant-a", at_least=source.version)
        assert computed == ["tenant-a"]
        _, state, _ = await projection.read(counted, "tenant-a")
    assert computed == ["tenant-a", "tenant-a"]
    assert [item.row.body["spec"]["text"] for item in state.items] == ["y"]


async def test_a_list_whose_rows_take_long_leaves_the_thread_to_others_now_and_then():
    turns = []

    async def in_thread(work):
        turns.append(0)
        return work()

    def rows(world, namespace):
        for row in fakes.words(world, namespace):
            turns[-1] += 1
            yield row

    long = base.Resource(plural="plans", singular="p", kind="P", description="", rows=rows)
    words = {f"w{number}": "x" for number in range(40)}
    async with running(
        fakes.FakeSource(fakes.words_world(tenant_a=words)), in_thread=in_thread
    ) as projection:
        _, state, _ = await projection.read(long, "tenant-a")
    assert len(state.items) == 40
    assert [made for made in turns if made] == [16, 16, 8]


async def test_a_change_is_published_while_rows_that_take_long_are_made():
    """And who reads those is not told that they hold at a version which they know nothing of."""
    made, begun, goes_on = [], asyncio.Event(), asyncio.Event()

    async def in_thread(work):
        before = len(made)
        done = work()
        if len(made) > before:
            begun.set()
            await goes_on.wait()
        return done

    def rows(world, namespace):
        for row in fakes.words(world, namespace):
            made.append(row)
            yield row

    plans = base.Resource(
        plural="plans", singular="p", kind="P", description="", rows=rows, verbs=("get", "list")
    )
    source = fakes.FakeSource(fakes.words_world(tenant_a={"a": "x"}))
    async with running(source, in_thread=in_thread) as projection, asyncio.TaskGroup() as tasks:
        before = source.version
        reading = tasks.create_task(projection.read(plans, "tenant-a"))
        await begun.wait()
        source.set(fakes.words_world(tenant_a={"a": "y"}))
        _, words, _ = await projection.read(WORDS, "tenant-a", at_least=source.version)
        assert not reading.done()
        goes_on.set()
        _, state, version = await reading
        assert (text(words), text(state), version) == ("y", "x", before)
        _, state, version = await projection.read(plans, "tenant-a")
        assert (text(state), version) == ("y", source.version)


async def test_rows_that_fail_half_way_fail_the_list_and_no_other():
    def rows(world, namespace):
        yield from fakes.words(world, namespace)
        raise RuntimeError("bug")

    broken = base.Resource(plural="plans", singular="p", kind="P", description="", rows=rows)
    source = fakes.FakeSource(fakes.words_world(tenant_a={"a": "x"}))
    async with running(source) as projection:
        with pytest.raises(RuntimeError, match="bug"):
            await projection.read(broken, "tenant-a")
        _, state, _ = await projection.read(WORDS, "tenant-a")
    assert len(state.items) == 1


def test_drain_plans_go_by_the_guard_of_the_process():
    world = World(
        classes=(a_class(),),
        nodes=(a_node("n1"), a_node("n2")),
        claims=tuple(a_claim(f"c{age}", at=age, on="n1") for age in range(3)),
        namespaces=(a_namespace(),),
    )
    config = replace(Config(), guard=Guard(share=0.0, at_least=1))
    held_back = {}
    for name, table in (("default", resources.RESOURCES), ("own", resources.served(config))):
        (plans,) = [one for one in table if one.plural == "drainplans"]
        held_back[name] = next(iter(plans.rows(world, ""))).body["status"]["guard"]["heldBack"]
    assert held_back == {"default": 0, "own": 2}
