"""Whole passes over a node that cannot keep a set: they come to rest, and what happened is stored."""

from dataclasses import replace

import pytest

from gpu.config import Config, Grace, RunningGuests
from gpu.objects import kinds
from gpu.objects.claims import Cause
from gpu.objects.meta import ObjectKey
from tests.binder import raws
from tests.binder.phases import node_stories
from tests.binder.rig import Rig

pytestmark = pytest.mark.long  # every cell of the table, pass after pass

CAUSES = [
    Cause.NODE_GONE,
    Cause.NODE_NOT_READY,
    Cause.UNITS_MISSING,
    Cause.NODE_TAINTED,
    Cause.NODE_CORDONED,
]
STATES = ["off", "gated", "starting", "running", "ending", "ended"]
AT_ONCE = replace(Config(), grace=Grace(not_ready=0, degraded=0))


def a_rig(cause, state, *, room, config=AT_ONCE):
    found = node_stories.guest(state)
    rig = Rig(config=config)
    rig.store(
        classes=[raws.a_class()],
        namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant()],
        nodes=[*node_stories.node_with(cause), raws.a_node("n2", units=int(room))],
        claims=[node_stories.a_hold("x", **found["attached"])],
        vmis=found["vmis"],
        pods=found["pods"],
    )
    return rig


def stands(rig):
    status = rig.claim()["status"]
    return status["phase"], status["nodeName"]


@pytest.mark.parametrize("running", RunningGuests)
@pytest.mark.parametrize("room", [True, False])
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("cause", CAUSES)
async def test_passes_come_to_rest_whatever_ails_the_node(cause, state, room, running):
    rig = a_rig(cause, state, room=room, config=replace(AT_ONCE, running_guests=running))
    await rig.until_still(8)
    rig.clock.advance(20)
    await rig.until_still(2)
    phase, node = stands(rig)
    assert phase in {"Bound", "Lost"}
    assert node in {"n1", "n2"} if room else node == "n1"


async def test_a_guest_is_ended_and_its_set_moves_when_its_pod_has_ended():
    rig = a_rig(Cause.NODE_TAINTED, "running", room=True)
    await rig.until_still()
    assert ("delete", "VirtualMachineInstance tenant-a/vm", None) in rig.writes()
    assert stands(rig) == ("Bound", "n1")
    rig.cluster.put(kinds.PODS, raws.a_pod("vm-pod", phase="Succeeded"))
    await rig.until_still()
    assert stands(rig) == ("Bound", "n2")
    status = rig.claim()["status"]
    assert (status["displaced"]["node"], status["displaced"]["cause"]) == ("n1", "NodeTainted")
    assert "attachedTo" not in status


async def test_a_pod_that_lives_after_all_stops_the_move():
    """The watch says that the pod ended; read past the cache, it lives."""
    rig = a_rig(Cause.NODE_CORDONED, "ended", room=True)
    rig.cluster.put(kinds.PODS, raws.a_pod("vm-pod"))
    await rig.passes.once()
    assert stands(rig) == ("Bound", "n1")


async def test_an_uncordon_between_two_passes_stops_what_has_not_happened_yet():
    rig = a_rig(Cause.NODE_CORDONED, "off", room=False)
    await rig.until_still()
    rig.cluster.put(kinds.NODES, raws.a_node("n1"))
    rig.cluster.put(kinds.NODES, raws.a_node("n2", units=8))
    await rig.until_still()
    assert stands(rig) == ("Bound", "n1")


async def test_a_lost_set_comes_back_when_its_node_does():
    rig = a_rig(Cause.NODE_GONE, "off", room=False)
    await rig.until_still()
    assert stands(rig) == ("Lost", "n1")
    rig.cluster.put(kinds.NODES, raws.a_node("n1"))
    await rig.until_still()
    assert stands(rig) == ("Bound", "n1")
    assert rig.cluster._objects[kinds.GPU_CLAIMS][ObjectKey("tenant-a", "x")]["status"]["displaced"]
