"""Rows of GPUClaim: the order, the hold and every step between phases."""

from collections.abc import Mapping
from itertools import product
from typing import Any, Final

from gpu.objects import kinds
from gpu.objects.claims import TRANSITIONS, Phase
from tests.real import crd_rows_times
from tests.real.crd_rows import (
    BOUND,
    CONDITION,
    WHEN,
    Row,
    Step,
    change,
    replace_status,
    status,
)

CLASS_NAME: Final = (
    "name a GPUClass: lower case letters, digits and '-', beginning and ending with a letter or "
    "digit"
)
SPEC_STAYS: Final = "spec is immutable: delete this claim and order anew"
NO_STATUS: Final = "status may not be removed"
NO_PHASE: Final = "status.phase may not be removed"
NO_TERM: Final = "status.term may not be removed"
NEVER_BOUND: Final = "a claim that was never Bound cannot be Lost"
BOUND_NEEDS: Final = "a Bound claim has nodeName, boundAt and term"
PENDING_HOLDS_NOTHING: Final = "a Pending claim holds nothing and has neither nodeName nor boundAt"

PENDING: Final = {"phase": "Pending", "nodeName": None, "boundAt": None}
LOST: Final = {"phase": "Lost"}
UIDS: Final = tuple(f"{i:036d}" for i in range(256))
LONG: Final = "x" * 32768

Refused = tuple[tuple[str, str], ...]


def _row(title: str, given: Mapping[str, Any], *steps: Step, refused: Refused = ()) -> Row:
    return Row(title=title, kind=kinds.GPU_CLAIMS, given=given, steps=steps, refused=refused)


def _spec(title: str, spec: Mapping[str, Any], *refused: tuple[str, str]) -> Row:
    return _row(title, {"spec": spec}, refused=refused)


def _status(title: str, given: Mapping[str, Any], *refused: tuple[str, str]) -> Row:
    return _row(title, {}, status(given), refused=refused)


ORDERS: Final = (
    _spec("an order of 1 is accepted", {"count": 1}),
    _spec(
        "an order of 0 is refused",
        {"count": 0},
        ("spec.count", "should be greater than or equal to 1"),
    ),
    _spec(
        "an order of -1 is refused",
        {"count": -1},
        ("spec.count", "should be greater than or equal to 1"),
    ),
    _spec("an order of 2^31-1 is accepted", {"count": 2**31 - 1}),
    _spec(
        "an order of 2^31 is refused",
        {"count": 2**31},
        ("spec.count", "should be less than or equal to 2147483647"),
    ),
    _spec(
        "an order of one and a half is refused",
        {"count": 1.5},
        ("<nil>", "Checked value must be of type integer (default format) in spec.count"),
        ("spec.count", 'in body must be of type integer: "number"'),
    ),
    _spec(
        "an order in words is refused",
        {"count": "1"},
        ("spec.count", 'in body must be of type integer: "string"'),
    ),
    _spec("an order without count is refused", {"count": None}, ("spec.count", "Required value")),
    _spec(
        "an order without class is refused",
        {"className": None},
        ("spec.className", "Required value"),
    ),
    _row("a claim without spec is refused", {"spec": None}, refused=(("spec", "Required value"),)),
    _spec("a class name of 63 is accepted", {"className": "a" * 63}),
    _spec(
        "a class name of 64 is refused",
        {"className": "a" * 64},
        ("spec.className", "Too long: may not be more than 63 bytes"),
    ),
    _spec("an empty class name is refused", {"className": ""}, ("spec.className", CLASS_NAME)),
    _spec(
        "a class name in upper case is refused",
        {"className": "H100"},
        ("spec.className", CLASS_NAME),
    ),
    _spec(
        "a device name for a class is refused",
        {"className": "gpu.cozystack.io/h100"},
        ("spec.className", CLASS_NAME),
    ),
    _row("the same order again is accepted", {}, change({"spec": {"count": 1}})),
    _row(
        "another count is refused",
        {},
        change({"spec": {"count": 2}}),
        refused=(("spec", SPEC_STAYS),),
    ),
    _row(
        "another class is refused",
        {},
        change({"spec": {"className": "l40s"}}),
        refused=(("spec", SPEC_STAYS),),
    ),
    _row("labels may change", {}, change({"metadata": {"labels": {"a": "b"}}})),
    _row(
        "a finalizer may be added and dropped",
        {},
        change({"metadata": {"finalizers": ["gpu.cozystack.io/claim"]}}),
        change({"metadata": {"finalizers": None}}),
    ),
)

