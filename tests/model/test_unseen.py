"""Pods that are gone and not known to have ended: what they may still use is not free."""

from dataclasses import replace

import pytest

from gpu.model import capacity, invariants, naive
from gpu.model.violations import Rule
from gpu.objects.claims import Phase
from gpu.units import NodeName
from tests.builders import H100, a_claim, a_class, a_node, a_pod, a_snapshot, a_vmi, attachment

USED = attachment("vm", uid="vmi-1", pods={"p": "n1"})
NODES = [a_node("n1", units=8), a_node("n2", units=8)]


def free(*claims, **objects):
    found = a_snapshot(claims=list(claims), nodes=NODES, **objects)
    return {node: found.ledger.free(node, H100) for node in ("n1", "n2")}


CASES = {
    "held where it ran: nothing is counted twice": (
        [a_claim(on="n1", count=3, attached=USED)],
        {"n1": 5, "n2": 8},
    ),
    "Lost: its guest may run on": (
        [a_claim(lost="n1", count=3, attached=USED)],
        {"n1": 5, "n2": 8},
    ),
    "migrated: the source may run on": (
        [a_claim(on="n2", count=3, attached=USED)],
        {"n1": 5, "n2": 5},
    ),
    "it asked for all that its VM's claims hold": (
        [
            a_claim("c", lost="n1", count=3, attached=USED),
            a_claim("d", lost="n1", count=2, attached=attachment("vm", uid="vmi-1")),
        ],
        {"n1": 3, "n2": 8},
    ),
    "a later start of its VM has claims of its own": (
        [
            a_claim("c", on="n1", count=3, attached=USED),
            a_claim("d", on="n2", count=2, attached=attachment("vm", uid="vmi-2")),
        ],
        {"n1": 5, "n2": 6},
    ),
    "whose start a claim is of is not known yet": (
        [
            a_claim("c", lost="n1", count=3, attached=USED),
            a_claim("d", lost="n1", count=2, attached=attachment("vm")),
        ],
        {"n1": 3, "n2": 8},
    ),
    "whose start it was of is not known": (
        [
            a_claim("c", lost="n1", count=3, attached=attachment("vm", pods={"p": "n1"})),
            a_claim("d", lost="n1", count=2, attached=attachment("vm", uid="vmi-2")),
        ],
        {"n1": 3, "n2": 8},
    ),
    "a later start took one claim of it over": (
        [
            a_claim("c", lost="n1", count=3, attached=USED),
            a_claim("d", on="n2", attached=attachment("vm", uid="vmi-2", pods={"p": "n1"})),
            a_claim("e", on="n2", count=2, attached=attachment("vm", uid="vmi-3")),
        ],
        {"n1": 4, "n2": 5},
    ),
    "one claim has noted that it ended": (
        [
            a_claim("c", lost="n1", count=3, attached=USED),
            a_claim(
                "d",
                lost="n1",
                attached=attachment("vm", uid="vmi-1", pods={"p": "n1"}, ended=["p"]),
            ),
        ],
        {"n1": 8, "n2": 8},
    ),
    "nobody knows where it was": (
        [a_claim(lost="n1", count=3, attached=attachment("vm", uid="vmi-1", pods={"p": ""}))],
        {"n1": 8, "n2": 8},
    ),
}


@pytest.mark.parametrize(("claims", "wanted"), CASES.values(), ids=CASES)
def test_a_pod_that_nobody_saw_end_keeps_what_it_had(claims, wanted):
    assert free(*claims) == wanted


LISTED = {"p": "n1", "q": "n2"}
RUNS = a_claim(on="n1", count=3, attached=USED)


@pytest.mark.parametrize(
    ("vmi", "claim", "wanted"),
    [
        pytest.param({"uid": "vmi-1"}, RUNS, {"n1": 5, "n2": 5}, id="a target that nobody noted"),
        pytest.param({"uid": "vmi-2"}, RUNS, {"n1": 5, "n2": 8}, id="another start of the name"),
        pytest.param(
            {"uid": "vmi-1"},
            a_claim(
                on="n1",
                count=3,
                attached=attachment("vm", uid="vmi-1", pods=LISTED, ended=["q"]),
            ),
            {"n1": 5, "n2": 8},
            id="noted as ended, and listed still",
        ),
        pytest.param(
            {"uid": "vmi-1", "active": {"q": ""}}, RUNS, {"n1": 5, "n2": 8}, id="on no node yet"
        ),
    ],
)
def test_a_pod_that_its_vmi_lists_and_that_is_gone_counts_before_it_is_noted(vmi, claim, wanted):
    listing = a_vmi(**{"active": LISTED} | vmi)
    assert free(claim, vmis=[listing]) == wanted


