"""Frames: what a watcher is told between two states, and in which form."""

import json

import pytest

from apiserver.wire import frames, selectors, states
from apiserver.wire.frames import Framer
from apiserver.wire.negotiate import Form, View
from apiserver.wire.selectors import Selector
from apiserver.wire.status import Expired
from tests.apiserver.wire.rows import COLUMNS, KIND, a_row, rows


def told(before, after, selector: Selector | None = None) -> list[tuple[str, str, int]]:
    events = frames.difference(before, after, selector or Selector())
    return [(event.type, event.item.row.name, event.item.version) for event in events]


def test_initial_events_are_all_objects_as_added():
    events = frames.initial(states.first(rows("b", "a"), 10), Selector())
    assert [(e.type, e.item.row.name) for e in events] == [("ADDED", "a"), ("ADDED", "b")]


def test_a_difference_is_told_by_rising_version():
    before = states.first(rows("a", "b", "c"), 10)
    after = states.following(before, rows("a=1", "c", "d"), 20)
    assert told(before, after) == [("MODIFIED", "a", 18), ("DELETED", "b", 19), ("ADDED", "d", 20)]


def test_states_skipped_by_a_slow_reader_come_as_their_net_effect():
    one = states.first(rows("a", "b"), 10)
    two = states.following(one, rows("a=1", "b", "c"), 20)
    three = states.following(two, rows("a=2"), 30)
    assert told(one, three) == [("MODIFIED", "a", 28), ("DELETED", "b", 29)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param({}, {"on": "1"}, [("ADDED", "a", 20)], id="begins-to-match"),
        pytest.param({"on": "1"}, {}, [("DELETED", "a", 20)], id="ceases-to-match"),
        pytest.param({"on": "1"}, {"on": "2"}, [("MODIFIED", "a", 20)], id="matches-still"),
        pytest.param({}, {"off": "1"}, [], id="never-matches"),
    ],
)
def test_selectors_apply_to_changes(before, after, expected):
    one = states.first([a_row("a", **before)], 10)
    two = states.following(one, [a_row("a", **after)], 20)
    assert told(one, two, selectors.parse("on", "")) == expected


def test_a_deleted_object_carries_its_last_matching_content():
    one = states.first([a_row("a", "old", on="1")], 10)
    two = states.following(one, [a_row("a", "new")], 20)
    (event,) = frames.difference(one, two, selectors.parse("on", ""))
    assert event.item.row.body == {"spec": {"text": "old"}}


def framer(form: Form = Form.PLAIN) -> Framer:
    return Framer(KIND, COLUMNS, View(form=form))


def test_a_line_is_one_json_object_and_a_newline():
    (event,) = frames.initial(states.first(rows("a=x"), 10), Selector())
    line = framer().event(event)
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "type": "ADDED",
        "object": {
            "kind": "Word",
            "apiVersion": "g.io/v1",
            "metadata": {
                "name": "a",
                "namespace": "ns",
                "uid": "uid-ns-a",
                "resourceVersion": "10",
                "creationTimestamp": "2026-01-02T03:04:05Z",
            },
            "spec": {"text": "x"},
        },
    }


def test_a_table_defines_its_columns_in_the_first_event_only():
    made = framer(Form.TABLE)
    events = frames.initial(states.first(rows("a=x", "b=y"), 10), Selector())
    first, second = (json.loads(made.event(event))["object"] for event in events)
    assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Text"]
    assert second["columnDefinitions"] == []
    assert [one["rows"][0]["cells"] for one in (first, second)] == [["a", "x"], ["b", "y"]]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        pytest.param(
            Form.PLAIN,
            {"kind": "Word", "apiVersion": "g.io/v1", "metadata": {"resourceVersion": "12"}},
            id="plain",
        ),
        pytest.param(
            Form.PARTIAL,
            {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": "12"},
            },
            id="partial",
        ),
        pytest.param(
            Form.TABLE,
            {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": "12"},
                "columnDefinitions": [],
                "rows": [],
            },
            id="table",
        ),
    ],
)
def test_a_bookmark_has_a_version_and_nothing_else(form, expected):
    line = json.loads(framer(form).bookmark(12))
    assert line == {"type": "BOOKMARK", "object": expected}


@pytest.mark.parametrize("form", [Form.PLAIN, Form.PARTIAL, Form.TABLE])
def test_the_end_of_initial_events_is_marked_in_every_form(form):
    marked = json.loads(framer(form).bookmark(12, ends_initial=True))["object"]
    holder = marked["rows"][0]["object"] if form is Form.TABLE else marked
    assert holder["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_an_error_is_a_status_in_every_form():
    line = json.loads(framer(Form.TABLE).error(Expired("gone")))
    assert (line["type"], line["object"]["kind"], line["object"]["code"]) == (
        "ERROR",
        "Status",
        410,
    )
