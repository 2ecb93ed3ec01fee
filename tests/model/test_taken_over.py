"""A claim that another VM took over while its last user's pod ends: its units are in use once."""

import pytest

from gpu import keys
from gpu.model import capacity, naive
from gpu.model.draft import Draft
from gpu.model.naive import Cluster
from gpu.model.naive_usage import Usage
from tests.builders import H100, a_claim, a_class, a_node, a_pod, a_snapshot, a_vmi, attachment

TENANT = "tenant-a"


def taken(name="c", *, by="new", count=2, ended=False, **more):
    """A claim that `by` took over from VM `old`, whose pod it has noted."""
    noted = attachment(by, pods={"old": "n1"}, ended=["old"] if ended else [])
    return a_claim(name, count=count, **({"on": "n1"} | more | {"status": {"attachedTo": noted}}))


def pod(units=2, **more):
    return a_pod("launcher", uid="old", units=units, **({"on": "n1", "phase": "Running"} | more))


OLD = a_vmi("old", active={"old": "n1"})


def checked(claims, pods, vmis):
    by_key = {claim.key: claim for claim in claims}
    return Cluster(
        stood=by_key,
        claims=by_key,
        classes=(a_class(),),
        nodes=(a_node(),),
        pods=tuple(pods),
        vmis=tuple(vmis),
    )


CASES = {
    "all of it": ([taken()], [pod()], [OLD], 2),
    "its VMI is gone already": ([taken()], [pod()], [], 2),
    "the pod's object is gone": ([taken()], [], [OLD], 2),
    "the pod ended": ([taken()], [pod(phase="Succeeded")], [OLD], 2),
    "one of two claims": ([taken("a"), a_claim("b", vm="old", on="n1")], [pod(3)], [OLD], 3),
    "one of two claims, and its VMI is gone already": (
        [
            taken("a"),
            a_claim("b", on="n1", status={"attachedTo": attachment("old", pods={"old": "n1"})}),
        ],
        [pod(3)],
        [],
        3,
    ),
    "by two VMs": ([taken("a"), taken("b", by="newer", count=1)], [pod(3)], [OLD], 3),
    "and more than it holds asked for": ([taken()], [pod(5)], [OLD], 5),
    "and lost": ([taken(on=None, lost="n1")], [pod()], [OLD], 2),
    "and held elsewhere": ([taken(on="n2")], [pod()], [OLD], 2),
    "another pod is on the node too": ([taken()], [pod(), a_pod("x", on="n1")], [OLD], 3),
    "a pod of its new VM runs there, too": (
        [taken()],
        [pod(), a_pod("next", uid="new", on="n1", units=2)],
        [OLD, a_vmi("new", active={"new": "n1"})],
        4,
    ),
}


@pytest.mark.parametrize(("claims", "pods", "vmis", "used"), CASES.values(), ids=CASES)
def test_its_units_are_in_use_once_on_its_node(claims, pods, vmis, used):
    found = a_snapshot(nodes=[a_node()], claims=claims, pods=pods, vmis=vmis)
    assert 8 - capacity.free(found, "n1", H100) == used


@pytest.mark.parametrize("case", [name for name in CASES if name != "the pod's object is gone"])
def test_the_checker_counts_them_once(case):
    claims, pods, vmis, used = CASES[case]
    cluster, place = checked(claims, pods, vmis), ("n1", H100)
    held, asked = naive.held(cluster, {}, {place})[place], naive.asked(cluster, {place})[place]
    in_use = {vm: max(held[vm], asked[vm]) for vm in {*held, *asked} - {None}}
    assert sum(in_use.values()) + held[None] + asked[None] == used


def test_what_it_leaves_in_this_pass_is_in_use_by_the_pod_still():
    draft = Draft.of(a_snapshot(nodes=[a_node()], claims=[taken()], pods=[pod()], vmis=[OLD]))
    with draft.savepoint():
        draft.lift(next(iter(draft.claims())))
        assert capacity.free(draft, "n1", H100) == 6


BUDGETS = {
    "all of it": ([taken()], pod(), 2),
    "lost": ([taken(on=None, lost="n1")], pod(), 2),
    "one of two claims": ([taken("a"), a_claim("b", vm="old", on="n1")], pod(3), 3),
    "and more than it holds asked for": ([taken()], pod(5), 5),
}


@pytest.mark.parametrize(("claims", "one", "used"), BUDGETS.values(), ids=BUDGETS)
def test_its_tenant_uses_them_once(claims, one, used):
    found = a_snapshot(nodes=[a_node()], claims=claims, pods=[one], vmis=[OLD])
    assert found.ledger.used(TENANT, keys.QUOTA_TOTAL) == used
    assert Usage(checked(claims, [one], [OLD]), {}).of(TENANT, keys.QUOTA_TOTAL) == used
