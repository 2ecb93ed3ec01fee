"""Rows of the plain bounds of statuses: one value just outside each; the maxima are rows elsewhere."""

from typing import Final

from gpu.objects import kinds
from gpu.objects.kinds import Kind
from tests.real.crd_rows import WHEN, Row, status

NEGATIVE: Final = "should be greater than or equal to 0"
EMPTY: Final = "should be at least 1 chars long"
MISSING: Final = "Required value"
REQUEST: Final = {"id": "i", "vmi": "v", "claims": ["a"], "requestedAt": WHEN}


def _row(kind: Kind, at: str, value: object, message: str) -> Row:
    """`at` is the field refused, as in `devices[0].id`; `value` is that of its outermost part."""
    return Row(
        title=f"{kind.kind} status.{at} is refused: {message}"[:120],
        kind=kind,
        steps=(status({at.partition(".")[0].partition("[")[0]: value}),),
        refused=((f"status.{at}", message),),
    )


CLASSES: Final = tuple(
    _row(kinds.GPU_CLASSES, field, -1, NEGATIVE)
    for field in ("observedGeneration", "capacity", "allocatable", "held", "nodeCount")
)
CLAIMS: Final = (
    _row(kinds.GPU_CLAIMS, "observedGeneration", -1, NEGATIVE),
    _row(kinds.GPU_CLAIMS, "attachedTo.name", {"name": ""}, EMPTY),
    _row(kinds.GPU_CLAIMS, "attachedTo.pods[0].uid", {"name": "v", "pods": [{"uid": ""}]}, EMPTY),
    _row(kinds.GPU_CLAIMS, "bindRequest.id", {**REQUEST, "id": ""}, EMPTY),
    _row(kinds.GPU_CLAIMS, "bindRequest.vmi", {**REQUEST, "vmi": ""}, EMPTY),
    *(
        _row(kinds.GPU_CLAIMS, f"bindRequest.{field}", {**REQUEST, field: None}, MISSING)
        for field in REQUEST
    ),
    _row(
        kinds.GPU_CLAIMS,
        "bindRequest.claims",
        {**REQUEST, "claims": [f"c{i}" for i in range(257)]},
        "Too many: 257: must have at most 256 items",
    ),
    _row(kinds.GPU_CLAIMS, "rejectedNodes[0].node", [{"node": "", "until": WHEN}], EMPTY),
    _row(
        kinds.GPU_CLAIMS,
        "reasons",
        [f"R{i}" for i in range(33)],
        "Too many: 33: must have at most 32 items",
    ),
    _row(kinds.GPU_CLAIMS, "reasons[1]", ["Same", "Same"], 'Duplicate value: "Same"'),
)
NODES: Final = (
    *(_row(kinds.GPU_NODES, field, -1, NEGATIVE) for field in ("deviceCount", "held", "free")),
    _row(kinds.GPU_NODES, "devices[0].id", [{"id": ""}], EMPTY),
    _row(
        kinds.GPU_NODES,
        "devices[0].heldBy",
        [{"id": "d", "heldBy": [f"u{i}" for i in range(33)]}],
        "Too many: 33: must have at most 32 items",
    ),
    _row(kinds.GPU_NODES, "resources[0].name", [{"name": ""}], EMPTY),
    _row(kinds.GPU_NODES, "resources[0].free", [{"name": "a.b/c", "free": -1}], NEGATIVE),
    _row(
        kinds.GPU_NODES,
        "resources",
        [{"name": f"a.b/r{i}"} for i in range(129)],
        "Too many: 129: must have at most 128 items",
    ),
)
BINDERS: Final = (
    _row(
        kinds.GPU_BINDERS,
        "settings.resourceNames",
        {"resourceNames": [f"a.b/r{i}" for i in range(513)]},
        "Too many: 513: must have at most 512 items",
    ),
    _row(
        kinds.GPU_BINDERS,
        "settings.resourceNames[1]",
        {"resourceNames": ["a.b/c", "a.b/c"]},
        'Duplicate value: "a.b/c"',
    ),
)
ROWS: Final = CLASSES + CLAIMS + NODES + BINDERS
