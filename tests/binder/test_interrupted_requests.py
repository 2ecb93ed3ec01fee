"""Interrupted runs of bind requests: cut off at any write, a start ends answered as a whole, or cleared."""

import pytest

from tests.binder import asking, interrupting, raws
from tests.binder.asking import claim
from tests.binder.interrupting import Case

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]  # every prefix of the writes

SINCE = "2026-01-02T03:04:00Z"
CLASSES = [
    raws.a_class(meta={"finalizers": []}),
    raws.a_class("stays", onCordon="Stay", meta={"finalizers": []}),
]
CORDONED = raws.a_node("n1", units=4, unschedulable=True)
THREE = ("a", "b", "c")
LATER = (90.0,)
"""Past the grace that a VMI is waited for."""
SETTLED = (*LATER, 190.0)
"""And past what a node is watched for a launcher that nobody saw."""


def asks(name, node=None, names=THREE, **more):
    return claim(name, node, asks=names, since=SINCE, **more)


def a_vmi(*names):
    return raws.a_vmi("vm", uid="vmi-vm", phase="Scheduling", admissions=dict.fromkeys(names, "r1"))


def case(nodes, claims, quotas=None, **how):
    return Case(nodes, claims, quotas or {}, config=asking.CONFIG, **how)


PLACED = [asks("a", "n1"), asks("b", template=True), asks("c", lost="n9")]
CASES = {
    "placed, bound anew and held": (case({"n1": 4}, PLACED), {"Succeeded"}, {"n1"}),
    "gathered from two nodes": (
        case({"n1": 2, "n2": 4}, [asks("a", "n1"), asks("b", "n2", count=2), asks("c")]),
        {"Succeeded"},
        {"n2"},
    ),
    "moved off a cordoned node": (
        case([CORDONED, raws.a_node("n2", units=4)], [asks(it, "n1") for it in THREE]),
        {"Succeeded"},
        {"n2"},
    ),
    "in place on a cordoned node": (
        case(
            [CORDONED, raws.a_node("n2", units=4)],
            [asks("a", "n1", class_name="stays"), asks("b", "n1"), asks("c", "n1")],
            more={"classes": CLASSES},
        ),
        {"Succeeded"},
        {"n1"},
    ),
    "no room": (
        case({"n1": 2}, [asks("a", "n1"), asks("b", template=True), asks("c", "n1")]),
        {"Refused"},
        {"n1", None},
    ),
    "no budget": (
        case({"n1": 4}, [asks(it, template=True) for it in THREE], {"total": 2}),
        {"Refused"},
        {None},
    ),
    "a VM that never comes": (case({"n1": 4}, PLACED, waits=SETTLED), {None}, {"n1"}),
    "a VM that never comes, refused": (
        case({"n1": 1}, [asks("a", "n1"), asks("b"), asks("c", template=True)], waits=LATER),
        {None},
        {"n1", None},
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_start_is_answered_whole_by_whoever_leads_last(name):
    of_case, results, nodes = CASES[name]
    end = await interrupting.survives(of_case)
    assert {it[9] for it in end["claims"].values()} == results
    assert {it[1] for it in end["claims"].values()} == nodes
    if of_case.waits:
        assert {it[3] for it in end["claims"].values()} == {None}
        assert {it.partition("/")[2] for it in end["claims"]} < set(THREE)


async def test_the_vmi_that_comes_is_adopted_and_owns_what_was_made_for_it():
    granted = {"result": "Succeeded", "message": "held on node n1"}
    names = ("a", "b")
    claims = [
        asks("a", "n1", names, answer=granted),
        asks("b", "n1", names, answer=granted, template=True),
    ]
    end = await interrupting.survives(
        case({"n1": 4}, claims, more={"vmis": [a_vmi(*names)]}, waits=LATER)
    )
    found = {key.partition("/")[2]: (it[4], it[10]) for key, it in end["claims"].items()}
    assert found == {"a": ("vmi-vm", []), "b": ("vmi-vm", ["vmi-vm"])}


async def test_what_a_webhook_left_half_made_is_cleared():
    claims = [
        asks("a", "n1", ("a", "b")),  # asked, and the next claim was not reached
        claim("b", "n1", asks=None, since=SINCE, template=True),
        claim("t", asks=None, status={"attachedTo": None}, template=True),
        claim("q", "n1", asks=["q"], since=SINCE, status={"attachedTo": None}),
    ]
    end = await interrupting.survives(case({"n1": 4}, claims, waits=LATER))
    assert {key.partition("/")[2]: (it[3], it[9]) for key, it in end["claims"].items()} == {
        "a": (None, None),
        "q": (None, None),
    }
