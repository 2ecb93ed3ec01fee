"""Outrun: a claim is given a new version, so that a write that got no answer comes too late (decision 17).

A launcher's pod is outrun alike: a pin that lands late would hold it where its units no longer are.
"""

from collections.abc import Mapping
from typing import Any, Final

from gpu import keys
from gpu.objects.kinds import GPU_CLAIMS, Kind
from gpu.objects.meta import ObjectKey
from gpu.ports import Outcome, Writer

RACES: Final = 5
"""Times that others may write the claim between the read and the write that follows it."""


async def claim(api: Writer, key: ObjectKey) -> Mapping[str, Any]:
    """Outrun a claim: see `one`."""
    return await one(api, GPU_CLAIMS, key)


async def one(api: Writer, kind: Kind, key: ObjectKey) -> Mapping[str, Any]:
    """Read an object past the cache and give it a new version; returns it as stored then.

    Every write of ours names the version it was decided on. Without this one that is on its way could
    land after the read, when the units it takes have been given to another. Raises what `api` raises,
    but for a definite refusal: whoever refuses us this one refuses the other too, and one object
    that takes no write must not stop all.
    """
    for left in reversed(range(RACES)):
        raw = await api.get(kind, key.name, key.namespace)
        version = raw["metadata"]["resourceVersion"]
        mark = {keys.OUTRUN_LABEL: version}  # a label: a tenant may have filled its annotations
        patch = {"metadata": {"resourceVersion": version, "labels": mark}}
        try:
            return await api.patch(
                kind, key.name, patch, key.namespace, field_manager=keys.BINDER_MANAGER
            )
        except Exception as error:
            outcome = api.outcome(error)
            if outcome is Outcome.REFUSED:
                return raw
            if outcome is not Outcome.CONFLICT or not left:
                raise
    raise AssertionError("unreachable: the last race is won, lost or raised")