def test_one_that_is_there_counts_by_what_it_asks_for():
    claim = a_claim(lost="n1", count=3, attached=USED)
    assert free(claim, pods=[a_pod(uid="p", on="n1", units=2)]) == {"n1": 6, "n2": 8}
    assert free(claim, pods=[a_pod(uid="p", on="n1", units=2, phase="Failed")]) == {
        "n1": 8,
        "n2": 8,
    }


def test_budgets_count_the_claim_and_not_its_pod_again():
    found = a_snapshot(claims=[a_claim(lost="n1", count=3, attached=USED)], nodes=NODES)
    assert found.ledger.used("tenant-a", "gpu.cozystack.io/h100") == 3


def test_a_class_shows_them_as_not_free():
    found = a_snapshot(claims=[a_claim(lost="n1", count=3, attached=USED)], nodes=NODES)
    assert capacity.of_classes(found)["h100"].free == 13


@pytest.mark.parametrize(("vmis", "wanted"), [([a_vmi("vm", active={"p": ""})], 6), ([], 8)])
def test_a_pinned_pod_of_a_vm_counts_where_it_will_run_whoever_else_pins_his_does_not(vmis, wanted):
    """Its claims may be gone: what it asks for is taken as soon as its node takes pods."""
    pods = [a_pod(uid="p", units=2, pinned="n1", phase="Pending")]
    assert free(pods=pods, vmis=vmis) == {"n1": wanted, "n2": 8}


def test_the_checker_counts_a_pinned_pod_of_a_vm_too():
    new = a_claim("new", count=7)
    cluster = naive.Cluster(
        stood={new.key: new},
        claims={new.key: new},
        classes=(a_class(),),
        nodes=tuple(NODES),
        pods=(a_pod(uid="p", units=2, pinned="n1", phase="Pending"),),
        vmis=(a_vmi("vm", active={"p": ""}),),
    )
    placed = {on: replace(new, phase=Phase.BOUND, node=NodeName(on)) for on in ("n1", "n2")}
    broken = {on: [it.rule for it in invariants.judge(cluster, [placed[on]])] for on in placed}
    assert broken == {"n1": [Rule.BOOKED_TWICE], "n2": []}


@pytest.mark.parametrize(("uid", "broken"), [("vmi-1", []), ("vmi-2", [Rule.BOOKED_TWICE])])
def test_claims_of_its_start_may_follow_it_onto_a_full_node_those_of_a_later_one_may_not(
    uid, broken
):
    going = a_claim("c", on="n1", deleting=True, attached=USED)
    comes = a_claim("d", count=4, attached=attachment("vm", uid=uid))
    other = a_claim("other", on="n1", count=6)
    stood = {claim.key: claim for claim in (going, comes, other)}
    cluster = naive.Cluster(stood=stood, claims=stood, classes=(a_class(),), nodes=tuple(NODES))
    placed = replace(comes, phase=Phase.BOUND, node=NodeName("n1"))
    assert [it.rule for it in invariants.judge(cluster, [placed])] == broken


def test_claims_follow_a_migration_onto_a_node_that_it_and_an_earlier_start_of_its_vm_overdraw():
    """The earlier start's pod is gone, the target is seen: both are in use there already."""
    going = a_claim("c", on="n1", count=3, deleting=True, attached=USED)
    ran = attachment("vm", uid="vmi-2", pods={"q": "n2"}, ended=["q"])
    moves = a_claim("d", on="n2", count=3, attached=ran)
    other = a_claim("other", on="n1", count=3)
    stood = {claim.key: claim for claim in (going, moves, other)}
    cluster = naive.Cluster(
        stood=stood,
        claims=stood,
        classes=(a_class(),),
        nodes=tuple(NODES),
        pods=(a_pod(uid="t", on="n1", units=3),),
        vmis=(a_vmi("vm", uid="vmi-2", node="n1", active={"q": "n2", "t": "n1"}),),
    )
    follows = replace(moves, node=NodeName("n1"))
    assert [it.rule for it in invariants.judge(cluster, [follows])] == []
