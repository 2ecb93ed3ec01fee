"""Readiness: an API server that is away turns it red, one kind that cannot be read does not."""

import pytest

from apiserver.checks import unreachable


@pytest.mark.parametrize(
    ("failing", "problem"),
    [
        pytest.param({}, "", id="all-well"),
        pytest.param({"nodes": 0.0, "pods": 0.0}, "cannot be read now: nodes, pods", id="away"),
        pytest.param({"nodes": 0.0}, "", id="one-kind"),
        pytest.param({"nodes": 0.0, "pods": 97.0}, "", id="the-other-for-a-moment"),
        pytest.param({"nodes": 0.0, "else": 0.0}, "", id="what-is-not-watched"),
    ],
)
def test_readiness_turns_red_when_nothing_can_be_read(failing, problem):
    assert unreachable(["nodes", "pods"], failing, now=100.0, patience=5.0) == problem


def test_where_nothing_is_watched_nothing_is_away():
    assert unreachable([], {"else": 0.0}, now=100.0, patience=5.0) == ""
