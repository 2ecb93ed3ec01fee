"""The launcher webhook under `binding: request`: pinned where all its claims are, else at the gate."""

from dataclasses import replace

import pytest

from gpu.admission.review import Denied
from gpu.config import Binding
from tests.admission.test_launchers import CONFIG, GATE, a_launcher, answer, gated, record
from tests.builders import H100, a_claim, attachment

REQUEST = replace(CONFIG, binding=Binding.REQUEST)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PIN = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
SET = record(
    {"claim": "c", "admission": "x"},
    {"claim": "tpl-1", "admission": "x"},
    {"class": "h100", "units": 2},
)


def held(name="c", *, admission="x", on="n1", **more):
    return a_claim(name, on=on, attached=attachment(admission=admission), **more)


def made(name="tpl-1", *, count=2, **more):
    return held(name, template=True, count=count, **more)


def launcher(units=3, text=SET, **spec):
    body = a_launcher(text, **spec)
    resources = {"limits": {H100: str(units)}, "requests": {H100: str(units)}}
    body["spec"]["containers"][0]["resources"] = resources
    return body


def admitted(body, *claims):
    return gated(body, config=REQUEST, claims=claims)["spec"]


def terms(spec):
    return spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


def test_a_launcher_is_pinned_where_its_claims_are_and_waits_at_no_gate():
    spec = admitted(launcher(), held(), made())
    assert terms(spec) == [{"matchFields": [PIN]}]
    assert "schedulingGates" not in spec
    assert len(spec["tolerations"]) == 2


def test_one_that_its_vmi_has_pinned_already_stays_as_it_is():
    own = [{"matchExpressions": [{"key": "zone", "operator": "Exists"}], "matchFields": [PIN]}]
    body = launcher(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": own}}})
    assert terms(admitted(body, held(), made())) == own


def test_each_of_its_terms_is_narrowed():
    zone = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    body = launcher(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [zone, zone]}}})
    assert terms(admitted(body, held(), made())) == [{**zone, "matchFields": [PIN]}] * 2


@pytest.mark.parametrize(
    ("body", "claims"),
    [
        pytest.param(launcher(), [held()], id="a-claim-that-is-not-known"),
        pytest.param(launcher(), [held(), made(on="n2")], id="on-two-nodes"),
        pytest.param(launcher(), [held(), made(on=None, lost="n1")], id="lost"),
        pytest.param(launcher(), [held(), made(on=None)], id="not-bound-yet"),
        pytest.param(launcher(), [held(admission="y"), made()], id="attached-to-another-start"),
        pytest.param(launcher(), [held(), made(deleting=True)], id="being-deleted"),
        pytest.param(launcher(2), [held(), made(count=1)], id="fewer-units-than-its-template"),
        pytest.param(launcher(units=4), [held(), made()], id="raw-units-beside-its-claims"),
        pytest.param(launcher(units=1, text="[]"), [], id="raw-units-alone"),
        pytest.param(
            launcher(text=record({"class": "h100", "units": 2})), [], id="admitted-under-gate"
        ),
    ],
)
def test_one_that_nobody_has_placed_whole_waits_at_the_gate(body, claims):
    spec = admitted(body, *claims)
    assert spec["schedulingGates"] == [GATE]
    assert "affinity" not in spec


def test_under_gate_it_is_never_pinned_here():
    spec = gated(launcher(), claims=[held(), made()])["spec"]
    assert (spec["schedulingGates"], "affinity" in spec) == ([GATE], False)


def test_an_affinity_that_is_none_is_refused():

    assert isinstance(answer(launcher(affinity=[]), config=REQUEST), Denied)
