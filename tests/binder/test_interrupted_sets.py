"""Interrupted runs of whole sets: torn ones, Lost ones, moves, drains, the guard. See `interrupting`."""

from dataclasses import replace

import pytest

from gpu.config import Config, Guard, RunningGuests
from tests.binder import interrupting, raws
from tests.binder.interrupting import SETTLES, Case, held, lost, used, vmi

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]  # every prefix of the writes

CLASSES = [
    raws.a_class(meta={"finalizers": []}),
    raws.a_class("l4", resource="nvidia.com/L4", meta={"finalizers": []}),
]
KEEP = replace(Config(), running_guests=RunningGuests.KEEP)
TWO_AT_ONCE = replace(Config(), guard=Guard(at_least=2))
CORDONED = raws.a_node("n1", unschedulable=True)
TAINTED = raws.a_node("n1", taints=[{"key": "dedicated", "value": "db", "effect": "NoSchedule"}])
SILENT = raws.a_node("n1", ready="Unknown")


def both(name, units=8):
    """A node that serves two resources."""
    node = raws.a_node(name, units=units)
    node["status"]["allocatable"]["nvidia.com/L4"] = str(units)
    return node


def vm(*claims):
    return {"vms": [raws.a_vm("vm", claims=claims)]}


SETS = {
    "two classes of one VM leave a cordoned node together": Case(
        [{**both("n1"), "spec": {"unschedulable": True}}, both("n2")],
        [held("a", count=2), held("b", class_name="l4", at=1)],
        more={"classes": CLASSES, **vm("a", "b")},
        as_good=interrupting.but_for_causes,
    ),
    "a torn set is gathered": Case(
        {"n1": 4, "n2": 4},
        [held("a", count=2), lost("b", "n3", count=2, at=1)],
        more=vm("a", "b"),
    ),
    "a torn set with no room goes Lost whole": Case(
        {"n1": 2, "n2": 2},
        [held("a", count=2), lost("b", "n3", count=2, at=1)],
        more=vm("a", "b"),
    ),
    "a set on two nodes is gathered": Case(
        {"n1": 4, "n2": 4}, [held("a", count=2), held("b", "n2", at=1)], more=vm("a", "b")
    ),
    "a set on two nodes without room stays and says so": Case(
        {"n1": 2, "n2": 2},
        [held("a", count=2), held("b", "n2", count=2, at=1)],
        more=vm("a", "b"),
    ),
    "a torn set is gathered where its guest runs": Case(
        {"n1": 4, "n2": 8},
        [used("a", count=2), used("b", phase="Lost", at=1, node="n1")],
        more={"vmis": [vmi("a", "b")], "pods": [raws.a_pod("pod-1", units=3)]},
    ),
    "three classes of claims, one each, gathered in one flight": Case(
        [both("n1"), both("n2")],
        [held("a"), held("b", "n2", class_name="l4", at=1), held("c", "n2", at=2)],
        more={"classes": CLASSES, **vm("a", "b", "c")},
        in_flight=1,
    ),
}
LOST = {
    "a Lost set is bound before an older order": Case(
        {"n2": 4},
        [raws.a_claim("order", count=4, meta=interrupting.OURS), lost("x", count=4, at=1)],
    ),
    "of two Lost sets the older is bound": Case(
        {"n2": 4}, [lost("x", count=3), lost("y", count=3, at=1)]
    ),
    "a Lost pair is bound together": Case(
        {"n2": 4, "n3": 2}, [lost("a", count=2), lost("b", count=2, at=1)], more=vm("a", "b")
    ),
    "a Lost set whose guest runs on keeps its units": Case(
        {"n1": 2, "n2": 2},
        [used("x", phase="Lost", count=2), raws.a_claim("y", count=2, at=1)],
        more={"vmis": [vmi("x")], "pods": [raws.a_pod("pod-1", units=2)]},
    ),
    "a Lost set waits for the last pod on a silent node": Case(
        [SILENT, raws.a_node("n2")],
        [used("x", phase="Lost", count=2), raws.a_claim("y", count=2, at=1)],
        waits=SETTLES,
    ),
}
MOVES = {
    "a cordon moves a hold": Case([CORDONED, raws.a_node("n2")], [held("x")]),
    "a cordon without room elsewhere moves nothing": Case([CORDONED], [held("x")]),
    "a Stay class stays": Case(
        [CORDONED, raws.a_node("n2")],
        [held("x")],
        more={"classes": [raws.a_class(onCordon="Stay", meta={"finalizers": []})]},
    ),
    "a node is gone": Case({"n2": 8}, [held("x"), held("y", at=1)]),
    "a node is gone and there is room for one": Case(
        {"n2": 4}, [held("x", count=3), held("y", count=3, at=1)]
    ),
    "a node is silent past the grace": Case([SILENT, raws.a_node("n2")], [held("x")]),
    "a node got a taint": Case([TAINTED, raws.a_node("n2")], [held("x")]),
    "a node serves fewer units, past the grace": Case(
        {"n1": 1, "n2": 4}, [held("x"), held("y", at=1)], waits=(301.0,)
    ),
    "a guest is ended where another node has room": Case(
        [TAINTED, raws.a_node("n2")],
        [used("x")],
        more={"vmis": [vmi("x")], "pods": [raws.a_pod()]},
        waits=(10.0, *SETTLES),
    ),
    "a guest is kept": Case(
        [TAINTED, raws.a_node("n2")],
        [used("x")],
        config=KEEP,
        more={"vmis": [vmi("x")], "pods": [raws.a_pod()]},
    ),
    "a guest runs on where nothing has room": Case(
        [TAINTED], [used("x")], more={"vmis": [vmi("x")], "pods": [raws.a_pod()]}
    ),
    "a pinned guest that never started goes with its node": Case(
        {"n2": 8},
        [used("x")],
        more={"vmis": [vmi("x", phase="Scheduled")], "pods": [raws.a_pod(phase="Pending")]},
        waits=(10.0, *SETTLES),
    ),
    "a gated guest's set moves and its VMI stays": Case(
        [CORDONED, raws.a_node("n2")],
        [held("x", **raws.attached("vm", uid="vmi-vm", admission="adm-x", pods={"pod-1": ""}))],
        more={
            "vmis": [vmi("x", node="", phase="Scheduling")],
            "pods": [raws.a_pod(node="", phase="Pending", gated=True)],
        },
    ),
    "a migration is followed": Case(
        {"n1": 8, "n2": 8},
        [used("x")],
        more={
            "vmis": [
                raws.a_vmi(
                    uid="vmi-vm",
                    node="n2",
                    pods={"pod-1": "n1", "pod-2": "n2"},
                    admissions={"x": "adm-x"},
                    migration={"targetNode": "n2", "completed": True},
                )
            ],
            "pods": [raws.a_pod("pod-1", phase="Succeeded"), raws.a_pod("pod-2", node="n2")],
        },
    ),
    # Which two of three are let through first is decided by age; a new leader decides alike.
    "the guard lets two through and holds one back": Case(
        [TAINTED, raws.a_node("n2")],
        [held("x"), held("y", at=1), held("z", at=2)],
        config=TWO_AT_ONCE,
    ),
    "two nodes are lost, one of them passes the guard": Case(
        {"n3": 8},
        [held("a"), held("b", at=1), *(held(f"c{n}", "n2", at=2 + n) for n in range(3))],
        config=TWO_AT_ONCE,
    ),
    "a drain with an off VM's pair and a single hold": Case(
        [CORDONED, raws.a_node("n2", units=3), raws.a_node("n3", units=2)],
        [held("a"), held("b", at=1), held("c", count=2, at=2)],
        more=vm("a", "b"),
        as_good=interrupting.but_for_causes,
    ),
}
CASES = SETS | LOST | MOVES

