"""Standing: whether the policies in force are the ones this version means; GPUBinder shows it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpu import keys, ports
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
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
    SETTINGS_STALE = "SettingsStale"
    """An API server has the policies, and goes on with settings that are not the stored ones."""
    NOT_IN_FORCE = "NotInForce"
    """An API server goes on with other policies than the stored ones, or with none."""
    NOT_PROVED = "NotProved"
    """An API server could not be asked, or something else refuses the question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the last round found; `message` tells a hoster what is missing and what helps."""

    reason: Reason
    message: str

    @property
    def current(self) -> bool:
        """Say whether every policy is in force as meant."""
        return self.reason in {Reason.CURRENT, Reason.RENDERED}

    @property
    def status(self) -> str:
        """Return the condition's status."""
        if self.reason is Reason.NOT_PROVED:
            return "Unknown"
        return "True" if self.current else "False"


Report = Callable[[Standing], Awaitable[None]]
"""Told after every round, changed or not."""


def on_binder(
    writer: ports.Writer, clock: ports.Clock, recorder: ports.Recorder | None = None
) -> Report:
    """Return a Report that shows the standing as condition PoliciesCurrent of GPUBinder.

    A change of reason is an Event too, once it is stored; the first good one is no news.
    Server-side apply of that one condition by its own field manager, and only when it is not shown
    already. Whoever else writes GPUBinder's conditions must apply too: a merge patch would replace
    the whole list (the next report puts ours back).
    """

    async def report(standing: Standing) -> None:
        condition = {
            "type": CONDITION,
            "status": standing.status,
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
        if recorder is not None and _is_news(standing, shown):
            recorder.event(
                kinds.GPU_BINDERS,
                ObjectKey("", keys.BINDER_NAME),
                binder["metadata"].get("uid", ""),
                warning=not standing.current,
                reason=standing.reason.value,
                note=condition["message"],
            )

    return report


def _is_news(standing: Standing, shown: Document) -> bool:
    if not shown:
        return not standing.current
    return bool(shown.get("reason") != standing.reason.value)


def _shown(binder: Document) -> Document:
    conditions = (binder.get("status") or {}).get("conditions") or []
    return next((item for item in conditions if item.get("type") == CONDITION), {})
