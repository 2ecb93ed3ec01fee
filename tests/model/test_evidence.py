"""Evidence: each sign that a pod has ended, each way to have none, and what a proof relies on."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpu.config import Grace
from gpu.model import evidence, sightings
from gpu.model.evidence import Witness
from gpu.model.sightings import Sightings
from gpu.model.signs import Found, Lack, Missing, Proof, Sign
from gpu.objects.meta import ObjectKey
from tests.builders import (
    L40,
    START,
    a_claim,
    a_node,
    a_pod,
    a_snapshot,
    a_taint,
    a_vmi,
    an_inventory,
    attachment,
    raw_node,
)

GRACE = Grace(release_settle=180, inventory_stale=180, attachment=60)
OUT = a_taint("node.kubernetes.io/out-of-service", "nodeshutdown", "NoExecute")
VMI = (ObjectKey("tenant-a", "vm"), "vmi-1")


def at(seconds: float):
    return START + timedelta(seconds=seconds)


NOW = 1000
GONE = Sightings(absent={"p": at(700)})
"""The pod was seen to be gone 300 s ago."""
JUST_GONE = Sightings(absent={"p": at(900)})


def a_user(*, on: str | None = "n1", pods: Any = None, **attached: Any):
    """A claim that VMI vmi-1 uses or used with pod p, on n1 unless told otherwise."""
    found = {"uid": "vmi-1", "pods": {"p": "n1"} if pods is None else pods, **attached}
    return a_claim("c", on=on, attached=attachment("vm", **found))


def a_witness(
    claim: Any = None,
    seen: Sightings = GONE,
    *,
    inventory: Any = (),
    now: float = NOW,
    **objects: Any,
) -> Witness:
    snapshot = a_snapshot(claims=[claim or a_user()], **objects)
    return evidence.witness(snapshot, inventory, seen, GRACE, at(now))


def look(claim: Any = None, seen: Sightings = GONE, **objects: Any):
    claim = claim or a_user()
    return evidence.look(a_witness(claim, seen, **objects), [claim])


SIGNS = {
    "recorded as ended": (
        {"claim": a_user(ended=["p"]), "seen": Sightings()},
        Found(pod="p", sign=Sign.ENDED, node="n1"),
    ),
    "recorded as ended, its node dead since": (
        {"claim": a_user(ended=["p"]), "nodes": [a_node(ready=False)]},
        Found(pod="p", sign=Sign.ENDED, node="n1"),
    ),
    "its object is Succeeded": (
        {"seen": Sightings(), "pods": [a_pod(uid="p", on="n1", phase="Succeeded")]},
        Found(pod="p", sign=Sign.ENDED, node="n1"),
    ),
    "its object is Failed": (
        {"seen": Sightings(), "pods": [a_pod(uid="p", on="n1", phase="Failed")]},
        Found(pod="p", sign=Sign.ENDED, node="n1"),
    ),
    "gone from the gate": (
        {"claim": a_user(pods={"p": ""}), "seen": replace(JUST_GONE, unplaced=frozenset({"p"}))},
        Found(pod="p", sign=Sign.NEVER_PLACED),
    ),
    "gone, of an order that never had a node": (
        {"claim": a_user(on=None, pods={"p": ""}), "seen": JUST_GONE},
        Found(pod="p", sign=Sign.NEVER_PLACED),
    ),
    "its node is gone": (
        {"seen": Sightings(), "nodes": []},
        Found(pod="p", sign=Sign.NODE_OFF, node="n1"),
    ),
    "its node is gone and its object is not": (
        {"seen": Sightings(), "nodes": [], "pods": [a_pod(uid="p", on="n1")]},
        Found(pod="p", sign=Sign.NODE_OFF, node="n1"),
    ),
    "its node is out of service": (
        {"seen": Sightings(), "nodes": [a_node(ready=False, taints=[OUT])]},
        Found(pod="p", sign=Sign.NODE_OFF, node="n1"),
    ),
    "nobody knows its node, and that of the claim is gone": (
        {"claim": a_user(pods={"p": ""}), "nodes": []},
        Found(pod="p", sign=Sign.NODE_OFF, node="n1"),
    ),
    "the agent looked after it went": (
        {"seen": JUST_GONE, "inventory": [an_inventory(observed=911, held_by=["another"])]},
        Found(pod="p", sign=Sign.NOT_HELD, node="n1", at=at(911)),
    ),
    "the agent of a node that is not Ready looked": (
        {
            "seen": JUST_GONE,
            "nodes": [a_node(ready=False)],
            "inventory": [an_inventory(observed=911)],
        },
        Found(pod="p", sign=Sign.NOT_HELD, node="n1", at=at(911)),
    ),
    "its node was Ready for long enough": (
        {"seen": Sightings(absent={"p": at(820)})},
        Found(pod="p", sign=Sign.NODE_LOOKED, node="n1", at=at(1000), since=at(820)),
    ),
    "its node came back, and was Ready for long enough": (
        {"nodes": [a_node(ready_since=815)]},
        Found(pod="p", sign=Sign.NODE_LOOKED, node="n1", at=at(995), since=at(815)),
    ),
}


@pytest.mark.parametrize(("given", "found"), SIGNS.values(), ids=SIGNS)
def test_a_pod_is_known_to_have_ended(given, found):
    seen = look(**given)
    assert (seen.found, seen.missing) == ((found,), ())


def a_lack(lack: Lack, node: str | None = "n1", seconds: int = 0, pod: str = "p") -> Missing:
    return Missing(lack=lack, vm="vm", pod=pod, node=node, seconds=seconds)


UNKNOWN = a_lack(Lack.NODE_UNKNOWN, seconds=180)
SETTLING = a_lack(Lack.NODE_SETTLING, seconds=180)
UNPLACED = Sightings(unplaced=frozenset({"p"}))
GATED = a_pod(uid="p", phase="Pending", gates=["g"])
PINNED = a_pod(uid="p", phase="Pending", pinned="n1")
LACKS = {
    "it runs": (
        {"seen": Sightings(), "pods": [a_pod(uid="p", on="n1")]},
        a_lack(Lack.POD_NOT_ENDED),
    ),
    "it runs on a node that is not Ready": (
        {"seen": Sightings(), "pods": [a_pod(uid="p", on="n1")], "nodes": [a_node(ready=False)]},
        a_lack(Lack.NODE_UNKNOWN),
    ),
    "it waits at the gate, though the node of its claim is gone": (
        {"claim": a_user(pods={"p": ""}), "seen": UNPLACED, "pods": [GATED], "nodes": []},
        a_lack(Lack.POD_NOT_ENDED, None),
    ),
    "pinned to a node that is gone, and not bound to it: the node may come back": (
        {"seen": Sightings(), "pods": [PINNED], "nodes": []},
        a_lack(Lack.POD_NOT_ENDED),
    ),
    "force-deleted on a node that is dead": ({"nodes": [a_node(ready=False)]}, UNKNOWN),
    "force-deleted on a dead node whose agent was heard last before that": (
        {"nodes": [a_node(ready=False)], "inventory": [an_inventory(observed=690)]},
        UNKNOWN,
    ),
    "its node has not been Ready for long enough": (
        {"seen": Sightings(absent={"p": at(821)})},
        SETTLING,
    ),
    "its node came back a short while ago": ({"nodes": [a_node(ready_since=830)]}, SETTLING),
    "since when its node is Ready nobody knows": (
        {"nodes": [replace(a_node(), ready_since=None)]},
        SETTLING,
    ),
    "a new leader has not looked yet": ({"seen": Sightings()}, SETTLING),
    "a new leader saw it for the first time just now": (
        {"seen": Sightings(absent={"p": at(1000)})},
        SETTLING,
    ),
    "the inventory is stale": (
        {
            "seen": Sightings(absent={"p": at(500)}),
            "nodes": [a_node(ready=False)],
            "inventory": [an_inventory(observed=819)],
        },
        UNKNOWN,
    ),
    "the inventory is older than the disappearance": (
        {"seen": JUST_GONE, "inventory": [an_inventory(observed=899)]},
        SETTLING,
    ),
    "the inventory is no newer than clocks are apart": (
        {"seen": JUST_GONE, "inventory": [an_inventory(observed=909)]},
        SETTLING,
    ),
    "the inventory is from the future": (
        {"seen": JUST_GONE, "inventory": [an_inventory(observed=1011)]},
        SETTLING,
    ),
    "the inventory is empty": (
        {"seen": JUST_GONE, "inventory": [an_inventory(healthy=0, observed=950)]},
        SETTLING,
    ),
    "the inventory has no device of the resource": (
        {"seen": JUST_GONE, "inventory": [an_inventory(resource=L40, observed=950)]},
        SETTLING,
    ),
    "the inventory is of another node": (
        {"seen": JUST_GONE, "inventory": [an_inventory("n2", observed=950)]},
        SETTLING,
    ),
    "the agent saw that it holds a device": (
        {"seen": JUST_GONE, "inventory": [an_inventory(observed=950, held_by=["p"])]},
        SETTLING,
    ),
    "nobody knows what the class is made of": (
        {"seen": JUST_GONE, "inventory": [an_inventory(observed=950)], "classes": []},
        SETTLING,
    ),
    "gone without a node, and nobody saw it at a gate": (
        {"claim": a_user(pods={"p": ""}), "seen": JUST_GONE},
        SETTLING,
    ),
    "gone, once at a gate, and its node was recorded before it was let through": (
        {"seen": replace(JUST_GONE, unplaced=frozenset({"p"}))},
        SETTLING,
    ),
    "its VMI lists it, and it is not to be seen": (
        {
            "claim": a_user(pods={}),
            "seen": Sightings(),
            "vmis": [a_vmi(uid="vmi-1", active={"p": "n1"})],
        },
        SETTLING,
    ),
    "its VMI lists it, and it runs": (
        {
            "claim": a_user(pods={}),
            "seen": Sightings(),
            "vmis": [a_vmi(uid="vmi-1", active={"p": ""})],
            "pods": [a_pod(uid="p", on="n1")],
        },
        a_lack(Lack.POD_NOT_ENDED),
    ),
    "its VMI may still come": (
        {"claim": a_user(uid="", since=941, pods={})},
        a_lack(Lack.START_PENDING, None, 60, pod=""),
    ),
}


@pytest.mark.parametrize(("given", "missing"), LACKS.values(), ids=LACKS)
def test_nobody_knows_that_a_pod_has_ended(given, missing):
    seen = look(**given)
    assert (seen.missing, seen.proof) == ((missing,), None)


@pytest.mark.parametrize("lack", Lack)
def test_what_is_lacking_is_said_with_the_next_step(lack):
    words = a_lack(lack, seconds=180).words
    assert "VM vm" in words
    assert any(step in words for step in ("bring", "stop", "wait")), words


def test_a_claim_attached_to_nothing_needs_no_evidence():
    claim = a_claim("c", on="n1")
    assert evidence.judge(a_witness(claim), [claim]) == Proof()


def test_a_vmi_that_never_came_leaves_nothing_to_prove():
    claim = a_user(uid="", since=940, pods={})
    assert evidence.judge(a_witness(claim), [claim]) == Proof(namespace="tenant-a")


def test_a_pod_of_the_next_start_under_the_same_name_is_not_judged():
    """The VMI there has another uid and another admission: what it runs is another attachment's."""
    objects = {
        "vmis": [a_vmi(uid="vmi-2", active={"q": "n1"}, admissions={"c": "another"})],
        "pods": [a_pod(uid="q", on="n1")],
    }
    claim = a_user(ended=["p"])
    assert look(claim, **objects).found == (Found(pod="p", sign=Sign.ENDED, node="n1"),)


