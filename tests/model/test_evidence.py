"""Evidence of the ends of all pods of some claims: whose pods are judged, and what a proof relies on."""

import pytest

from gpu.model import evidence
from gpu.model.sightings import Sightings
from gpu.model.signs import Found, Lack, Proof, Sign
from gpu.objects.meta import ObjectKey
from tests.builders import a_claim, a_node, a_pod, a_vmi, an_inventory, attachment, raw_node
from tests.model.witnessed import a_lack, a_user, a_witness, at, look

VMI = (ObjectKey("tenant-a", "vm"), "vmi-1")


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


def test_a_vmi_that_came_and_went_before_it_was_noted_is_over():
    """This leader has seen it; another waits for it until the grace is over."""
    claim, came = a_user(uid="", since=999, pods={}), Sightings(came={"adm-vm": "vmi-1"})
    assert [it.lack for it in look(claim, Sightings()).missing] == [Lack.START_PENDING]
    assert not evidence.is_over(a_witness(claim, Sightings()), claim, None)
    found = look(claim, came)
    assert (found.missing, found.vmis) == ((), {VMI})
    assert evidence.is_over(a_witness(claim, came), claim, None)


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


def test_a_node_is_built_with_the_instant_it_became_ready():
    assert raw_node(ready_since=5)["status"]["conditions"][0]["lastTransitionTime"] == (
        "2026-01-01T00:00:05Z"
    )
