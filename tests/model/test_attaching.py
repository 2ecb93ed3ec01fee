"""Whose an attachment is, what becomes of it when another start wants the claim, and the pods it leaves."""

from datetime import timedelta

import pytest

from gpu.model import attaching
from gpu.model.attaching import Use
from tests.builders import START, a_claim, a_vmi, attachment

GRACE = 60.0


def attached(**more):
    return a_claim("c", on="n1", attached=attachment("vm", **more))


@pytest.mark.parametrize(
    ("claim", "vmi", "use"),
    [
        pytest.param(a_claim("c"), None, Use.OVER, id="attached-to-nothing"),
        pytest.param(attached(uid="u"), a_vmi(uid="u"), Use.LIVES, id="adopted"),
        pytest.param(attached(since=0), a_vmi(admissions={"c": "adm-vm"}), Use.LIVES, id="its-id"),
        pytest.param(attached(uid="u"), a_vmi(uid="u", deleting=True), Use.OVER, id="going"),
        pytest.param(attached(uid="u"), a_vmi(uid="u", phase="Failed"), Use.OVER, id="ended"),
        pytest.param(attached(uid="u"), a_vmi(uid="v"), Use.OVER, id="another-start"),
        pytest.param(attached(uid="u"), None, Use.OVER, id="gone"),
        pytest.param(attached(since=0), None, Use.STARTING, id="not-come-yet"),
        pytest.param(attached(since=-59), a_vmi(uid="v"), Use.STARTING, id="an-older-one-is-there"),
        pytest.param(attached(since=-60), None, Use.OVER, id="waited-for-long-enough"),
        pytest.param(attached(), None, Use.OVER, id="since-nobody-knows-when"),
    ],
)
def test_an_attachment_is(claim, vmi, use):
    assert attaching.use(claim, vmi, START, GRACE) is use


def test_waiting_ends_with_the_grace():
    claim = attached(since=0)
    before, after = (START + timedelta(seconds=at) for at in (59.9, 60))
    assert attaching.use(claim, None, before, GRACE) is Use.STARTING
    assert attaching.use(claim, None, after, GRACE) is Use.OVER


def test_pods_that_the_next_start_takes_over_are_those_recorded_and_those_its_vmi_lists():
    claim = attached(uid="u", pods={"p1": "n1", "p2": ""}, ended=["p1"])
    found = attaching.left_behind(claim, a_vmi(uid="u", active={"p2": "n2", "p3": "n3"}))
    assert [(pod.uid, pod.node, pod.ended) for pod in found] == [
        ("p1", "n1", True),
        ("p2", "n2", False),
        ("p3", "n3", False),
    ]


@pytest.mark.parametrize(
    "vmi", [None, a_vmi(uid="v", active={"p9": "n9"})], ids=["gone", "another"]
)
def test_another_vmi_adds_no_pod(vmi):
    claim = attached(uid="u", pods={"p1": "n1"})
    assert [pod.uid for pod in attaching.left_behind(claim, vmi)] == ["p1"]


def test_there_are_never_more_pods_than_can_be_stored():
    claim = attached(uid="u", pods={f"p{number}": "n1" for number in range(200)}, ended=["p0"])
    listed = {f"q{number}": "n2" for number in range(100)}
    found = attaching.left_behind(claim, a_vmi(uid="u", active=listed))
    assert len(found) == attaching.MOST_PODS
    assert "p0" not in {pod.uid for pod in found}