def test_a_pod_of_a_vmi_that_carries_the_claims_admission_is_judged_before_the_uid_is_adopted():
    objects = {
        "vmis": [a_vmi(uid="vmi-2", active={"q": "n1"}, admissions={"c": "adm-vm"})],
        "pods": [a_pod(uid="q", on="n1")],
    }
    seen = look(a_user(uid="", since=0, pods={}), **objects)
    assert seen.missing == (a_lack(Lack.POD_NOT_ENDED, pod="q"),)
    assert seen.vmis == {(ObjectKey("tenant-a", "vm"), "vmi-2")}


def test_an_attachment_without_an_id_counts_for_whichever_vmi_has_the_name():
    claim = a_claim("c", on="n1", attached={"name": "vm"})
    objects = {"vmis": [a_vmi(active={"q": "n1"})], "pods": [a_pod(uid="q", on="n1")]}
    assert look(claim, **objects).missing == (a_lack(Lack.POD_NOT_ENDED, pod="q"),)


def test_every_pod_needs_evidence_and_what_needs_a_person_is_said_first():
    claim = a_user(pods={"a": "n1", "b": "n2", "c": "n3"}, ended=["a"])
    objects = {
        "nodes": [a_node(), a_node("n2"), a_node("n3", ready=False)],
        "pods": [a_pod("b", uid="b", on="n2")],
    }
    seen = look(claim, Sightings(absent={"c": at(500)}), **objects)
    assert [missing.lack for missing in seen.missing] == [Lack.NODE_UNKNOWN, Lack.POD_NOT_ENDED]
    assert (seen.proof, seen.ended) == (None, {"a"})


