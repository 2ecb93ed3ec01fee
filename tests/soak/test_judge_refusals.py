"""The judge alone: what it must see of launchers that nodes refuse, and of what leaders delete."""

import asyncio

import pytest

from gpu.binder.report import PassReport
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from soak import closely
from soak.judge import Judge
from soak.site import Site
from tests.soak.started import TENANT, a_held, a_start, noted, pin

NEXT = "tenant-a/vm0"


@pytest.fixture
def site():
    found = Site("judge")
    found.leader = found.new_leader()
    return found


@pytest.fixture
def judge(site):
    judge = Judge(site)
    assert judge.look() == []
    return judge


def refused(site, judge, **start):
    """A launcher that n0 refused, which an undisturbed pass of the leader is the first to see."""
    _, pod = a_start(site, **start)
    pod = pin(site, pod, "n0")
    if start:
        a_held(site, noted(pod, admission="adm-x"))
    judge.look()
    told = {"phase": "Failed", "reason": "OutOfcpu"}
    pod = site.api.edit(kinds.PODS, pod, lambda it: it["status"].update(told))
    site.refused[pod["metadata"]["uid"]] = (site.api.version, site.clock.monotonic())
    found = judge.refusals.unseen()
    assert [it["metadata"]["uid"] for it in found] == [pod["metadata"]["uid"]]
    site.looked = site.api.version
    if start:
        until = [{"node": "n0", "until": "2026-01-02T03:14:05Z"}]
        claim = site.claim(TENANT, "x")
        site.api.edit(kinds.GPU_CLAIMS, claim, lambda it: it["status"].update(rejectedNodes=until))
    judge.refusals.note(found, site.leader)
    site.api.erase(kinds.PODS, pod)
    judge.look()


def again(site, judge, node="n0", **start):
    """The VM's next launcher is let through; what an undisturbed pass that did it is told."""
    _, pod = a_start(site, **start)
    if start:
        claim = site.claim(TENANT, "x")
        fresh = noted(pod, node, admission="adm-x")
        site.api.edit(kinds.GPU_CLAIMS, claim, lambda it: it["status"].update(fresh))
    before = dict(judge.stands)
    pin(site, pod, node)
    assert judge.look() == []
    found = closely.look(site, judge, before, PassReport())
    return [words.partition(":")[0] for words in found]


def test_a_launcher_that_is_sent_back_is_seen(site, judge):
    refused(site, judge)
    assert again(site, judge) == ["sent back"]


@pytest.mark.parametrize(("failed", "seen"), [(False, []), (True, ["sent back"])])
def test_one_that_kubevirt_migrated_there_is_well(site, judge, failed, seen):
    refused(site, judge, held=("x",))
    assert again(site, judge, "n1", held=("x",)) == []
    state = {"completed": True, "failed": failed}
    (vmi,) = site.api.all(kinds.VMIS)
    told = {"nodeName": "n0", "migrationState": state}
    site.api.edit(kinds.VMIS, vmi, lambda it: it["status"].update(told))
    before = dict(judge.stands)
    claim = site.claim(TENANT, "x")
    site.api.edit(kinds.GPU_CLAIMS, claim, lambda it: it["status"].update(nodeName="n0"))
    judge.look()
    found = closely.look(site, judge, before, PassReport())
    assert [words.partition(":")[0] for words in found] == seen


def test_one_that_goes_elsewhere_is_well(site, judge):
    refused(site, judge)
    assert again(site, judge, "n1") == []


def test_the_next_leader_knows_nothing_of_a_launcher_without_claims(site, judge):
    refused(site, judge)
    site.leader = site.new_leader()
    assert again(site, judge) == []


def test_the_next_leader_knows_what_a_held_claim_notes(site, judge):
    refused(site, judge, held=("x",))
    site.leader = site.new_leader()
    assert again(site, judge, held=("x",)) == ["sent back"]


def test_after_ten_minutes_it_may_go_there_again(site, judge):
    refused(site, judge)
    site.clock.advance(601)
    assert again(site, judge) == []


def test_to_a_node_that_has_changed_it_may_go_again(site, judge):
    refused(site, judge)
    node = site.api.find(kinds.NODES, ObjectKey("", "n0"))
    more = {"pods": "111"}
    site.api.edit(kinds.NODES, node, lambda it: it["status"]["allocatable"].update(more))
    assert judge.look() == []
    assert again(site, judge) == []


@pytest.mark.parametrize("kind", [kinds.PODS, kinds.VMIS], ids=["the pod", "its VMI"])
def test_a_leader_that_deletes_what_waits_at_the_gate_is_seen(site, judge, kind):
    found = dict(zip((kinds.VMIS, kinds.PODS), a_start(site), strict=True))[kind]
    judge.look()
    delete(site, kind, found)
    assert [words.partition(":")[0] for words in judge.look()] == ["a leader sent what it may not"]


@pytest.mark.parametrize(("phase", "seen"), [("Running", True), ("Failed", False)])
def test_a_leader_that_deletes_a_launcher_on_its_node_is_seen_unless_it_has_ended(
    site, judge, phase, seen
):
    pod = pin(site, a_start(site)[1], "n0")
    judge.look()
    pod = site.api.edit(kinds.PODS, pod, lambda it: it["spec"].update(nodeName="n0"))
    pod = site.api.edit(kinds.PODS, pod, lambda it: it["status"].update(phase=phase))
    delete(site, kinds.PODS, pod)
    assert bool(judge.look()) is seen


def delete(site, kind, found):
    meta = found["metadata"]
    asyncio.run(site.api.delete(kind, meta["name"], meta["namespace"], uid=meta["uid"]))
