"""A launcher that its VMI lists and the watch has not shown: it may wait at our gate."""

import pytest

from gpu.binder.changes import EndGuest
from gpu.binder.confirms import NoneGated
from gpu.binder.phases import moves
from gpu.objects.claims import Cause
from tests.binder import raws
from tests.binder.phases.node_stories import a_hold, a_scene, guest, node_with

UNSEEN = NoneGated(namespace="tenant-a", uids=frozenset({"vm-pod"}))


@pytest.mark.parametrize(
    ("state", "is_seen", "expected"),
    [
        pytest.param("starting", False, (UNSEEN,), id="listed, not seen"),
        pytest.param("starting", True, (), id="seen past the gate"),
        pytest.param("running", False, (), id="the guest runs: it passed the gate"),
    ],
)
def test_a_guest_is_ended_only_if_no_launcher_of_it_is_at_the_gate(state, is_seen, expected):
    """KubeVirt would count it as a failed start (domain contract 6: never delete a gated pod's VMI)."""
    found = guest(state)
    scene = a_scene(
        a_hold("x", **found["attached"]),
        nodes=[*node_with(Cause.NODE_TAINTED), raws.a_node("n2")],
        vmis=found["vmis"],
        pods=found["pods"] if is_seen else [],
    )
    (end,) = [change for change in moves.changes_of(scene) if isinstance(change, EndGuest)]
    assert end.confirm == expected
