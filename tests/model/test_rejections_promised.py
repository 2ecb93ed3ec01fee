"""Rejections of launchers that the webhook has pinned (`binding: request`): no leader's term is on them."""

import pytest

from gpu.model.rejections import Why
from tests.builders import a_claim, attachment
from tests.model.test_rejections import VM, a_scene, look, refused, stuck

UID = "vmi-tenant-a-vm"


def promised(*, node="n1", vmi="vm", uid=UID, result="Succeeded", template=False):
    asked = {"id": "r", "vmi": vmi, "claims": ["x"], "result": result}
    return a_claim(
        "x",
        on=node,
        attached=attachment(vmi, uid=uid),
        template=template,
        status={"bindRequest": asked},
    )


@pytest.mark.parametrize("uid", [UID, ""], ids=["adopted", "not-adopted-yet"])
@pytest.mark.parametrize("vmi", [None, "gone"], ids=["lives", "gone"])
def test_one_that_goes_where_its_vmi_was_promised_is_refused_there(uid, vmi):
    (found,) = look(a_scene(refused(term=None), claims=[promised(uid=uid)], vmi=vmi)).kept
    assert (found.vm, found.vmi, found.why, found.node.node) == (VM, UID, Why.REFUSED, "n1")
    assert [name for name, _ in found.claims] == ["x"]


def test_so_is_one_of_template_units_alone():
    (found,) = look(a_scene(refused(term=None), claims=[promised(template=True)])).kept
    assert (found.vm, found.claims) == (VM, ())


def test_one_that_is_not_bound_there_in_time_is_refused_too():
    scene = a_scene(stuck(term=None), claims=[promised()])
    (found,) = look(scene, look(scene), 61).kept
    assert found.why is Why.STUCK


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(promised(node="n2"), id="promised-another-node"),
        pytest.param(promised(vmi="other"), id="of-another-vm"),
        pytest.param(promised(uid="another"), id="of-another-start"),
        pytest.param(promised(result="Refused"), id="refused"),
        pytest.param(a_claim("x", on="n1", attached=attachment("vm", uid=UID)), id="never-asked"),
    ],
)
def test_one_that_was_promised_nothing_there_is_somebody_elses_business(claim):
    assert look(a_scene(refused(term=None), claims=[claim])).kept == ()
