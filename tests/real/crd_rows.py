"""Row: one object the API server must accept or refuse; the rows are in crd_rows_<kind>.py."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpu.objects import kinds
from gpu.objects.kinds import Kind

Json = Mapping[str, Any]

RESOURCE: Final = "nvidia.com/GH100_H100"
WHEN: Final = "2026-01-02T03:04:05Z"
BOUND: Final = {"phase": "Bound", "nodeName": "n1", "boundAt": WHEN, "term": 3}
CONDITION: Final = {
    "type": "Ready",
    "status": "True",
    "reason": "Served",
    "message": "",
    "lastTransitionTime": WHEN,
}

BASES: Final[Mapping[Kind, Json]] = {
    kinds.GPU_CLASSES: {
        "spec": {"mode": "passthrough", "source": {"devicePlugin": {"resourceName": RESOURCE}}}
    },
    kinds.GPU_CLAIMS: {
        "metadata": {"namespace": "default"},
        "spec": {"className": "h100", "count": 1},
    },
    kinds.GPU_NODES: {},
    kinds.GPU_BINDERS: {"metadata": {"name": "binder"}},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One write: a merge patch, or with `replace` the whole object with the patch merged in."""

    patch: Json
    subresource: str | None = None
    replace: bool = False


def change(patch: Json) -> Step:
    """Patch the object itself."""
    return Step(patch=patch)


def status(patch: Json | None) -> Step:
    """Patch its status; None takes the status away."""
    return Step(patch={"status": patch}, subresource="status")


def replace_status(patch: Json | None) -> Step:
    """Replace the object through /status, with the patch merged into what was stored."""
    return Step(patch={"status": patch}, subresource="status", replace=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`given` is merged over the kind's base; the last step is judged, without steps the create.

    `refused` is (field, end of the message) of every cause the server gives; empty means accepted.
    """

    title: str
    kind: Kind
    given: Json = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


def merged(target: Any, patch: Any) -> Any:
    """Return `patch` applied to `target` as an RFC 7386 merge patch."""
    if not isinstance(patch, Mapping):
        return patch
    found = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found
