"""Phase requests: the two cases in which a start is granted on a cordoned node, and how each does not hold."""

import pytest

from gpu.binder.phases import requests
from tests.binder import asking, interrupting, raws
from tests.binder.asking import claim
from tests.binder.phases.test_requests import scene, told

BOTH = [raws.a_class(), raws.a_class("stays", resource="nvidia.com/L4", onCordon="Stay")]
TWO = ("a", "b")


def node(name="n1", *, units=8, l4=8, cordoned=True, **how):
    made = raws.a_node(name, units=units, **({"unschedulable": True} if cordoned else {}), **how)
    made["status"]["allocatable"]["nvidia.com/L4"] = str(l4)
    if cordoned:
        taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        made["spec"]["taints"] = [*made["spec"].get("taints", []), taint]
    return made


FREE = node("n2", cordoned=False)
FULL = node("n2", cordoned=False, units=1, l4=1)
MINE = [{"key": "mine", "effect": "NoSchedule"}]
MOVES = [claim("a", "n1", count=2)]
STAYS = [claim("a", "n1", asks=TWO, count=2), claim("b", "n1", asks=TWO, class_name="stays")]
IN_PLACE = ("Succeeded", "[n1]")


def ends(claims, nodes):
    found = told(scene(*claims, nodes=nodes, classes=BOTH))
    return {it[:2] for it in found.values()}


CASES = {
    "Move: no other node has room": (MOVES, (node(), FULL), IN_PLACE),
    "Move: there is no other node": (MOVES, (node(),), IN_PLACE),
    "Move: another node has room": (MOVES, (node(), FREE), ("Succeeded", "n2")),
    "Move: it is not Ready, too": (MOVES, (node(ready="False"),), ("Refused", "[n1]")),
    "Move: it is tainted, too": (MOVES, (node(taints=MINE),), ("Refused", "[n1]")),
    "Move: it lost units, too": (MOVES, (node(units=1),), ("Refused", "[n1]")),
    "Move: it serves no unit of the class": (MOVES, (node(units=0),), ("Refused", "[n1]")),
    "Move: its node is gone": (MOVES, (FULL,), ("Refused", "[n1]")),
    "Stay: another node has room": (STAYS, (node(), FREE), IN_PLACE),
    "Stay: no other node has room": (STAYS, (node(), FULL), IN_PLACE),
    "Stay: it is not Ready, too": (STAYS, (node(ready="False"), FREE), IN_PLACE),
    "Stay: it is tainted, too": (STAYS, (node(taints=MINE), FREE), IN_PLACE),
    "Stay: a member lost units there": (STAYS, (node(units=1), FREE), ("Succeeded", "n2")),
    "Stay: the one that stays lost units": (STAYS, (node(l4=0), FREE), ("Succeeded", "n2")),
    "Stay: it lost units, and none has room": (STAYS, (node(units=1), FULL), ("Refused", "[n1]")),
    "Stay: its node is gone": (STAYS, (FREE,), ("Succeeded", "n2")),
    "Stay: its node is gone, and none has room": (STAYS, (FULL,), ("Refused", "[n1]")),
    "Stay: it is not cordoned, but not Ready": (
        STAYS,
        (node(cordoned=False, ready="False"), FREE),
        ("Succeeded", "n2"),
    ),
}


@pytest.mark.parametrize(("claims", "nodes", "wanted"), CASES.values(), ids=CASES)
def test_a_set_that_is_held_on_a_cordoned_node(claims, nodes, wanted):
    assert ends(claims, nodes) == {wanted}


@pytest.mark.parametrize("class_name", ["h100", "stays"])
def test_a_set_with_something_to_place_is_none_of_these(class_name):
    claims = [
        claim("a", "n1", asks=TWO, class_name=class_name),
        claim("b", asks=TWO, template=True),
    ]
    assert {it[0] for it in ends(claims, (node(),))} == {"Refused"}
    assert {it[1] for it in ends(claims, (node(), FREE))} == {"n2"}


@pytest.mark.parametrize("lost", [None, "n1"])
def test_a_set_that_is_not_held_entirely_there_is_none_of_these(lost):
    other = claim("b", None if lost else "n3", lost=lost, asks=TWO, class_name="stays")
    claims = [claim("a", "n1", asks=TWO), other]
    assert {it[0] for it in ends(claims, (node(), node("n3")))} == {"Refused"}
    assert {it[1] for it in ends(claims, (node(), node("n3"), FREE))} == {"n2"}


def test_a_node_that_refused_the_last_launcher_is_none_to_wait_on():
    until = {"rejectedNodes": [{"node": "n1", "until": "2026-01-01T12:05:00Z"}]}
    assert ends([claim("a", "n1", count=2, status=until)], (node(), FULL)) == {("Refused", "[n1]")}


def test_what_goes_along_is_part_of_the_set():
    claims = [claim("a", "n1"), interrupting.held("b", "n1", class_name="stays")]
    found = scene(
        *claims, nodes=(node(), FREE), classes=BOTH, vms=[raws.a_vm("vm", claims=("a", "b"))]
    )
    assert told(found) == {"a": IN_PLACE}


def test_it_says_that_the_vm_waits():
    (change,) = requests.changes_of(scene(*MOVES, nodes=(node(),)))
    assert change.awaits_uncordon
    assert change.request.message == (
        "held on node n1, which is cordoned: the VM starts there once the cordon is lifted"
    )


def test_one_on_a_healthy_node_does_not_wait():
    (change,) = requests.changes_of(scene(claim("a", "n1"), nodes=(node(cordoned=False),)))
    assert not change.awaits_uncordon
    assert change.request.message == "1 unit held on node n1"
    assert change.request.id == asking.request(["a"])["bindRequest"]["id"]
