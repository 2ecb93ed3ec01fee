"""The VMI webhook asked once more about what it wrote, and about what only looks like it."""

import json
from dataclasses import replace

import pytest

from gpu import keys
from tests.admission.judging import CLAIMS, admitted, path, refused
from tests.admission.starts import a_vmi, claim, gpu, record, unit
from tests.builders import H100, a_claim, a_settings, attachment


def again(body, **objects):
    """Put what left the webhook to it again, attached as it wrote it."""
    first = admitted(body, **objects)
    ids = {it["claim"]: it["admission"] for it in record(first) or [] if "claim" in it}
    vm = body["metadata"].get("name", "")
    now = [
        replace(
            it,
            attached_to=a_claim(
                "x", attached=attachment(vm, admission=ids[it.meta.name])
            ).attached_to,
        )
        if it.meta.name in ids
        else it
        for it in objects.get("claims", CLAIMS)
    ]
    return first, {**objects, "claims": now}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            a_vmi(gpus=[unit(), claim("three")], hosts=[claim("l")], listed="one"), id="all"
        ),
        pytest.param(a_vmi("", gpus=[unit(), unit()]), id="template-units-without-a-name"),
        pytest.param(a_vmi(gpus=[gpu("usb.io/x")], listed=""), id="nothing"),
    ],
)
def test_a_repeated_call_changes_nothing(body):
    first, objects = again(body)
    assert admitted(first, **objects) == first


def test_raw_units_are_repeated_too():
    body = a_vmi(gpus=[gpu(H100)])
    raw = a_settings(raw=True)
    first = admitted(body, settings=raw)
    assert admitted(first, settings=raw) == first


FORGED = [{"name": f"gpuclaim-{number}", "deviceName": H100} for number in range(3)]


@pytest.mark.parametrize(
    ("marks", "objects"),
    [
        pytest.param([{"claim": "three", "admission": "forged"}], {}, id="an-id-nobody-gave"),
        pytest.param(
            [{"claim": "three", "admission": "adm-vm"}],
            {"claims": [a_claim("three", count=3, attached=attachment("other"))]},
            id="of-another-vm",
        ),
        pytest.param(
            [{"claim": "three", "admission": "adm-vm"}],
            {"claims": [a_claim("three", count=3, attached=attachment("vm", uid="u"))]},
            id="of-a-start-that-came",
        ),
        pytest.param(
            [{"claim": "three", "admission": "adm-vm"}],
            {"claims": [a_claim("three", count=2, attached=attachment("vm"))]},
            id="more-units-than-the-claim-has",
        ),
        pytest.param([{"class": "h100", "units": 2}], {}, id="more-units-than-recorded"),
        pytest.param([{"class": "l40", "units": 3}], {}, id="another-resource"),
        pytest.param([], {}, id="nothing-recorded"),
        pytest.param("x", {}, id="no-record-at-all"),
        pytest.param(
            [{"claim": "three", "admission": "adm-vm"}],
            {"claims": [a_claim("three", tenant="tenant-b", count=3, attached=attachment("vm"))]},
            id="anothers-claim",
        ),
    ],
)
def test_units_that_the_webhook_did_not_write_are_refused(marks, objects):
    annotations = {keys.RESOLVED_CLAIMS_ANNOTATION: json.dumps(marks)}
    found = refused(a_vmi(gpus=FORGED, annotations=annotations), **objects)
    assert ("NameReserved", path(member="name")) in found


def test_forged_template_units_are_judged_as_honest_ones():
    """The record says what four references would; it may say no more."""
    units = [{"name": f"gpuclaim-{number}", "deviceName": H100} for number in range(5)]
    marks = {keys.RESOLVED_CLAIMS_ANNOTATION: '[{"class":"h100","units":5}]'}
    assert refused(a_vmi(gpus=units, annotations=marks)) == [("OverMaxCount", path(member="")[:-1])]


@pytest.mark.parametrize(
    "own",
    [
        pytest.param({"attached": attachment("vm", admission="other")}, id="of-another-start"),
        pytest.param(
            {"attached": attachment("vm", admission="x"), "count": 1}, id="of-other-units"
        ),
        pytest.param(
            {"attached": attachment("vm", admission="x"), "class_name": "l40"},
            id="of-another-class",
        ),
    ],
)
def test_a_template_claim_of_the_record_that_is_not_this_starts_is_not_believed(own):
    entries = [{"name": f"gpuclaim-{number}", "deviceName": H100} for number in range(2)]
    marks = json.dumps([{"claim": "tpl", "admission": "x"}, {"class": "h100", "units": 2}])
    body = a_vmi(gpus=entries, annotations={keys.RESOLVED_CLAIMS_ANNOTATION: marks})
    mine = {"attached": attachment("vm", admission="x"), "count": 2, "template": True, "on": "n1"}
    good = [*CLAIMS, a_claim("tpl", **mine)]
    assert admitted(body, claims=good) == body
    assert refused(body, claims=[*CLAIMS, a_claim("tpl", **(mine | own))])
