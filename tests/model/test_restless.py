from datetime import timedelta

from gpu.config import Grace
from gpu.model import sightings
from gpu.model.restless import Restless
from gpu.model.sightings import Sightings
from tests.builders import START, a_claim, a_node, a_pod, a_snapshot, a_vmi


def test_only_namespaces_in_which_something_changed_are_looked_at_again():
    one = a_claim("one", tenant="tenant-a", on="n1", vm="v")
    two = a_claim("two", tenant="tenant-b", on="n1", vm="v")
    vmis = (a_vmi("v", tenant="tenant-a"), a_vmi("v", tenant="tenant-b"))
    pods = (a_pod("p", tenant="tenant-a"),)
    looked = []
    known = Restless()

    def follow(claims, vmis, pods, bad):
        looked.clear()
        return known.follow(
            claims, vmis, pods, lambda claim: looked.append(claim) or claim.key in bad
        )

    assert (follow((one, two), vmis, pods, {one.key}), looked) == ({one.key}, [one, two])
    assert (follow((one, two), vmis, pods, set()), looked) == ({one.key}, [])
    fresh = (a_pod("p", tenant="tenant-b"),)
    assert (follow((one, two), vmis, (*pods, *fresh), {two.key}), looked) == (
        {one.key, two.key},
        [two],
    )
    other = (a_vmi("v", tenant="tenant-a", phase="Failed"), vmis[1])
    assert (follow((one, two), other, (*pods, *fresh), set()), looked) == ({two.key}, [one])
    assert (follow((one,), other, (*pods, *fresh), set()), looked) == (set(), [])


def test_a_look_where_something_changed_sees_what_a_look_at_all_does():
    there = a_pod("there", uid="there", on="n1")
    claims = (
        a_claim("one", on="n1", vm="v", pod_uids=["there"]),
        a_claim("two", on="n1", vm="w", pod_uids=["gone"]),
        a_claim("three", on="n1", vm="x", pod_uids=["gated"]),
    )
    gated = a_pod("gated", uid="gated", gates=["g"])
    steps = [
        a_snapshot(claims=claims, pods=[there, gated], nodes=[a_node()]),
        a_snapshot(claims=claims, pods=[gated], nodes=[a_node()]),
        a_snapshot(claims=claims, pods=[there], nodes=[a_node()]),
        a_snapshot(claims=claims[:1], pods=[], nodes=[a_node()]),
    ]
    before, all_before, memory = Sightings(), Sightings(), steps[0].memo.unseen
    for index, step in enumerate(steps):
        step.memo.unseen = memory
        now = START + timedelta(seconds=index)
        all_before = sightings.observe(all_before, step.attached, step.pods, now)
        before = sightings.look(before, step, Grace(), now)
        assert (before.absent, before.unplaced) == (all_before.absent, all_before.unplaced)
    assert before.absent == {"there": START + timedelta(seconds=3)}
