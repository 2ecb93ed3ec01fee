"""Interrupted runs of rejections: cut off at any write, the claim notes it, the launcher is deleted once."""

import pytest

from gpu import keys
from tests.binder import gated, interrupting, raws
from tests.binder.gated import held
from tests.binder.interrupting import Case
from tests.binder.refusing import OUT_OF

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]  # every prefix of the writes


def launcher(*, phase="Pending", reason="", unscheduled=False, units=1):
    """A launcher that was let through onto n1, and what became of it."""
    node = "n1" if phase == "Failed" else ""
    made = gated.a_launcher(gated=False, units=units, phase=phase, node=node)
    made["metadata"]["annotations"] = {keys.TERM_ANNOTATION: "1"}
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    made["spec"]["affinity"] = {"nodeAffinity": {required: terms}}
    if reason:
        made["status"]["reason"] = reason
    if unscheduled:
        told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        made["status"]["conditions"] = [told]
    return made


def used(name, **more):
    attached = raws.attached("vm", uid="vmi-vm", admission=f"adm-{name}", pods={"pod-vm": "n1"})
    return held(name, **attached, **more)


def vm(pod, *, claims, phase="Scheduling"):
    named = raws.a_vm("vm", claims=claims)
    return {"vmis": [gated.a_vmi(held=claims, phase=phase)], "pods": [pod], "vms": [named]}


STUCK = launcher(unscheduled=True)
REFUSED = launcher(phase="Failed", reason=OUT_OF)
CASES = {
    "one claim, refused": Case(
        {"n1": 4}, [used("a")], more=vm(REFUSED, claims=("a",), phase="Failed")
    ),
    "two claims, refused": Case(
        {"n1": 4, "n2": 4},
        [used("a"), used("b", at=1)],
        more=vm(REFUSED, claims=("a", "b"), phase="Failed"),
    ),
    "refused before the VMI is Failed": Case(
        {"n1": 4}, [used("a")], more=vm(REFUSED, claims=("a",))
    ),
    # The second wait is for a new leader, whose clock begins anew.
    "one claim, not bound": Case(
        {"n1": 4},
        [used("a")],
        more=vm(STUCK, claims=("a",)),
        waits=(61.0, 61.0, *interrupting.SETTLES),
    ),
    "two claims, not bound": Case(
        {"n1": 4, "n2": 4},
        [used("a"), used("b", at=1)],
        more=vm(STUCK, claims=("a", "b")),
        waits=(61.0, 61.0, *interrupting.SETTLES),
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_whatever_is_cut_off_the_next_leader_makes_good(name):
    end = await interrupting.survives(CASES[name])
    stands = {key: (it[0], it[1], it[-1]) for key, it in end["claims"].items()}
    names = ("a", "b") if "two" in name else ("a",)
    assert stands == {f"tenant-a/{it}": ("Bound", "n1", ["n1"]) for it in names}
    assert end["pins"] == {}
