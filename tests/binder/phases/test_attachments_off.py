"""Phase attachments with the feature off: what runs where is noted on, and nothing else is done."""

import pytest

from gpu.binder import phases
from gpu.binder.changes import Attach
from gpu.binder.phases import attachments
from gpu.config import Config
from gpu.objects.claims import AttachedPod
from tests.binder import raws
from tests.binder.scenes import a_scene, only

OFF = Config(enabled=False)
LONG_AGO = "2026-01-01T11:59:00Z"
MOVED = {"completed": True, "targetNode": "n2"}


def a_user(name="x", *, template=False, **attached):
    """A claim that VMI vmi-1 uses with pod p on n1, unless told otherwise."""
    labels = {"gpu.cozystack.io/template-claim": "true"} if template else {}
    found = raws.attached(**{"uid": "vmi-1", "pods": {"p": "n1"}, **attached})
    return raws.a_claim(name, meta={"labels": labels}, status=raws.bound("n1") | found)


def decided(*claims, config=OFF, **objects):
    good = {"classes": [raws.a_class()], "nodes": [raws.a_node(), raws.a_node("n2")]}
    scene = a_scene(claims=list(claims), config=config, **{**good, **objects})
    return tuple(attachments.changes_of(scene))


def test_the_phase_runs_then_too():
    (phase,) = (it for it in phases.PASS if it.name == "attachments")
    assert phase.when_disabled


def test_the_target_of_a_migration_is_noted_and_the_claim_stays_where_it_is_held():
    """VMI and pods may be forced away before it is on again: then nobody would know where to ask."""
    vmi = raws.a_vmi(node="n2", pods={"p": "n1", "q": "n2"}, migration=MOVED)
    pods = [raws.a_pod("p", phase="Succeeded"), raws.a_pod("q", node="n2")]
    found = only(decided(a_user(), vmis=[vmi], pods=pods))
    assert isinstance(found, Attach)
    assert found.attachment.pods == (
        AttachedPod(uid="p", node="n1", ended=True),
        AttachedPod(uid="q", node="n2"),
    )


def test_an_end_is_noted_of_a_vmi_that_is_over_and_the_claim_stays_attached():
    found = decided(a_user(), a_user("t", template=True), pods=[raws.a_pod("p", phase="Failed")])
    assert [type(change) for change in found] == [Attach, Attach]
    assert all(change.attachment.pods[0].ended for change in found)
    assert all(change.attachment.vmi == "vm" for change in found)


@pytest.mark.parametrize(
    ("claim", "objects"),
    [
        (a_user(uid="", pods={}, since=LONG_AGO), {}),
        (a_user(ended={"p"}), {}),
        (a_user(template=True, ended={"p"}), {}),
        (
            a_user(pods={"p": "n1", "q": "n2"}),
            {"vmis": [raws.a_vmi(node="n2", pods={"p": "n1", "q": "n2"}, migration=MOVED)]},
        ),
    ],
    ids=["no VMI came", "over", "a template claim", "migrated"],
)
def test_nothing_is_detached_deleted_or_followed(claim, objects):
    pods = [raws.a_pod("p"), raws.a_pod("q", node="n2")] if objects else []
    assert decided(claim, pods=pods, **objects) == ()
    assert decided(claim, pods=pods, config=Config(), **objects) != ()


def test_a_launcher_at_the_gate_is_noted_since_nobody_else_looks_at_it():
    vmi = raws.a_vmi(pods={"q": ""}, phase="Scheduling", admissions={"x": "adm-vm"})
    gated = raws.a_pod("q", node="", phase="Pending", gated=True)
    (found,) = decided(a_user(uid="", pods={}), vmis=[vmi], pods=[gated])
    assert (found.attachment.uid, found.attachment.pods) == (
        "vmi-1",
        (AttachedPod(uid="q", node=""),),
    )
