"""Sightings: since when a leader has not seen a pod, and which went before they had a node."""

import pytest

from gpu.config import Grace
from gpu.model import sightings
from gpu.model.sightings import Sightings
from gpu.objects.claims import AttachedPod
from tests.builders import a_pod, a_snapshot, a_vmi
from tests.model.witnessed import GONE, a_user, at


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
        (a_pod(uid="p", gates=["example.com/quota"]), set()),
        (a_pod(uid="p"), set()),
        (a_pod(uid="p", on="n1"), set()),
    ],
    ids=["at our gate", "at another's", "bound the next moment", "bound"],
)
def test_a_pod_never_had_a_node_when_our_gate_held_it_the_last_time_it_was_seen(pod, unplaced):
    claims = [a_user(pods={"p": ""})]
    seen = sightings.observe(Sightings(), claims, {("tenant-a", "p"): pod}, at(0))
    assert seen.unplaced == unplaced
    assert sightings.observe(seen, claims, {}, at(9)).unplaced == unplaced


def test_a_pod_of_the_same_uid_in_another_namespace_is_another_pod():
    pod = a_pod(uid="p", on="n1", tenant="tenant-b")
    assert sightings.observe(Sightings(), [a_user()], {("tenant-b", "p"): pod}, at(7)).absent == {
        "p": at(7)
    }


GATED = a_pod(uid="p", gates=["gpu.cozystack.io/placement"])
LET = a_pod(uid="p")
KEY = ("tenant-a", "p")


def test_a_launcher_that_was_prepared_had_no_node_until_its_pin_is_sent_or_it_is_past_the_gate():
    claims, noted = [a_user()], AttachedPod(uid="p", node="n1")
    seen = sightings.prepare(
        sightings.observe(Sightings(), claims, {KEY: GATED}, at(0)), [GATED], []
    )
    gone = sightings.observe(seen, claims, {}, at(2))
    assert sightings.never_placed(gone, "tenant-a", noted)
    assert sightings.never_placed(sightings.observe(gone, claims, {}, at(3)), "tenant-a", noted)
    sent = sightings.observe(sightings.prepare(seen, [], [GATED]), claims, {}, at(2))
    assert not sightings.never_placed(sent, "tenant-a", noted)
    through = sightings.observe(seen, claims, {KEY: LET}, at(1))
    again = sightings.observe(through, claims, {KEY: GATED}, at(2))  # the watch went back
    assert not sightings.never_placed(
        sightings.observe(again, claims, {}, at(3)), "tenant-a", noted
    )


def test_one_that_another_leader_noted_with_a_node_may_have_had_it_though_it_is_seen_at_the_gate():
    """A new leader's view may lag behind the pin."""
    seen = sightings.observe(Sightings(), [a_user()], {KEY: GATED}, at(0))
    gone = sightings.observe(seen, [a_user()], {}, at(1))
    assert not sightings.never_placed(gone, "tenant-a", AttachedPod(uid="p", node="n1"))
    assert sightings.never_placed(gone, "tenant-a", AttachedPod(uid="p", node=""))


def test_launchers_that_no_claim_notes_are_forgotten_once_they_are_gone():
    known = sightings.prepare(Sightings(), [GATED], [])
    assert sightings.observe(known, [], {KEY: GATED}, at(0)).prepared == {KEY}
    assert sightings.observe(known, [], {}, at(0)) == Sightings()


def test_a_vmi_that_came_is_remembered_until_its_claim_notes_it_or_lets_go():
    claim = a_user(uid="", pods={})
    vmi = a_vmi("vm", uid="vmi-1", admissions={claim.meta.name: claim.attached_to.admission})
    came = looked(Sightings(), [claim], [vmi])
    assert came.came == {claim.attached_to.admission: "vmi-1"}
    gone = looked(came, [claim], [])
    assert gone.came == came.came
    assert sightings.known(gone, claim).attached_to.uid == "vmi-1"
    assert looked(gone, [a_user(pods={})], []).came == {}
    assert looked(gone, [], []).came == {}


def test_a_vmi_of_the_name_that_is_another_start_is_none_that_came():
    claim = a_user(uid="", pods={})
    other = a_vmi("vm", uid="vmi-2", admissions={claim.meta.name: "of-another-start"})
    seen = looked(Sightings(), [claim], [other])
    assert (seen.came, sightings.known(seen, claim)) == ({}, claim)


def looked(old, claims, vmis):
    return sightings.look(old, a_snapshot(claims=claims, vmis=vmis), Grace(), at(0))
