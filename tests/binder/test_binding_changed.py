"""`binding` is changed with VMs running and starting: each start goes on as it began, no unit is lost."""

import pytest

from gpu.binder.phases import moves
from gpu.config import Binding, Config
from gpu.model import guests, pins
from gpu.model.guests import Guest
from gpu.objects import kinds, pods
from gpu.objects.meta import ObjectKey
from tests.binder import asking, gated, interrupting, raws
from tests.binder.asking import claim
from tests.binder.rig import Rig
from tests.binder.scenes import a_scene

SINCE = "2026-01-02T03:04:00Z"
GRANTED = {"result": "Succeeded", "message": "held on node n1"}
TPL = asking.template()


def a_rig(binding, **objects):
    rig = Rig(config=Config(binding=binding))
    usual = {
        "classes": [raws.a_class(meta={"finalizers": ["gpu.cozystack.io/class"]})],
        "nodes": [raws.a_node("n1", units=4), raws.a_node("n2", units=4)],
        "namespaces": [raws.a_tenant("tenant-root"), raws.a_tenant()],
    }
    rig.store(**(usual | objects))
    return rig


def asked(name, node="n1", *, names=None, template=True, **more):
    return claim(name, node, asks=names or [name], since=SINCE, template=template, **more)


def admitted(**how):
    """The VMI of a start that was granted: it has its claim and its class's units on record."""
    made = gated.a_vmi("vm", held=(TPL,), units={"h100": 1}, **how)
    text = made["metadata"]["annotations"]["gpu.cozystack.io/resolved-claims"]
    made["metadata"]["annotations"]["gpu.cozystack.io/resolved-claims"] = text.replace(
        f"adm-{TPL}", "r1"
    )
    return made


def pin(rig, name="pod-vm"):
    raw = rig.cluster._objects[kinds.PODS][ObjectKey("tenant-a", name)]
    return None if raw["spec"].get("schedulingGates") else pods.decode(raw).pinned


@pytest.mark.parametrize("binding", Binding)
async def test_a_launcher_at_the_gate_is_let_through(binding):
    rig = a_rig(binding, **gated.a_start(units={"h100": 2}))
    await rig.until_still()
    assert pin(rig) == "n1"
    assert rig.placed() == {f"tenant-a/{gated.template()}": "n1"}


@pytest.mark.parametrize("binding", Binding)
async def test_a_request_is_answered_or_expires(binding):
    rig = a_rig(binding, claims=[asked(TPL, None)])
    await rig.until_still()
    assert rig.claim(TPL)["status"]["bindRequest"]["result"] == "Succeeded"
    rig.clock.advance(60)
    await rig.until_still()
    assert "deletionTimestamp" in rig.claim(TPL)["metadata"]
    rig.cluster.put(kinds.LEASES, interrupting.lease("n1"))
    rig.clock.advance(180)  # it may have come, and run, and have been forced away: the node looks
    await rig.until_still()
    assert rig.claim(TPL) is None


@pytest.mark.parametrize("binding", Binding)
async def test_a_granted_vm_whose_launcher_comes_to_the_gate_makes_no_second_claim(binding):
    """Its launcher was made after the change: the pod webhook has it wait."""
    rig = a_rig(
        binding,
        claims=[asked(TPL, answer=GRANTED)],
        vmis=[admitted()],
        pods=[gated.a_launcher(units=1)],
    )
    await rig.until_still()
    assert (pin(rig), rig.placed()) == ("n1", {f"tenant-a/{TPL}": "n1"})
    found = rig.claim(TPL)
    assert found["status"]["attachedTo"]["pods"] == [{"uid": "pod-vm", "node": "n1"}]
    assert [it["uid"] for it in found["metadata"]["ownerReferences"]] == ["vmi-vm"]


