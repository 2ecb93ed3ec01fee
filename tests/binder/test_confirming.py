"""What is read past the cache before something is let go: each confirm holding, and each not."""

from datetime import UTC, datetime, timedelta

import pytest

from gpu.binder import confirming
from gpu.binder.changes import Detach, Detached
from gpu.binder.confirms import (
    NodeLooked,
    NodeOff,
    NoLaunchers,
    NoneGated,
    NoOtherPods,
    PodsAbsent,
    PodsEnded,
    VMIEnded,
    VMINeverCame,
)
from gpu.binder.writer import Failure
from gpu.cluster import errors
from gpu.objects import claims, kinds
from gpu.objects.meta import ObjectKey
from gpu.ports import Outcome
from tests.binder import raws
from tests.binder.rig import Rig
from tests.fakes.cluster import FakeCluster

AT = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
VM = ObjectKey("tenant-a", "vm")
NODE = ObjectKey("", "n1")


def a_change(*confirm):
    claim = claims.decode(raws.a_claim(meta={"uid": "uid-x"}))
    return Detach(claim=claim, why=Detached.ENDED, at=AT, set_id="tenant-a/x", confirm=confirm)


def a_lease(renewed="2026-01-01T12:00:00.000000Z"):
    return {
        "metadata": {"name": "n1", "namespace": "kube-node-lease"},
        "spec": {"renewTime": renewed},
    }


def a_cluster(**objects):
    cluster = FakeCluster()
    for name, items in objects.items():
        for raw in items:
            cluster.put(kinds.LEASES if name == "leases" else raws.kind_of(name), raw)
    return cluster


def a_launcher(vmi="vmi-1", **more):
    raw = raws.a_pod("p", **more)
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm"}
    raw["metadata"]["ownerReferences"] = [owner | {"uid": vmi, "controller": True}]
    raw["metadata"]["labels"] = {"kubevirt.io": "virt-launcher"}
    return raw


def a_target(name="q", **more):
    raw = a_launcher(**more)
    raw["metadata"] |= {"name": name, "uid": name}
    raw["metadata"]["labels"] = raw["metadata"]["labels"] | {"kubevirt.io/migrationJobUID": "job"}
    return raw


OUT = [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]
PODS = {"namespace": "tenant-a", "uids": frozenset({"p"})}
ENDED, ABSENT, PASSED = PodsEnded(**PODS), PodsAbsent(**PODS), NoneGated(**PODS)
OVER = VMIEnded(key=VM, uid="vmi-1")
NEVER = VMINeverCame(key=VM, claim="x", admission="adm")
OFF = NodeOff(node="n1")
LOOKED = NodeLooked(node="n1", ready_since=AT - timedelta(minutes=3), at_or_after=AT)
ALONE = NoOtherPods(key=VM, uid="vmi-1", pods=frozenset({"p"}))
NONE = NoLaunchers(namespace="tenant-a", vmis=frozenset({("vm", "vmi-1")}))
BROKEN = raws.a_vmi() | {"status": {"activePods": "none"}}
UNREADABLE = "VMI tenant-a/vm cannot be read: status.activePods: is str, not an object"

