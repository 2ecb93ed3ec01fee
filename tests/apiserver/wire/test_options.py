"""The query of a read: what is understood, and every combination that makes no sense."""

import pytest

from apiserver.wire import options
from apiserver.wire.options import Options
from apiserver.wire.status import BadRequest, Invalid


def test_a_full_query_is_read():
    read = options.parse(
        {
            "watch": "1",
            "resourceVersion": "12",
            "resourceVersionMatch": "NotOlderThan",
            "sendInitialEvents": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "30",
            "includeObject": "Object",
            "limit": "-1",
            "foo": "bar",
        }
    )
    assert read == Options(
        version=12,
        match="NotOlderThan",
        watch=True,
        bookmarks=True,
        initial_events=True,
        timeout=30,
        include="Object",
    )


@pytest.mark.parametrize("text", ["false", "0", "False"])
def test_false_and_zero_are_false(text):
    assert options.is_true(text) is False


@pytest.mark.parametrize("text", ["true", "1", "", "yes"])
def test_anything_else_is_true(text):
    assert options.is_true(text) is True


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        pytest.param({"resourceVersionMatch": "Exact"}, ["resourceVersionMatch"], id="no-version"),
        pytest.param(
            {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
            ["resourceVersionMatch"],
            id="exactly-any",
        ),
        pytest.param(
            {"resourceVersionMatch": "Bogus", "resourceVersion": "5"},
            ["resourceVersionMatch"],
            id="unknown-match",
        ),
        pytest.param(
            {"resourceVersionMatch": "Exact", "resourceVersion": "5", "continue": "x"},
            ["resourceVersionMatch"],
            id="match-with-continue",
        ),
        pytest.param({"sendInitialEvents": "true"}, ["sendInitialEvents"], id="list-events"),
        pytest.param(
            {"watch": "1", "resourceVersionMatch": "NotOlderThan", "resourceVersion": "5"},
            ["resourceVersionMatch"],
            id="watch-match",
        ),
        pytest.param(
            {"watch": "1", "sendInitialEvents": "true"},
            ["resourceVersionMatch"],
            id="events-no-match",
        ),
        pytest.param(
            {"watch": "1", "sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
            ["resourceVersionMatch", "resourceVersionMatch"],
            id="events-exact",
        ),
        pytest.param(
            {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
            ["sendInitialEvents", "resourceVersionMatch"],
            id="all-at-once",
        ),
    ],
)
def test_a_senseless_combination_is_invalid_with_its_fields(query, fields):
    with pytest.raises(Invalid) as caught:
        options.parse(query)
    details = caught.value.details
    assert (details.group, details.kind) == ("meta.k8s.io", "ListOptions")
    assert [cause.field for cause in details.causes] == fields
    assert all(cause.reason and cause.message for cause in details.causes)


@pytest.mark.parametrize(
    "query",
    [
        {"resourceVersion": "abc"},
        {"resourceVersion": "-1"},
        {"resourceVersion": "²"},
        {"resourceVersion": "1" * 40},
        {"limit": "abc"},
        {"timeoutSeconds": "1.5"},
        {"includeObject": "bogus"},
        {"labelSelector": "a in ("},
        {"fieldSelector": "spec.x=1"},
        {"continue": "x", "resourceVersion": "5"},
    ],
)
def test_what_cannot_be_read_is_a_bad_request(query):
    with pytest.raises(BadRequest):
        options.parse(query)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10.0), ("1m30s", 90.0), ("1.5h", 5400.0), ("250ms", 0.25), ("1h0m0s", 3600.0)],
)
def test_a_duration_is_read_as_go_writes_it(text, seconds):
    assert options.parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["invalid", "10", "s", "10 s", "-1s", "1s,"])
def test_what_is_no_duration_is_a_bad_request(text):
    with pytest.raises(BadRequest):
        options.parse_duration(text)
