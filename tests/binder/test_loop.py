"""The loop on virtual time: coalescing, resync, conflict delay, backoff, quarantine ends."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest

from gpu.binder.fence import Deposed
from gpu.binder.loop import Loop
from gpu.binder.report import Failed, PassReport
from gpu.config import Config
from gpu.ports import Outcome

pytestmark = pytest.mark.looptime(start=100.0)

WELL = PassReport()


def failed(outcome: Outcome) -> Failed:
    return Failed(
        change="Place", object="GPUClaim tenant-a/x", set_id="tenant-a/x", outcome=outcome, words=""
    )


CONFLICT = PassReport(failed=(failed(Outcome.CONFLICT),), aborted=True)
UNKNOWN = PassReport(failed=(failed(Outcome.UNKNOWN),), aborted=True)
MIXED = PassReport(failed=(failed(Outcome.CONFLICT), failed(Outcome.UNKNOWN)), aborted=True)
REFUSED = PassReport(failed=(failed(Outcome.REFUSED),))


@dataclass
class Passes:
    """Answers with the reports given, then well; notes when each pass began."""

    reports: list[PassReport | Exception] = field(default_factory=list)
    takes: float = 0.0
    began: list[float] = field(default_factory=list)
    forced: list[bool] = field(default_factory=list)

    async def once(self, *, forced: bool) -> PassReport:
        self.began.append(asyncio.get_running_loop().time())
        self.forced.append(forced)
        await asyncio.sleep(self.takes)
        report = self.reports.pop(0) if self.reports else WELL
        if isinstance(report, Exception):
            raise report
        return report


@dataclass
class Seen:
    """An observer that keeps what it is told."""

    reports: list[PassReport] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    answered_: list[PassReport] = field(default_factory=list)

    def answered(self, report: PassReport) -> None:
        self.answered_.append(report)

    def passed(self, report: PassReport) -> None:
        self.reports.append(report)

    def crashed(self, error: Exception) -> None:
        self.errors.append(error)

    def leading(self, term: int | None) -> None:
        raise AssertionError(f"the loop does not lead: {term}")


def a_loop(
    passes: Passes, seen: Seen | None = None, *, resync: bool = True, **config: object
) -> Loop:
    return Loop(
        passes.once,
        resync=resync,
        config=replace(Config(), **config),
        observer=seen or Seen(),
        monotonic=asyncio.get_running_loop().time,
    )


async def run_for(
    loop: Loop, seconds: float, signals: Iterable[float] = (), *, each: int = 1
) -> None:
    """Run the loop; signal at the given seconds after its start."""

    async def signal_at(after: float) -> None:
        await asyncio.sleep(after)
        for _ in range(each):
            loop.signal()

    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(loop.run())
        for after in signals:
            tasks.create_task(signal_at(after))
        await asyncio.sleep(seconds)
        running.cancel()


async def test_the_first_pass_runs_at_once_and_then_one_each_resync():
    passes = Passes()
    await run_for(a_loop(passes), 61)
    assert passes.began == [100.0, 130.0, 160.0]


async def test_only_what_is_due_by_time_looks_at_everything_anew():
    passes = Passes(reports=[WELL, CONFLICT])
    await run_for(a_loop(passes), 31, signals=[7.0])
    assert passes.began == pytest.approx([100.0, 107.0, 107.1])
    assert passes.forced == [False, False, True]


async def test_an_echo_of_our_own_writes_does_not_put_off_what_is_due():
    passes = Passes(reports=[WELL, PassReport(skipped=True)])
    await run_for(a_loop(passes), 31, signals=[7.0])
    assert passes.began == [100.0, 107.0, 130.0]


async def test_a_thousand_events_during_a_pass_make_one_more_pass():
    passes = Passes(takes=2.0)
    await run_for(a_loop(passes), 20, signals=[0.5, 1.0, 1.5], each=1000)
    assert passes.began == [100.0, 102.0]


async def test_an_event_on_an_idle_loop_starts_a_pass_without_any_delay():
    passes = Passes()
    await run_for(a_loop(passes), 8, signals=[7.0])
    assert passes.began == [100.0, 107.0]


async def test_conflicts_are_tried_again_after_100_ms_however_often():
    passes = Passes(reports=[CONFLICT] * 4)
    await run_for(a_loop(passes), 5)
    assert passes.began == pytest.approx([100.0, 100.1, 100.2, 100.3, 100.4])


async def test_unknown_outcomes_back_off_and_events_do_not_shorten_the_pause():
    passes = Passes(reports=[UNKNOWN] * 4)
    await run_for(a_loop(passes), 5, signals=[0.05, 0.3, 0.7, 1.0, 1.7])
    assert passes.began == pytest.approx([100.0, 100.2, 100.6, 101.4, 103.0])


async def test_one_unknown_outcome_beside_conflicts_backs_off():
    passes = Passes(reports=[MIXED, MIXED])
    await run_for(a_loop(passes), 2)
    assert passes.began == pytest.approx([100.0, 100.2, 100.6])


async def test_the_backoff_is_capped_and_begins_anew_after_a_pass_that_is_well():
    passes = Passes(reports=[UNKNOWN] * 9 + [WELL, UNKNOWN])
    await run_for(a_loop(passes), 130)
    pauses = [later - sooner for sooner, later in zip(passes.began, passes.began[1:], strict=False)]
    assert pauses[:11] == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0, 0.2])


async def test_a_refusal_neither_backs_off_nor_delays_the_next_event():
    passes = Passes(reports=[REFUSED] * 5)
    await run_for(a_loop(passes), 5, signals=[1.0, 2.0])
    assert passes.began == [100.0, 101.0, 102.0]


async def test_what_was_not_as_a_change_relied_on_is_looked_at_again_before_the_resync():
    """A Lease that kubelet has not renewed yet is read past the cache: no event tells of its renewal."""
    passes = Passes(reports=[PassReport(failed=(failed(Outcome.STALE),))])
    await run_for(a_loop(passes), 31)
    assert passes.began == [100.0, 105.0]


async def test_the_loop_wakes_exactly_when_a_quarantine_ends():
    passes = Passes(reports=[replace(REFUSED, quarantined=1, quarantine_ends=112.5)])
    await run_for(a_loop(passes), 20)
    assert passes.began == [100.0, 112.5]


async def test_the_loop_wakes_exactly_when_a_usage_record_is_due_feature_on_or_off():
    passes = Passes(reports=[replace(WELL, due=112.5)])
    await run_for(a_loop(passes, enabled=False), 20)
    assert passes.began == [100.0, 112.5]


async def test_a_pass_that_gave_units_back_is_followed_by_another_at_once():
    passes = Passes(reports=[replace(WELL, again=True)])
    await run_for(a_loop(passes), 5)
    assert passes.began == [100.0, 100.0]


async def test_with_the_feature_off_only_events_start_passes():
    passes = Passes()
    await run_for(a_loop(passes, enabled=False), 100, signals=[50.0])
    assert passes.began == [100.0, 150.0]


async def test_with_the_feature_off_passes_go_on_while_a_deleted_claim_waits():
    passes = Passes(reports=[replace(WELL, awaits_release=True)])
    await run_for(a_loop(passes, enabled=False), 100)
    assert passes.began == [100.0, 130.0]


async def test_a_crashed_pass_is_told_and_the_loop_goes_on_after_a_pause():
    crash = RuntimeError("a bug")
    passes, seen = Passes(reports=[crash, crash]), Seen()
    await run_for(a_loop(passes, seen), 5, signals=[0.05])
    assert passes.began == pytest.approx([100.0, 100.2, 100.6])
    assert seen.errors == [crash, crash]
    assert seen.reports == [WELL]


async def test_a_deposed_leader_ends_the_loop():
    passes = Passes(reports=[Deposed("the lease has run out")])
    with pytest.raises(Deposed):
        await a_loop(passes).run()


# The loop of passes that only answer starts.


async def test_without_resync_it_runs_only_when_something_changed():
    passes = Passes(reports=[WELL, PassReport(skipped=True)])
    await run_for(a_loop(passes, resync=False), 200, signals=[7.0, 50.0])
    assert passes.began == [100.0, 107.0, 150.0]


async def test_without_resync_a_failure_is_tried_again():
    passes = Passes(reports=[CONFLICT, UNKNOWN])
    await run_for(a_loop(passes, resync=False), 200)
    assert passes.began == pytest.approx([100.0, 100.1, 100.3])


async def test_what_is_not_asked_for_any_more_is_not_tried_again():
    passes = Passes(reports=[CONFLICT, PassReport(skipped=True)])
    await run_for(a_loop(passes, resync=False), 200)
    assert passes.began == pytest.approx([100.0, 100.1])


async def test_it_tells_of_answers_alone():
    seen = Seen()
    await run_for(a_loop(Passes(reports=[REFUSED]), seen, resync=False), 1)
    assert (seen.reports, seen.answered_) == ([], [REFUSED])
