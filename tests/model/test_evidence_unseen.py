"""Evidence of launchers that nobody saw: of a start that was promised a node, and is over without a trace."""

from dataclasses import replace

import pytest

from gpu.model import attaching, guests
from gpu.model.sets import ClaimSet
from gpu.model.sightings import Sightings, observe
from gpu.model.signs import UNSEEN, Found, Lack, Missing, Sign
from gpu.objects.claims import AttachedPod
from tests.builders import a_node, a_pod, a_snapshot, a_vmi, an_inventory
from tests.model.test_evidence_promised import a_promised
from tests.model.witnessed import NOW, OUT, a_user, at, look

SETTLES = Missing(lack=Lack.NODE_SETTLING, vm="vm", node="n1", seconds=180)
ENDINGS = {
    "its VMI is gone": {},
    "its VMI is another": {"vmis": [a_vmi(uid="vmi-2")]},
    "its VMI has ended": {"vmis": [a_vmi(uid="vmi-1", phase="Failed")]},
    "its VMI is going": {"vmis": [a_vmi(uid="vmi-1", phase="Pending", deleting=True)]},
}


def uid_of(claim):
    found = attaching.unseen(claim, None)
    return found.uid if found else ""


def test_the_pod_that_stands_for_it_is_of_its_request_alone():
    claim = a_promised(pods={})
    other = replace(claim, bind_request=replace(claim.bind_request, id="r2"))
    assert uid_of(claim).startswith(UNSEEN)
    assert uid_of(claim) != uid_of(other)
    assert len(uid_of(claim)) <= 64


@pytest.mark.parametrize("objects", ENDINGS.values(), ids=ENDINGS)
@pytest.mark.parametrize("left", [{}, {"pods": {"p": "n2"}, "ended": ["p"]}], ids=["", "left"])
def test_a_promised_start_that_is_over_without_a_trace_may_run_on_its_node(objects, left):
    """Also where an earlier start, or its own temporary pod, has left something in the attachment."""
    claim = a_promised(**{"pods": {}, **left})
    seen = look(claim, Sightings(), **objects)
    assert seen.missing == (replace(SETTLES, pod=uid_of(claim)),)
    assert seen.proof is None


@pytest.mark.parametrize(
    ("claim", "objects"),
    [
        (a_user(pods={}), {}),
        (a_promised(launched=True, ended=["p"]), {}),
        (
            a_promised(pods={}),
            {
                "vmis": [a_vmi(uid="vmi-1", phase="Failed", active={"q": "n1"})],
                "pods": [a_pod(uid="q", on="n1", phase="Failed")],
            },
        ),
    ],
    ids=["nothing was promised", "its launcher was noted", "its VMI lists the launcher"],
)
def test_nothing_stands_for_a_launcher_that_left_a_trace_or_waits_at_the_gate(claim, objects):
    assert look(claim, **objects).missing == ()


def test_while_a_start_may_come_nothing_stands_for_it():
    claim = a_promised(uid="", since=NOW - 59, pods={})
    lack = Missing(lack=Lack.START_PENDING, vm="vm", seconds=60)
    assert look(claim, Sightings()).missing == (lack,)
    claim = a_promised(uid="", since=NOW - 60, pods={})
    assert look(claim, Sightings()).missing == (replace(SETTLES, pod=uid_of(claim)),)


def noted(claim, **objects):
    vmi = objects.get("vmis", [None])[0]
    found = attaching.noted(a_snapshot(claims=[claim], **objects), claim, vmi, is_over=True)
    assert found is not None
    return replace(claim, attached_to=found)


def test_it_is_noted_and_its_node_has_to_look_from_then_on():
    claim = noted(a_promised(pods={}))
    uid = uid_of(claim)
    assert claim.attached_to.pods == (AttachedPod(uid=uid, node="n1"),)
    assert noted(claim).attached_to == claim.attached_to
    seen = observe(Sightings(), [claim], {}, at(NOW))
    assert seen.absent == {uid: at(NOW)}
    assert look(claim, seen, now=NOW + 179).missing == (replace(SETTLES, pod=uid),)
    proof = look(claim, seen, now=NOW + 180).proof
    assert proof is not None
    assert proof.looked == {"n1": (at(NOW), at(NOW + 180))}
    assert proof.unnoted == {("vm", "vmi-1")}
    assert "nobody saw" in proof.words[0]


