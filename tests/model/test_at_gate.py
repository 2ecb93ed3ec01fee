"""At the gate: which launchers wait there, those that are listed and those that are coming."""

import pytest

from gpu import keys
from gpu.model import at_gate
from gpu.model.draft import Draft
from gpu.objects import kubevirt, pods
from gpu.objects.pods import MIGRATION_LABEL
from tests.builders import a_snapshot
from tests.starting import raw_launcher, raw_starting_vmi

OWNER = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachineInstance",
    "name": "vm",
    "uid": "vmi-1",
    "controller": True,
}


def a_vmi(**more):
    return kubevirt.decode_vmi(raw_starting_vmi(**{"uid": "vmi-1", "active": {}} | more))


def a_pod(uid="p1", *, owner=OWNER, gates=(keys.PLACEMENT_GATE,), labels=None, created=None):
    raw = raw_launcher(uid, uid=uid, gates=list(gates), term=None, on=None)
    raw["metadata"]["ownerReferences"] = [owner] if owner else []
    raw["metadata"]["labels"] |= labels or {}
    if created:
        raw["metadata"]["creationTimestamp"] = created
    raw["spec"].pop("nodeName", None)
    return pods.decode(raw)


def found(which, vmi, *launchers):
    draft = Draft.of(a_snapshot(vmis=[vmi], pods=launchers))
    return [(one.meta.name, pod.meta.uid) for one, pod in which(draft)]


def test_one_that_its_vmi_lists_waits_and_is_not_coming():
    vmi = a_vmi(active={"p1": ""})
    assert found(at_gate.listed, vmi, a_pod()) == [("vm", "p1")]
    assert found(at_gate.coming, vmi, a_pod()) == []


def test_one_that_its_vmi_is_about_to_list_is_coming_and_does_not_wait():
    assert found(at_gate.coming, a_vmi(), a_pod()) == [("vm", "p1")]
    assert found(at_gate.listed, a_vmi(), a_pod()) == []


def test_of_several_the_oldest_is_coming():
    late, early = (a_pod(f"p{at}", created=f"2026-01-01T00:00:0{at}Z") for at in (2, 1))
    assert found(at_gate.coming, a_vmi(), late, early) == [("vm", "p1")]


NOT_COMING = {
    "its VMI lists another": (a_vmi(active={"p2": ""}), a_pod()),
    "its VMI is going": (a_vmi(deleting=True), a_pod()),
    "its VMI is over": (a_vmi(phase="Failed"), a_pod()),
    "its VMI is another one": (a_vmi(uid="vmi-2"), a_pod()),
    "nobody is its controller": (a_vmi(), a_pod(owner=OWNER | {"controller": False})),
    "its controller is of another kind": (a_vmi(), a_pod(owner=OWNER | {"kind": "Pod"})),
    "it has no owner": (a_vmi(), a_pod(owner=None)),
    "it is the target of a migration": (a_vmi(), a_pod(labels={MIGRATION_LABEL: "m"})),
    "it is no launcher": (a_vmi(), a_pod(labels={pods.LAUNCHER_LABEL: "hotplug-disk"})),
    "it waits at another's gate": (a_vmi(), a_pod(gates=["example.com/quota"])),
}


@pytest.mark.parametrize(("vmi", "pod"), NOT_COMING.values(), ids=NOT_COMING)
def test_others_are_not_coming(vmi, pod):
    assert found(at_gate.coming, vmi, pod) == []
