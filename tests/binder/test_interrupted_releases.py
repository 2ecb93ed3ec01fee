"""Interrupted runs of attachments and releases: each kind of evidence, and none. See `interrupting`."""

from dataclasses import replace

import pytest

from gpu.config import Config
from tests.binder import interrupting, raws
from tests.binder.interrupting import SETTLES, Case, held, used, vmi

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]  # every prefix of the writes

OFF = replace(Config(), enabled=False)
NOW = "2026-01-02T03:04:05Z"
"""When the first leader begins; agents look again each time that time passes."""
OUT = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
DEAD = raws.a_node("n1", ready="Unknown", taints=[OUT])
SILENT = raws.a_node("n1", ready="Unknown")
EMPTY_NODE = {"inventory": [raws.an_inventory("n1", status=raws.seen_devices(units=8, at=NOW))]}
IN_USE = {
    "inventory": [
        raws.an_inventory("n1", status=raws.seen_devices(units=8, at=NOW, held_by=["pod-1"]))
    ]
}
WAITS = raws.a_claim("next", count=8, at=9, meta=interrupting.OURS)


def deleted(name="x", **more):
    return used(name, meta=raws.DELETED, **more)


RELEASES = {
    "its pod was seen to succeed": Case(
        {"n1": 8}, [deleted(count=8), WAITS], more={"pods": [raws.a_pod(phase="Succeeded")]}
    ),
    "its pod lives": Case({"n1": 8}, [deleted(), WAITS], more={"pods": [raws.a_pod()]}),
    "its node is gone": Case({"n2": 8}, [deleted(), WAITS]),
    "its node is out of service": Case([DEAD, raws.a_node("n2")], [deleted(), WAITS]),
    "its node is silent": Case([SILENT, raws.a_node("n2", units=4)], [deleted(), WAITS]),
    "the agent sees no device held": Case(
        {"n1": 8}, [deleted(), WAITS], more=EMPTY_NODE, waits=(30.0,)
    ),
    "the agent sees a device held": Case({"n1": 8}, [deleted(), WAITS], more=IN_USE, waits=(30.0,)),
    "its node looked for long enough": Case({"n1": 8}, [deleted(), WAITS], waits=SETTLES),
    "one of two claims of a VM is deleted": Case(
        {"n1": 8},
        [deleted("x"), used("y", at=1), WAITS],
        more={"vmis": [vmi("x", "y")], "pods": [raws.a_pod(units=2)]},
    ),
    "two deleted claims of a VM that is over": Case(
        {"n1": 8},
        [deleted("x"), deleted("y", at=1), WAITS],
        more={"pods": [raws.a_pod(phase="Failed", units=2)]},
        in_flight=1,
    ),
    "with the feature off": Case(
        {"n1": 8},
        [deleted(), held("y", at=1)],
        config=OFF,
        more={"pods": [raws.a_pod(phase="Succeeded")]},
    ),
    "with the feature off and a pod that lives": Case(
        {"n1": 8}, [deleted()], config=OFF, more={"pods": [raws.a_pod()]}
    ),
}
ATTACHMENTS = {
    "a VMI that never came": Case(
        {"n1": 8},
        [held("x", **raws.attached("vm", since="2026-01-02T03:00:00Z"))],
    ),
    "a VMI that came": Case(
        {"n1": 8},
        [
            held("x", **raws.attached("vm", admission="adm-x", since="2026-01-02T03:04:05Z")),
            held("y", at=1, **raws.attached("vm", admission="adm-y", since="2026-01-02T03:04:05Z")),
        ],
        more={"vmis": [vmi("x", "y")], "pods": [raws.a_pod(units=2)]},
    ),
    "a VMI that ended, its pod too": Case(
        {"n1": 8},
        [used("x"), used("y", at=1)],
        more={
            "vmis": [vmi("x", "y", phase="Succeeded")],
            "pods": [raws.a_pod(phase="Succeeded", units=2)],
        },
    ),
    "a VMI that ended before its pod": Case(
        {"n1": 8},
        [used("x")],
        more={"vmis": [vmi("x", phase="Succeeded")], "pods": [raws.a_pod()]},
    ),
    "a VMI that is gone, its pod as well": Case({"n1": 8}, [used("x"), WAITS], waits=SETTLES),
    "a VMI made again under its name": Case(
        {"n1": 8},
        [used("x", pod="old")],
        more={
            "vmis": [
                raws.a_vmi(uid="vmi-new", pods={"new": ""}, phase="Scheduling", admissions={})
            ],
            "pods": [raws.a_pod("old", phase="Succeeded")],
        },
    ),
}
CASES = RELEASES | ATTACHMENTS

ENDS = {
    "its pod was seen to succeed": "next Bound n1",
    "its pod lives": "next Pending, x Bound n1 used by vm",
    "its node is gone": "next Bound n2",
    "its node is out of service": "next Bound n2",
    "its node is silent": "next Pending, x Bound n1 used by vm",
    "the agent sees no device held": "next Bound n1",
    "the agent sees a device held": "next Pending, x Bound n1 used by vm",
    "its node looked for long enough": "next Bound n1",
    "one of two claims of a VM is deleted": "next Pending, x Bound n1 used by vm, y Bound n1 used by vm",
    "two deleted claims of a VM that is over": "next Bound n1",
    "with the feature off": "y Bound n1",
    "with the feature off and a pod that lives": "x Bound n1 used by vm",
    "a VMI that never came": "x Bound n1",
    "a VMI that came": "x Bound n1 used by vm, y Bound n1 used by vm",
    "a VMI that ended, its pod too": "x Bound n1, y Bound n1",
    "a VMI that ended before its pod": "x Bound n1 used by vm",
    "a VMI that is gone, its pod as well": "next Pending, x Bound n1",
    "a VMI made again under its name": "x Bound n1",
}
"""Each claim in the end, and its VM if it has one."""


@pytest.mark.parametrize("name", CASES)
async def test_whatever_is_cut_off_the_next_leader_makes_good(name):
    end = await interrupting.survives(CASES[name])
    assert interrupting.told(end) == ENDS[name]