@pytest.mark.parametrize(
    ("node", "sign"),
    [
        (None, Found(pod="", sign=Sign.NODE_OFF, node="n1")),
        (a_node(ready=False, taints=[OUT]), Found(pod="", sign=Sign.NODE_OFF, node="n1")),
        (a_node(ready=False), replace(SETTLES, lack=Lack.NODE_UNKNOWN)),
        (a_node(ready_since=NOW - 100), SETTLES),
    ],
    ids=["gone", "out of service", "not Ready", "Ready for a short while"],
)
def test_its_node_is_asked_as_of_a_pod_that_is_gone(node, sign):
    claim = noted(a_promised(pods={}))
    uid = uid_of(claim)
    seen = Sightings(absent={uid: at(NOW - 300)})
    found = look(claim, seen, nodes=[node] if node else [])
    assert (*found.found, *found.missing) == (replace(sign, pod=uid),)


@pytest.mark.parametrize(
    ("held_by", "pods", "proven"),
    [
        ((), (), True),
        (("q",), (a_pod(uid="q", on="n1"),), True),
        (("q",), (), False),
    ],
    ids=["no device is held", "by a pod that is there", "by one that is not"],
)
def test_an_agent_proves_it_by_devices_that_nobody_unknown_holds(held_by, pods, proven):
    claim = noted(a_promised(pods={}))
    seen = Sightings(absent={uid_of(claim): at(NOW - 100)})
    told = [an_inventory(observed=NOW - 80, held_by=held_by)]
    found = look(claim, seen, inventory=told, pods=pods)
    assert bool(found.found) is proven
    assert {one.sign for one in found.found} <= {Sign.NOT_HELD}


def test_it_counts_on_its_node_when_its_claim_is_lost():
    claim = noted(a_promised(pods={}))
    lost = replace(claim, phase="Lost")
    snapshot = a_snapshot(claims=[lost], nodes=[a_node(units=8), a_node("n2")])
    units = snapshot.pod_units.occupied
    assert {where[0]: amount for where, amount in units.items()} == {"n1": 1}
    assert guests.of(snapshot, ClaimSet(claims=(lost,))) is guests.Guest.ENDING


@pytest.mark.parametrize("is_anew", [True, False])
def test_the_next_start_takes_it_over_and_a_call_made_again_is_the_same_start(is_anew):
    claim = a_promised(pods={})
    found = attaching.left_behind(claim, None, is_anew=is_anew)
    assert [pod.uid for pod in found] == ([uid_of(claim)] if is_anew else [])


@pytest.mark.parametrize(
    ("vmi", "launched"),
    [
        ({"phase": "Scheduling", "active": {"q": "n1"}}, True),
        ({"phase": "Running", "active": {"q": "n1"}}, True),
        ({"phase": "Failed", "active": {"q": "n1"}}, True),
        ({"phase": "Pending", "active": {"q": "n1"}}, False),
        ({"phase": "Scheduling"}, False),
    ],
    ids=["launcher", "guest", "failed", "a temporary pod leaves it Pending", "none listed"],
)
def test_that_a_launcher_was_noted_is_kept(vmi, launched):
    claim, found = a_promised(pods={}), a_vmi(uid="vmi-1", **vmi)
    pods = [a_pod(uid="q", on="n1")]
    snapshot = a_snapshot(claims=[claim], vmis=[found], pods=pods)
    told = attaching.noted(snapshot, claim, found)
    assert told is not None
    assert told.launched is launched
    after = replace(claim, attached_to=replace(told, launched=False))
    assert attaching.is_settled(snapshot, replace(claim, attached_to=told)) is (
        vmi["phase"] != "Failed"
    )
    assert attaching.is_settled(snapshot, after) is (not launched)


def test_of_a_start_that_waits_at_the_gate_nothing_more_is_kept():
    claim, found = a_user(pods={}), a_vmi(uid="vmi-1", active={"q": "n1"})
    snapshot = a_snapshot(claims=[claim], vmis=[found])
    told = attaching.noted(snapshot, claim, found)
    assert told is not None
    assert not told.launched