# The steps that bring a new claim to a phase; None is a claim without status.
_TO: Final[Mapping[Phase | None, tuple[Step, ...]]] = {
    None: (),
    Phase.PENDING: (status(PENDING),),
    Phase.BOUND: (status(BOUND),),
    Phase.LOST: (status(BOUND), status(LOST)),
}
_AT: Final[Mapping[Phase, Mapping[str, Any]]] = {
    Phase.PENDING: PENDING,
    Phase.BOUND: BOUND,
    Phase.LOST: LOST,
}


def _step(start: Phase | None, end: Phase) -> Row:
    allowed = end in (TRANSITIONS[start] if start else {Phase.PENDING, Phase.BOUND})
    refused: Refused = ()
    if not allowed and start is None:
        refused = (("status.phase", NEVER_BOUND),)
    elif not allowed:
        message = (
            f"phase may not go from {start} to {end}: it goes Pending to Bound, Bound to Lost and "
            "Lost to Bound"
        )
        refused = (("status.phase", message),)
    return _row(
        f"the step from {start or 'no phase'} to {end} is {'accepted' if allowed else 'refused'}",
        {},
        *_TO[start],
        status(_AT[end]),
        refused=refused,
    )


STEPS: Final = tuple(_step(start, end) for start, end in product(_TO, Phase))

HOLDS: Final = (
    *(
        _status(
            f"Bound without {field} is refused",
            {**BOUND, field: None},
            ("status", BOUND_NEEDS),
        )
        for field in ("nodeName", "boundAt", "term")
    ),
    *(
        _status(
            f"Pending with {field} is refused",
            {"phase": "Pending", field: BOUND[field]},
            ("status", PENDING_HOLDS_NOTHING),
        )
        for field in ("nodeName", "boundAt")
    ),
    _status("Pending with the term that wrote it is accepted", {"phase": "Pending", "term": 3}),
    _status(
        "phase Held is refused",
        {"phase": "Held"},
        ("status.phase", 'Unsupported value: "Held": supported values: "Pending", "Bound", "Lost"'),
    ),
    _status(
        "term 0 is refused",
        {**BOUND, "term": 0},
        ("status.term", "should be greater than or equal to 1"),
    ),
    _status(
        "an empty node name is refused",
        {**BOUND, "nodeName": ""},
        ("status.nodeName", "should be at least 1 chars long"),
    ),
    _status("a node name of 253 is accepted", {**BOUND, "nodeName": "n" * 253}),
    _status(
        "a node name of 254 is refused",
        {**BOUND, "nodeName": "n" * 254},
        ("status.nodeName", "Too long: may not be more than 253 bytes"),
    ),
    _status(
        "a time that is none is refused",
        {**BOUND, "boundAt": "yesterday"},
        ("status.boundAt", 'must be of type date-time: "yesterday"'),
    ),
    _row(
        "another node of a Bound claim is accepted", {}, status(BOUND), status({"nodeName": "n2"})
    ),
    _row("a higher term is accepted", {}, status(BOUND), status({"term": 4})),
)

# The hole: rules on status are not asked when status goes away, and a new status then is a first one.
HOLE: Final = (
    _row(
        "a claim's status cannot be patched away",
        {},
        status(BOUND),
        status(None),
        refused=(("status", NO_STATUS),),
    ),
    _row(
        "a claim's status cannot be replaced by none",
        {},
        status(BOUND),
        replace_status(None),
        refused=(("status", NO_STATUS),),
    ),
    _row(
        "a status without phase goes no more away than any other",
        {},
        status({"reasons": ["NoFreeUnits"]}),
        status(None),
        refused=(("status", NO_STATUS),),
    ),
    _row("a change of the object leaves its status", {}, status(BOUND), change({"status": None})),
    _row(
        "a phase cannot be dropped",
        {},
        status(BOUND),
        status({"phase": None}),
        refused=(("status", NO_PHASE),),
    ),
    _row(
        "a Lost claim's term cannot be dropped",
        {},
        *_TO[Phase.LOST],
        status({"term": None}),
        refused=(("status", NO_TERM),),
    ),
    _row(
        "phase and term cannot be dropped together",
        {},
        status(BOUND),
        status({"phase": None, "term": None}),
        refused=(("status", NO_PHASE), ("status", NO_TERM)),
    ),
    _row(
        "a node cannot be dropped from a Bound claim",
        {},
        status(BOUND),
        status({"nodeName": None}),
        refused=(("status", BOUND_NEEDS),),
    ),
    _row("a Lost claim may forget its node", {}, *_TO[Phase.LOST], status({"nodeName": None})),
)

