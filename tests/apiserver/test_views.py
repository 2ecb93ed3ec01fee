"""Views: which world a question is put to, how long it waits, and who shares what."""

import asyncio
import threading

import pytest

from apiserver.views import Pace, Views
from apiserver.wire.status import Unavailable
from gpu.model.premises import NOTHING, Premises, of_object
from gpu.objects.claims import GPUClaim
from gpu.objects.classes import GPUClass
from gpu.objects.nodes import Node
from gpu.world import World
from tests.apiserver.fakes import FakeSource, words_world

QUICK = Pace(fresh=0.5, oldest=10.0, longest=1.0)  # a thread of a busy machine takes its time


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


@pytest.fixture
async def start():
    """Return a function that starts views over a source."""
    makers: list[Maker] = []
    async with asyncio.TaskGroup() as group:
        tasks: list[asyncio.Task[None]] = []

        def begin(source: FakeSource, *, pace: Pace = QUICK, prepare=None):
            maker = prepare or Maker()
            if isinstance(maker, Maker):
                makers.append(maker)
            views = Views(source, pace=pace, prepare=maker)
            tasks.append(group.create_task(views.run()))
            return views, maker

        yield begin
        for maker in makers:
            maker.let_go()
        for task in tasks:
            task.cancel()


@pytest.fixture
async def site(start):
    """World `a`, and views over it that have answered once."""
    source = FakeSource(world("a"))
    views, maker = start(source)
    await views.ask(names)
    return source, views, maker


async def test_a_question_is_put_to_the_newest_world(site):
    source, views, _ = site
    source.set(world("b"))
    assert await views.ask(names) == ["b"]


async def test_one_view_serves_all_who_wait(site):
    source, views, maker = site
    source.set(world("b"))
    answers = await asyncio.gather(*(views.ask(names) for _ in range(50)))
    assert (answers, maker.made) == ([["b"]] * 50, [["a"], ["b"]])


async def test_without_questions_no_view_is_made_after_the_first(site):
    source, _, maker = site
    for name in "bcd":
        source.set(world(name))
        await asyncio.sleep(0)
    assert maker.made == [["a"]]


async def test_questions_take_turns_in_one_thread(site):
    threads: list[int] = []
    _, views, _ = site

    def question(_: World) -> None:
        threads.append(threading.get_ident())

    await asyncio.gather(*(views.ask(question) for _ in range(20)))
    assert (len(threads), len(set(threads))) == (20, 1)
    assert threads[0] != threading.get_ident()


async def test_a_view_that_takes_long_is_not_waited_for(site):
    source, views, maker = site
    maker.hold()
    source.set(world("b"))
    assert await views.ask(names) == ["a"]


def classes(_: object) -> Premises:
    """What the answers of these tests rest on, all of them refusals."""
    return frozenset({GPUClass})


def unless(*fine: str):
    return lambda found: NOTHING if found == [*fine] else classes(found)


async def test_an_answer_that_rests_on_something_is_asked_again_of_the_newer_view(site):
    source, views, maker = site
    maker.hold()
    source.set(world("b"))
    asked: list[list[str]] = []

    def question(one: World) -> list[str]:
        asked.append(names(one))
        maker.let_go()
        return names(one)

    answer = await views.ask(question, rests_on=unless("b"))
    assert (answer, asked) == (["b"], [["a"], ["b"]])


async def test_an_answer_that_rests_on_something_stands_when_no_newer_view_comes(site):
    source, views, maker = site
    maker.hold()
    source.set(world("b"))
    assert await views.ask(names, rests_on=classes) == ["a"]


async def test_an_answer_of_the_newest_view_is_asked_once_whatever_it_is(site):
    asked: list[World] = []
    _, views, _ = site
    await views.ask(asked.append, rests_on=classes)
    assert len(asked) == 1


class CatchingUp(FakeSource):
    """A source without live watches: shows its next world once a kind is proved, then the one after."""

    def __init__(self, now: World, *then: World) -> None:
        super().__init__(now)
        self.live = False
        self._then = list(then)

    async def prove(self, view) -> None:
        await super().prove(view)
        if self._then:
            self.set(self._then.pop(0))


