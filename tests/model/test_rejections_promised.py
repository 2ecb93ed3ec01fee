"""Launchers that the webhook has pinned (`binding: request`): no leader's term is on them, and they count as if."""

from datetime import timedelta

import pytest

from gpu.model import demotions, fit, fit_facts, promises
from gpu.model.demotions import Demotions
from gpu.model.misfits import Cause
from gpu.model.rejections import Why
from tests.builders import START, a_claim, a_vmi, a_world, attachment
from tests.model.test_rejections import VM, a_scene, launcher, look, refused, stuck
from tests.starting import a_launcher, a_machine, a_starting_vmi

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


OTHERS = [
    pytest.param(promised(node="n2"), id="promised-another-node"),
    pytest.param(promised(vmi="other"), id="of-another-vm"),
    pytest.param(promised(uid="another"), id="of-another-start"),
    pytest.param(a_claim("x", on="n1", attached=attachment("vm", uid=UID)), id="never-asked"),
]


def cpu_left(scene, *there):
    """Why a pod that asks for the whole node is kept from it, beside launchers on their way."""
    seen = fit_facts.of(
        nodes={"n1": a_machine(amounts={"cpu": "8"})},
        pods=there,
        promised=promises.unbound(scene),
    )
    return fit.why_not(
        fit.asked(a_launcher("next", units=0, requests={"cpu": "8"})),
        a_machine(amounts={"cpu": "8"}),
        seen,
    )


def on_its_way(**more):
    return launcher(term=None, requests={"cpu": "1"}, **more)


@pytest.mark.parametrize("uid", [UID, ""], ids=["adopted", "not-adopted-yet"])
def test_one_that_has_no_node_yet_takes_cpu_where_its_vmi_was_promised(uid):
    pod = on_its_way()
    misfit = cpu_left(a_scene(pod, claims=[promised(uid=uid)]), pod)
    assert (misfit.cause, misfit.what, misfit.free) == (Cause.AMOUNT, "cpu", 7000)


def test_whoever_asks_a_world_where_a_launcher_fits_counts_it():
    """The gate, starts that ask first and explanations: what they say must not differ."""
    pod, machine = on_its_way(), a_machine(amounts={"cpu": "8"})
    vmi = a_starting_vmi("vm", active={pod.meta.uid: ""}, uid=UID)
    world = a_world(nodes=[machine], pods=[pod], claims=[promised()], vmis=[vmi])
    whole = fit.asked(a_launcher("next", units=0, requests={"cpu": "8"}))
    misfit = fit.why_not(whole, machine, world.fit_facts(world.snapshot))
    assert (misfit.cause, misfit.free) == (Cause.AMOUNT, 7000)


@pytest.mark.parametrize("claim", OTHERS)
def test_it_takes_none_where_it_was_promised_nothing(claim):
    pod = on_its_way()
    assert cpu_left(a_scene(pod, claims=[claim]), pod) is None


def test_nor_does_one_that_only_says_that_it_is_a_launcher_of_the_vmi():
    pod, listed = on_its_way(), a_vmi("vm", phase="Scheduling", active={})
    assert cpu_left(a_scene(pod, claims=[promised()], vmi=listed), pod) is None


def failed(claim):
    """Failures of a VM whose launcher a webhook pinned, after its VMI was seen to start and then to fail."""
    made, known = launcher(term=None, on="n1"), Demotions()
    for second, phase in enumerate(("Scheduled", "Failed")):
        vmi = a_starting_vmi("vm", uid=UID, phase=phase, active={"p": "n1"}, held={"x": "a"})
        scene = a_scene(made, claims=[claim], vmi=vmi)
        known = demotions.observe(known, scene, frozenset(), START + timedelta(seconds=second))
    found = known.failing.get(str(VM))
    return found.failures if found else 0


def test_its_start_that_fails_counts_as_failed():
    assert failed(promised()) == 1


@pytest.mark.parametrize("claim", OTHERS)
def test_that_of_one_that_was_promised_nothing_there_does_not(claim):
    assert failed(claim) == 0
