"""Demotions: which starts count as failed, what that costs the next one, and what makes it well again."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu import keys
from gpu.model import demotions
from gpu.model.demotions import Demotions
from gpu.objects import kubevirt, pods
from gpu.objects.meta import ObjectKey
from tests import builders, sampling
from tests.builders import START, a_snapshot
from tests.starting import raw_launcher, raw_starting_vmi

VM = ObjectKey("tenant-a", "vm")


def at(seconds):
    return START + timedelta(seconds=seconds)


def scene(number=1, phase="Scheduling", *, failed=0, counts=1, pod="past", deleting=False, since=0):
    """The VM's `number`-th VMI in a phase, or none ("gone"); `failed` is the one that KubeVirt counts."""
    vm = builders.raw_vm()
    if failed:
        told = {"lastFailedVMIUID": f"vmi-{failed}", "consecutiveFailCount": counts}
        vm["status"] = {"startFailure": told}
    found = {"classes": [builders.a_class()], "vms": [kubevirt.decode_vm(vm)]}
    if phase == "gone":
        return a_snapshot(**found)
    uid = f"p{number}"
    vmi = raw_starting_vmi(uid=f"vmi-{number}", phase=phase, active={uid: ""}, deleting=deleting)
    gates = [keys.PLACEMENT_GATE] if pod == "gated" else []
    launcher = raw_launcher(uid, uid=uid, gates=gates, term=None if gates else 1, on="n1")
    launcher["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": builders.instant(since)}
    ]
    if gates:
        del launcher["spec"]["nodeName"]
    return a_snapshot(
        vmis=[kubevirt.decode_vmi(vmi)], pods=[pods.decode(launcher)] if pod else [], **found
    )


def look(found, old=None, seconds=0.0, rejected=()):
    return demotions.observe(old or Demotions(), found, frozenset(rejected), at(seconds))


def run(*steps, old=None):
    """Look at one scene after the other; a step is a scene, or seconds and a scene."""
    known, now = old or Demotions(), 0.0
    for step in steps:
        seconds, found = step if isinstance(step, tuple) else (now + 1, step)
        now = seconds
        known = look(found, known, now)
    return known


def failures(known):
    found = known.failing.get(str(VM))
    return found.failures if found else 0


def failing(times, *, first=1, every=1.0, old=None):
    """So many starts in a row that fail, each gone before the next."""
    known, now = old or Demotions(), 0.0
    for number in range(first, first + times):
        for phase in ("Scheduling", "Failed", "gone"):
            now += every
            known = look(scene(number, phase, since=now), known, now)
    return known, now


def test_a_start_that_fails_is_noted_and_costs_nothing():
    known, _ = failing(1)
    assert failures(known) == 1
    assert known.of(VM) is None


def test_the_second_in_a_row_makes_the_next_one_wait():
    known, now = failing(2)
    found = known.of(VM)
    assert (found.failures, found.until) == (2, at(now - 1 + 10))
    assert known.due(at(now)) == found.until
    assert known.due(found.until) is None


@pytest.mark.parametrize(
    ("count", "seconds"), [(0, 0), (1, 0), (2, 10), (3, 20), (4, 40), (6, 160), (7, 300), (99, 300)]
)
def test_each_costs_twice_as_much_up_to_five_minutes(count, seconds):
    assert demotions.delay(count) == timedelta(seconds=seconds)


def test_a_failure_is_counted_once_however_long_it_is_seen():
    assert failures(run(scene(), scene(1, "Failed"), scene(1, "Failed", failed=1))) == 1
    assert failures(run(scene(), scene(1, "gone", failed=1), scene(1, "gone", failed=1))) == 1


def test_kubevirts_word_counts_where_the_vmi_was_gone_before_anybody_looked():
    assert failures(run(scene(), scene(1, "gone"), scene(1, "gone", failed=1))) == 1
    late = [scene(), scene(1, "gone"), (100, scene(1, "gone")), scene(1, "gone", failed=1)]
    assert failures(run(*late)) == 0


WELL = {
    "one that was stopped": [scene(), scene(1, deleting=True), scene(1, "Failed", deleting=True)],
    "one that ended well": [scene(), scene(1, "Running"), scene(1, "Succeeded"), scene(1, "gone")],
    "one that is gone without a word": [scene(), scene(1, "gone")],
    "one that never passed the gate": [scene(pod="gated"), scene(1, "Failed", pod="gated")],
    "one without a pod": [scene(pod=""), scene(1, "Failed", pod="")],
    "one that ran for a minute": [
        scene(),
        (10, scene(1, "Running")),
        (70, scene(1, "Running")),
        scene(1, "Failed"),
    ],
    "one that a new leader sees running for long": [
        (500, scene(1, "Running")),
        (501, scene(1, "Failed")),
    ],
}


@pytest.mark.parametrize("name", WELL)
def test_others_have_not_failed(name):
    assert failures(run(*WELL[name])) == 0


