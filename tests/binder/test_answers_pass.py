"""A pass that only answers starts: never held behind a full one, and no unit is given out by both."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gpu.binder.report import PassReport
from gpu.cluster import errors
from gpu.ports import Outcome
from gpu.settings import RawNames
from tests.binder import asking, gated, interrupting, raws
from tests.binder.rig import Rig, drained
from tests.binder.slow import Slow
from tests.fakes.cluster import Fault

NOW = "2026-01-02T03:04:00Z"
"""Five seconds before the rig's clock begins."""


def a_start(*names: str, vm: str = "vm", **more: Any) -> list[raws.Raw]:
    return [
        asking.claim(it, asks=names, vm=vm, id_=f"id-{vm}", since=NOW, template=True, **more)
        for it in names
    ]


def a_rig(*claims: raws.Raw, nodes: dict[str, int], **more: Any) -> tuple[Rig, Slow]:
    rig = Rig(**{"config": asking.CONFIG, **more})
    rig.store(
        classes=[raws.a_class(meta={"finalizers": ["gpu.cozystack.io/class"]})],
        nodes=[raws.a_node(name, units=units) for name, units in nodes.items()],
        namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant()],
        claims=list(claims),
    )
    line = Slow(rig.cluster)
    rig.writer.api = line  # type: ignore[assignment]  # a Writer by __getattr__
    return rig, line


def result(rig: Rig, name: str) -> str | None:
    found = rig.claim(name)
    assert found is not None
    told = found["status"].get("bindRequest", {}).get("result")
    return told if told is None else str(told)


def order(name: str, count: int, *, at: str = "2026-01-02T03:04:03Z") -> raws.Raw:
    """An order that is younger than the starts, so that no start waits for its turn."""
    return raws.a_claim(name, count=count, meta=interrupting.OURS | {"creationTimestamp": at})


async def stuck(rig: Rig, line: Slow, *names: str) -> "asyncio.Task[PassReport]":
    """Start a full pass whose writes to these claims are under way, and take their time."""
    line.stuck = lambda name: name in names
    rig.window.show()
    full = asyncio.ensure_future(rig.passes.once())
    await line.is_stuck(*names)
    return full


async def goes_on(line: Slow, full: "asyncio.Task[PassReport]") -> PassReport:
    line.stuck = lambda _: False
    line.go.set()
    return await full


async def test_without_a_start_that_asks_it_does_nothing():
    rig, _ = a_rig(order("x", 1), nodes={"n1": 8})
    assert (await rig.passes.answer()).skipped
    assert rig.cluster.writes == []


async def test_it_answers_and_does_nothing_else():
    rig, _ = a_rig(order("x", 1), *a_start("t"), nodes={"n1": 8})
    report = await rig.passes.answer()
    assert (list(report.phases), report.written) == (["requests"], {"Place": 1})
    assert (result(rig, "t"), rig.placed()) == ("Succeeded", {"tenant-a/t": "n1"})
    assert report.answers == {"Succeeded": 1}
    assert (await rig.passes.answer()).written == {}


async def test_with_the_feature_off_nothing_is_answered():
    rig, _ = a_rig(*a_start("t"), nodes={"n1": 8})
    rig.passes.config = asking.OFF
    assert (await rig.passes.answer()).skipped


async def test_a_start_is_answered_while_a_full_pass_is_stuck_in_its_writes():
    rig, line = a_rig(order("x", 3), nodes={"n1": 8})
    full = await stuck(rig, line, "x")
    rig.store(claims=a_start("t", count=5))
    assert (await rig.passes.answer()).answers == {"Succeeded": 1}
    assert not full.done()
    assert rig.placed() == {"tenant-a/t": "n1"}
    report = await goes_on(line, full)
    assert rig.placed() == {"tenant-a/t": "n1", "tenant-a/x": "n1"}
    assert report.again  # what was answered meanwhile is looked at by the next full pass
    rig.window.show()
    report = await rig.passes.once(forced=False)
    assert (report.skipped, report.written["WriteRecord"]) == (False, 1)


async def test_what_a_full_pass_is_about_to_store_is_given_to_nobody():
    rig, line = a_rig(order("x", 4), nodes={"n1": 8})
    full = await stuck(rig, line, "x")
    rig.store(claims=a_start("t", count=5))
    assert (await rig.passes.answer()).answers == {"Refused": 1}
    await goes_on(line, full)
    assert rig.placed() == {"tenant-a/x": "n1"}


