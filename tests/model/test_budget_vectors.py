"""Budgets beside what a Cozystack of today was seen to answer: the same sums, and where ours differ.

Recorded on Cozystack's own quota gate: what a parent has left for one more child, after what its
children declare. Ours is what an order of the parent may still have.
"""

import pytest

from gpu.model import budgets
from gpu.model.budgets import GateState
from tests.builders import H100, a_claim, a_pod, a_release, a_settings, a_snapshot

KEY = "gpu.cozystack.io/h100"
SUMS = [
    # parent, sibling, what the host had left, what is left here
    ("20Gi", "1G", 20474836480, 20474836480),
    ("20G", "1Gi", 18926258176, 18926258176),
    ("20Gi", "8192Mi", 12 * 2**30, 12 * 2**30),
    ("1k", "1", 999, 999),
    ("20Gi", "20Gi", 0, 0),
    ("10", "10", 0, 0),
    ("4", 2, 2, 2),
]
DIFFER = [
    ("5", "7", -2, 0, "less than nothing is none"),
    ("10", "-3", 13, 10, "a negative declaration makes no room for others: it counts as 0"),
    ("10", "500m", 9.5, 10, "a divided unit counts as 0"),
    ("10", "9x", 10, 10, "one that cannot be read is left out by the host, and 0 here"),
    ("1.5", "0", 1.5, 0, "a parent's divided units count as 0"),
]


def left(objects, tenant="tenant-a", key=KEY):
    gates = budgets.gates(a_snapshot(settings=a_settings(H100, raw=True), **objects), tenant)
    return {gate.key: gate for gate in gates}[key]


@pytest.mark.parametrize(("parent", "sibling", "host", "ours"), SUMS, ids=str)
def test_what_children_declare_is_kept_free_as_on_the_host(parent, sibling, host, ours):
    releases = [a_release("tenant-a", {KEY: parent}), a_release("tenant-a-s", {KEY: sibling})]
    assert left({"releases": releases}).remaining == host == ours


@pytest.mark.parametrize(
    ("parent", "sibling", "host", "ours", "why"), DIFFER, ids=[row[4] for row in DIFFER]
)
def test_where_the_sums_differ_nobody_gains_units_by_it(parent, sibling, host, ours, why):
    releases = [a_release("tenant-a", {KEY: parent}), a_release("tenant-a-s", {KEY: sibling})]
    gate = left({"releases": releases})
    assert gate.remaining == ours, why
    assert ours <= max(host, 0) or not isinstance(host, int), why


def test_use_of_gpus_is_subtracted_which_the_host_does_not():
    """Recorded: parent 4, a child declares 2, a pod of the parent uses 2; a further 2 were accepted."""
    objects = {
        "releases": [a_release("tenant-a", {H100: 4}), a_release("tenant-a-b", {H100: "2"})],
        "pods": [a_pod(tenant="tenant-a", on="n1", units=2)],
    }
    gate = left(objects, key=H100)
    assert (gate.use.pods, gate.use.below, gate.remaining) == (2, 2, 0)


def test_use_of_an_unbounded_descendant_is_subtracted():
    """Recorded for cpu: 10 less 4 of a child, 3 of the parent's pod, 1 of an unbounded child's pod."""
    objects = {
        "releases": [a_release("tenant-a", {H100: 10}), a_release("tenant-a-b", {H100: 4})],
        "pods": [
            a_pod(tenant="tenant-a", on="n1", units=3),
            a_pod(tenant="tenant-a-u", on="n1", units=1),
        ],
    }
    gate = left(objects, key=H100)
    assert (gate.use.pods, gate.use.below, gate.remaining) == (3, 5, 2)


def test_an_unbounded_parent_hides_no_grandparent():
    """Recorded: tenant-a-m declares nothing, tenant-a 4; a child of tenant-a-m was accepted with 1000."""
    objects = {
        "releases": [a_release("tenant-a", {KEY: 4}), a_release("tenant-a-m-x", {KEY: 1000})]
    }
    gate = left(objects, tenant="tenant-a-m-x")
    assert (gate.remaining, gate.bounded_by) == (0, "tenant-a")
    assert (gate.state, gate.reason) == (GateState.CLOSED, "Overdrawn")


def test_the_root_is_no_child_of_its_own():
    """Recorded: the root declares 16 and tenant-a 4; its own release was counted among its children."""
    objects = {"releases": [a_release("tenant-root", {KEY: 16}), a_release("tenant-a", {KEY: 4})]}
    gate = left(objects, tenant="tenant-root")
    assert (gate.hard, gate.use.below, gate.remaining) == (16, 4, 12)


def test_a_parent_shrunk_below_its_children_takes_nothing_away():
    """Recorded: accepted without a word."""
    objects = {
        "releases": [a_release("tenant-a", {KEY: 1}), a_release("tenant-a-b", {KEY: 2})],
        "claims": [a_claim(tenant="tenant-a-b", on="n1")],
    }
    above, below = left(objects), left(objects, tenant="tenant-a-b")
    assert (above.used, above.remaining, above.reason) == (2, 0, "Overdrawn")
    assert (below.hard, below.used, below.remaining) == (2, 1, 0)
    assert (below.bounded_by, below.reason) == ("tenant-a", "Overdrawn")
