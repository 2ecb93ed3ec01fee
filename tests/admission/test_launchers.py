"""The launcher webhook: which pods get the gate and whose tolerations, once; everything else untouched."""

import json

import pytest

from gpu import keys
from gpu.admission import pods, review
from gpu.admission.review import Allowed, Denied
from gpu.config import Config, RawPlacement
from gpu.objects import kinds
from gpu.objects.claims import GPUClaim
from tests.admission import starts
from tests.builders import L40, a_claim, a_class, a_world

CONFIG = Config()
GATE = {"name": keys.PLACEMENT_GATE}
OTHER = {"name": "other.example.com/gate"}
DEDICATED = {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
ANY = {"key": "gpu", "operator": "Exists"}
SECONDS = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
CLASSES = [
    a_class(tolerations=[DEDICATED, ANY]),
    a_class("l40", resource=L40, tolerations=[SECONDS, ANY]),
]
LAUNCHER = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": "u"}


def a_launcher(record="[]", *, labels=None, tenant="tenant-a", **spec):
    marks = {} if record is None else {keys.RESOLVED_CLAIMS_ANNOTATION: record}
    return {
        "metadata": {
            "generateName": "virt-launcher-vm-",
            "namespace": tenant,
            "labels": LAUNCHER if labels is None else labels,
            "annotations": {**marks, "kubevirt.io/domain": "vm"},
        },
        "spec": {"containers": [{"name": "compute"}], **spec},
    }


def answer(body, config=CONFIG, user=starts.KUBEVIRT, claims=(), **more):
    asked = review.decode(starts.request(body, kind=kinds.PODS, user=user, **more))
    return pods.answer(asked, a_world(classes=CLASSES, claims=list(claims)), config)


def gated(body, **more):
    found = answer(body, **more)
    assert isinstance(found, Allowed)
    return starts.patched(body, found.patch)


def record(*items):
    return json.dumps(items)


HELD = record({"claim": "c", "admission": "x"}, {"class": "l40", "units": 2})


def test_a_launcher_gets_the_gate_and_the_tolerations_of_its_sets_classes():
    found = gated(a_launcher(HELD), claims=[a_claim("c")])
    assert found["spec"]["schedulingGates"] == [GATE]
    assert found["spec"]["tolerations"] == [DEDICATED, ANY, SECONDS]


def test_what_it_brings_stays_and_nothing_else_changes():
    body = a_launcher(
        HELD, schedulingGates=[OTHER], tolerations=[{"key": "x"}], nodeSelector={"a": "b"}
    )
    found = gated(body, claims=[a_claim("c")])
    assert found["spec"].pop("schedulingGates") == [OTHER, GATE]
    assert found["spec"].pop("tolerations") == [{"key": "x"}, DEDICATED, ANY, SECONDS]
    assert found["metadata"] == body["metadata"]
    assert found["spec"] == {"containers": [{"name": "compute"}], "nodeSelector": {"a": "b"}}


def test_a_repeated_call_adds_nothing():
    found = gated(a_launcher(HELD), claims=[a_claim("c")])
    assert answer(found, claims=[a_claim("c")]) == Allowed()


def test_a_toleration_that_leaves_out_its_operator_is_the_same():
    mine = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    found = gated(a_launcher(record({"class": "h100", "units": 1}), tolerations=[mine]))
    assert found["spec"]["tolerations"] == [mine, ANY]


@pytest.mark.parametrize("text", ["[]", "", "{", "[1]", "[" * 10_000])
def test_the_gate_is_put_on_whatever_the_record_says(text):
    found = gated(a_launcher(text))
    assert found["spec"]["schedulingGates"] == [GATE]
    assert "tolerations" not in found["spec"]


@pytest.mark.parametrize(
    ("claims", "whole"),
    [
        pytest.param([a_claim("c")], True, id="there"),
        pytest.param([], False, id="not-in-the-cache"),
        pytest.param([a_claim("c", tenant="tenant-b")], False, id="another-tenants"),
        pytest.param([a_claim("c", class_name="new")], False, id="of-a-class-not-in-the-cache"),
    ],
)
def test_tolerations_that_come_now_or_never_rest_on_a_current_cache(claims: list[GPUClaim], whole):
    found = answer(a_launcher(HELD), claims=claims)
    assert isinstance(found, Allowed)
    assert bool(review.rests_on(found)) is not whole


@pytest.mark.parametrize(
    ("body", "more"),
    [
        pytest.param(
            a_launcher(labels={**LAUNCHER, "kubevirt.io/migrationJobUID": "u"}),
            {},
            id="migration-target",
        ),
        pytest.param(a_launcher(labels={}), {}, id="no-launcher"),
        pytest.param(a_launcher(None), {}, id="not-resolved"),
        pytest.param(a_launcher(), {"user": "alice"}, id="made-by-a-person"),
        pytest.param(
            a_launcher(),
            {"user": "system:serviceaccount:tenant-a:kubevirt-controller"},
            id="made-by-a-namesake",
        ),
        pytest.param(a_launcher(), {"operation": "UPDATE"}, id="update"),
        pytest.param(a_launcher(), {"subResource": "status"}, id="status"),
    ],
)
def test_every_other_pod_is_left_alone(body, more):
    assert answer(body, **more) == Allowed()


def test_an_annotation_of_kubevirts_decides_nothing():
    body = a_launcher()
    body["metadata"]["annotations"] |= {
        "kubevirt.io/migrationJobName": "x",
        "kubevirt.io/ephemeral-provisioning": "true",
    }
    assert gated(body)["spec"]["schedulingGates"] == [GATE]


@pytest.mark.parametrize(("text", "is_gated"), [("[]", False), (HELD, True), ("{", True)])
def test_where_the_scheduler_places_raw_launchers_those_alone_are_not_gated(text, is_gated):
    found = gated(a_launcher(text), config=Config(raw_placement=RawPlacement.SCHEDULER))
    assert ("schedulingGates" in found["spec"]) is is_gated


def test_a_pod_of_a_broken_shape_is_refused_as_such():
    found = answer(a_launcher(tolerations=["x"]))
    assert isinstance(found, Denied)
    assert (found.code, found.message) == (
        422,
        "pod virt-launcher-vm-*: spec.tolerations[0]: is str, not an object",
    )
