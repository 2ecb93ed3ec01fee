"""The judge alone: what it must see, on a cluster that is changed behind the binder's back."""

from datetime import timedelta

import pytest

from gpu.binder.report import PassReport
from gpu.objects import kinds
from soak import closely
from soak.machines import Guest
from tests.binder import raws


def put(site, name="x", units=1, node="n0", status=None, **more):
    status = raws.bound(node) if status is None else status
    raw = raws.a_claim(name, class_name="c0", count=units, status=status | more)
    return site.api.put(kinds.GPU_CLAIMS, raw)


def guest_of(site, claim, node="n0", vm="vm0"):
    uid, tenant = claim["metadata"]["uid"], claim["metadata"]["namespace"]
    name = f"{tenant}/{claim['metadata']['name']}"
    units = {site.resources[0]: claim["spec"]["count"]}
    site.guests.append(Guest("pod-1", f"{tenant}/{vm}", node, units, {uid: name}))


ATTACHED = {"attachedTo": {"name": "vm0", "admission": "a"}}


def sorts(wrong):
    return [words.partition(":")[0] for words in wrong]


def test_a_node_that_is_full_is_well(site, judge):
    put(site, units=site.machines["n0"].units[site.resources[0]])
    assert judge.look() == []


def test_one_unit_too_many_is_booked_twice(site, judge):
    put(site, units=site.machines["n0"].units[site.resources[0]])
    judge.look()
    put(site, "y")
    assert sorts(judge.look()) == ["booked twice"]


def test_a_claim_covers_its_own_guest(site, judge):
    units = site.machines["n0"].units[site.resources[0]]
    guest_of(site, put(site, units=units, **ATTACHED))
    assert judge.look() == []


def test_a_guest_whose_claim_is_lost_still_has_its_units(site, judge):
    units = site.machines["n0"].units[site.resources[0]]
    guest_of(site, put(site, units=units, **ATTACHED, phase="Lost"))
    judge.look()
    put(site, "y")
    assert sorts(judge.look()) == ["booked twice"]


def test_a_node_nobody_has_holds_nothing(site, judge):
    put(site, node="nowhere")
    assert sorts(judge.look()) == ["booked twice"]


@pytest.mark.parametrize(
    ("change", "sort"),
    [
        ({"attachedTo": None}, "detached too early"),
        ({"nodeName": "n1"}, "moved too early"),
        (None, "released too early"),
    ],
)
def test_what_is_taken_from_under_a_running_guest_is_seen(site, judge, change, sort):
    site.machines["n1"].units = dict(site.machines["n0"].units)
    claim = put(site, **ATTACHED)
    guest_of(site, claim)
    assert judge.look() == []
    if change is None:
        site.api.erase(kinds.GPU_CLAIMS, claim)
    else:
        site.api.edit(kinds.GPU_CLAIMS, claim, lambda it: it["status"].update(change))
    assert sorts(judge.look()) == [sort]


def lose(site, judge, *names, **status):
    """Lost claims, each of which left a node for a taint just now."""
    gone = {"at": site.now(), "node": "n0", "cause": "NodeTainted"}
    found = [put(site, name, phase="Lost", displaced=gone, **status) for name in names]
    assert judge.look() == []
    return found


def guarded(site, judge):
    return sorts(closely.look(site, judge, dict(judge.stands), PassReport()))


def test_more_sets_than_the_guard_lets_through_are_seen(site, judge):
    assert site.config.guard.at_least == 2
    lose(site, judge, "x", "y")
    assert guarded(site, judge) == []
    lose(site, judge, "z")
    assert guarded(site, judge) == ["the guard let too many through"]


@pytest.mark.parametrize(
    ("ago", "seen"), [(0, []), (60, ["the guard let too many through"])], ids=["now", "before"]
)
def test_what_a_start_asked_to_be_moved_is_nothing_for_the_guard(site, judge, ago, seen):
    at = f"{site.clock.now() - timedelta(seconds=ago):%Y-%m-%dT%H:%M:%SZ}"
    request = {"id": "r", "vmi": "vm0", "claims": ["z"], "requestedAt": at, "result": "Succeeded"}
    lose(site, judge, "x", "y")
    lose(site, judge, "z", bindRequest=request)
    assert guarded(site, judge) == seen


def test_what_left_as_one_set_counts_once_though_its_vm_is_gone(site, judge):
    for claim in lose(site, judge, "x", "y", "z", **ATTACHED):
        site.api.edit(kinds.GPU_CLAIMS, claim, lambda it: it["status"].update(attachedTo=None))
    assert judge.look() == []
    assert guarded(site, judge) == []


def test_what_is_one_set_by_now_counts_once(site, judge):
    lose(site, judge, "x", "y", "z")
    site.api.put(kinds.VMS, raws.a_vm(claims=["y", "z"]))
    assert judge.look() == []
    assert guarded(site, judge) == []
