"""Phases that want nothing are planned in one go with the next, as long as that takes no time."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu.binder import phases, under_way
from gpu.binder.beside import Beside
from gpu.binder.changes import Change
from gpu.binder.course import Course
from gpu.binder.phase import Phase, Scene, Waits
from gpu.binder.replaying import Saves
from gpu.binder.under_way import STRETCH
from gpu.model.refusals import GuestMayRun
from gpu.objects.meta import ObjectKey
from tests.binder import interrupting, raws
from tests.binder.gated import held
from tests.binder.rig import Rig
from tests.binder.scenes import a_scene

NAMES = [phase.name for phase in phases.PASS]


def a_rig(*, lasts: float = 0.0, queues: float = 0.0) -> tuple[Rig, list[list[str]]]:
    """A leader, and which phases it planned in each visit to the thread that planned any.

    Each phase `lasts` so many seconds; the thread is busy for `queues` before and after each visit.
    """
    visits: list[list[str]] = []

    async def visit(work: Callable[[], Any]) -> Any:
        visits.append([])
        rig.clock.advance(queues)
        done = work()
        rig.clock.advance(queues)
        if not visits[-1]:
            visits.pop()
        return done

    def seen(phase: Phase) -> Phase:
        def changes_of(scene: Scene) -> Iterator[Change]:
            visits[-1].append(phase.name)
            rig.clock.advance(lasts)
            return phase.changes(scene)

        return replace(phase, changes=changes_of)

    rig = Rig(in_thread=visit, table=tuple(map(seen, phases.PASS)))
    rig.store(
        classes=[raws.a_class(meta={"finalizers": ["gpu.cozystack.io/class"]})],
        nodes=[raws.a_node(units=8)],
        namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant()],
    )
    return rig, visits


def split(*before: str) -> list[list[str]]:
    """Return all phases in order, a new visit before each of these."""
    found: list[list[str]] = [[]]
    for name in NAMES:
        if name in before:
            found.append([])
        found[-1].append(name)
    return found


async def still(rig: Rig, visits: list[list[str]]) -> None:
    await rig.until_still()
    visits.clear()


async def test_a_pass_that_wants_nothing_visits_the_thread_twice():
    rig, visits = a_rig()
    await still(rig, visits)
    report = await rig.once()
    # Before `owners` the watch is asked whether that may wait.
    assert visits == split("owners")
    assert list(report.phases) == NAMES


async def test_what_a_phase_wants_is_written_before_the_next_is_planned():
    rig, visits = a_rig()
    await still(rig, visits)
    rig.store(claims=[raws.a_claim("x", meta=interrupting.OURS)])
    report = await rig.once()
    assert (report.written["Place"], report.written["WriteRecord"]) == (1, 1)
    # Behind `orders`, before what may wait, and behind a record.
    assert visits == split("release", "owners", "off")


async def test_no_more_is_planned_in_one_go_once_that_has_taken_long():
    rig, visits = a_rig(lasts=STRETCH / 2)
    await still(rig, visits)
    report = await rig.once()
    assert [name for visit in visits for name in visit] == NAMES
    assert max(map(len, visits)) == 2
    assert report.phases["gates"].deciding == pytest.approx(STRETCH / 2)


async def test_who_waits_long_for_the_thread_does_not_wait_more_often_and_the_wait_is_told():
    rig, visits = a_rig(queues=STRETCH)
    await still(rig, visits)
    report = await rig.once()
    assert visits == split("owners")
    spent = sum(one.deciding + one.writing for one in report.phases.values())
    assert spent == pytest.approx(len(visits) * 2 * STRETCH)


@pytest.mark.parametrize(
    "claim",
    [
        held("x", phase="Pending", nodeName=None),
        raws.a_claim("y", meta={"finalizers": ["gpu.cozystack.io/claim"]}),
    ],
    ids=["its own", "another's"],
)
async def test_what_a_phase_that_wants_nothing_has_found_out_is_known_when_a_later_one_writes(
    claim,
):
    """A VM waits, and an order is bound after, that it uses or that takes room: the next pass looks again at why."""

    def waits(scene: Scene) -> Iterator[Change]:
        scene.findings.waiting = {
            "uid-vm": Waits(vmi=ObjectKey("tenant-a", "vm"), reasons=(GuestMayRun(),))
        }
        return iter(())

    orders = next(phase for phase in phases.PASS if phase.name == "orders")
    rig = Rig(table=(Phase(name="gates", changes=waits), orders))
    rig.store(
        classes=[raws.a_class(meta={"finalizers": ["gpu.cozystack.io/class"]})],
        nodes=[raws.a_node(units=8)],
        namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant()],
        claims=[claim],
    )
    report = await rig.once()
    assert (report.written, report.again) == ({"Place": 1}, True)


def all_files(directory: Path) -> list[bytes]:
    return [path.read_bytes() for path in directory.iterdir()]


@pytest.mark.parametrize("crashes", [True, False])
async def test_the_file_of_a_pass_is_the_same_however_much_was_planned_in_one_go(
    tmp_path, monkeypatch, crashes
):
    def broken(_: Scene) -> Iterator[Change]:
        raise RuntimeError("broken")

    table = [replace(it, changes=broken) if it.name == "off" else it for it in phases.PASS]
    files = []
    for seconds in (STRETCH, 0.0):
        monkeypatch.setattr(under_way, "STRETCH", seconds)
        rig = Rig(table=tuple(table) if crashes else phases.PASS, in_thread=asyncio.to_thread)
        rig.passes.saves = Saves(directory=tmp_path / str(seconds), asked=True)
        rig.store(
            classes=[raws.a_class()],
            nodes=[raws.a_node(units=8)],
            namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant()],
            claims=[raws.a_claim("x", meta=interrupting.OURS)],
        )
        with contextlib.suppress(RuntimeError):
            await rig.once()
        files += await asyncio.to_thread(all_files, tmp_path / str(seconds))
    assert len(files) == 2
    assert files[0] == files[1]
    assert b"orders Place GPUClaim tenant-a/x" in files[0]


class Growing(list[Beside]):
    """What another pass announces; it announces `last` too once a look at it has come to its end."""

    last: Beside | None = None

    def __iter__(self) -> Iterator[Beside]:
        yield from super().__iter__()
        if self.last is not None:
            self.append(self.last)
            self.last = None


def test_what_another_pass_announces_while_a_phase_is_planned_is_counted_by_the_next():
    first, last = (Beside(touched=frozenset({ObjectKey("tenant-a", name)})) for name in "ab")
    met = Growing([first])
    met.last = last
    course = Course(scene=a_scene(), arrivals=met)
    for name in ("gates", "orders"):
        course.settle(course.plan(Phase(name=name, changes=lambda _: iter(()))))
    assert [leg.beside for leg in course.legs] == [(first,), (last,)]
