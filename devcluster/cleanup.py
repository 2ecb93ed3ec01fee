"""Remove objects of a cluster by label: those of the demo, and nothing else."""

import asyncio
from typing import Final

from devcluster import errors
from gpu.cluster import client
from gpu.cluster import errors as api
from gpu.objects import kinds
from gpu.objects.kinds import Kind

_ORDER: Final = (
    kinds.VMS,
    kinds.VMIS,
    kinds.PODS,
    kinds.NODES,  # before claims: a node that is gone proves that nothing of them runs there
    kinds.GPU_CLAIMS,  # before classes: one with claims keeps its finalizer
    kinds.GPU_CLASSES,
    kinds.HELM_RELEASES,
    kinds.NAMESPACES,
)
_GONE_WITHIN: Final = 60.0


async def remove(admin: client.Client, mark: str) -> int:
    """Delete every object labelled `mark` of the kinds a demo makes, wait until all are gone.

    Returns how many there were. A kind the cluster does not know has none.
    """
    removed = 0
    for kind in _ORDER:
        removed += await _remove_kind(admin, kind, mark)
    return removed


async def _remove_kind(admin: client.Client, kind: Kind, mark: str) -> int:
    found = await _names(admin, kind, mark)
    for name, namespace in found:
        try:
            await admin.delete(kind, name, namespace, grace_period=0)
        except api.NotFound:
            continue
    left = found
    try:
        async with asyncio.timeout(_GONE_WITHIN):
            while left := await _names(admin, kind, mark):  # noqa: ASYNC110 - one cannot await it
                await asyncio.sleep(0.1)
    except TimeoutError as error:
        raise errors.NotReadyError(
            f"{kind.resource} are deleted but not gone after {_GONE_WITHIN:.0f} s: {left}."
        ) from error
    return len(found)


async def _names(admin: client.Client, kind: Kind, mark: str) -> list[tuple[str, str | None]]:
    try:
        page = await admin.list_all(kind, label_selector=mark)
    except api.NotFound:
        return []
    return [(item["metadata"]["name"], item["metadata"].get("namespace")) for item in page.items]
