"""Records: usage records by key and claim as last looked at, so that only what changed is looked at.

It is memory of what was compared, never of what was decided: without it the same comes out, later.
It belongs to the one who runs passes, in one thread at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from gpu.model import ordered
from gpu.objects.claims import GPUClaim
from gpu.objects.meta import ObjectKey
from gpu.objects.workloads import Workload


class Agreed(NamedTuple):
    """A claim and the record that was found to be as that claim should have it."""

    claim: GPUClaim
    key: ObjectKey
    record: Workload


@dataclass(slots=True, eq=False)
class Records:
    """What is there, and what was found to be right."""

    there: dict[ObjectKey, tuple[Workload, str]] = field(default_factory=dict)
    """Records in key order, and the uid of the claim that owns each; empty where none does."""
    agreed: dict[str, Agreed] = field(default_factory=dict)
    """By uid of the claim."""
    _workloads: tuple[Workload, ...] = ()
    _anchored: bool = False

    def follow(
        self,
        workloads: tuple[Workload, ...],
        owner_of: Callable[[Workload], str],
        is_ours: Callable[[Workload], bool],
    ) -> None:
        """Take in all Workloads as they are now."""
        gone, come = ordered.changes(self._workloads, workloads)
        if not gone and not come:
            return
        fresh = {item.meta.key: (item, owner_of(item)) for item in come if is_ours(item)}
        is_grown = not fresh.keys() <= self.there.keys()
        for item in gone:
            if item.meta.key not in fresh:
                self.there.pop(item.meta.key, None)
        self.there.update(fresh)
        if is_grown:
            self.there = {key: self.there[key] for key in sorted(self.there)}
        self._workloads = workloads

    def under(self, *, anchored: bool) -> None:
        """Forget what was right under the other rule."""
        if anchored is not self._anchored:
            self.agreed = {}
            self._anchored = anchored
