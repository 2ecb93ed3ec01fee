"""Interrupted runs of starts: cut off at any write, the launcher ends pinned, nothing booked twice."""

import pytest

from tests.binder import gated, interrupting, raws
from tests.binder.gated import a_start, held
from tests.binder.interrupting import Case

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]  # every prefix of the writes

CLASSES = [
    raws.a_class(meta={"finalizers": []}),
    raws.a_class("l4", resource="nvidia.com/L4", meta={"finalizers": []}),
]
L4 = "nvidia.com/L4"


def both(name, units=8):
    node = raws.a_node(name, units=units)
    node["status"]["allocatable"][L4] = str(units)
    return node


def asks(start, **amounts):
    start["pods"][0]["spec"]["containers"][0]["resources"]["requests"] |= amounts
    return start


CASES = {
    "template units of one class": Case({"n1": 4}, [], more=a_start(units={"h100": 2})),
    "template units of two classes": Case(
        [both("n1")],
        [],
        more={"classes": CLASSES} | asks(a_start(units={"h100": 2, "l4": 1}, asks=2), **{L4: "1"}),
    ),
    "held claims on one node": Case(
        {"n1": 4, "n2": 4}, [held("a"), held("b", at=1)], more=a_start(held=("a", "b"), asks=2)
    ),
    "held claims gathered with template units": Case(
        {"n1": 2, "n2": 4},
        [held("a", count=2)],
        more=a_start(held=("a",), units={"h100": 1}, asks=3),
    ),
    "a Lost claim": Case(
        {"n2": 4}, [held("a", phase="Lost", count=2)], more=a_start(held=("a",), asks=2)
    ),
    "an order first": Case(
        {"n1": 4},
        [held("a", phase="Pending", nodeName=None, boundAt=None, term=None)],
        more=a_start(held=("a",)),
    ),
    "no room": Case({"n1": 1}, [], more=a_start(units={"h100": 2})),
    "a launcher that is not listed yet": Case(
        {"n1": 2, "n2": 4},
        [held("a", count=2)],
        more=gated.unlisted(a_start(held=("a",), units={"h100": 1}, asks=3)),
    ),
    "a budget that is used up": Case(
        {"n1": 4}, [interrupting.held("x", count=2)], {"total": 2}, more=a_start(units={"h100": 1})
    ),
    "room for one of two": Case(
        {"n1": 3},
        [],
        more={
            part: a_start("vm", units={"h100": 2}, at=1)[part]
            + a_start("other", units={"h100": 2})[part]
            for part in ("vmis", "pods")
        },
    ),
    "two beside each other, one in flight": Case(
        {"n1": 2, "n2": 2},
        [],
        more={
            part: a_start("vm", units={"h100": 2})[part] + a_start("other", units={"h100": 2})[part]
            for part in ("vmis", "pods")
        },
        in_flight=1,
    ),
}
TPL = gated.template()
OTHER = gated.template("other")
ENDS = {
    "template units of one class": ({TPL: "n1"}, {"pod-vm": "n1"}),
    "template units of two classes": (
        {TPL: "n1", gated.template("vm", "l4"): "n1"},
        {"pod-vm": "n1"},
    ),
    "held claims on one node": ({"a": "n1", "b": "n1"}, {"pod-vm": "n1"}),
    "held claims gathered with template units": ({"a": "n2", TPL: "n2"}, {"pod-vm": "n2"}),
    "a Lost claim": ({"a": "n2"}, {"pod-vm": "n2"}),
    "an order first": ({"a": "n1"}, {"pod-vm": "n1"}),
    "no room": ({}, {"pod-vm": None}),
    "a launcher that is not listed yet": ({"a": "n2", TPL: "n2"}, {"pod-vm": None}),
    "a budget that is used up": ({"x": "n1"}, {"pod-vm": None}),
    "room for one of two": ({OTHER: "n1"}, {"pod-vm": None, "pod-other": "n1"}),
    "two beside each other, one in flight": (
        {OTHER: "n1", TPL: "n2"},
        {"pod-vm": "n2", "pod-other": "n1"},
    ),
}
"""Nodes of Bound claims, and where each launcher is pinned."""


@pytest.mark.parametrize("name", CASES)
async def test_whatever_is_cut_off_the_next_leader_lets_the_launcher_through(name):
    end = await interrupting.survives(CASES[name])
    bound = {key.partition("/")[2]: it[1] for key, it in end["claims"].items() if it[0] == "Bound"}
    assert (bound, end["pins"]) == ENDS[name]
