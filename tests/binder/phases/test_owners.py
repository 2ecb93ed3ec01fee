"""Phase owners: World in, changes out."""

from dataclasses import replace

import pytest

from gpu import keys
from gpu.binder.answer_changes import OwnClaim
from gpu.binder.phases import attachments, owners
from gpu.model import evidence
from gpu.objects.kinds import VMIS
from gpu.objects.meta import OwnerRef
from tests.binder import asking, raws
from tests.binder.scenes import a_scene

GRANTED = {"result": "Succeeded", "message": "m"}
OTHERS = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "o", "controller": False}
OURS = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "o", "controller": True}


def a_made(name="t", *, meta=None, **more):
    """A template claim that the VMI webhook made and the leader has answered."""
    labels = {"labels": {keys.TEMPLATE_CLAIM_LABEL: "true"}}
    return asking.claim(name, "n1", asks=[name], answer=GRANTED, meta=labels | (meta or {}), **more)


def a_vmi(*names, phase="Scheduling", id_="r1", **more):
    admissions = dict.fromkeys(names or ("t",), id_)
    return raws.a_vmi("vm", uid="vmi-vm", phase=phase, admissions=admissions, **more)


def of(*claims, vmis=None, **objects):
    return a_scene(
        claims=list(claims),
        classes=[raws.a_class()],
        nodes=[raws.a_node()],
        vmis=[a_vmi()] if vmis is None else vmis,
        **{"config": asking.CONFIG, **objects},
    )


def decided(scene):
    return tuple(owners.changes_of(scene))


def test_a_template_claim_made_before_its_vmi_is_owned_by_it_once_it_came():
    (change,) = decided(of(a_made()))
    assert change == OwnClaim(
        claim=change.claim,
        owner=OwnerRef(
            api_version=VMIS.api_version, kind=VMIS.kind, name="vm", uid="vmi-vm", controller=True
        ),
        set_id="tenant-a/t",
    )
    assert change.claim.meta.name == "t"


def test_of_a_vm_with_several_each_template_claim_is_owned_in_its_set():
    held = asking.claim("held", "n1", asks=["held", "t", "u"], answer=GRANTED)
    scene = of(held, a_made(), a_made("u"), vmis=[a_vmi("held", "t", "u")])
    found = [(change.claim.meta.name, change.set_id) for change in decided(scene)]
    assert found == [("t", "tenant-a/held"), ("u", "tenant-a/held")]


@pytest.mark.parametrize(
    ("claim", "vmis"),
    {
        "its VMI has not come": (a_made(), []),
        "another start's VMI": (a_made(), [a_vmi(id_="r2")]),
        "its VMI has ended": (a_made(), [a_vmi(phase="Failed")]),
        "a held claim": (a_made(meta={"labels": {}}), None),
        "it has a controller": (a_made(meta={"ownerReferences": [OURS]}), None),
        "it is attached to nothing": (a_made(status={"attachedTo": None}), None),
        "it is being deleted": (a_made(meta=raws.DELETED), None),
    }.values(),
)
def test_else_nothing_is_given_an_owner(claim, vmis):
    assert decided(of(claim, vmis=vmis)) == ()


def test_an_owner_that_is_no_controller_is_in_nobodys_way():
    scene = of(a_made(meta={"ownerReferences": [OTHERS]}))
    (change,) = decided(scene)
    assert change.owner.uid == "vmi-vm"


def test_a_vmi_that_is_being_deleted_owns_its_claim_still():
    going = a_vmi()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    assert len(decided(of(a_made(), vmis=[going]))) == 1


@pytest.mark.parametrize("left", ["skip", "later"])
def test_a_set_that_is_left_alone_is(left):
    scene = replace(of(a_made()), **{left: frozenset({"tenant-a/t"})})
    assert decided(scene) == ()


def test_claims_that_have_their_owner_or_want_none_cost_nothing(monkeypatch):
    owner = {"kind": "VirtualMachineInstance", "name": "vm", "uid": "vmi-vm", "controller": True}
    names = [f"t{number}" for number in range(20)]
    claims = [a_made(name, meta={"ownerReferences": [owner]}) for name in names]
    held = [a_made(f"h{number}", meta={"labels": {}}) for number in range(20)]
    stray = a_made("s", status={"attachedTo": None})
    scene = of(*claims, *held, stray, vmis=[a_vmi(*names, "s")])
    looked = []
    monkeypatch.setattr(evidence, "vmi_of", lambda *asked: looked.append(asked))
    assert (decided(scene), looked) == ((), [])


def test_phase_attachments_leaves_the_owner_to_this_one():
    found = tuple(attachments.changes_of(of(a_made())))
    assert not any(isinstance(change, OwnClaim) for change in found)