@pytest.mark.parametrize("binding", Binding)
async def test_a_launcher_that_a_webhook_pinned_takes_cpu_before_it_has_a_node(binding):
    there = gated.a_launcher(units=1, gated=False)
    there["spec"]["affinity"] = {
        "nodeAffinity": {pins.REQUIRED: {"nodeSelectorTerms": pins.narrowed([{}], "n1")}}
    }
    there["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "60"
    start = gated.a_start("next", units={"h100": 1}, at=1)
    start["pods"][0]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "8"
    rig = a_rig(
        binding,
        claims=[asked(TPL, answer=GRANTED)],
        vmis=[admitted(), *start["vmis"]],
        pods=[there, *start["pods"]],
    )
    await rig.until_still()
    assert pin(rig, "pod-next") == "n2"


@pytest.mark.parametrize("binding", Binding)
async def test_a_running_vm_of_either_way_is_followed_to_its_end(binding):
    vmi = admitted(phase="Running", pods={"pod-vm": "n1"})
    vmi["status"]["nodeName"] = "n1"
    old = interrupting.used("old", vm="other", pod="pod-other")
    rig = a_rig(
        binding,
        claims=[asked(TPL, answer=GRANTED), old],
        vmis=[vmi, interrupting.vmi("old", vm="other", pod="pod-other")],
        pods=[raws.a_pod("pod-vm"), raws.a_pod("pod-other")],
    )
    await rig.until_still()
    assert rig.claim(TPL)["status"]["attachedTo"]["uid"] == "vmi-vm"
    for name in ("vm", "other"):
        key = ObjectKey("tenant-a", name)
        del rig.cluster._objects[kinds.VMIS][key]
        rig.cluster.put(kinds.PODS, raws.a_pod(f"pod-{name}", phase="Succeeded"))
    await rig.until_still()
    assert rig.claim(TPL) is None
    status = rig.claim("old")["status"]
    assert (status.get("attachedTo"), status["nodeName"]) == (None, "n1")


# A VMI that was promised its node is pinned there before it lists a pod.


def promised(*, bound="n1", **vmi):
    status = raws.attached("vm", uid="vmi-vm", admission="r1", since=SINCE)
    return {
        "classes": [raws.a_class()],
        "claims": [asked(TPL, bound, answer=GRANTED, status=status)],
        "vmis": [admitted(pod=None, **vmi)],
        "namespaces": [raws.a_tenant("tenant-root"), raws.a_tenant()],
    }


def guest(found):
    (item,) = found.draft.sets
    return guests.of(found.draft.snapshot, item)


def test_the_vmi_of_a_promise_is_starting_and_any_other_is_at_the_gate():
    found = a_scene(nodes=[raws.a_node("n1")], **promised())
    assert guest(found) is Guest.STARTING
    refused = promised()
    refused["claims"][0]["status"]["bindRequest"]["result"] = "Refused"
    assert guest(a_scene(nodes=[raws.a_node("n1")], **refused)) is Guest.GATED


def test_its_set_is_not_moved_away_from_under_it():
    """Its VMI ends first, where another node has room: it could follow nowhere."""
    cordoned = raws.a_node("n1", unschedulable=True)
    found = a_scene(nodes=[cordoned, raws.a_node("n2")], **promised())
    assert [type(change).__name__ for change in moves.changes_of(found)] == ["EndGuest"]
    alone = a_scene(nodes=[cordoned], **promised())
    assert tuple(moves.changes_of(alone)) == ()


async def test_an_order_that_its_vm_names_does_not_take_the_set_elsewhere():
    order = raws.a_claim("more", count=4, meta=interrupting.OURS)
    held = asked("a", answer=GRANTED, template=False)
    status = raws.attached("vm", uid="vmi-vm", admission="r1", since=SINCE)
    held["status"] |= status
    vmi = gated.a_vmi("vm", held=("a",), pod=None)
    vmi["metadata"]["annotations"] = {
        name: text.replace("adm-a", "r1") for name, text in vmi["metadata"]["annotations"].items()
    }
    rig = a_rig(
        Binding.REQUEST,
        nodes=[raws.a_node("n1", units=4), raws.a_node("n2", units=5)],
        claims=[held, order],
        vmis=[vmi],
        vms=[raws.a_vm("vm", claims=("a", "more"))],
    )
    await rig.until_still()
    assert rig.placed() == {"tenant-a/a": "n1"}
