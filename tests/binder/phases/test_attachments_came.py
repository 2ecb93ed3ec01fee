"""Phase attachments: a VMI that has just come is noted with its launcher, in one write, or a moment later."""

import pytest

from gpu.binder.changes import Attach, DeleteClaim, Detach, Detached
from gpu.binder.confirms import VMIEnded
from gpu.binder.phases import attachments
from gpu.model.sightings import Sightings
from gpu.objects.claims import AttachedPod
from gpu.objects.meta import ObjectKey
from tests.binder import asking, raws
from tests.binder.phases.test_attachments import a_user, noted, of
from tests.binder.scenes import only

JUST_NOW = "2026-01-01T11:59:59Z"
A_WHILE_AGO = "2026-01-01T11:59:58Z"
CAME = Sightings(came={"adm-vm": "vmi-7"})
GONE = VMIEnded(key=ObjectKey("tenant-a", "vm"), uid="vmi-7")


def came(**more):
    return a_user(uid="", **{"pods": {}, "since": JUST_NOW} | more)


def its_vmi(pods=None, **more):
    return raws.a_vmi(uid="vmi-7", pods=pods, admissions={"x": "adm-vm"}, **more)


def another_asks():
    """A start of another VM that waits for its answer."""
    return asking.claim("y", vm="other", asks=["y"])


def decided(scene):
    return tuple(attachments.changes_of(scene))


def test_its_uid_alone_is_left_for_a_moment():
    assert decided(of(came(), vmis=[its_vmi()])) == ()


def test_after_that_it_is_noted_alone():
    found = noted(of(came(since=A_WHILE_AGO), vmis=[its_vmi()]))["x"]
    assert (found.uid, found.pods) == ("vmi-7", ())


def test_it_is_noted_with_its_launcher_as_soon_as_it_lists_that():
    found = noted(of(came(), vmis=[its_vmi({"p": "n1"})], pods=[raws.a_pod("p")]))["x"]
    assert (found.uid, found.pods) == ("vmi-7", (AttachedPod(uid="p", node="n1"),))


def test_while_another_start_waits_for_its_answer_the_launcher_is_left_too():
    objects = {"vmis": [its_vmi({"p": "n1"})], "pods": [raws.a_pod("p")]}
    assert decided(of(came(), another_asks(), **objects)) == ()
    assert noted(of(came(since=A_WHILE_AGO), another_asks(), **objects))["x"].uid == "vmi-7"


@pytest.mark.parametrize(
    "objects",
    [
        {"vmis": [its_vmi(deleting=True)]},
        {"vmis": [its_vmi({"p": "n1"})], "pods": [raws.a_pod("p", phase="Succeeded")]},
    ],
    ids=["the VMI goes", "a pod of it has ended"],
)
def test_what_is_evidence_of_an_end_is_noted_at_once(objects):
    assert noted(of(came(), another_asks(), **objects))["x"].uid == "vmi-7"


def test_what_a_vmi_that_is_noted_lists_anew_is_noted_at_once():
    user = a_user(since=JUST_NOW)
    vmi = raws.a_vmi(pods={"p": "n1", "target": "n2"})
    found = noted(of(user, another_asks(), vmis=[vmi], pods=[raws.a_pod("p")]))["x"]
    assert [pod.uid for pod in found.pods] == ["p", "target"]


def test_one_that_came_and_is_gone_before_it_was_noted_is_over():
    change = only(decided(of(came(), sightings=CAME)))
    assert isinstance(change, Detach)
    assert (change.why, change.confirm[0]) == (Detached.ENDED, GONE)


def test_without_that_memory_it_may_come_still():
    assert decided(of(came())) == ()


def test_it_is_noted_with_what_its_end_needs_evidence_of():
    change = only(decided(of(came(pods={"p": ""}), sightings=CAME, pods=[raws.a_pod("p")])))
    assert isinstance(change, Attach)
    assert change.attachment.uid == "vmi-7"


def test_its_template_claim_goes_in_the_version_that_was_seen():
    """The next start of the VM may take it up in this moment, since no VMI is noted on it."""
    claim = came(template=True, meta={"resourceVersion": "41"})
    change = only(decided(of(claim, sightings=CAME)))
    assert isinstance(change, DeleteClaim)
    assert (change.version, change.confirm) == ("41", (GONE,))