def test_a_guest_that_crashes_within_the_first_minute_has_failed():
    assert failures(run(scene(), (5, scene(1, "Running")), (64, scene(1, "Failed")))) == 1


def test_so_has_one_that_runs_already_when_it_is_first_looked_at():
    assert failures(run((30, scene(1, "Running")), (40, scene(1, "Failed")))) == 1


def test_what_its_node_refused_is_no_failure():
    known = look(scene())
    known = look(scene(1, "Failed", failed=1), known, 1, rejected=["vmi-1"])
    assert failures(known) == 0


def test_nor_is_it_when_that_is_seen_later():
    first, now = failing(2)
    known = look(scene(2, "gone"), first, now + 1, rejected=["vmi-2"])
    assert failures(known) == 1
    assert failures(look(scene(2, "gone"), known, now + 2, rejected=["vmi-2"])) == 1


def test_a_guest_that_ran_for_a_minute_makes_it_well():
    known, now = failing(4)
    up = look(scene(9, "Running", since=now), known, now + 1)
    assert failures(look(scene(9, "Running", since=now), up, now + 60)) == 4
    assert failures(look(scene(9, "Running", since=now), up, now + 61)) == 0


def test_a_guest_that_comes_up_for_a_moment_does_not():
    known, now = failing(3)
    known = look(scene(9, since=now), known, now + 1)
    known = look(scene(9, "Running", since=now), known, now + 2)
    assert failures(look(scene(9, "Failed"), known, now + 10)) == 4


def test_stopping_the_vm_forgets_what_kubevirt_counted():
    counted = run(
        scene(), scene(1, "gone", failed=1), scene(2, failed=1), scene(2, "gone", failed=2)
    )
    assert (failures(counted), counted.failing[str(VM)].is_counted) == (2, True)
    assert failures(look(scene(2, "gone", failed=2), counted, 10)) == 2
    assert failures(look(scene(3, pod="gated"), counted, 10)) == 2
    assert failures(look(scene(2, "gone"), counted, 10)) == 0


def test_a_start_that_was_stopped_is_forgotten_once_its_vmi_is_gone():
    """A burst of VMs that came and went costs the passes after it nothing."""
    stopped = run(scene(), scene(1, deleting=True))
    assert list(stopped.runs) == [str(VM)]
    assert look(scene(1, "gone"), stopped, 3).runs == {}
    assert list(look(scene(1, "gone"), run(scene()), 3).runs) == [str(VM)], (
        "one that may have failed"
    )


def test_failures_that_are_long_ago_are_forgotten():
    known, now = failing(3)
    until = known.failing[str(VM)].until
    gone = scene(3, "gone")
    assert failures(demotions.observe(known, gone, (), until + demotions.FORGOTTEN)) == 3
    later = until + demotions.FORGOTTEN + timedelta(seconds=1)
    assert failures(demotions.observe(known, gone, (), later)) == 0
    assert now < 600


def test_a_new_leader_knows_what_kubevirt_counted_and_begins_its_delays_anew():
    known = look(scene(4, pod="gated", failed=3, counts=3), seconds=5)
    found = known.of(VM)
    assert (found.failures, found.until) == (3, at(5))
    known = look(scene(4, failed=3, counts=3), known, 6)
    known = look(scene(4, "Failed", failed=4, counts=4), known, 7)
    assert (known.of(VM).failures, known.of(VM).until) == (4, at(7 + 40))


def test_the_ones_that_failed_longest_ago_are_forgotten_when_there_are_too_many():
    one = failing(2)[0].failing[str(VM)]
    many = {f"t/{number}": one for number in range(demotions.MOST + 1)}
    assert (
        len(look(scene(1, "gone"), Demotions(failing=many, began=True), 3).failing)
        == demotions.MOST
    )


@sampling.examples(25)
@given(st.lists(st.sampled_from(["fails", "runs", "refused", "stopped"]), max_size=12))
def test_what_counts_is_failures_in_a_row(starts):
    known, now, wanted = Demotions(), 0.0, 0
    known = look(scene(0, "gone"), known)
    for number, what in enumerate(starts, start=1):
        known = look(scene(number, since=now), known, now + 1)
        rejected = [f"vmi-{number}"] if what == "refused" else []
        if what == "runs":
            known = look(scene(number, "Running", since=now), known, now + 2)
            now += 62
            known = look(scene(number, "Running", since=now), known, now)
            known = look(scene(number, deleting=True, phase="Running", since=0), known, now + 1)
            wanted = 0
        elif what == "stopped":
            known = look(scene(number, deleting=True), known, now + 2)
            known = look(scene(number, "Failed", deleting=True), known, now + 3)
        else:
            known = look(scene(number, "Failed"), known, now + 2, rejected)
            wanted += what == "fails"
        known = look(scene(number, "gone"), known, now + 4, rejected)
        now += 5
        assert failures(known) == wanted
        assert (known.of(VM) is not None) is (wanted > 1)
