import pytest

from gpu.model import capacity
from gpu.model.capacity import ClassUnits
from gpu.model.draft import Draft
from gpu.objects.nodes import NodeUnits
from tests.builders import (
    H100,
    L40,
    a_claim,
    a_class,
    a_node,
    a_pod,
    a_snapshot,
    a_vmi,
    an_inventory,
)


@pytest.mark.parametrize(
    ("inventory", "free"),
    [
        pytest.param([], 8, id="no inventory is unknown"),
        pytest.param([an_inventory(healthy=0)], 8, id="empty is unknown, never zero"),
        pytest.param([an_inventory(healthy=5)], 5, id="fewer devices than allocatable"),
        pytest.param([an_inventory(healthy=12)], 8, id="more devices than allocatable"),
        pytest.param([an_inventory(healthy=3, sick=5)], 3, id="only healthy ones count"),
        pytest.param([an_inventory(healthy=0, sick=8)], 0, id="all sick is known to be none"),
        pytest.param([an_inventory(healthy=2, units=3)], 6, id="a device of several units"),
        pytest.param([an_inventory(healthy=2, resource=L40)], 8, id="another resource's devices"),
        pytest.param([an_inventory("n2", healthy=2)], 8, id="another node's"),
    ],
)
def test_a_node_serves_the_smaller_of_allocatable_and_known_inventory(inventory, free):
    assert capacity.free(a_snapshot(inventory=inventory), "n1", H100) == free


VM = a_vmi("vm", active={"pod": "n1"})


@pytest.mark.parametrize(
    ("objects", "free"),
    [
        pytest.param({"claims": [a_claim(on="n1", count=3)]}, 5, id="Bound, attached to nothing"),
        pytest.param({"claims": [a_claim(count=3)]}, 8, id="Pending holds nothing"),
        pytest.param({"claims": [a_claim(lost="n1", count=3)]}, 8, id="Lost holds nothing"),
        pytest.param(
            {"claims": [a_claim(on="n1", count=3, deleting=True)]}, 5, id="deleted is held on"
        ),
        pytest.param({"claims": [a_claim(on="n2", count=3)]}, 8, id="another node's claim"),
        pytest.param({"claims": [a_claim(on="n1", class_name="nope")]}, 8, id="of no known class"),
        pytest.param({"pods": [a_pod(on="n1", units=2)]}, 6, id="a pod of no VM"),
        pytest.param({"pods": [a_pod(units=2)]}, 8, id="a pod on no node yet"),
        pytest.param({"pods": [a_pod(on="n1", units=2, phase="Failed")]}, 8, id="an ended pod"),
        pytest.param(
            {
                "claims": [a_claim(on="n1", count=3, vm="vm")],
                "vmis": [VM],
                "pods": [a_pod(uid="pod", on="n1", units=3)],
            },
            5,
            id="a covered pod counts once",
        ),
        pytest.param(
            {
                "claims": [a_claim(on="n1", count=3, vm="vm")],
                "vmis": [VM],
                "pods": [a_pod(uid="fake", on="n1", units=3)],
            },
            2,
            id="a pod the VMI does not list counts beside the claim",
        ),
        pytest.param(
            {
                "claims": [a_claim(on="n1", count=3, vm="vm", pod_uids=["pod"])],
                "pods": [a_pod(uid="pod", on="n1", units=3)],
            },
            5,
            id="the VMI is gone, its recorded pod is not",
        ),
        pytest.param(
            {
                "claims": [a_claim(lost="n1", count=3, vm="vm")],
                "vmis": [VM],
                "pods": [a_pod(uid="pod", on="n1", units=3)],
            },
            5,
            id="Lost: its running pod is in use all the same",
        ),
        pytest.param(
            {
                "claims": [a_claim(on="n2", count=3, vm="vm")],
                "vmis": [VM],
                "pods": [a_pod(uid="pod", on="n1", units=3)],
            },
            5,
            id="moved: its old pod still sits here",
        ),
        pytest.param(
            {"vmis": [VM], "pods": [a_pod(uid="pod", on="n1", units=3)]}, 5, id="VM without claims"
        ),
        pytest.param(
            {
                "claims": [a_claim("a", on="n1", vm="vm"), a_claim("b", on="n1", count=2, vm="vm")],
                "vmis": [VM],
                "pods": [a_pod(uid="pod", on="n1", units=2)],
            },
            5,
            id="two claims of one VM add up before they cover",
        ),
        pytest.param(
            {"nodes": [a_node(units=2)], "claims": [a_claim(on="n1", count=3)]},
            -1,
            id="a node that shrank below what is held",
        ),
    ],
)
def test_free_units_of_a_node(objects, free):
    assert capacity.free(a_snapshot(**objects), "n1", H100) == free


def test_a_class_counts_capacity_everywhere_and_free_units_where_it_may_be_placed():
    snapshot = a_snapshot(
        classes=[a_class(), a_class("h100-b")],
        nodes=[
            a_node("n1", units=8),
            a_node("n2", units=4, cordoned=True),
            a_node("n3", units=2),
            a_node("n4", resource=L40),
        ],
        claims=[
            a_claim("a", on="n1", count=3),
            a_claim("b", on="n2", count=1),
            a_claim("c", on="n3", count=4),
            a_claim("d", on="n1", count=1, class_name="h100-b"),
            a_claim("e", lost="n1", count=1),
        ],
    )
    assert capacity.of_classes(snapshot) == {
        "h100": ClassUnits(capacity=14, allocatable=10, held=8, free=4, nodes=("n1", "n2", "n3")),
        "h100-b": ClassUnits(capacity=14, allocatable=10, held=1, free=4, nodes=("n1", "n2", "n3")),
    }


def test_a_class_no_node_serves_has_nothing():
    assert capacity.of_classes(a_snapshot(nodes=[]))["h100"] == ClassUnits(
        capacity=0, allocatable=0, held=0, free=0, nodes=()
    )


def test_a_node_shows_units_held_and_free_of_each_resource():
    snapshot = a_snapshot(
        classes=[a_class(), a_class("l40", resource=L40)],
        nodes=[a_node("n1", also={L40: 4})],
        claims=[
            a_claim("a", on="n1", count=3),
            a_claim("b", on="gone", count=1),
        ],
        pods=[a_pod(on="n1", units=1)],
    )
    assert capacity.of_nodes(snapshot) == {
        "gone": (NodeUnits(name=H100, held=1, free=0),),
        "n1": (NodeUnits(name=L40, held=0, free=4), NodeUnits(name=H100, held=3, free=4)),
    }


def test_a_draft_shows_what_is_planned():
    claim = a_claim(count=3)
    snapshot = a_snapshot(claims=[claim])
    draft = Draft.of(snapshot)
    draft.bind(claim, "n1")
    assert capacity.of_classes(draft)["h100"].held == 3
    assert capacity.of_nodes(draft) == {"n1": (NodeUnits(name=H100, held=3, free=5),)}
    assert capacity.of_nodes(snapshot) == {"n1": (NodeUnits(name=H100, held=0, free=8),)}