def test_the_pods_of_all_claims_of_a_set_count_for_each():
    """A write of one member's record may have failed: what the other has noted is true of both."""
    one = a_user(ended=["p"])
    two = a_claim("d", on="n1", attached=attachment("vm", uid="vmi-1", pods={"p": "n1", "q": "n1"}))
    looking = a_witness(one, Sightings(), pods=[a_pod("q", uid="q", on="n1")])
    assert evidence.judge(looking, [one, two]) is None
    assert evidence.judge(looking, [one]) is not None


def test_a_proof_says_what_to_read_past_the_cache():
    claim = a_user(pods={"a": "n1", "b": "off", "c": "n1", "d": "n2", "e": "n2"}, ended=["a"])
    objects = {
        "nodes": [a_node(), a_node("n2", ready_since=10)],
        "inventory": [an_inventory(observed=960)],
    }
    absent = {"c": at(950), "d": at(100), "e": at(200)}
    proof = look(claim, Sightings(absent=absent), **objects).proof
    assert proof == Proof(
        words=(
            "pod a was seen to have ended",
            "pod b: node off is gone or out of service",
            "pod c holds no device of node n1 as seen 2026-01-01T00:16:00+00:00",
            "pod d went, and node n2 was Ready until 2026-01-01T00:04:40+00:00",
            "pod e went, and node n2 was Ready until 2026-01-01T00:06:20+00:00",
        ),
        namespace="tenant-a",
        ended=frozenset({"a"}),
        gone=frozenset({"c", "d", "e"}),
        off=frozenset({"off"}),
        looked={"n2": (at(100), at(380))},
        vmis=frozenset({VMI}),
        known=frozenset("abcde"),
    )