ENDS = {
    "two classes of one VM leave a cordoned node together": "a Bound n2, b Bound n2",
    "a torn set is gathered": "a Bound n1, b Bound n1",
    "a torn set with no room goes Lost whole": "a Lost n1, b Lost n3",
    "a set on two nodes is gathered": "a Bound n1, b Bound n1",
    "a set on two nodes without room stays and says so": "a Bound n1, b Bound n2",
    "a torn set is gathered where its guest runs": "a Bound n1 used by vm, b Bound n1 used by vm",
    "three classes of claims, one each, gathered in one flight": "a Bound n2, b Bound n2, c Bound n2",
    "a Lost set is bound before an older order": "order Pending, x Bound n2",
    "of two Lost sets the older is bound": "x Bound n2, y Lost n1",
    "a Lost pair is bound together": "a Bound n2, b Bound n2",
    "a Lost set whose guest runs on keeps its units": "x Bound n1 used by vm, y Bound n2",
    "a Lost set waits for the last pod on a silent node": "x Lost n1 used by vm, y Bound n2",
    "a cordon moves a hold": "x Bound n2",
    "a cordon without room elsewhere moves nothing": "x Bound n1",
    "a Stay class stays": "x Bound n1",
    "a node is gone": "x Bound n2, y Bound n2",
    "a node is gone and there is room for one": "x Bound n2, y Lost n1",
    "a node is silent past the grace": "x Bound n2",
    "a node got a taint": "x Bound n2",
    "a node serves fewer units, past the grace": "x Bound n1, y Bound n2",
    "a guest is ended where another node has room": "x Bound n2",
    "a guest is kept": "x Bound n1 used by vm",
    "a guest runs on where nothing has room": "x Lost n1 used by vm",
    "a pinned guest that never started goes with its node": "x Bound n2",
    "a gated guest's set moves and its VMI stays": "x Bound n2 used by vm",
    "a migration is followed": "x Bound n2 used by vm",
    "the guard lets two through and holds one back": "x Bound n2, y Bound n2, z Bound n1",
    "two nodes are lost, one of them passes the guard": "a Bound n3, b Bound n3, c0 Bound n3, c1 Bound n3, c2 Bound n2",
    "a drain with an off VM's pair and a single hold": "a Bound n3, b Bound n3, c Bound n2",
}
"""Each claim in the end, and its VM if it has one."""


@pytest.mark.parametrize("name", CASES)
async def test_whatever_is_cut_off_the_next_leader_makes_good(name):
    end = await interrupting.survives(CASES[name])
    assert interrupting.told(end) == ENDS[name]
