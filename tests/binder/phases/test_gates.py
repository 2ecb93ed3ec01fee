"""Phase gates, in whole passes: launchers at the gate are let through with their claims, or wait."""

import pytest

from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from tests.binder import gated, raws
from tests.binder.gated import a_start, held
from tests.binder.interrupting import lease
from tests.binder.rig import Rig
from tests.fakes.cluster import Fault


def a_rig(*, nodes=("n1",), claims=(), quotas=None, classes=None, starts=(), **more):
    rig = Rig(**more)
    machines = [raws.a_node(it) if isinstance(it, str) else it for it in nodes]
    rig.store(
        classes=classes or [raws.a_class()],
        nodes=machines,
        namespaces=[raws.a_tenant(it) for it in ("tenant-root", "tenant-a", "tenant-b")],
        releases=[raws.a_release(**quotas)] if quotas else [],
        claims=list(claims),
        vmis=[it for start in starts for it in start["vmis"]],
        pods=[it for start in starts for it in start["pods"]],
    )
    return rig


def pod(rig, name="pod-vm", tenant="tenant-a"):
    return rig.cluster._objects[kinds.PODS][ObjectKey(tenant, name)]


def pinned(rig, name="pod-vm"):
    """The node a launcher is pinned to; None at the gate, empty where it may go anywhere."""
    spec = pod(rig, name)["spec"]
    if spec.get("schedulingGates"):
        return None
    affinity = spec.get("affinity")
    if not affinity:
        return ""
    required = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    nodes = {
        value
        for term in required["nodeSelectorTerms"]
        for field in term["matchFields"]
        for value in field["values"]
    }
    return nodes.pop() if len(nodes) == 1 else nodes


def stands(rig, name):
    """Phase, node and noted pods of a claim; None of one that is not there."""
    raw = rig.claim(name)
    if raw is None:
        return None
    status = raw.get("status") or {}
    attached = status.get("attachedTo") or {}
    pods = {it["uid"]: it.get("node", "") for it in attached.get("pods", [])}
    return status.get("phase"), status.get("nodeName"), pods


def waits(rig, name):
    raw = rig.claim(name)
    found = [it for it in raw["status"].get("conditions", []) if it["type"] == "Waiting"]
    return found[0]["reason"] if found else ""


async def test_a_template_claim_is_made_held_and_only_then_the_launcher_let_through():
    rig = a_rig(starts=[a_start(units={"h100": 2})])
    await rig.once()
    name = gated.template()
    assert stands(rig, name) == ("Bound", "n1", {"pod-vm": "n1"})
    assert pinned(rig) == "n1"
    assert pod(rig)["metadata"]["annotations"] == {keys.TERM_ANNOTATION: "1"}
    meta = rig.claim(name)["metadata"]
    assert meta["labels"] == {keys.TEMPLATE_CLAIM_LABEL: "true"}
    assert meta["finalizers"] == [keys.CLAIM_FINALIZER]
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == (
        "VirtualMachineInstance",
        "vm",
        "vmi-vm",
    )
    assert owner["controller"] is True
    assert "blockOwnerDeletion" not in owner, "it takes rights over the VMI's finalizers"
    writes = [it for it in rig.writes() if name in it[1] or "Pod" in it[1]]
    assert [it[0] for it in writes] == ["create", "patch", "patch"]
    assert writes[-1][1] == "Pod tenant-a/pod-vm"


async def test_after_a_start_everything_is_still():
    rig = a_rig(starts=[a_start(units={"h100": 2})])
    await rig.until_still()
    assert rig.cluster._objects[kinds.WORKLOADS]


async def test_held_claims_stay_where_they_are_and_the_launcher_comes_to_them():
    rig = a_rig(
        nodes=["n1", raws.a_node("n2", units=2)],
        claims=[held("a", count=2), held("b", at=1)],
        starts=[a_start(held=("a", "b"), asks=3)],
    )
    await rig.until_still()
    assert stands(rig, "a") == ("Bound", "n1", {"pod-vm": "n1"})
    assert stands(rig, "b") == ("Bound", "n1", {"pod-vm": "n1"})
    assert pinned(rig) == "n1"


async def test_a_start_waits_a_pass_for_units_that_its_last_launcher_has_just_given_back():
    """In the pass that proves the end its units still count; the claims must not go elsewhere for that."""
    rig = a_rig(
        nodes=[raws.a_node("n1", units=2), raws.a_node("n2", units=4)],
        claims=[held("a", count=2, **raws.attached("vm", admission="adm-a", pods={"old": "n1"}))],
        starts=[a_start(held=("a",), asks=2)],
    )
    rig.store(pods=[raws.a_pod("old", node="n1", units=2)])
    await rig.until_still()
    await rig.cluster.delete(kinds.PODS, "old", "tenant-a")
    await rig.until_still()
    assert (stands(rig, "a")[1], waits(rig, "a")) == ("n1", "ClaimInUse")
    rig.clock.advance(rig.config.grace.release_settle + 30)
    rig.cluster.put(kinds.LEASES, lease("n1"))
    await rig.until_still()
    assert stands(rig, "a")[:2] == ("Bound", "n1")
    assert pinned(rig) == "n1"


async def test_a_set_is_gathered_where_its_pod_fits():
    small = raws.a_node("n1")
    small["status"]["allocatable"]["cpu"] = "1"
    start = a_start(held=("a",))
    start["pods"][0]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    rig = a_rig(nodes=[small, "n2"], claims=[held("a")], starts=[start])
    await rig.until_still()
    assert stands(rig, "a") == ("Bound", "n2", {"pod-vm": "n2"})
    assert pinned(rig) == "n2"
    bound = conditions_of(rig, "a")["Bound"]
    assert bound["reason"] == "Gathered"


