"""Starts that wait at the gate, as Events on their VMI: one for each change of reason.

Nothing may be stored of them, when they have no claim yet, so a new leader tells of those that wait
anew. That one was let through is told once it is stored, see `news`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu.binder.news import News
from gpu.binder.phase import Waits
from gpu.model import gate_reasons
from gpu.objects.kinds import VMIS


@dataclass(slots=True)
class StartNews:
    """What one leader has told. Not for several threads at a time."""

    _told: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By uid of the VMI: the codes of its reasons."""

    def of(self, waiting: Mapping[str, Waits] | None) -> tuple[News, ...]:
        """Return what is new since the last look; None is that nobody looked."""
        if waiting is None:
            return ()
        codes = {
            uid: tuple(dict.fromkeys(map(gate_reasons.code, item.reasons)))
            for uid, item in waiting.items()
        }
        turned = [uid for uid in waiting if self._told.get(uid) != codes[uid]]
        self._told = codes
        return tuple(_waits(uid, waiting[uid]) for uid in turned)


def _waits(uid: str, item: Waits) -> News:
    told = "; ".join(map(gate_reasons.words, item.reasons))
    return News(
        regarding=VMIS,
        key=item.vmi,
        uid=uid,
        reason=gate_reasons.code(item.reasons[0]),
        note=f"waits to start: {told}",
        warning=True,
    )
