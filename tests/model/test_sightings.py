"""Sightings: since when a leader has not seen a pod, and which went before they had a node."""

import pytest

from gpu.model import sightings
from gpu.model.sightings import Sightings
from tests.builders import a_pod
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
