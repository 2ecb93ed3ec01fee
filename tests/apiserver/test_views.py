"""Views: which world a question is put to, how long it waits, and who shares what."""

import asyncio
import contextlib
import threading

import pytest

from apiserver.views import Pace, Views
from apiserver.wire.status import Unavailable
from gpu.world import World
from tests.apiserver.fakes import FakeSource, words_world

QUICK = Pace(fresh=0.02, oldest=10.0, longest=0.3)


def world(*names: str) -> World:
    return words_world(**{name: {} for name in names})


def names(one: World) -> list[str]:
    return [found.meta.name for found in one.namespaces]


class Maker:
    """Makes views; `hold` has the next ones wait until `let_go`."""

    def __init__(self) -> None:
        self.made: list[list[str]] = []
        self.done = threading.Event()
        self._go = threading.Event()
        self._go.set()

    def __call__(self, one: World) -> None:
        self._go.wait(5)
        self.made.append(names(one))
        self.done.set()

    def hold(self) -> None:
        self._go.clear()

    def let_go(self) -> None:
        self._go.set()


@contextlib.asynccontextmanager
async def running(source: FakeSource, *, pace: Pace = QUICK, prepare=None):
    maker = prepare or Maker()
    views = Views(source, pace=pace, prepare=maker)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(views.run())
        try:
            yield views, maker
        finally:
            if isinstance(maker, Maker):
                maker.let_go()
            task.cancel()


async def test_a_question_is_put_to_the_newest_world():
    source = FakeSource(world("a"))
    async with running(source) as (views, _):
        assert await views.ask(names) == ["a"]
        source.set(world("b"))
        assert await views.ask(names) == ["b"]


async def test_one_view_serves_all_who_wait():
    source = FakeSource(world("a"))
    async with running(source) as (views, maker):
        await views.ask(names)
        source.set(world("b"))
        answers = await asyncio.gather(*(views.ask(names) for _ in range(50)))
    assert (answers, maker.made) == ([["b"]] * 50, [["a"], ["b"]])


async def test_without_questions_no_view_is_made_after_the_first():
    source = FakeSource(world("a"))
    async with running(source) as (views, maker):
        await views.ask(names)
        for name in "bcd":
            source.set(world(name))
            await asyncio.sleep(0)
        assert maker.made == [["a"]]


async def test_questions_take_turns_in_one_thread():
    threads: list[int] = []

    def question(_: World) -> None:
        threads.append(threading.get_ident())

    async with running(FakeSource(world("a"))) as (views, _):
        await asyncio.gather(*(views.ask(question) for _ in range(20)))
    assert (len(threads), len(set(threads))) == (20, 1)
    assert threads[0] != threading.get_ident()


async def test_a_view_that_takes_long_is_not_waited_for():
    source = FakeSource(world("a"))
    async with running(source) as (views, maker):
        await views.ask(names)
        maker.hold()
        source.set(world("b"))
        assert await views.ask(names) == ["a"]


async def test_an_answer_that_is_not_final_is_asked_again_of_the_newer_view():
    source = FakeSource(world("a"))
    async with running(source) as (views, maker):
        await views.ask(names)
        maker.hold()
        source.set(world("b"))
        asked: list[list[str]] = []

        def question(one: World) -> list[str]:
            asked.append(names(one))
            maker.let_go()
            return names(one)

        answer = await views.ask(question, is_final=lambda found: found == ["b"])
        assert (answer, asked) == (["b"], [["a"], ["b"]])


async def test_an_answer_that_is_not_final_stands_when_no_newer_view_comes():
    source = FakeSource(world("a"))
    async with running(source) as (views, maker):
        await views.ask(names)
        maker.hold()
        source.set(world("b"))
        assert await views.ask(names, is_final=lambda _: False) == ["a"]


async def test_an_answer_of_the_newest_view_is_asked_once_whatever_it_is():
    asked: list[World] = []
    async with running(FakeSource(world("a"))) as (views, _):
        await views.ask(asked.append, is_final=lambda _: False)
    assert len(asked) == 1


class CatchingUp(FakeSource):
    """A source that shows its next world once it is asked to catch up."""

    def __init__(self, now: World, then: World) -> None:
        super().__init__(now)
        self._then = then

    async def progress(self) -> None:
        await super().progress()
        self.set(self._then)


async def test_an_answer_that_is_not_final_waits_until_the_caches_have_caught_up():
    """A class made just before an order is on its way to the cache when the order comes."""
    source = CatchingUp(world("a"), world("b"))
    async with running(source) as (views, _):
        await views.ask(names)
        assert await views.ask(names, is_final=lambda found: found == ["b"]) == ["b"]
        assert source.proofs == 1


