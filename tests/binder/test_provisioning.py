"""WaitForFirstConsumer: a temporary pod, then none for as long as it takes, then the launcher."""

import pytest

from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from tests.binder import gated, raws
from tests.binder.rig import Rig

TEMPORARY, LAUNCHER = "pod-temporary", "pod-launcher"


def provisioning(raw):
    raw["status"]["conditions"] = [{"type": "Provisioning", "status": "True"}]
    return raw


def vmi(*pods, phase="Pending", held=("a",)):
    listed = dict.fromkeys(pods, "")
    return provisioning(gated.a_vmi(held=held, units={"h100": 1}, phase=phase, pods=listed))


async def in_the_hole():
    """A VM whose temporary pod ran on n1 and is over; both nodes have room."""
    rig = Rig()
    rig.store(
        classes=[raws.a_class()],
        nodes=[raws.a_node("n1"), raws.a_node("n2", units=6)],
        namespaces=[raws.a_tenant(it) for it in ("tenant-root", "tenant-a")],
        claims=[gated.held("a")],
        vmis=[vmi(TEMPORARY)],
        pods=[gated.a_launcher(uid=TEMPORARY, units=2)],
    )
    await rig.until_still()
    assert stands(rig) == {"a": "n1", gated.template(): "n1"}
    pod = rig.cluster._objects[kinds.PODS][ObjectKey("tenant-a", TEMPORARY)]
    assert not pod["spec"].get("schedulingGates")
    rig.store(pods=[{**pod, "spec": pod["spec"] | {"nodeName": "n1"}} | running("Running")])
    await rig.until_still()
    rig.store(pods=[{**pod, "spec": pod["spec"] | {"nodeName": "n1"}} | running("Succeeded")])
    await rig.until_still()
    del rig.cluster._objects[kinds.PODS][ObjectKey("tenant-a", TEMPORARY)]
    rig.store(vmis=[vmi()])
    await rig.until_still()
    return rig


def running(phase):
    return {"status": {"phase": phase}}


def stands(rig):
    return {key.partition("/")[2]: node for key, node in rig.placed().items()}


async def test_the_set_stays_on_the_volumes_node_through_a_cordon_and_the_launcher_comes_there():
    rig = await in_the_hole()
    rig.store(nodes=[raws.a_node("n1", unschedulable=True)])
    await rig.until_still()
    rig.clock.advance(1000)
    await rig.until_still()
    assert stands(rig) == {"a": "n1", gated.template(): "n1"}
    rig.store(
        nodes=[raws.a_node("n1")],
        vmis=[vmi(LAUNCHER, phase="Scheduling")],
        pods=[gated.a_launcher(uid=LAUNCHER, units=2)],
    )
    await rig.until_still()
    assert pinned(rig) == "n1"
    assert stands(rig) == {"a": "n1", gated.template(): "n1"}


async def test_a_launcher_that_comes_while_its_node_is_cordoned_takes_its_set_elsewhere():
    """Its volume says where it can be reached; here it has none."""
    rig = await in_the_hole()
    rig.store(
        nodes=[raws.a_node("n1", unschedulable=True)],
        vmis=[vmi(LAUNCHER, phase="Scheduling")],
        pods=[gated.a_launcher(uid=LAUNCHER, units=2)],
    )
    await rig.until_still()
    assert pinned(rig) == "n2"
    assert stands(rig) == {"a": "n2", gated.template(): "n2"}


@pytest.mark.parametrize("waited", [0, 100, 10_000])
async def test_nothing_of_it_expires_however_long_the_import_takes(waited):
    rig = await in_the_hole()
    rig.clock.advance(waited)
    await rig.until_still()
    assert stands(rig) == {"a": "n1", gated.template(): "n1"}


async def test_a_temporary_pod_that_is_listed_on_when_it_is_gone_holds_no_launcher_back():
    rig = await in_the_hole()
    rig.store(
        vmis=[vmi(TEMPORARY, LAUNCHER, phase="Scheduling")],
        pods=[gated.a_launcher(uid=LAUNCHER, units=2)],
    )
    await rig.until_still()
    assert pinned(rig) == "n1"


async def test_the_temporary_pod_and_the_launcher_are_never_let_through_at_once():
    rig = Rig()
    rig.store(
        classes=[raws.a_class()],
        nodes=[raws.a_node("n1")],
        namespaces=[raws.a_tenant(it) for it in ("tenant-root", "tenant-a")],
        claims=[gated.held("a")],
        vmis=[vmi(TEMPORARY, LAUNCHER)],
        pods=[gated.a_launcher(uid=it, units=2) for it in (TEMPORARY, LAUNCHER)],
    )
    await rig.until_still()
    through = [
        key.name
        for key, raw in rig.cluster._objects[kinds.PODS].items()
        if not raw["spec"].get("schedulingGates")
    ]
    assert through == [LAUNCHER]


def pinned(rig):
    spec = rig.cluster._objects[kinds.PODS][ObjectKey("tenant-a", LAUNCHER)]["spec"]
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
