"""Phase launchers: a launcher that passed no gate is told of where it is not with its claims."""

import pytest

from gpu.binder import conditions
from gpu.binder.changes import Degrade
from gpu.binder.phases import launchers
from gpu.objects.claims import Alarm
from tests.binder import gated, interrupting, raws
from tests.binder.scenes import a_scene

SAYS = {
    "conditions": [
        {
            "type": "Degraded",
            "status": "True",
            "reason": "LauncherUnpinned",
            "message": "launcher pod-vm of its VM passed no gate",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
}


def decided(launcher, **status):
    noted = raws.attached("vm", uid="vmi-vm", admission="adm-a", pods={"pod-vm": "n2"})
    found = a_scene(
        classes=[raws.a_class()],
        nodes=[raws.a_node("n1"), raws.a_node("n2")],
        claims=[interrupting.held("a", **(noted | status))],
        vmis=[gated.a_vmi(held=("a",), phase="Running", pods={"pod-vm": "n2"}, node="n2")],
        pods=[launcher],
    )
    return tuple(launchers.changes_of(found))


def running(node="n2", **more):
    return gated.a_launcher(gated=False, node=node, phase="Running", **more)


def test_its_claims_say_so_once_and_it_is_let_run():
    (told,) = decided(running())
    assert isinstance(told, Degrade)
    assert (told.cause, told.claim.meta.name) == (Alarm.LAUNCHER_UNPINNED, "a")
    assert "node n1" in told.words
    assert decided(running(), **SAYS) == ()


@pytest.mark.parametrize("where", ["beside its claims", "pinned", "over", "gated"])
def test_one_that_is_in_order_is_not_told_of_and_the_word_is_taken_back(where):
    made = {
        "beside its claims": lambda: running("n1"),
        "pinned": lambda: pinned("n2"),
        "over": lambda: gated.a_launcher(gated=False, node="n2", phase="Succeeded"),
        "gated": gated.a_launcher,
    }[where]
    assert decided(made()) == ()
    (back,) = decided(made(), **SAYS)
    assert (back.cause, conditions.reason_of(back.claim, "Degraded")) == (None, "LauncherUnpinned")


def pinned(node):
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    made = running(node)
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    made["spec"]["affinity"] = {"nodeAffinity": required}
    return made


def test_a_target_of_a_migration_is_kubevirts_business():
    target = running()
    target["metadata"]["labels"]["kubevirt.io/migrationJobUID"] = "m"
    assert decided(target) == ()