async def test_a_final_answer_costs_no_proof():
    source = FakeSource(world("a"))
    async with running(source) as (views, _):
        await views.ask(names)
        assert source.proofs == 0


class Slow(FakeSource):
    """A source that proves nothing before `go`."""

    def __init__(self, now: World) -> None:
        super().__init__(now)
        self.go = asyncio.Event()

    async def progress(self) -> None:
        await super().progress()
        await self.go.wait()


async def test_one_proof_serves_all_who_came_before_it():
    source, loop, put = Slow(world("a")), asyncio.get_running_loop(), []

    def question(one: World) -> None:
        put.append(names(one))
        if len(put) == 30:
            loop.call_soon_threadsafe(loop.call_later, 0.05, source.go.set)

    async with running(source, pace=Pace(fresh=0.02, prove=5.0, longest=5.0)) as (views, _):
        await asyncio.gather(*(views.ask(question, is_final=lambda _: False) for _ in range(30)))
    assert source.proofs == 2


async def test_an_answer_stands_when_nobody_can_say_whether_it_is_current(logs):
    source = FakeSource(world("a"))
    source.reachable = False
    async with running(source) as (views, _):
        assert await views.ask(names, is_final=lambda _: False) == ["a"]
    assert [entry["event"] for entry in logs] == ["caches not proved current"]


async def test_a_view_that_is_behind_for_too_long_answers_nobody():
    source = FakeSource(world("a"))
    pace = Pace(fresh=0.0, oldest=0.01, longest=0.05)
    async with running(source, pace=pace) as (views, maker):
        await views.ask(names)
        maker.hold()
        source.set(world("b"))
        await asyncio.sleep(0.02)
        with pytest.raises(Unavailable, match="could not judge it in time: try again"):
            await views.ask(names)
        maker.let_go()
        assert await views.ask(names) == ["b"]


async def test_what_changes_while_a_view_is_made_makes_it_old_too():
    source = FakeSource(world("a"))
    pace = Pace(fresh=0.0, oldest=0.01, longest=0.05)
    async with running(source, pace=pace) as (views, maker):
        await views.ask(names)
        maker.hold()
        source.set(world("b"))
        assert await views.ask(names) == ["a"]
        source.set(world("c"))
        maker.done.clear()
        maker.let_go()
        await asyncio.to_thread(maker.done.wait, 5)
        maker.hold()
        await asyncio.sleep(0.02)
        with pytest.raises(Unavailable):
            await views.ask(names)


async def test_before_the_first_lists_nothing_is_answered():
    source = FakeSource(world("a"))
    source.synced = False
    async with running(source) as (views, _):
        with pytest.raises(Unavailable, match="starting: try again") as caught:
            await views.ask(names)
    assert caught.value.details.retry_after == 1


async def test_the_first_view_is_waited_for():
    source = FakeSource(world("a"))
    maker = Maker()
    maker.hold()
    async with running(source, prepare=maker) as (views, _), asyncio.TaskGroup() as group:
        answer = group.create_task(views.ask(names))
        await asyncio.sleep(0.04)
        maker.let_go()
    assert answer.result() == ["a"]


async def test_a_view_that_cannot_be_made_is_tried_again_at_the_next_question(logs):
    source = FakeSource(world("a"))

    def fail(one: World) -> None:
        if names(one) == ["bad"]:
            raise RuntimeError("bug")

    async with running(source, prepare=fail) as (views, _):
        await views.ask(names)
        source.set(world("bad"))
        assert await views.ask(names) == ["a"]
        source.set(world("c"))
        assert await views.ask(names) == ["c"]
    assert [entry["event"] for entry in logs] == ["view not made"]


async def test_what_a_question_raises_reaches_who_asked():
    def question(_: World) -> None:
        raise ValueError("mine")

    async with running(FakeSource(world("a"))) as (views, _):
        with pytest.raises(ValueError, match="mine"):
            await views.ask(question)


async def test_one_who_gives_up_waiting_ends_nobody_elses_view():
    source = FakeSource(world("a"))
    async with running(source) as (views, maker):
        await views.ask(names)
        maker.hold()
        source.set(world("b"))
        async with asyncio.TaskGroup() as group:
            left = group.create_task(views.ask(names, is_final=lambda _: False))
            stays = group.create_task(views.ask(names, is_final=lambda found: found == ["b"]))
            await asyncio.sleep(0.03)
            left.cancel()
            maker.let_go()
        assert stays.result() == ["b"]
