"""Guests: what a set's VM does, from its VMI and pods that are its for certain."""

import pytest

from gpu import keys
from gpu.model import guests, sets
from gpu.model.guests import Guest
from gpu.objects import kubevirt
from tests.builders import a_claim, a_pod, a_snapshot, a_vmi, attachment, raw_vmi

NOT_STARTED = ["", "Pending", "Scheduling", "Scheduled"]
ENDED = ["Succeeded", "Failed"]


def of(*, claims=None, vmis=(), pods=(), recorded=None, ended=(), uid="vmi-tenant-a-vm", **more):
    """The guest of the one set there is: a claim attached to VM `vm` with these recorded pods."""
    told = attachment("vm", uid=uid, pods=recorded or {}, ended=ended, **more)
    claims = [a_claim(on="n1", attached=told)] if claims is None else claims
    snapshot = a_snapshot(claims=claims, vmis=list(vmis), pods=list(pods))
    (found,) = snapshot.sets
    return guests.of(snapshot, found)


def vmi(phase, *active, **more):
    return a_vmi("vm", phase=phase, active=dict.fromkeys(active, "n1"), **more)


def pod(uid="p", **more):
    return a_pod(uid, uid=uid, **({"on": "n1"} | more))


GATED = pod(on=None, phase="Pending", gates=[keys.PLACEMENT_GATE])


def test_a_claim_attached_to_nothing_has_no_guest():
    assert of(claims=[a_claim(on="n1")], vmis=[vmi("Running")]) is Guest.OFF


@pytest.mark.parametrize("phase", ["Running", "Paused", "Unknown", "WhateverComes"])
def test_a_guest_runs_in_every_phase_that_is_not_known_to_be_before_or_after(phase):
    assert of(vmis=[vmi(phase, "p")], pods=[pod()]) is Guest.RUNNING
    assert of(vmis=[vmi(phase)]) is Guest.RUNNING


@pytest.mark.parametrize("phase", NOT_STARTED)
def test_a_guest_starts_once_a_pod_is_past_the_gate(phase):
    assert of(vmis=[vmi(phase, "p")], pods=[pod(on=None, phase="Pending")]) is Guest.STARTING
    assert of(vmis=[vmi(phase, "p")], pods=[pod()]) is Guest.STARTING
    assert of(vmis=[vmi(phase, "p")]) is Guest.STARTING


@pytest.mark.parametrize("phase", NOT_STARTED)
def test_a_guest_whose_pods_are_at_the_gate_or_over_is_gated(phase):
    assert of(vmis=[vmi(phase, "p")], pods=[GATED]) is Guest.GATED
    assert of(vmis=[vmi(phase)]) is Guest.GATED
    assert of(vmis=[vmi(phase, "p")], pods=[pod(phase="Succeeded")]) is Guest.GATED


def test_another_gate_than_ours_does_not_hold_a_guest():
    waits = pod(on=None, phase="Pending", gates=["example.org/other"])
    assert of(vmis=[vmi("Scheduling", "p")], pods=[waits]) is Guest.STARTING


@pytest.mark.parametrize("phase", ENDED)
def test_a_guest_that_is_over_ends_until_its_pods_are_known_to_have_ended(phase):
    assert of(vmis=[vmi(phase, "p")], pods=[pod()]) is Guest.ENDING
    assert of(vmis=[vmi(phase, "p")], recorded={"p": "n1"}) is Guest.ENDING
    assert of(vmis=[vmi(phase, "p")], pods=[pod(phase="Failed")]) is Guest.OFF
    assert of(vmis=[vmi(phase, "p")], recorded={"p": "n1"}, ended=["p"]) is Guest.OFF


def test_a_vmi_that_is_going_ends_its_guest_whatever_its_phase():
    assert of(vmis=[vmi("Running", "p", deleting=True)], pods=[pod()]) is Guest.ENDING
    assert of(vmis=[vmi("Scheduling", "p", deleting=True)], pods=[GATED]) is Guest.ENDING


def test_a_vmi_that_is_gone_leaves_its_pods_to_end():
    assert of(recorded={"p": "n1"}, pods=[pod()]) is Guest.ENDING
    assert of(recorded={"p": "n1"}) is Guest.ENDING
    assert of(recorded={"p": "n1"}, pods=[pod(phase="Succeeded")]) is Guest.OFF
    assert of() is Guest.OFF


def test_the_next_vmi_of_that_name_is_not_the_guest():
    other = vmi("Running", "q")
    assert of(vmis=[other], pods=[pod("q")], uid="older", recorded={"p": "n1"}) is Guest.ENDING
    assert of(vmis=[other], pods=[pod("q")], uid="older") is Guest.OFF


def test_before_its_uid_is_known_a_vmi_is_told_by_the_webhooks_id():
    mine = vmi("Running", "p", admissions={"c": "adm-vm"})
    assert of(vmis=[mine], uid="") is Guest.RUNNING
    assert of(vmis=[vmi("Running", "p", admissions={"c": "another"})], uid="") is Guest.OFF


def test_a_pod_that_only_says_it_is_the_vmis_does_not_count():
    assert of(vmis=[vmi("Scheduling")], pods=[pod()]) is Guest.GATED


def test_every_member_of_the_set_tells_of_its_guest():
    claims = [a_claim("a", vm="vm", on="n1"), a_claim("b", vm="vm", on="n1", pod_uids=["p"])]
    assert of(claims=claims) is Guest.ENDING
    assert [item.id for item in sets.group(claims)] == ["tenant-a/a"]


def test_pods_at_the_gate_are_open_and_ended_ones_are_not():
    told = attachment("vm", uid="vmi-tenant-a-vm", pods={"p": "n1", "q": "n1"}, ended=["q"])
    snapshot = a_snapshot(
        claims=[a_claim(on="n1", attached=told)],
        vmis=[vmi("Scheduling", "p", "q", "r")],
        pods=[pod("r", on=None, phase="Pending", gates=[keys.PLACEMENT_GATE])],
    )
    (found,) = snapshot.sets
    assert guests.open_pods(snapshot, found) == {"p", "r"}
    assert [guests.is_gated(snapshot, "tenant-a", uid) for uid in "pr"] == [False, True]


def test_a_vm_whose_temporary_pod_is_over_is_provisioning_until_its_launcher_comes():
    """In between KubeVirt lists no pod at all, or the finished one, however long the import takes."""
    hole = of(vmis=[vmi("Pending")], recorded={"p": "n1"}, ended=["p"])
    assert hole is Guest.PROVISIONING
    listed = of(
        vmis=[vmi("Pending", "p")], pods=[pod(phase="Succeeded")], recorded={"p": "n1"}, ended=["p"]
    )
    assert listed is Guest.PROVISIONING
    launcher = of(vmis=[vmi("Scheduling", "p")], pods=[GATED], recorded={"q": "n1"}, ended=["q"])
    assert launcher is Guest.GATED


def test_a_vm_whose_temporary_pod_runs_is_provisioning_too():
    raw = raw_vmi("vm", phase="Pending", active={"p": "n1"})
    raw["status"]["conditions"] = [{"type": "Provisioning", "status": "True"}]
    assert of(vmis=[kubevirt.decode_vmi(raw)], pods=[pod()]) is Guest.PROVISIONING