async def test_what_a_full_pass_is_about_to_free_is_given_to_nobody():
    moving = interrupting.held("x", "n1", count=4)
    rig, line = a_rig(moving, nodes={"n1": 4, "n2": 4})
    rig.store(
        nodes=[raws.a_node("n1", units=4, taints=[{"key": "mine", "effect": "NoSchedule"}])],
        classes=[
            raws.a_class(),
            raws.a_class("hard", tolerations=[{"operator": "Exists"}]),
        ],
    )
    full = await stuck(rig, line, "x")
    rig.store(claims=a_start("t", count=4, class_name="hard"))
    assert (await rig.passes.answer()).answers == {"Refused": 1}
    await goes_on(line, full)
    assert rig.placed() == {"tenant-a/x": "n2"}


async def test_a_budget_that_a_full_pass_is_about_to_use_up_is_used_up():
    rig, line = a_rig(order("x", 4), nodes={"n1": 8})
    rig.store(releases=[raws.a_release(total=4)])
    full = await stuck(rig, line, "x")
    rig.store(claims=a_start("t"))
    assert (await rig.passes.answer()).answers == {"Refused": 1}
    await goes_on(line, full)
    assert rig.placed() == {"tenant-a/x": "n1"}


async def test_what_is_answered_meanwhile_is_not_given_out_by_later_phases():
    """The full pass has read the cluster before the start was there, and binds orders after."""
    lost = interrupting.lost("l", "gone")
    rig, line = a_rig(lost, order("x", 6), nodes={"n1": 8})
    full = await stuck(rig, line, "l")
    rig.store(claims=a_start("t", count=2))
    line.stuck = lambda name: name in {"l", "t"}
    answers = asyncio.ensure_future(rig.passes.answer())
    await line.is_stuck("t")
    await goes_on(line, full)
    await answers
    assert result(rig, "t") == "Succeeded"
    assert rig.placed() == {"tenant-a/l": "n1", "tenant-a/t": "n1"}


async def test_a_claim_that_is_answered_meanwhile_is_not_placed_once_more():
    held = asking.claim("x", asks=None, status={"attachedTo": None})
    rig, line = a_rig(interrupting.lost("l", "gone"), held, nodes={"n1": 8})
    full = await stuck(rig, line, "l")
    rig.store(claims=[asking.claim("x", asks=["x"], id_="id-vm", since=NOW)])
    line.stuck = lambda name: name in {"l", "x"}
    answers = asyncio.ensure_future(rig.passes.answer())
    await line.is_stuck("x")
    report = await goes_on(line, full)
    assert (report.failed, (await answers).answers) == ((), {"Succeeded": 1})


async def test_a_claim_that_is_answered_meanwhile_is_not_moved_by_what_was_seen_before():
    held = interrupting.held("x", "n1")
    nodes = {"n1": 8, "n2": 8}
    rig, line = a_rig(interrupting.lost("l", "gone"), held, nodes=nodes)
    rig.store(nodes=[raws.a_node("n1", unschedulable=True)], classes=[raws.a_class()])
    rig.passes.table = tuple(
        sorted(rig.passes.table, key=lambda phase: phase.name == "moves")
    )  # the moves come last here, so that there is time
    full = await stuck(rig, line, "l")
    rig.store(
        nodes=[raws.a_node("n1")],
        claims=[asking.claim("x", "n1", asks=["x"], id_="id-vm", since=NOW)],
    )
    assert (await rig.passes.answer()).answers == {"Succeeded": 1}
    report = await goes_on(line, full)
    assert (report.failed, rig.placed()["tenant-a/x"]) == ((), "n1")


async def test_a_launcher_that_a_full_pass_is_about_to_let_through_is_counted():
    config = replace(asking.CONFIG, raw_names=RawNames.ALLOWED)
    rig, line = a_rig(nodes={"n1": 8}, config=config)
    await rig.until_still()
    rig.store(**gated.a_start("raw", asks=5))
    full = await stuck(rig, line, "pod-raw")
    rig.store(claims=a_start("t", count=4))
    assert (await rig.passes.answer()).answers == {"Refused": 1}
    assert (await goes_on(line, full)).written["Pin"] == 1


