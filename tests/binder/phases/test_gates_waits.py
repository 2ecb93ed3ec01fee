"""Phase gates: why a launcher waits, in every state of its claims and pods; what it says of that."""

from dataclasses import replace

import pytest

from gpu.binder.changes import Attach, DeleteClaim, How, Place
from gpu.binder.checking import Checker
from gpu.binder.confirms import ClaimsHeld
from gpu.binder.phases import gates, orders
from gpu.binder.start_changes import CreateClaim, ExplainGated, Pin
from gpu.config import Config, RawPlacement
from gpu.settings import RawNames, Settings
from tests.binder import gated, interrupting, raws
from tests.binder.gated import OURS, a_launcher, a_start, a_vmi
from tests.binder.scenes import a_scene, scene_of

UID = "vmi-vm"
OTHER_POD = {"pods": {"pod-vm": "", "old": "n1"}}


def own(name, node="n1", *, pods=None, uid=UID, **more):
    """A claim that is attached to the start's VMI, as phase attachments leaves it."""
    noted = raws.attached("vm", uid=uid, admission=f"adm-{name}", pods=pods or {"pod-vm": ""})
    return interrupting.held(name, node, **(noted | more))


def template(phase="Bound", *, owner=UID, **more):
    """The template claim of the VM as an interrupted start leaves it."""
    refs = [{"kind": "VirtualMachineInstance", "name": "vm", "uid": owner, "controller": True}]
    labels = {"gpu.cozystack.io/template-claim": "true"}
    meta = OURS | {"ownerReferences": refs, "labels": labels} | more.pop("meta", {})
    status = more.pop("status", None)
    if phase == "Bound" and status is None:
        status = raws.bound() | raws.attached("vm", uid=UID, pods={"pod-vm": "n1"})
        status["attachedTo"].pop("admission")
    return raws.a_claim(gated.template(), meta=meta, status=status, **more)


def scene(start, *claims, nodes=("n1",), classes=None, config=None, raw_names=None, **more):
    found = a_scene(
        classes=classes or [raws.a_class()],
        nodes=[raws.a_node(it) if isinstance(it, str) else it for it in nodes],
        namespaces=[raws.a_tenant(it) for it in ("tenant-root", "tenant-a")],
        claims=claims,
        vmis=start["vmis"] + more.pop("vmis", []),
        pods=start["pods"] + more.pop("pods", []),
        config=config,
        **more,
    )
    if raw_names is None:
        return found
    return scene_of(
        replace(found.world, settings=Settings.of(["nvidia.com/H100"], raw_names)), config=config
    )


def decided(found):
    return tuple(gates.changes_of(found))


def codes(found):
    waits = list((found.findings.waiting or {}).values())
    return list(dict.fromkeys(reason.reason for item in waits for reason in item.reasons))


HELD = a_start(held=("a",), asks=1)
UNITS = a_start(units={"h100": 2})
BARRED = {
    "a held claim is gone": (HELD, [], ["ClaimMissing"]),
    "a held claim is deleted": (
        HELD,
        [own("a", meta=raws.DELETED)],
        ["ClaimDeleting"],
    ),
    "a held claim is another VM's": (
        HELD,
        [interrupting.held("a", **raws.attached("other", uid="vmi-other"))],
        ["ClaimInUse"],
    ),
    "a held claim is attached to nothing": (HELD, [interrupting.held("a")], ["ClaimInUse"]),
    "a held claim is of an earlier VMI of the name": (
        HELD,
        [own("a", uid="vmi-before")],
        ["ClaimInUse", "GuestMayRun"],
    ),
    "a held claim is an order still": (
        HELD,
        [own("a", phase="Pending", nodeName=None)],
        ["ClaimPending"],
    ),
    "a pod that had a held claim before may run": (
        HELD,
        [own("a", pods={"pod-vm": "", "old": "n1"})],
        ["ClaimInUse"],
    ),
    "another claim is attached to an earlier VMI of the name": (
        HELD,
        [own("a"), own("b", uid="vmi-before", at=1)],
        ["GuestMayRun"],
    ),
    "another pod of the VMI runs": (
        {"vmis": [a_vmi(units={"h100": 2}, **OTHER_POD)], "pods": UNITS["pods"]},
        [],
        ["GuestMayRun"],
    ),
    "somebody's claim has the name of the template claim": (
        UNITS,
        [raws.a_claim(gated.template(), count=2, meta=OURS)],
        ["ClaimNameTaken"],
    ),
    "the template claim is of another VMI": (
        UNITS,
        [template(owner="vmi-before", count=2)],
        ["ClaimNameTaken"],
    ),
    "the template claim is of other units": (UNITS, [template(count=1)], ["ClaimNameTaken"]),
    "the template claim is deleted": (
        UNITS,
        [template(count=2, meta=raws.DELETED)],
        ["ClaimDeleting"],
    ),
    "no class of that name": (a_start(units={"none": 1}), [], ["NoSuchClass"]),
    "more units than any node has": (a_start(units={"h100": 9}), [], ["NoFreeUnits"]),
}


