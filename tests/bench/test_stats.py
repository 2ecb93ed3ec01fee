"""Percentiles, histogram bounds and goals, as the report needs them."""

import math

import pytest

from bench import scrape, stats
from bench.figures import Collected, Figure, Goal, Sense, Take

HUNDRED = tuple(float(value) for value in range(1, 101))


@pytest.mark.parametrize(
    ("share", "want"),
    [
        pytest.param(0.5, 50.0, id="half of a hundred values are at most the fiftieth"),
        pytest.param(0.99, 99.0, id="p99 is not the highest of a hundred"),
        pytest.param(1.0, 100.0, id="all are at most the highest"),
        pytest.param(0.001, 1.0, id="a tiny share is the lowest"),
    ],
)
def test_a_percentile_is_a_value_that_was_measured(share, want):
    assert stats.percentile(HUNDRED[::-1], share) == want


@pytest.mark.parametrize(
    ("values", "share"),
    [
        pytest.param((), 0.5, id="nothing was measured"),
        pytest.param((1.0,), 0.0, id="no share"),
        pytest.param((1.0,), 1.1, id="more than all"),
    ],
)
def test_a_percentile_of_nothing_is_refused(values, share):
    with pytest.raises(ValueError, match="percentile"):
        stats.percentile(values, share)


def test_the_spread_tells_median_p99_and_both_ends():
    assert stats.Spread.of((3.0, 1.0, 2.0, 10.0)) == stats.Spread(
        count=4, middle=2.5, p99=10.0, low=1.0, high=10.0
    )


def test_the_spread_of_nothing_is_refused():
    with pytest.raises(ValueError, match="nothing was measured"):
        stats.Spread.of(())


def test_a_histogram_bounds_the_percentile_from_above():
    before = {0.01: 5.0, 0.02: 5.0, math.inf: 5.0}
    after = {0.01: 103.0, 0.02: 104.0, math.inf: 105.0}
    gained = stats.difference(after, before)
    assert (stats.bucket_bound(gained, 0.98), stats.bucket_bound(gained, 0.99)) == (0.01, 0.02)


def test_an_empty_histogram_has_no_percentile():
    assert stats.bucket_bound({0.01: 0.0, math.inf: 0.0}, 0.99) is None


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        pytest.param(Goal(take=Take.MIDDLE, sense=Sense.AT_MOST, value=50), False, id="over"),
        pytest.param(Goal(take=Take.MIDDLE, sense=Sense.AT_MOST, value=50.5), True, id="just at"),
        pytest.param(Goal(take=Take.P99, sense=Sense.AT_LEAST, value=99), True, id="at least"),
        pytest.param(Goal(take=Take.P99, sense=Sense.AT_LEAST, value=99.1), False, id="under"),
    ],
)
def test_a_goal_is_judged_on_the_number_it_names(goal, met):
    assert goal.met(stats.Spread.of(HUNDRED)) is met


def test_rounds_are_collected_under_one_name_and_empty_ones_are_left_out():
    collected = Collected()
    collected.add("list", "ms", [1.0], note="first")
    collected.add("nothing", "ms", [])
    collected.add("list", "ms", [3.0], note="second")
    assert collected.figures() == (
        Figure(name="list", unit="ms", spread=stats.Spread.of([1.0, 3.0]), note="first"),
    )


def test_counters_are_added_over_the_labels_not_asked_for():
    page = scrape.parse(
        "# TYPE writes counter\n"
        'writes_total{verb="PATCH",code="200"} 3\n'
        'writes_total{verb="PATCH",code="409"} 2\n'
        'writes_total{verb="POST",code="201"} 5\n'
        "# TYPE lag histogram\n"
        'lag_bucket{le="0.1"} 1\n'
        'lag_bucket{le="+Inf"} 2\n'
        "lag_sum 3\nlag_count 2\n"
        'other_total{code="500"} 1\n',
        "writes",
        "lag",
    )
    assert (
        page.total("writes_total", verb="PATCH"),
        page.total("writes_total"),
        page.buckets("lag"),
        page.values_of("writes_total", "code"),
        page.total("other_total"),
    ) == (5.0, 10.0, {0.1: 1.0, math.inf: 2.0}, frozenset({"200", "201", "409"}), 0.0)


def test_histograms_of_several_turns_are_one():
    one, other = {0.1: 1.0, 1.0: 3.0}, {0.1: 0.0, 1.0: 4.0}
    assert stats.added(one, other) == {0.1: 1.0, 1.0: 7.0}