def test_a_proof_of_some_pods_does_not_say_that_there_are_no_others():
    claim = a_user(pods={"a": "n1", "b": "n1"}, ended=["a"])
    seen = look(claim, Sightings(), pods=[a_pod("b", uid="b", on="n1")])
    assert seen.proof_of({"a"}) == Proof(
        words=("pod a was seen to have ended",),
        namespace="tenant-a",
        ended=frozenset({"a"}),
        known=frozenset({"a"}),
    )


def test_a_leader_sees_a_pod_go_and_a_new_one_starts_its_clock_anew():
    claims, gone = [a_user()], {}
    first = sightings.observe(Sightings(), claims, gone, at(0))
    assert sightings.observe(first, claims, gone, at(50)).absent == {"p": at(0)}
    assert sightings.observe(Sightings(), claims, gone, at(50)).absent == {"p": at(50)}


def test_a_pod_that_is_there_again_or_has_ended_is_not_absent():
    pod = a_pod(uid="p", on="n1")
    assert sightings.observe(GONE, [a_user()], {("tenant-a", "p"): pod}, at(0)) == Sightings()
    assert sightings.observe(GONE, [a_user(ended=["p"])], {}, at(0)) == Sightings()
    assert sightings.observe(GONE, [], {}, at(0)) == Sightings()


@pytest.mark.parametrize(
    ("pod", "unplaced"),
    [
        (a_pod(uid="p", gates=["gpu.cozystack.io/placement"]), {"p"}),
        (a_pod(uid="p"), set()),
        (a_pod(uid="p", on="n1"), set()),
    ],
    ids=["at a gate", "bound the next moment", "bound"],
)
def test_a_pod_never_had_a_node_when_a_gate_held_it_the_last_time_it_was_seen(pod, unplaced):
    claims = [a_user(pods={"p": ""})]
    seen = sightings.observe(Sightings(), claims, {("tenant-a", "p"): pod}, at(0))
    assert seen.unplaced == unplaced
    assert sightings.observe(seen, claims, {}, at(9)).unplaced == unplaced


def test_a_pod_of_the_same_uid_in_another_namespace_is_another_pod():
    pod = a_pod(uid="p", on="n1", tenant="tenant-b")
    assert sightings.observe(Sightings(), [a_user()], {("tenant-b", "p"): pod}, at(7)).absent == {
        "p": at(7)
    }


def test_a_node_is_built_with_the_instant_it_became_ready():
    assert raw_node(ready_since=5)["status"]["conditions"][0]["lastTransitionTime"] == (
        "2026-01-01T00:00:05Z"
    )