async def test_a_full_pass_counts_what_an_answer_is_about_to_take():
    rig, line = a_rig(*a_start("t", count=5), nodes={"n1": 8})
    line.stuck = lambda name: name == "t"
    answers = asyncio.ensure_future(rig.passes.answer())
    await line.is_stuck("t")
    rig.store(claims=[order("x", 4)])
    report = await rig.passes.once()
    assert (report.failed, report.aborted, rig.placed()) == ((), False, {})
    assert not answers.done()
    line.go.set()
    await answers
    rig.window.show()
    # Not the echo of writes that this full pass knew of: it did not look at what they left.
    report = await rig.passes.once(forced=False)
    assert (report.skipped, report.written["WriteRecord"]) == (False, 1)
    await rig.until_still()
    assert rig.placed() == {"tenant-a/t": "n1"}


async def test_claims_that_a_full_pass_is_writing_to_are_answered_when_it_has():
    rig, line = a_rig(*a_start("t"), nodes={"n1": 8})
    woken: list[None] = []
    rig.passes.wake_answers = lambda: woken.append(None)
    full = await stuck(rig, line, "t")
    assert (await rig.passes.answer()).written == {}
    assert woken == []
    await goes_on(line, full)
    assert (woken, result(rig, "t")) == ([None], "Succeeded")


async def test_the_full_pass_is_told_that_something_was_answered():
    rig, _ = a_rig(*a_start("t"), nodes={"n1": 8})
    woken: list[None] = []
    rig.passes.wake = lambda: woken.append(None)
    await rig.passes.answer()
    assert woken == [None]


async def test_a_conflict_is_answered_the_next_time():
    rig, _ = a_rig(*a_start("t"), nodes={"n1": 8})
    conflict = errors.from_status({"code": 409, "reason": "Conflict", "message": "modified"})
    rig.cluster.fail(Fault(1, executed=False, error=conflict))
    report = await rig.passes.answer()
    assert (report.only_conflicts, result(rig, "t")) == (True, None)
    assert (await rig.passes.answer()).answers == {"Succeeded": 1}


@pytest.mark.parametrize("executed", [True, False])
async def test_an_answer_without_a_reply_is_looked_at_again(executed):
    rig, _ = a_rig(*a_start("s", "t"), nodes={"n1": 8})
    rig.cluster.fail(Fault(1, executed=executed))
    report = await rig.passes.answer()
    assert [item.outcome for item in report.failed] == [Outcome.UNKNOWN]
    rig.window.show()
    await rig.passes.answer()
    assert (result(rig, "s"), result(rig, "t")) == ("Succeeded", "Succeeded")
    assert rig.placed() == {"tenant-a/s": "n1", "tenant-a/t": "n1"}


async def test_cancelled_it_leaves_nothing_behind():
    rig, line = a_rig(*a_start("t"), nodes={"n1": 8})
    line.stuck = lambda name: name == "t"
    answers = asyncio.ensure_future(rig.passes.answer())
    await line.is_stuck("t")
    await drained(answers)
    line.stuck = lambda _: False
    await rig.until_still()
    assert (result(rig, "t"), rig.placed()) == ("Succeeded", {"tenant-a/t": "n1"})


async def test_a_full_pass_that_has_answered_is_followed_by_another():
    """What a refused set suffers from is told once it asks no more: that is the business of an earlier phase."""
    torn = [
        asking.claim(name, node, asks=["a", "b"], since=NOW, count=3)
        for name, node in (("a", "n1"), ("b", "n2"))
    ]
    rig, _ = a_rig(*torn, nodes={"n1": 4, "n2": 4})
    rig.window.show()
    report = await rig.passes.once()
    assert result(rig, "a") == result(rig, "b") == "Refused"
    assert report.again
    rig.window.show()
    report = await rig.passes.once(forced=False)
    assert (report.written["Degrade"], report.again) == (2, False)


async def test_a_start_is_awaited_while_its_answer_is_written_too():
    rig, line = a_rig(*a_start("t"), nodes={"n1": 8})
    line.stuck = lambda name: name == "t"
    answers = asyncio.ensure_future(rig.passes.answer())
    await line.is_stuck("t")
    assert (await rig.passes.answer()).skipped  # nobody else has it to answer
    assert rig.passes.is_awaited()
    await goes_on(line, answers)
    rig.window.show()
    assert not rig.passes.is_awaited()


async def test_with_the_feature_off_no_start_is_awaited():
    rig, _ = a_rig(*a_start("t"), nodes={"n1": 8}, config=asking.OFF)
    assert not rig.passes.is_awaited()
