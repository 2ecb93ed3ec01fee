"""Records: usage records by key and claim as last looked at, so that only what changed is looked at.

It is memory of what was compared, never of what was decided: without it the same comes out, later.
It belongs to the one who runs passes, in one thread at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gpu.model import ordered
from gpu.objects.claims import GPUClaim
from gpu.objects.meta import ObjectKey
from gpu.objects.workloads import Workload

_NOBODY: Final = (None, "")


@dataclass(slots=True, eq=False)
class Records:
    """What is there, and what was found to be right."""

    there: dict[ObjectKey, tuple[Workload, str]] = field(default_factory=dict)
    """Records in key order, and the uid of the claim that owns each; empty where none does."""
    agreed: dict[str, ObjectKey] = field(default_factory=dict)
    """Claims, by uid, and their record's key, where the record is as the claim should have it: both
    as they are now."""
    _holders: tuple[GPUClaim, ...] = ()
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
            self.agreed.pop(self.there.get(item.meta.key, _NOBODY)[1], None)
            if item.meta.key not in fresh:
                self.there.pop(item.meta.key, None)
        for _, owner in fresh.values():
            self.agreed.pop(owner, None)
        self.there.update(fresh)
        if is_grown:
            self.there = {key: self.there[key] for key in sorted(self.there)}
        self._workloads = workloads

    def hold(self, holders: tuple[GPUClaim, ...], *, anchored: bool) -> None:
        """Take in the claims that shall have a record, and under which rule; `follow` comes first."""
        if anchored is not self._anchored:
            self.agreed.clear()
            self._anchored = anchored
        gone, come = ordered.changes(self._holders, holders)
        for claim in (*gone, *come):
            self.agreed.pop(claim.meta.uid, None)
        self._holders = holders

    def unsure(self) -> list[GPUClaim]:
        """Return the claims that are not known to have their record as it should be."""
        if len(self.agreed) == len(self._holders):
            return []
        return [claim for claim in self._holders if claim.meta.uid not in self.agreed]

    def others(self) -> list[tuple[ObjectKey, Workload, str]]:
        """Return key, record and owner of the records that are not agreed ones."""
        if len(self.agreed) == len(self.there):
            return []
        return [
            (key, item, owner)
            for key, (item, owner) in self.there.items()
            if self.agreed.get(owner) != key
        ]
