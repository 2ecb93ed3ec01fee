"""Compare a stored object with its document, and bring it there: server-side apply, then the rest.

Apply alone does not heal everything: what another manager added to a map-like list (a match
condition that is always false) or beside our fields (an exclusion) survives it. What still differs
afterwards is set by a merge patch that replaces lists whole and removes what is not meant.
"""

from collections.abc import Callable
from typing import Any, Final

from gpu import keys, ports
from gpu.objects.kinds import Kind
from policies.shapes import LABELS, Document

TRIES: Final = 4
"""How often an object is begun anew before whoever keeps writing it is left to the next round."""


class NotHealedError(Exception):
    """The API server stored something else than what was asked, twice."""


def differs(live: Document, wanted: Document) -> bool:
    """Say whether the stored object deviates: any field of spec, our labels, our owner."""
    meta = live.get("metadata", {})
    owners = wanted["metadata"].get("ownerReferences", [])
    have = [_owner(owner) for owner in meta.get("ownerReferences") or []]
    return (
        _bare(live.get("spec")) != _bare(wanted["spec"])
        or not LABELS.items() <= (meta.get("labels") or {}).items()
        or any(_owner(owner) not in have for owner in owners)
    )


async def bring(
    writer: ports.Writer,
    kind: Kind,
    wanted: Document,
    *,
    leading: Callable[[], bool] = lambda: True,
) -> bool:
    """Make the stored object what the document says; say whether anything was written.

    `leading` is asked before each write; once it says no, nothing more is written. Somebody who
    writes in between (kube-controller-manager: the status of a policy just applied) is met by
    starting over; raises his Conflict after `TRIES` of those.
    """
    name = wanted["metadata"]["name"]
    live = await find(writer, kind, name)
    if live is not None and not differs(live, wanted):
        return False
    for attempt in range(1, TRIES + 1):
        if not leading():
            return attempt > 1
        stored = await writer.apply(kind, name, wanted, field_manager=keys.POLICIES_MANAGER)
        if not differs(stored, wanted):
            return True
        if not leading():
            return True
        patch = {
            # The difference holds for what apply answered with, and for nothing else.
            "metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]},
            "spec": difference(stored["spec"], wanted["spec"]),
        }
        try:
            stored = await writer.patch(kind, name, patch, field_manager=keys.POLICIES_MANAGER)
        except Exception as error:
            if attempt == TRIES or writer.outcome(error) is not ports.Outcome.CONFLICT:
                raise
            continue
        if differs(stored, wanted):
            raise NotHealedError(f"{kind.resource} {name} is not stored as it was written")
        return True
    raise AssertionError("the last attempt returns or raises")


async def find(
    writer: ports.Writer, kind: Kind, name: str, namespace: str | None = None
) -> Document | None:
    """Read one object past the cache; None when it, or its kind, is not there."""
    try:
        return await writer.get(kind, name, namespace)
    except Exception as error:
        if writer.outcome(error) is ports.Outcome.GONE:
            return None
        raise


def difference(have: Document, want: Document) -> Document:
    """Return the merge patch from one JSON object to another."""
    patch: Document = {key: None for key in have if key not in want}
    for key, value in want.items():
        old = have.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            inner = difference(old, value)
            if inner:
                patch[key] = inner
        elif old != value:
            patch[key] = value
    return patch


def _owner(reference: Document) -> tuple[str, str, str]:
    return (reference.get("kind", ""), reference.get("name", ""), reference.get("uid", ""))


def _bare(value: Any) -> Any:
    """Drop what means the same as nothing: null, empty lists, empty maps."""
    if isinstance(value, dict):
        inner = {key: _bare(item) for key, item in value.items()}
        return {key: item for key, item in inner.items() if item not in (None, [], {})}
    if isinstance(value, list):
        return [_bare(item) for item in value]
    return value