HOLDS = {
    "ended: gone": (ENDED, {}),
    "ended: Succeeded": (ENDED, {"pods": [raws.a_pod("p", phase="Succeeded")]}),
    "ended: Failed": (ENDED, {"pods": [raws.a_pod("p", phase="Failed")]}),
    "ended: another lives": (ENDED, {"pods": [raws.a_pod("q")]}),
    "ended: of another tenant": (ENDED, {"pods": [raws.a_pod("p", tenant="tenant-b")]}),
    "absent: gone": (ABSENT, {"pods": [raws.a_pod("q")]}),
    "passed: gone": (PASSED, {}),
    "passed: let through": (PASSED, {"pods": [raws.a_pod("p", node="")]}),
    "passed: another waits": (PASSED, {"pods": [raws.a_pod("q", node="", gated=True)]}),
    "launchers: none": (NONE, {}),
    "launchers: ended": (NONE, {"pods": [a_launcher(phase="Failed")]}),
    "launchers: of another VMI": (NONE, {"pods": [a_launcher(vmi="vmi-2")]}),
    "launchers: at the gate": (NONE, {"pods": [a_launcher(node="", gated=True)]}),
    "launchers: not one": (NONE, {"pods": [raws.a_pod("p")]}),
    "over: gone": (OVER, {}),
    "over: Succeeded": (OVER, {"vmis": [raws.a_vmi(phase="Succeeded")]}),
    "over: made anew": (OVER, {"vmis": [raws.a_vmi(uid="vmi-2")]}),
    "never: gone": (NEVER, {}),
    "never: another start": (NEVER, {"vmis": [raws.a_vmi(admissions={"x": "other"})]}),
    "off: gone": (OFF, {}),
    "off: tainted": (OFF, {"nodes": [raws.a_node(taints=OUT)]}),
    "looked: renewed": (LOOKED, {"nodes": [raws.a_node()], "leases": [a_lease()]}),
    "looked: Ready since just then": (
        LOOKED,
        {"nodes": [raws.a_node(since="2026-01-01T11:57:00Z")], "leases": [a_lease()]},
    ),
    "looked: one renewal on its way": (
        LOOKED,
        {"nodes": [raws.a_node()], "leases": [a_lease("2026-01-01T11:59:50.000000Z")]},
    ),
    "alone: gone": (ALONE, {}),
    "alone: lists none": (ALONE, {"vmis": [raws.a_vmi()]}),
    "alone: lists it": (ALONE, {"vmis": [raws.a_vmi(pods={"p": "n1"})]}),
    "alone: made anew": (ALONE, {"vmis": [raws.a_vmi(uid="vmi-2", pods={"q": "n1"})]}),
    "alone: gone, a target ended": (ALONE, {"pods": [a_target(phase="Succeeded")]}),
    "alone: gone, a target is known": (ALONE, {"pods": [a_target("p")]}),
    "alone: lives, its target comes": (ALONE, {"vmis": [raws.a_vmi()], "pods": [a_target()]}),
    "alone: gone, another's target": (ALONE, {"pods": [a_target(vmi="vmi-2")]}),
}
FAILS = {
    "ended: lives": (ENDED, {"pods": [raws.a_pod("p")]}, "pod tenant-a/p lives"),
    "absent: Succeeded": (
        ABSENT,
        {"pods": [raws.a_pod("p", phase="Succeeded")]},
        "pod tenant-a/p is there",
    ),
    "passed: waits": (
        PASSED,
        {"pods": [raws.a_pod("p", node="", gated=True)]},
        "pod tenant-a/p waits at the gate",
    ),
    "launchers: one that nobody noted": (
        NONE,
        {"pods": [a_launcher()]},
        "pod tenant-a/p is a launcher that nobody has noted",
    ),
    "over: runs": (OVER, {"vmis": [raws.a_vmi()]}, "VMI tenant-a/vm is there and not ended"),
    "never: came": (
        NEVER,
        {"vmis": [raws.a_vmi(admissions={"x": "adm"})]},
        "VMI tenant-a/vm came after all",
    ),
    "over: cannot be read": (OVER, {"vmis": [BROKEN]}, UNREADABLE),
    "never: cannot be read": (NEVER, {"vmis": [BROKEN]}, UNREADABLE),
    "alone: gone, its target runs on": (
        ALONE,
        {"pods": [a_target()]},
        "pod tenant-a/q is a launcher that nobody has noted",
    ),
    "alone: going, its target is not listed yet": (
        ALONE,
        {"vmis": [raws.a_vmi(deleting=True)], "pods": [a_target()]},
        "pod tenant-a/q is a launcher that nobody has noted",
    ),
    "alone: over, its target is not listed yet": (
        ALONE,
        {"vmis": [raws.a_vmi(phase="Failed")], "pods": [a_target()]},
        "pod tenant-a/q is a launcher that nobody has noted",
    ),
    "alone: made anew, its target runs on": (
        ALONE,
        {"vmis": [raws.a_vmi(uid="vmi-2")], "pods": [a_target()]},
        "pod tenant-a/q is a launcher that nobody has noted",
    ),
    "alone: cannot be read": (ALONE, {"vmis": [BROKEN]}, UNREADABLE),
    "off: there": (
        OFF,
        {"nodes": [raws.a_node(ready="False")]},
        "node n1 is there and not tainted out-of-service",
    ),
    "looked: gone": (LOOKED, {"leases": [a_lease()]}, "node n1 is not Ready"),
    "looked: not Ready": (
        LOOKED,
        {"nodes": [raws.a_node(ready="Unknown")], "leases": [a_lease()]},
        "node n1 is not Ready",
    ),
    "looked: back a moment ago, which the watch of nodes did not show": (
        LOOKED,
        {"nodes": [raws.a_node(since="2026-01-01T11:57:01Z")], "leases": [a_lease()]},
        "node n1 has not been Ready since 2026-01-01T11:57:00+00:00 without a break",
    ),
    "looked: without a Lease": (
        LOOKED,
        {"nodes": [raws.a_node()]},
        "node n1 has not renewed its Lease since 2026-01-01T12:00:00+00:00",
    ),
    "looked: not renewed": (
        LOOKED,
        {"nodes": [raws.a_node()], "leases": [a_lease("2026-01-01T11:59:49.000000Z")]},
        "node n1 has not renewed its Lease since 2026-01-01T12:00:00+00:00",
    ),
    "alone: another pod": (
        ALONE,
        {"vmis": [raws.a_vmi(pods={"p": "n1", "q": "n1"})]},
        "VMI tenant-a/vm has another pod, q",
    ),
}


