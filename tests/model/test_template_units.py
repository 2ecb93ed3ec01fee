"""What is asked before template claims are made for a VM."""

import pytest

from gpu.model import template_units
from gpu.model.draft import Draft
from gpu.model.refusals import ClassRetired, NoSuchClass, NotEntitled, OverBudget
from gpu.units import Units
from tests.builders import (
    H100,
    L40,
    a_claim,
    a_class,
    a_namespace,
    a_release,
    a_snapshot,
    budget,
)

TOTAL = "gpu.cozystack.io/total"
CLASSES = [
    a_class(),
    a_class("h100-b"),
    a_class("l40", resource=L40),
    a_class("vgpu", mode="vgpu", resource="nvidia.com/GRID"),
    a_class("old", resource=L40, retired=True),
]


def asked(wanted, tenant="tenant-a", **objects):
    draft = Draft.of(a_snapshot(classes=CLASSES, **objects))
    return template_units.refused(
        draft, tenant, {name: Units(units) for name, units in wanted.items()}
    )


def over(key, wanted, hard, used=0, left=None):
    left = max(0, hard - used) if left is None else left
    return OverBudget(key, wanted, hard, used, "tenant-a", own=True, left=left)


@pytest.mark.parametrize(
    ("wanted", "quotas", "refusals"),
    [
        pytest.param({"h100": 2}, {}, (), id="no budget"),
        pytest.param({"h100": 2}, budget(h100=2, total=2), (), id="just fits"),
        pytest.param(
            {"h100": 3}, budget(h100=2), (over("gpu.cozystack.io/h100", 3, 2),), id="over"
        ),
        pytest.param(
            {"h100": 2, "l40": 1},
            budget(h100=2, l40=1, total=2),
            (over(TOTAL, 3, 2),),
            id="classes count together under total",
        ),
        pytest.param(
            {"h100": 1, "h100-b": 1},
            {H100: 1},
            (over(H100, 2, 1),),
            id="and under a resource they share",
        ),
        pytest.param({"old": 1}, {}, (ClassRetired("old"),), id="a retired class"),
        pytest.param({"gone": 1}, {}, (NoSuchClass("gone"),), id="no such class"),
    ],
)
def test_template_units_are_asked_of_every_class_and_budget_at_once(wanted, quotas, refusals):
    assert asked(wanted, releases=[a_release("tenant-a", quotas)]) == refusals


def test_held_claims_count_before_template_units():
    objects = {
        "releases": [a_release("tenant-a", budget(total=3))],
        "claims": [a_claim(count=2, on="n1")],
    }
    assert asked({"h100": 1}, **objects) == ()
    assert asked({"h100": 2}, **objects) == (over(TOTAL, 2, 3, used=2),)


@pytest.mark.parametrize(
    ("labelled", "refusals"),
    [
        pytest.param([], (NotEntitled("vgpu", "tenant-a-b"),), id="nobody"),
        pytest.param(["tenant-a-b"], (), id="own label"),
        pytest.param(["tenant-a"], (), id="inherited"),
        pytest.param(["tenant-a-b-c"], (NotEntitled("vgpu", "tenant-a-b"),), id="not from below"),
    ],
)
def test_template_units_of_a_vgpu_class_need_the_entitlement(labelled, refusals):
    namespaces = [a_namespace(name, entitled=True) for name in labelled]
    assert asked({"vgpu": 1}, "tenant-a-b", namespaces=namespaces) == refusals
