"""Standing: whether the policies in force are the ones this version means; GPUBinder shows it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpu import keys, ports
from gpu.objects import kinds
from policies.shapes import Document

CONDITION: Final = "PoliciesCurrent"
MESSAGE_CAP: Final = 2000


class Reason(StrEnum):
    """Why the policies are, or are not, the current ones."""

    CURRENT = "Current"
    RENDERED = "Rendered"
    """Kept by other means (policies.mode: rendered), and as they should be."""
    RENDERED_DIFFER = "RenderedDiffer"
    """Kept by other means, and not as they should be."""
    OFF = "Off"
    """policies.mode: off; only the fence of the leader's term is in force."""
    KIND_NOT_SERVED = "KindNotServed"
    PARAMETER_MISSING = "ParameterMissing"
    WRITE_FAILED = "WriteFailed"
    TEARING_DOWN = "TearingDown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the last round found; `message` tells a hoster what is missing and what helps."""

    reason: Reason
    message: str

    @property
    def current(self) -> bool:
        """Say whether every policy is in force as meant."""
        return self.reason in {Reason.CURRENT, Reason.RENDERED}


Report = Callable[[Standing], Awaitable[None]]
"""Told after every round, changed or not."""


def on_binder(writer: ports.Writer, clock: ports.Clock) -> Report:
    """Return a Report that shows the standing as condition PoliciesCurrent of GPUBinder.

    Server-side apply of that one condition by its own field manager, and only when it is not shown
    already. Whoever else writes GPUBinder's conditions must apply too: a merge patch would replace
    the whole list (the next report puts ours back).
    """

    async def report(standing: Standing) -> None:
        condition = {
            "type": CONDITION,
            "status": "True" if standing.current else "False",
            "reason": standing.reason.value,
            "message": standing.message[:MESSAGE_CAP],
        }
        binder = await writer.get(kinds.GPU_BINDERS, keys.BINDER_NAME)
        shown = _shown(binder)
        if condition.items() <= shown.items():
            return
        since = clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        if shown.get("status") == condition["status"]:
            since = shown["lastTransitionTime"]
        condition["lastTransitionTime"] = since
        await writer.apply(
            kinds.GPU_BINDERS,
            keys.BINDER_NAME,
            {
                "apiVersion": kinds.GPU_BINDERS.api_version,
                "kind": kinds.GPU_BINDERS.kind,
                "metadata": {"name": keys.BINDER_NAME},
                "status": {"conditions": [condition]},
            },
            field_manager=keys.POLICIES_MANAGER,
            subresource="status",
        )

    return report


def _shown(binder: Document) -> Document:
    conditions = (binder.get("status") or {}).get("conditions") or []
    return next((item for item in conditions if item.get("type") == CONDITION), {})