class Counting(FakeCluster):
    """Counts the lists of pods."""

    lists = 0

    async def list_all(self, kind, namespace=None, **which):
        self.lists += kind == kinds.PODS
        return await super().list_all(kind, namespace, **which)


@pytest.mark.parametrize(
    ("relied", "lists"),
    [
        ((ALONE, ENDED, ABSENT, PASSED), 1),
        ((ENDED, ABSENT, PASSED), 1),
        ((ALONE, NONE, ENDED), 2),
        ((ENDED, ALONE), 2),
    ],
    ids=["of a VMI that is gone", "of one that is there", "with new launchers", "before the VMI"],
)
async def test_pods_are_listed_once_but_after_the_vmi_is_known_to_be_gone(relied, lists):
    cluster = Counting()
    assert await confirming.unmet(a_change(*relied), cluster) == ""
    assert cluster.lists == lists


@pytest.mark.parametrize(("confirm", "objects"), HOLDS.values(), ids=HOLDS)
async def test_what_a_change_relies_on_holds(confirm, objects):
    assert await confirming.unmet(a_change(confirm), a_cluster(**objects)) == ""


@pytest.mark.parametrize(("confirm", "objects", "words"), FAILS.values(), ids=FAILS)
async def test_what_a_change_relies_on_does_not_hold(confirm, objects, words):
    assert await confirming.unmet(a_change(confirm), a_cluster(**objects)) == words


async def test_the_first_that_does_not_hold_is_told():
    cluster = a_cluster(pods=[raws.a_pod("p")], vmis=[raws.a_vmi()])
    assert await confirming.unmet(a_change(OFF, ENDED, OVER), cluster) == "pod tenant-a/p lives"


async def test_nothing_is_sent_when_the_watch_lags_behind_a_pod_that_lives():
    rig = Rig()
    claim = raws.a_claim(status=raws.bound() | raws.attached(uid="vmi-1", ended=["p"]))
    rig.store(claims=[claim])
    rig.cluster.put(kinds.PODS, raws.a_pod("p"))
    stored = (await rig.view.world(rig.in_thread)).claims[0]
    change = Detach(claim=stored, why=Detached.ENDED, at=AT, set_id="tenant-a/x", confirm=(ENDED,))
    assert await rig.writer.perform(change) == Failure(Outcome.STALE, "pod tenant-a/p lives")
    assert rig.writes() == []


async def test_nothing_is_sent_when_what_it_relies_on_cannot_be_read():
    rig = Rig()
    rig.store(claims=[raws.a_claim(status=raws.bound() | raws.attached(uid="vmi-1"))])
    stored = (await rig.view.world(rig.in_thread)).claims[0]
    rig.cluster.down = True
    change = Detach(claim=stored, why=Detached.ENDED, at=AT, set_id="tenant-a/x", confirm=(OVER,))
    failure = await rig.writer.perform(change)
    assert failure is not None
    assert failure.outcome is Outcome.STALE
    assert "could not be read past the cache" in failure.words
    rig.cluster.down = False
    with pytest.raises(errors.NotFound):
        await rig.cluster.get(kinds.VMIS, "vm", "tenant-a")
    assert rig.writes() == []