@pytest.mark.parametrize("name", BARRED)
def test_a_launcher_waits_and_nothing_is_made(name):
    start, claims, reasons = BARRED[name]
    found = scene(start, *claims)
    changes = decided(found)
    assert [type(it) for it in changes if not isinstance(it, ExplainGated)] == []
    assert codes(found) == reasons


def test_class_and_entitlement_and_count_are_asked_of_units_that_are_not_held_yet():
    retired = raws.a_class(retired=True)
    small = raws.a_class(maxCount=1)
    vgpu = raws.a_class(mode="vgpu", maxCount=8)
    for offer, reason in (
        (retired, "ClassRetired"),
        (small, "OverMaxCount"),
        (vgpu, "NotEntitled"),
    ):
        found = scene(UNITS, classes=[offer])
        assert decided(found) == ()
        assert codes(found) == [reason]
        held = scene(UNITS, template(count=2), classes=[offer])
        assert [it.node for it in decided(held) if isinstance(it, Pin)] == ["n1"]


def test_a_budget_counts_what_is_held_for_the_start_once():
    quotas = [raws.a_release(total=2)]
    assert codes(scene(UNITS, template(count=2), releases=quotas)) == []
    (pin,) = decided(scene(UNITS, template(count=2), releases=quotas))
    assert isinstance(pin, Pin)
    found = scene(UNITS, interrupting.held("x"), releases=quotas)
    assert decided(found) == ()
    assert codes(found) == ["OverBudget"]


def test_a_template_claim_of_a_cut_off_start_is_taken_up_and_goes_when_the_start_waits():
    place, pin = decided(scene(UNITS, template("Pending", count=2)))
    assert isinstance(place, Place)
    assert (place.how, place.node) == (How.PLACED, "n1")
    assert [(pod.uid, pod.node) for pod in place.attachment.pods] == [("pod-vm", "n1")]
    assert isinstance(pin, Pin)
    (gone,) = decided(scene(UNITS, template("Pending", count=2), nodes=[raws.a_node(units=1)]))
    assert isinstance(gone, DeleteClaim)


def test_the_pin_relies_on_every_claim_being_held_on_its_node():
    start = a_start(held=("a",), units={"h100": 1}, asks=2)
    found = decided(scene(start, own("a")))
    assert [type(it) for it in found] == [CreateClaim, Attach, Place, Pin]
    (confirm,) = found[-1].confirm
    assert confirm == ClaimsHeld(
        namespace="tenant-a",
        claims=(("a", found[1].claim.meta.resource_version), (gated.template(), "")),
        node="n1",
        vmi_uid=UID,
        pod="pod-vm",
    )


def test_a_claim_that_the_vm_names_goes_along_and_notes_no_pod():
    vm = raws.a_vm("vm", claims=["a", "b"])
    nodes = [raws.a_node("n1", units=2), "n2"]
    start = a_start(held=("a",), units={"h100": 2}, asks=3)
    found = decided(scene(start, own("a"), interrupting.held("b", at=1), nodes=nodes, vms=[vm]))
    moved = {it.claim.meta.name: it for it in found if isinstance(it, Place)}
    assert {name: it.node for name, it in moved.items() if name in "ab"} == {"a": "n2", "b": "n2"}
    assert moved["b"].attachment is None
    assert moved["a"].how is How.GATHERED


def test_a_node_that_refused_the_pod_lately_is_left_out():
    rejected = [{"node": "n1", "until": "2026-01-01T12:05:00Z"}]
    found = decided(scene(HELD, own("a", rejectedNodes=rejected), nodes=["n1", "n2"]))
    assert [it.node for it in found if isinstance(it, Pin)] == ["n2"]


def test_an_order_that_is_older_comes_first_and_one_that_is_younger_does_not():
    start = {"vmis": [a_vmi(units={"h100": 2}, at=10)], "pods": UNITS["pods"]}
    node = raws.a_node(units=2)
    older = scene(start, raws.a_claim("x", at=5, meta=OURS), nodes=[node])
    assert decided(older) == ()
    younger = scene(start, raws.a_claim("x", at=15, meta=OURS), nodes=[node])
    assert [it.node for it in decided(younger) if isinstance(it, Pin)] == ["n1"]


def test_a_lost_set_comes_before_any_start_and_its_turn_is_its_own():
    lost = interrupting.lost("x", "gone", count=2)
    found = scene(UNITS, lost, nodes=[raws.a_node(units=2)])
    assert decided(found) == ()
    assert found.draft.ledger.room("n1", "nvidia.com/H100") == 2
    assert found.draft.earmarks == {}


RAW = a_start(asks=2)
LEFT = raws.attached("vm", admission="adm-z", since=gated.SINCE)
"""By a CREATE of the VMI's name that named the claim, and that somebody refused after our webhook."""


