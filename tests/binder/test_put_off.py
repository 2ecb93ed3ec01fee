"""Records and numbers wait a little while there is news: what places comes first, and comes at once."""

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpu.binder import replaying
from gpu.binder.housekeeping import MOST
from gpu.binder.replaying import Saves
from gpu.binder.report import PassReport
from gpu.objects import kinds
from tests.binder import asking, interrupting, raws
from tests.binder.rig import Rig
from tests.binder.slow import Slow

HOUSEKEEPING = {"owners", "usage", "status"}


def a_rig(**more: Any) -> tuple[Rig, Slow]:
    rig = Rig(lag=True, **more)
    rig.store(
        classes=[raws.a_class(meta={"finalizers": ["gpu.cozystack.io/class"]})],
        nodes=[raws.a_node(units=8)],
        namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant()],
    )
    line = Slow(rig.cluster)
    rig.writer.api = line  # type: ignore[assignment]  # a Writer by __getattr__
    return rig, line


def order(rig: Rig, name: str) -> None:
    rig.store(claims=[raws.a_claim(name, meta=interrupting.OURS)])


async def binds(rig: Rig, line: Slow, name: str, *, shows: Sequence[str] = ()) -> PassReport:
    """Run a pass that binds an order; while its write is under way the watch shows others."""
    order(rig, name)
    line.stuck = lambda it: it == name
    line.go.clear()
    task = asyncio.ensure_future(rig.passes.once())
    await line.is_stuck(name)
    for other in shows:
        order(rig, other)
    line.go.set()
    return await task


async def test_what_places_comes_before_records_and_numbers_while_there_is_news():
    rig, line = a_rig()
    report = await binds(rig, line, "a", shows=["b"])
    assert rig.placed() == {"tenant-a/a": "n1"}
    assert HOUSEKEEPING.isdisjoint(report.phases)
    assert report.again


async def test_without_news_records_and_numbers_come_in_the_same_pass():
    rig, line = a_rig()
    report = await binds(rig, line, "a")
    assert report.phases.keys() >= HOUSEKEEPING
    assert (report.written["WriteRecord"], report.written["ReportClass"]) == (1, 1)


async def test_what_was_put_off_comes_with_the_next_pass_that_has_no_news():
    rig, line = a_rig()
    await binds(rig, line, "a", shows=["b"])
    report = await rig.passes.once(forced=False)
    assert report.written == {"Place": 1, "WriteRecord": 2} | dict.fromkeys(
        ("ReportClass", "WriteSettings", "ReportBinder"), 1
    )
    rig.window.show()
    await rig.until_still()


async def test_the_echo_of_own_writes_is_no_news():
    rig, line = a_rig()
    order(rig, "a")
    line.stuck = lambda it: it == "b"
    order(rig, "b")
    task = asyncio.ensure_future(rig.passes.once())
    await line.is_stuck("b")
    async with asyncio.timeout(5):
        while rig.placed() != {"tenant-a/a": "n1"}:  # noqa: ASYNC110 -- nobody tells of it
            await asyncio.sleep(0)
    rig.window.show()
    line.go.set()
    report = await task
    assert report.phases.keys() >= HOUSEKEEPING


async def test_an_order_that_is_deleted_is_news():
    rig, line = a_rig()
    order(rig, "b")
    await rig.until_still()
    rig.window.show()
    await rig.once()
    order(rig, "a")
    line.stuck = lambda it: it == "a"
    line.go.clear()
    task = asyncio.ensure_future(rig.passes.once())
    await line.is_stuck("a")
    await rig.cluster.delete(kinds.GPU_CLAIMS, "b", "tenant-a")
    rig.window.show()
    line.go.set()
    assert HOUSEKEEPING.isdisjoint((await task).phases)


async def test_news_without_end_puts_them_off_for_a_while_only():
    rig, line = a_rig()
    names = "abcdefgh"
    seen = []
    for name, other in itertools.pairwise(names):
        report = await binds(rig, line, name, shows=[other])
        seen.append(report.phases.keys() >= HOUSEKEEPING)
        rig.clock.advance(0.4 * MOST)
    assert seen == [False, False, False, True, False, False, False]


async def test_a_pass_that_put_them_off_is_decided_alike_when_it_is_run_again(tmp_path):
    rig, line = a_rig(in_thread=asyncio.to_thread)
    rig.passes.saves = Saves(directory=tmp_path)
    rig.passes.saves.ask()
    report = await binds(rig, line, "a", shows=["b"])
    saved = await asyncio.to_thread(lambda: replaying.decode(Path(report.saved).read_bytes()))
    assert HOUSEKEEPING.isdisjoint(saved.table)
    assert replaying.decide(saved) == saved.decisions != ()


def a_start(rig: Rig) -> None:
    """Store a start whose VMI came: its template claim has no owner yet, all else is noted."""
    granted = {"result": "Succeeded", "message": "m"}
    status = raws.attached("vm", uid="vmi-vm", admission="r1", since=asking.SINCE)
    claim = asking.claim("t", "n1", answer=granted, template=True, status=status)
    vmi = raws.a_vmi("vm", uid="vmi-vm", phase="Scheduling", admissions={"t": "r1"})
    rig.store(claims=[claim], vmis=[vmi])


def is_owned(rig: Rig) -> bool:
    found = rig.claim("t")
    assert found is not None
    return bool(found["metadata"].get("ownerReferences"))


async def test_the_owner_of_a_template_claim_waits_for_news_and_comes_within_a_while():
    rig, line = a_rig()
    a_start(rig)
    seen = []
    for name, other in itertools.pairwise("abcde"):
        await binds(rig, line, name, shows=[other])
        seen.append(is_owned(rig))
        rig.clock.advance(0.4 * MOST)
    assert seen == [False, False, False, True]


async def test_without_news_the_owner_comes_in_the_pass_that_sees_the_vmi():
    rig, _ = a_rig()
    a_start(rig)
    report = await rig.passes.once()
    assert report.written["OwnClaim"] == 1
    assert is_owned(rig)


async def test_a_pass_that_gave_an_owner_is_decided_alike_when_it_is_run_again(tmp_path):
    rig, _ = a_rig(in_thread=asyncio.to_thread)
    rig.passes.saves = Saves(directory=tmp_path)
    rig.passes.saves.ask()
    a_start(rig)
    report = await rig.passes.once()
    saved = await asyncio.to_thread(lambda: replaying.decode(Path(report.saved).read_bytes()))
    assert replaying.decide(saved) == saved.decisions
    assert any(line.startswith("owners OwnClaim") for line in saved.decisions)
