import pytest

from gpu.model import coverage
from gpu.model.ledger import Holder
from tests.builders import H100, a_claim, a_pod, a_vmi


@pytest.mark.parametrize(
    ("claim", "node"),
    [
        pytest.param(a_claim(), None, id="Pending"),
        pytest.param(a_claim(on="n1"), "n1", id="Bound"),
        pytest.param(a_claim(on="n1", deleting=True), "n1", id="Bound and being deleted"),
        pytest.param(a_claim(lost="n1"), None, id="Lost keeps the name of its last node only"),
    ],
)
def test_only_bound_claims_hold_units_on_a_node(claim, node):
    assert coverage.node_held(claim) == node


def test_a_pod_is_a_vms_when_the_vmi_lists_it_or_a_claim_has_recorded_it():
    owners = coverage.owners(
        [a_claim(vm="old", pod_uids=["p1"]), a_claim(tenant="tenant-b", vm="other")],
        [a_vmi("vm", active={"p2": "n1", "p3": "n2"})],
    )
    assert owners == {
        ("tenant-a", "p1"): Holder("tenant-a", "old"),
        ("tenant-a", "p2"): Holder("tenant-a", "vm"),
        ("tenant-a", "p3"): Holder("tenant-a", "vm"),
    }


def test_only_live_pods_that_ask_for_a_gpu_want_any():
    live = a_pod("a", units=2)
    pods = [
        live,
        a_pod("b", phase="Succeeded"),
        a_pod("c", phase="Failed"),
        a_pod("d", resource="example.com/nic"),
        a_pod("e", units=0),
    ]
    assert list(coverage.wants(pods, frozenset({H100}))) == [(live, H100, 2)]


@pytest.mark.parametrize(
    ("pods", "covered", "raw"),
    [
        pytest.param([a_pod("p", units=3)], 0, 3, id="no VM"),
        pytest.param([a_pod("p", uid="mine", units=3)], 3, 0, id="covered whole"),
        pytest.param([a_pod("p", uid="mine", units=3)], 1, 2, id="covered in part"),
        pytest.param([a_pod("p", uid="mine", units=3)], 9, 0, id="claims larger than the pod"),
        pytest.param(
            [a_pod("p", uid="mine", units=3), a_pod("q", units=2)],
            9,
            2,
            id="another's is not covered",
        ),
        pytest.param(
            [a_pod("p", uid="mine", units=2), a_pod("q", uid="target", units=2)],
            2,
            0,
            id="a guest that migrates has two pods and ordered its units once",
        ),
        pytest.param(
            [a_pod("p", uid="mine", units=3), a_pod("q", uid="target", units=2)],
            1,
            3,
            id="of each pod what is not covered",
        ),
    ],
)
def test_pod_units_that_attached_claims_do_not_account_for_are_raw(pods, covered, raw):
    vm = Holder("tenant-a", "vm")
    found = coverage.raw_units(
        coverage.wants(pods, frozenset({H100})),
        {("tenant-a", "mine"): vm, ("tenant-a", "target"): vm},
        {(vm, H100): covered},
        {},
    )
    assert found == ({("tenant-a", H100): raw} if raw else {})
