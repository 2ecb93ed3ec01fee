"""GPUClass, GPUClaim, GPUNode and GPUBinder as typed views of what is stored."""

from datetime import timedelta

import pytest

from gpu.errors import DecodeError
from gpu.objects import binders, claims, classes, nodes
from gpu.objects.binders import GPUBinder
from gpu.objects.claims import (
    AttachedPod,
    Attachment,
    BindRequest,
    BindResult,
    GPUClaim,
    Phase,
    RejectedNode,
)
from gpu.objects.classes import ClassStatus, GPUClass, Mode, OnCordon, Toleration
from gpu.objects.meta import Condition
from gpu.objects.nodes import Device, GPUNode, NodeUnits
from gpu.settings import RawNames, Settings
from tests.builders import (
    H100,
    START,
    a_claim,
    a_class,
    an_inventory,
    instant,
    raw_claim,
    raw_class,
    raw_inventory,
)

READY = {"type": "Ready", "status": "True", "reason": "Served", "message": "m"}


def test_a_class_is_read_whole():
    raw = raw_class(
        "grid",
        mode="vgpu",
        maxCount=4,
        onCordon="Stay",
        displayName="Grid",
        description="a slice",
        retired=True,
        tolerations=[
            {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
            {"key": "k", "value": "v"},
        ],
        status={"capacity": 9, "held": 2, "nodes": ["n1"], "nodeCount": 1, "conditions": [READY]},
    )
    found = classes.decode(raw)
    assert found == GPUClass(
        meta=found.meta,
        mode=Mode.VGPU,
        resource=H100,
        max_count=4,
        on_cordon=OnCordon.STAY,
        tolerations=(
            Toleration(key="k", operator="Exists", effect="NoExecute", seconds=5),
            Toleration(key="k", value="v"),
        ),
        display_name="Grid",
        description="a slice",
        retired=True,
        status=ClassStatus(
            capacity=9,
            held=2,
            nodes=("n1",),
            node_count=1,
            conditions=(Condition(type="Ready", status="True", reason="Served", message="m"),),
        ),
    )
    assert found.raw is raw
    assert found.name == "grid"


def test_a_class_with_nothing_optional_has_the_defaults():
    found = a_class()
    assert found == GPUClass(meta=found.meta, mode=Mode.PASSTHROUGH, resource=H100)
    assert found.on_cordon is OnCordon.MOVE


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"mode": "half"}, "spec.mode: 'half' is not a known value"),
        ({"mode": None}, "spec.mode: '' is not a known value"),
        ({"source": {"dra": {}}}, "spec.source.devicePlugin.resourceName: is missing"),
        ({"onCordon": "Flee"}, "spec.onCordon: 'Flee' is not a known value"),
        ({"maxCount": "4"}, "spec.maxCount: is not an integer"),
        ({"tolerations": [{"key": 4}]}, "spec.tolerations[0].key: is int, not a string"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_broken_class_is_an_error_that_names_the_field(spec, why):
    raw = raw_class()
    raw["spec"] |= spec
    with pytest.raises(DecodeError) as caught:
        classes.decode(raw)
    assert str(caught.value) == why


def test_a_claim_is_read_whole():
    raw = raw_claim(
        count=2,
        at=5,
        on="n1",
        vm="vm",
        status={
            "term": 7,
            "reasons": ["NoFreeUnits"],
            "attachedTo": {
                "name": "vm",
                "admission": "adm",
                "uid": "u",
                "since": instant(9),
                "pods": [{"uid": "p", "node": "n1", "ended": True}, {"uid": "q"}],
            },
            "bindRequest": {
                "id": "r1",
                "vmi": "vm",
                "claims": ["c", "d"],
                "requestedAt": instant(8),
                "launcher": "{}",
                "result": "Refused",
                "message": "no room",
            },
            "rejectedNodes": [{"node": "n2", "until": instant(60), "fingerprint": "f"}],
            "conditions": [{"type": "Bound", "status": "True"}],
        },
    )
    found = claims.decode(raw)
    assert found == GPUClaim(
        meta=found.meta,
        class_name="h100",
        count=2,
        phase=Phase.BOUND,
        node="n1",
        bound_at=START + timedelta(seconds=6),
        attached_to=Attachment(
            vmi="vm",
            admission="adm",
            uid="u",
            since=START + timedelta(seconds=9),
            pods=(AttachedPod(uid="p", node="n1", ended=True), AttachedPod(uid="q", node="")),
        ),
        bind_request=BindRequest(
            id="r1",
            vmi="vm",
            claims=("c", "d"),
            requested_at=START + timedelta(seconds=8),
            launcher="{}",
            result=BindResult.REFUSED,
            message="no room",
        ),
        rejected_nodes=(
            RejectedNode(node="n2", until=START + timedelta(seconds=60), fingerprint="f"),
        ),
        term=7,
        reasons=("NoFreeUnits",),
        conditions=(Condition(type="Bound", status="True"),),
    )
    assert (found.tenant, found.key) == ("tenant-a", ("tenant-a", "c"))


def test_a_claim_nobody_wrote_a_status_of_is_pending():
    found = a_claim()
    assert (found.phase, found.has_status, found.node, found.attached_to, found.term) == (
        Phase.PENDING,
        False,
        None,
        None,
        0,
    )
    assert a_claim(on="n1").has_status


def test_a_request_is_written_as_it_is_read():
    asked = {"id": "r1", "vmi": "vm", "claims": ["c"], "requestedAt": instant(8)}
    answered = {**asked, "result": "Succeeded", "message": "on n1"}
    told = {**answered, "launcher": "{}"}
    for stored in (asked, answered, told):
        found = a_claim(status={"bindRequest": stored}).bind_request
        written = claims.format_request(found)
        assert written == {"result": None, "message": None, "launcher": None, **stored}
    assert a_claim(status={"bindRequest": asked}).bind_request.result is None
    assert claims.format_request(None) is None


def test_claims_are_as_old_as_their_creation_then_their_uid():
    found = [a_claim("b", at=1), a_claim("a", at=1), a_claim("c", at=0)]
    assert [claim.meta.name for claim in sorted(found, key=lambda claim: claim.age)] == [
        "c",
        "a",
        "b",
    ]


def test_only_the_label_makes_a_template_claim():
    assert a_claim(template=True).is_template
    assert not a_claim().is_template


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"spec": {"className": "h100"}}, "spec.count: is missing"),
        ({"spec": {"count": 1}}, "spec.className: is missing"),
        ({"spec": {"className": "h100", "count": -1}}, "spec.count: -1 units: an amount"),
        ({"status": {"phase": "Gone"}}, "status.phase: 'Gone' is not a known value"),
        ({"status": {"attachedTo": {}}}, "status.attachedTo.name: is missing"),
        ({"status": {"bindRequest": {"id": "r"}}}, "status.bindRequest.vmi: is missing"),
        ({"status": {"rejectedNodes": [{}]}}, "status.rejectedNodes[0].node: is missing"),
        ({"status": {"conditions": [{}]}}, "status.conditions[0].type: is missing"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_broken_claim_is_an_error_that_names_the_field(change, why):
    with pytest.raises(DecodeError) as caught:
        claims.decode({**raw_claim(), **change})
    assert str(caught.value).startswith(why)


def test_phases_go_from_pending_to_bound_and_between_bound_and_lost():
    steps = {(old, new) for old, news in claims.TRANSITIONS.items() for new in news if old != new}
    assert steps == {
        (Phase.PENDING, Phase.BOUND),
        (Phase.BOUND, Phase.LOST),
        (Phase.LOST, Phase.BOUND),
    }


def test_inventory_is_read_whole_and_a_heartbeat_alone_is_no_change():
    raw = raw_inventory(healthy=1, sick=1, units=4)
    raw["status"]["resources"] = [{"name": H100, "held": 3, "free": 1}]
    found = nodes.decode_inventory(raw)
    assert found == GPUNode(
        meta=found.meta,
        devices=(
            Device(id="0000:00:00.0", resource=H100, healthy=True, units=4),
            Device(id="0000:01:00.0", resource=H100, healthy=False, units=4),
        ),
        resources=(NodeUnits(name=H100, held=3, free=1),),
    )
    assert found.observed_at == START
    raw["status"]["observedAt"] = instant(60)
    assert nodes.decode_inventory(raw) == found


def test_inventory_nobody_reported_is_empty():
    found = an_inventory(healthy=0)
    assert (found.name, found.devices) == ("n1", ())


def test_the_binder_tells_term_holder_and_settings_in_force():
    raw = {
        "metadata": {"name": "binder"},
        "status": {
            "term": 3,
            "holder": "one",
            "settings": {"resourceNames": [H100], "rawResourceNames": "allowed"},
        },
    }
    found = binders.decode(raw)
    assert found == GPUBinder(
        meta=found.meta, term=3, holder="one", settings=Settings((H100,), RawNames.ALLOWED)
    )
    fresh = binders.decode({"metadata": {"name": "binder"}})
    assert (fresh.term, fresh.settings) == (0, None)
