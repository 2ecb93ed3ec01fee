"""Calls in flight are bounded, each is timed, and the report says what a person reads."""

import asyncio
import functools
import io

import pytest
from rich.console import Console

from bench import flight, report, stats, watching
from bench.figures import Figure, Goal, Run, Sense, Take


class Gauge:
    def __init__(self):
        self.now = 0
        self.most = 0

    async def job(self, seconds):
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(seconds)
        self.now -= 1


@pytest.mark.looptime
async def test_no_more_jobs_run_at_once_than_were_asked_for_and_all_are_timed():
    gauge = Gauge()
    took = await flight.in_flight(3, (functools.partial(gauge.job, 2.0) for _ in range(7)))
    assert (gauge.most, took) == (3, (2.0,) * 7)


async def test_a_failing_job_ends_the_flight():
    async def fail():
        raise RuntimeError("no")

    with pytest.raises(ExceptionGroup) as caught:
        await flight.in_flight(2, [fail])
    assert [str(error) for error in caught.value.exceptions] == ["no"]


@pytest.mark.looptime
async def test_waiting_for_what_never_comes_says_how_many_are_missing():
    seen = watching.Sightings()
    seen.see("a", 1.0)
    with pytest.raises(TimeoutError, match="1 of 2 not there after 5 s, b among them"):
        await seen.all_of(["a", "b"], within=5)


async def test_only_the_first_sighting_counts():
    seen = watching.Sightings()
    seen.see("a", 1.0)
    seen.see("a", 2.0)
    assert await seen.all_of(["a"], within=1) == {"a": 1.0}


RUN = Run(
    "2 CPUs",
    (
        Figure(
            name="list",
            unit="ms",
            spread=stats.Spread.of([1.0, 2.0, 300.0]),
            goal=Goal(take=Take.P99, sense=Sense.AT_MOST, value=100),
            note="through kube-apiserver",
        ),
    ),
)


def test_the_json_has_the_spread_the_goal_and_whether_it_was_met():
    assert report.as_json(RUN) == {
        "machine": "2 CPUs",
        "figures": [
            {
                "name": "list",
                "unit": "ms",
                "count": 3,
                "middle": 2.0,
                "p99": 300.0,
                "low": 1.0,
                "high": 300.0,
                "goal": "p99 <= 100",
                "met": False,
                "note": "through kube-apiserver",
            }
        ],
        "remarks": [],
    }


def test_the_table_shows_no_p99_of_three_values_and_tells_a_missed_goal():
    out = io.StringIO()
    report.print_table(RUN, Console(file=out, width=120))
    row = next(line for line in out.getvalue().splitlines() if line.split()[:1] == ["list"])
    assert " ".join(row.split()) == "list ms 2 - 1 300.0 3 p99 <= 100 NOT MET"