class Settling(FakeSource):
    """A source that shows another world once kinds have settled."""

    async def settle(self, views, until) -> None:
        await super().settle(views, until)
        self.set(world("b"))


async def test_a_refusal_waits_until_what_it_rests_on_has_settled(start):
    source = Settling(world("a"))
    views, _ = start(source)
    await views.ask(names)
    assert await views.ask(names, rests_on=unless("b")) == ["b"]
    assert (source.settled, source.proved) == ([GPUClass], [])


async def test_what_settles_has_its_time_from_when_the_question_came(start):
    source = Settling(world("a"))
    views, _ = start(source)
    await views.ask(names)
    came = asyncio.get_running_loop().time() - 5
    assert await views.ask(names, rests_on=unless("b"), came=came) == ["b"]
    assert [until - came < 1 for until in source.until] == [True]


class Reading(FakeSource):
    """A source that shows another world once an object is read alone."""

    async def read(self, view, key) -> None:
        await super().read(view, key)
        self.set(world("b"))


async def test_a_refusal_for_one_object_is_sure_once_that_is_read(start):
    source = Reading(world("a"))
    views, _ = start(source)
    await views.ask(names)
    one = of_object(GPUClass, "h100")
    answer = await views.ask(names, rests_on=lambda found: NOTHING if found == ["b"] else one)
    assert answer == ["b"]
    assert (source.read_alone, source.settled, source.proved) == ([(GPUClass, "h100")], [], [])


async def test_a_refusal_waits_until_the_caches_of_what_it_rests_on_have_caught_up(start):
    """A class made just before an order is on its way to the cache when the order comes."""
    source = CatchingUp(world("a"), world("b"))
    views, _ = start(source)
    await views.ask(names)
    assert await views.ask(names, rests_on=unless("b")) == ["b"]
    assert source.proved == [GPUClass]


async def test_a_refusal_for_another_reason_is_proved_too_and_nothing_is_proved_twice(start):
    source = CatchingUp(world("a"), world("b"), world("c"))
    views, _ = start(source)
    reasons = {"a": {GPUClass}, "b": {GPUClass, Node}, "c": {GPUClass}}
    answer = await views.ask(names, rests_on=lambda found: frozenset(reasons[found[0]]))
    assert (answer, source.proved) == (["c"], [GPUClass, Node])


async def test_an_answer_that_rests_on_nothing_costs_no_proof(site):
    source, views, _ = site
    await views.ask(names)
    assert source.proved == []


class Slow(FakeSource):
    """A source that proves no class before `go`, and everything else at once."""

    def __init__(self, now: World) -> None:
        super().__init__(now)
        self.live = False
        self.go = asyncio.Event()
        self.waits = asyncio.Event()

    async def prove(self, view) -> None:
        await super().prove(view)
        if view is GPUClass:
            self.waits.set()
            await self.go.wait()


PATIENT = Pace(fresh=0.02, prove=5.0, longest=5.0)


async def test_one_proof_serves_all_who_came_before_it(start):
    source, loop, put = Slow(world("a")), asyncio.get_running_loop(), []

    def question(one: World) -> None:
        put.append(names(one))
        if len(put) == 30:
            loop.call_soon_threadsafe(loop.call_later, 0.05, source.go.set)

    views, _ = start(source, pace=PATIENT)
    await asyncio.gather(*(views.ask(question, rests_on=classes) for _ in range(30)))
    assert source.proved == [GPUClass]


async def test_one_who_comes_after_a_proof_was_begun_needs_another(start):
    source = Slow(world("a"))
    views, _ = start(source, pace=PATIENT)
    async with asyncio.TaskGroup() as group:
        group.create_task(views.ask(names, rests_on=classes))
        await source.waits.wait()
        for _ in range(2):
            group.create_task(views.ask(names, rests_on=classes))
        await asyncio.sleep(0.01)
        source.go.set()
    assert source.proved == [GPUClass, GPUClass]