ATTACHED: Final = {
    "name": "v" * 253,
    "admission": "a" * 64,
    "uid": UIDS[0],
    "since": WHEN,
    "pods": [{"uid": uid, "node": "n" * 253, "ended": True} for uid in UIDS],
}
REQUEST: Final = {
    "id": "i" * 64,
    "vmi": "v" * 253,
    "claims": [f"{i:0253d}" for i in range(256)],
    "requestedAt": WHEN,
    "launcher": "l" * 16384,
    "result": "Refused",
    "message": LONG,
}
REJECTED: Final = [
    {"node": f"{i:0253d}", "until": WHEN, "fingerprint": "f" * 128} for i in range(512)
]
CONDITIONS: Final = [
    {**CONDITION, "type": f"T{i:02d}", "reason": "r" * 1024, "message": LONG} for i in range(16)
]

ENTRIES: Final = (
    _status(
        "a status at every maximum is accepted",
        {
            **BOUND,
            "attachedTo": ATTACHED,
            "bindRequest": REQUEST,
            "rejectedNodes": REJECTED,
            "displaced": crd_rows_times.DISPLACED,
            "spent": crd_rows_times.SPENT,
            "reasons": [f"R{i:063d}" for i in range(32)],
            "conditions": CONDITIONS,
        },
    ),
    _status(
        "an attachment without a name is refused",
        {"attachedTo": {"uid": "u"}},
        ("status.attachedTo.name", "Required value"),
    ),
    _status(
        "a pod twice is refused",
        {"attachedTo": {"name": "v", "pods": [{"uid": "u"}, {"uid": "u"}]}},
        ("status.attachedTo.pods[1]", 'Duplicate value: {"uid":"u"}'),
    ),
    _status(
        "257 pods are refused",
        {"attachedTo": {"name": "v", "pods": [{"uid": f"u{i}"} for i in range(257)]}},
        ("status.attachedTo.pods", "Too many: 257: must have at most 256 items"),
    ),
    _row(
        "an attachment may end",
        {},
        status({**BOUND, "attachedTo": {"name": "v"}}),
        status({"attachedTo": None}),
    ),
    _status(
        "a result that is none is refused",
        {"bindRequest": {**REQUEST, "result": "Maybe"}},
        (
            "status.bindRequest.result",
            'Unsupported value: "Maybe": supported values: "Succeeded", "Refused"',
        ),
    ),
    _status(
        "a launcher of more than it may have is refused",
        {"bindRequest": {**REQUEST, "launcher": "l" * 16385}},
        ("status.bindRequest.launcher", "Too long: may not be more than 16384 bytes"),
    ),
    _status(
        "a request without claims is refused",
        {"bindRequest": {**REQUEST, "claims": []}},
        ("status.bindRequest.claims", "should have at least 1 items"),
    ),
    _status(
        "a claim twice in a request is refused",
        {"bindRequest": {**REQUEST, "claims": ["a", "a"]}},
        ("status.bindRequest.claims[1]", 'Duplicate value: "a"'),
    ),
    _status(
        "a rejected node twice is refused",
        {"rejectedNodes": [{"node": "n", "until": WHEN}, {"node": "n", "until": WHEN}]},
        ("status.rejectedNodes[1]", 'Duplicate value: {"node":"n"}'),
    ),
    _status(
        "a rejected node for ever is refused",
        {"rejectedNodes": [{"node": "n"}]},
        ("status.rejectedNodes[0].until", "Required value"),
    ),
    _status(
        "513 rejected nodes are refused",
        {"rejectedNodes": [{"node": f"n{i}", "until": WHEN} for i in range(513)]},
        ("status.rejectedNodes", "Too many: 513: must have at most 512 items"),
    ),
    _status(
        "a reason in words is refused",
        {"reasons": ["no free units"]},
        ("status.reasons[0]", "should match '^[A-Z][A-Za-z0-9]*$'"),
    ),
    _status(
        "a condition's message of 32769 is refused",
        {"conditions": [{**CONDITION, "message": LONG + "x"}]},
        ("status.conditions[0].message", "Too long: may not be more than 32768 bytes"),
    ),
)
ROWS: Final = ORDERS + STEPS + HOLDS + HOLE + ENTRIES