@pytest.mark.parametrize("phase", ["Pending", "Bound", "Lost"])
@pytest.mark.parametrize("start", [UNITS, HELD, RAW], ids=["units", "held", "raw"])
def test_a_claim_that_an_earlier_create_of_its_name_left_attached_stops_this_start_alone(
    start, phase
):
    """The checker refuses to let it through: the plan with it would be no plan for anybody."""
    status = LEFT | (raws.bound() if phase == "Bound" else {"phase": phase})
    claims = [raws.a_claim("z", at=1, meta=OURS, status=status)]
    claims += [own("a")] if start is HELD else []
    other = a_start("other", units={"h100": 1}, at=9)
    both = {kind: start[kind] + other[kind] for kind in start}
    found = scene(both, *claims, nodes=[raws.a_node(units=8)], raw_names=RawNames.ALLOWED)
    wanted = decided(found)
    assert [it.vmi.name for it in wanted if isinstance(it, Pin)] == ["other"]
    assert codes(found) == ["GuestMayRun"]
    assert Checker(world=found.world).judge(wanted) == ()


def test_a_raw_launcher_is_pinned_like_a_set_without_claims():
    (pin,) = decided(scene(RAW, raw_names=RawNames.ALLOWED))
    assert (pin.node, pin.confirm) == ("n1", ())
    full = scene(RAW, nodes=[raws.a_node(units=1)], raw_names=RawNames.ALLOWED)
    assert decided(full) == ()
    assert codes(full) == ["NoRoomForPod"]
    over = scene(RAW, raw_names=RawNames.ALLOWED, releases=[raws.a_release(total=1)])
    assert decided(over) == ()
    assert codes(over) == ["OverBudget"]


def test_two_raw_launchers_do_not_share_units():
    both = {
        "vmis": [a_vmi("vm"), a_vmi("two", at=1)],
        "pods": [a_launcher("vm", units=2), a_launcher("two", units=2)],
    }
    found = scene(both, nodes=[raws.a_node(units=3)], raw_names=RawNames.ALLOWED)
    assert [it.vmi.name for it in decided(found)] == ["vm"]


def test_two_raw_launchers_do_not_share_a_budget():
    both = {
        "vmis": [a_vmi("vm"), a_vmi("two", at=1)],
        "pods": [a_launcher("vm", units=2), a_launcher("two", units=2)],
    }
    found = scene(both, releases=[raws.a_release(total=3)], raw_names=RawNames.ALLOWED)
    assert [it.vmi.name for it in decided(found)] == ["vm"]


@pytest.mark.parametrize("start", [UNITS, RAW], ids=["template units", "raw"])
def test_an_order_is_judged_behind_the_starts_of_the_same_pass(start):
    """The budget has room for either, so nobody asks for it unless what the start takes is counted."""
    claim = raws.a_claim("order", at=9)
    more = {"releases": [raws.a_release(total=2)], "raw_names": RawNames.ALLOWED}
    found = scene(start, claim, **more)
    assert any(isinstance(change, Pin) for change in decided(found))
    assert not [it for it in orders.changes_of(found) if isinstance(it, Place)]


def test_the_scheduler_places_raw_launchers_where_it_is_told_to():
    config = replace(Config(), raw_placement=RawPlacement.SCHEDULER)
    (pin,) = decided(scene(RAW, raw_names=RawNames.ALLOWED, config=config))
    assert pin.node is None


RAW_BARRED = {
    "another pod of the VMI runs": ([a_vmi(**OTHER_POD)], []),
    "a claim is attached to an earlier VMI of the name": ([a_vmi()], [own("b", uid="vmi-before")]),
}


@pytest.mark.parametrize(("vmis", "claims"), RAW_BARRED.values(), ids=RAW_BARRED)
@pytest.mark.parametrize("raw_names", RawNames)
def test_a_raw_launcher_that_has_to_wait_is_not_taken_for_one_that_asks_for_nothing(
    vmis, claims, raw_names
):
    """Let through unpinned, it would take units that claims hold, on any node, past every budget."""
    start = {"vmis": vmis, "pods": RAW["pods"]}
    found = scene(start, *claims, nodes=[raws.a_node(units=8)], raw_names=raw_names)
    assert not [it for it in decided(found) if isinstance(it, Pin)]
    assert codes(found)[0] == "GuestMayRun"


def test_only_a_launcher_that_its_vmi_lists_and_that_no_migration_made_is_let_through():
    stranger = {"vmis": [a_vmi(pod="other")], "pods": [a_launcher()]}
    assert decided(scene(stranger)) == ()
    target = a_launcher()
    target["metadata"]["labels"]["kubevirt.io/migrationJobUID"] = "m"
    assert decided(scene({"vmis": [a_vmi()], "pods": [target]})) == ()
    going = {"vmis": [a_vmi(deleting=True)], "pods": [a_launcher()]}
    assert decided(scene(going)) == ()


def test_while_a_claim_cannot_be_read_nobody_is_let_through():
    found = scene(UNITS)
    blind = scene_of(replace(found.world, unreadable_claims=frozenset({("tenant-a", "bad")})))
    assert decided(blind) == ()