def conditions_of(rig, name):
    return {it["type"]: it for it in rig.claim(name)["status"]["conditions"]}


async def test_a_start_with_no_room_makes_nothing_and_uses_up_no_budget():
    rig = a_rig(
        nodes=[raws.a_node(units=1)], quotas={"h100": 2}, starts=[a_start(units={"h100": 2})]
    )
    await rig.until_still()
    assert rig.claim(gated.template()) is None
    assert pinned(rig) is None
    rig.store(claims=[raws.a_claim("order", meta=gated.OURS)])
    await rig.until_still()
    assert stands(rig, "order")[:2] == ("Bound", "n1")


async def test_a_lost_claim_is_bound_again_for_its_start():
    rig = a_rig(nodes=["n2"], claims=[held("a", phase="Lost")], starts=[a_start(held=("a",))])
    await rig.until_still()
    assert stands(rig, "a") == ("Bound", "n2", {"pod-vm": "n2"})
    assert pinned(rig) == "n2"


async def test_a_bound_claim_says_why_its_vm_waits_and_takes_it_back():
    start = a_start(held=("a",))
    start["pods"][0]["spec"]["nodeSelector"] = {"zone": "a"}
    rig = a_rig(claims=[held("a")], starts=[start])
    await rig.until_still()
    assert waits(rig, "a") == "PodFitsNowhere"
    assert rig.claim("a")["status"]["phase"] == "Bound"
    node = raws.a_node()
    node["metadata"]["labels"] = {"zone": "a"}
    rig.store(nodes=[node])
    await rig.until_still()
    assert pinned(rig) == "n1"
    assert waits(rig, "a") == ""


@pytest.mark.parametrize("phase", ["Lost", "Pending"])
async def test_a_claim_bound_after_the_gate_is_looked_at_again_for_why_its_vm_waits(phase):
    """Its VM waits for another of its claims; the pass that binds it had nothing to say on it yet."""
    bound = held("a", phase=phase, **({} if phase == "Lost" else {"nodeName": None}))
    going = held("b", "n1", meta=raws.DELETED)
    rig = a_rig(claims=[bound, going], starts=[a_start(held=("a", "b"), asks=2)])
    assert (await rig.once()).again
    await rig.until_still()
    assert (stands(rig, "a")[0], waits(rig, "a")) == ("Bound", "ClaimDeleting")


async def test_an_order_that_the_vm_names_takes_no_claim_away_from_a_launcher_just_let_through():
    """Until the pin is seen the launcher looks as if it waited, and its claim as if it were idle."""
    start = a_start(held=("a",), asks=1)
    rig = a_rig(
        nodes=[raws.a_node("n1", units=1), "n2"],
        claims=[held("a"), raws.a_claim("x", at=9, count=2, meta=gated.OURS)],
        starts=[start],
        lag=True,
    )
    rig.store(vms=[raws.a_vm("vm", claims=["a", "x"])])
    await rig.once()
    assert (pinned(rig), stands(rig, "a")[1]) == ("n1", "n1")
    rig.window.show()
    await rig.until_still()
    assert (pinned(rig), stands(rig, "a")[1]) == ("n1", "n1")
    assert stands(rig, "x")[0] == "Pending"


@pytest.mark.parametrize("executed", [True, False])
async def test_a_pin_without_an_answer_is_outrun_and_the_launcher_is_let_through_once(executed):
    rig = a_rig(starts=[a_start(units={"h100": 2}), a_start("late", units={"h100": 2}, at=9)])
    rig.cluster.fail(Fault(at=5, executed=executed))
    first = await rig.once()
    assert [it.change for it in first.failed] == ["Pin"]
    assert first.aborted
    await rig.until_still()
    assert keys.OUTRUN_LABEL in pod(rig)["metadata"]["labels"]
    assert (pinned(rig), pinned(rig, "pod-late")) == ("n1", "n1")
    pins = [it for it in rig.cluster.writes if it.kind == kinds.PODS and "spec" in (it.body or {})]
    assert len(pins) == (2 if executed else 3)


async def test_a_pin_that_conflicts_is_decided_anew_in_the_next_pass():
    rig = a_rig(starts=[a_start(units={"h100": 2})])
    conflict = errors.from_status({"code": 409, "reason": "Conflict", "message": "modified"})
    rig.cluster.fail(Fault(at=3, executed=False, error=conflict))
    report = await rig.once()
    assert (report.only_conflicts, report.aborted, pinned(rig)) == (True, False, None)
    assert stands(rig, gated.template())[:2] == ("Bound", "n1")
    await rig.until_still()
    assert pinned(rig) == "n1"


async def test_a_refused_pin_leaves_its_claims_held_and_others_start():
    """A policy of somebody else may refuse an update of the pod."""
    rig = a_rig(starts=[a_start(units={"h100": 2}), a_start("late", units={"h100": 2}, at=9)])
    denied = errors.from_status({"code": 403, "reason": "Forbidden", "message": "no"})
    end = rig.cluster.refuse(lambda it: it.kind == kinds.PODS and it.key.name == "pod-vm", denied)
    report = await rig.once()
    assert report.quarantined == 1
    assert (pinned(rig), pinned(rig, "pod-late")) == (None, "n1")
    assert stands(rig, gated.template())[:2] == ("Bound", "n1")
    end()
    rig.clock.advance(400)
    await rig.until_still()
    assert pinned(rig) == "n1"
