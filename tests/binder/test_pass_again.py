"""A pass after which more can be done asks for another one: its own events are an echo to the loop."""

from dataclasses import replace

from gpu.config import Config
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from gpu.settings import RawNames
from tests.binder import gated, interrupting, raws, refusing
from tests.binder.interrupting import OURS, Case, held, used, vmi
from tests.binder.rig import Rig


async def test_units_of_a_pod_now_known_to_have_ended_are_offered_at_once():
    """The pod is gone, and the agent sees no device of it: what it may have held is free again."""
    status = raws.seen_devices(units=8, at="2026-01-02T03:04:05Z")
    case = Case(
        {"n1": 8},
        [used("x", count=8), raws.a_claim("next", count=8, meta=OURS)],
        more={
            "vmis": [vmi("x", phase="Succeeded")],
            "inventory": [raws.an_inventory("n1", status=status)],
        },
    )
    rig = interrupting.a_rig(case)
    await rig.until_still()
    rig.clock.advance(30)
    interrupting.world_moves(rig)
    report = await rig.once()
    assert (report.written["Detach"], report.again) == (1, True)


async def test_a_claim_given_back_is_two_writes_and_two_passes_from_the_next_hold():
    """It frees nothing before its finalizer is off, and is gone with that: no pass lies between."""
    case = Case({"n1": 8}, [held("x", count=8), raws.a_claim("next", count=8, meta=OURS)])
    rig = interrupting.a_rig(case)
    await rig.until_still()
    before = len(rig.writes(kinds.GPU_CLAIMS))
    await rig.cluster.delete(kinds.GPU_CLAIMS, "x", "tenant-a")
    assert (await rig.once()).again
    assert rig.claim("x") is None
    await rig.once()
    assert rig.placed() == {"tenant-a/next": "n1"}
    assert rig.writes(kinds.GPU_CLAIMS)[before:] == [
        ("delete", "GPUClaim tenant-a/x", None),
        ("patch", "GPUClaim tenant-a/x", None),
        ("patch", "GPUClaim tenant-a/next", "status"),
    ]


async def test_a_start_by_a_raw_name_is_let_through_once_settings_that_allow_it_are_stored():
    rig = Rig(config=replace(Config(), raw_names=RawNames.ALLOWED))
    rig.store(
        classes=[raws.a_class()],
        nodes=[raws.a_node()],
        namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant()],
        **gated.a_start(asks=1),
    )
    await rig.until_echo()
    launcher = rig.cluster._objects[kinds.PODS][ObjectKey("tenant-a", "pod-vm")]
    assert not launcher["spec"].get("schedulingGates")


async def test_units_of_a_launcher_that_is_deleted_before_it_ran_are_told_of_at_once():
    """It was pinned by the raw name, and nothing else is written of it."""
    rig = Rig(config=replace(Config(), raw_names=RawNames.ALLOWED))
    rig.store(
        classes=[raws.a_class()],
        nodes=[raws.a_node(units=8)],
        inventory=[raws.an_inventory("n1")],
        namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant()],
        **gated.a_start(asks=1),
    )
    await rig.until_still()
    refusing.not_bound(rig)
    await rig.until_still()
    rig.clock.advance(60)
    report = await rig.once()
    assert (report.written["DeletePod"], report.again) == (1, True)
    assert refusing.pod(rig) is None
    await rig.once()
    (node,) = rig.cluster._objects[kinds.GPU_NODES].values()
    assert node["status"]["resources"] == [{"name": raws.RESOURCE, "held": 0, "free": 8}]


async def test_a_claim_whose_node_is_well_again_says_at_once_that_its_set_is_torn():
    """Sets are looked at first, and what a claim says of its node stands then."""
    trouble = {"type": "Degraded", "status": "True", "reason": "NodeCordoned", "message": "x"}
    told = {"conditions": [{**trouble, "lastTransitionTime": "2026-01-02T03:00:00Z"}]}
    rig = Rig()
    rig.store(
        classes=[raws.a_class()],
        nodes=[raws.a_node(name, units=1) for name in ("n1", "n2")],
        namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant()],
        vms=[raws.a_vm(claims=["x", "y"])],
        claims=[
            raws.a_claim("x", meta=OURS, status=raws.bound("n1") | told),
            raws.a_claim("y", meta=OURS, status=raws.bound("n2")),
        ],
    )
    await rig.until_echo()
    said = {
        name: [
            it["reason"]
            for it in rig.claim(name)["status"]["conditions"]
            if it["type"] == "Degraded"
        ]
        for name in ("x", "y")
    }
    assert said == {"x": ["SetTorn"], "y": ["SetTorn"]}


async def test_a_claim_that_is_deleted_says_at_once_what_it_is_kept_for_since_a_pod_was_noted():
    """That its launcher is on a node is noted in the pass that tells of it by what was noted before."""
    claim = used("x", meta=OURS | {"deletionTimestamp": "2026-01-02T03:04:00Z"})
    claim["status"]["attachedTo"]["pods"] = [{"uid": "pod-1"}]
    user = vmi("x")
    user["status"]["activePods"] = {"pod-1": ""}
    launcher = raws.a_pod("pod-1", node="", phase="Pending", units=1)
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}
    launcher["spec"]["affinity"] = {"nodeAffinity": required}
    rig = interrupting.a_rig(Case({"n1": 8}, [claim], more={"vmis": [user], "pods": [launcher]}))
    await rig.until_echo()
    said = rig.claim("x")["status"]["conditions"]
    await rig.until_still()
    assert said == rig.claim("x")["status"]["conditions"]