async def test_who_rests_on_other_kinds_does_not_wait_for_a_slow_proof(start):
    source = Slow(world("a"))
    views, _ = start(source, pace=PATIENT)
    async with asyncio.TaskGroup() as group:
        group.create_task(views.ask(names, rests_on=classes))
        await source.waits.wait()
        other = frozenset({GPUClaim, Node})
        assert await views.ask(names, rests_on=lambda _: other) == ["a"]
        assert set(source.proved) == {GPUClass, *other}
        source.go.set()


async def test_an_answer_stands_when_nobody_can_say_whether_it_is_current(site, logs):
    source, views, _ = site
    source.live = source.reachable = False
    assert await views.ask(names, rests_on=classes) == ["a"]
    assert [(entry["event"], entry["error"]) for entry in logs] == [
        ("caches not proved current", "ConnectionError: no answer")
    ]


async def test_an_answer_stands_when_a_proof_takes_too_long(start, logs):
    views, _ = start(Slow(world("a")), pace=Pace(prove=0.01))
    assert await views.ask(names, rests_on=classes) == ["a"]
    assert [entry["event"] for entry in logs] == ["caches not proved current"]


async def test_a_view_that_is_behind_for_too_long_answers_nobody(start):
    source = FakeSource(world("a"))
    views, maker = start(source, pace=Pace(fresh=0.0, oldest=0.01, longest=0.5))
    await views.ask(names)
    maker.hold()
    source.set(world("b"))
    await asyncio.sleep(0.02)
    with pytest.raises(Unavailable, match="could not judge it in time: try again"):
        await views.ask(names)
    maker.let_go()
    assert await views.ask(names) == ["b"]


async def test_what_changes_while_a_view_is_made_makes_it_old_too(start):
    source = FakeSource(world("a"))
    views, maker = start(source, pace=Pace(fresh=0.0, oldest=0.5, longest=0.5))
    await views.ask(names)
    maker.hold()
    source.set(world("b"))
    assert await views.ask(names) == ["a"]
    source.set(world("c"))
    maker.done.clear()
    maker.let_go()
    await asyncio.to_thread(maker.done.wait, 5)
    maker.hold()
    await asyncio.sleep(0.6)
    with pytest.raises(Unavailable):
        await views.ask(names)


async def test_before_the_first_lists_nothing_is_answered(start):
    source = FakeSource(world("a"))
    source.synced = False
    views, _ = start(source)
    with pytest.raises(Unavailable, match="starting: try again") as caught:
        await views.ask(names)
    assert caught.value.details.retry_after == 1


async def test_the_first_view_is_waited_for(start):
    maker = Maker()
    maker.hold()
    views, _ = start(FakeSource(world("a")), prepare=maker)
    async with asyncio.TaskGroup() as group:
        answer = group.create_task(views.ask(names))
        await asyncio.sleep(0.04)
        maker.let_go()
    assert answer.result() == ["a"]


async def test_a_view_that_cannot_be_made_is_tried_again_at_the_next_question(start, logs):
    source = FakeSource(world("a"))

    def fail(one: World) -> None:
        if names(one) == ["bad"]:
            raise RuntimeError("bug")

    views, _ = start(source, prepare=fail)
    await views.ask(names)
    source.set(world("bad"))
    assert await views.ask(names) == ["a"]
    source.set(world("c"))
    assert await views.ask(names) == ["c"]
    assert [entry["event"] for entry in logs] == ["view not made"]


async def test_what_a_question_raises_reaches_who_asked(site):
    def question(_: World) -> None:
        raise ValueError("mine")

    _, views, _ = site
    with pytest.raises(ValueError, match="mine"):
        await views.ask(question)


async def test_one_who_gives_up_waiting_ends_nobody_elses_view(site):
    source, views, maker = site
    maker.hold()
    source.set(world("b"))
    async with asyncio.TaskGroup() as group:
        left = group.create_task(views.ask(names, rests_on=classes))
        stays = group.create_task(views.ask(names, rests_on=unless("b")))
        await asyncio.sleep(0.03)
        left.cancel()
        maker.let_go()
    assert stays.result() == ["b"]
