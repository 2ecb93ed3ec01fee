"""Records: usage records by key and claim as last looked at, so that only what changed is looked at.

It is memory of what was compared, never of what was decided: without it the same comes out, later.
It belongs to the one who runs passes, in one thread at a time.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
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
    _held: dict[str, GPUClaim] = field(default_factory=dict)
    """Claims that shall have a record, by uid."""
    _doubted: set[str] = field(default_factory=set)
    """Of them, by uid, at least those not in `agreed`."""
    _strange: set[ObjectKey] = field(default_factory=set)
    """Keys of at least the records that are not agreed ones."""
    _living: set[str] = field(default_factory=set)
    _claims: tuple[GPUClaim, ...] = ()
    _ending: AbstractSet[str] = frozenset()
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
            self._doubt(self.there.get(item.meta.key, _NOBODY)[1])
            if item.meta.key not in fresh:
                self.there.pop(item.meta.key, None)
        for _, owner in fresh.values():
            self._doubt(owner)
        self.there.update(fresh)
        self._strange.update(fresh)
        if is_grown:
            self.there = {key: self.there[key] for key in sorted(self.there)}
        self._workloads = workloads

    def living(self, claims: tuple[GPUClaim, ...], ending: AbstractSet[str]) -> AbstractSet[str]:
        """Return the uids of claims that are not being deleted, nor their namespaces (`ending`)."""
        if ending != self._ending:
            self._claims, self._ending = (), ending
            self._living.clear()
        gone, come = ordered.changes(self._claims, claims)
        self._living.difference_update([claim.meta.uid for claim in gone])
        self._living.update(
            claim.meta.uid
            for claim in come
            if not claim.meta.deleting and claim.meta.namespace not in ending
        )
        self._claims = claims
        return self._living

    def hold(self, holders: tuple[GPUClaim, ...], *, anchored: bool) -> None:
        """Take in the claims that shall have a record, and under which rule; `follow` comes first."""
        if anchored is not self._anchored:
            for uid in tuple(self.agreed):
                self._doubt(uid)
            self._anchored = anchored
        gone, come = ordered.changes(self._holders, holders)
        for claim in gone:
            self._doubt(claim.meta.uid)
            self._held.pop(claim.meta.uid, None)
        for claim in come:
            self._doubt(claim.meta.uid)
            self._held[claim.meta.uid] = claim
        self._holders = holders

    def _doubt(self, uid: str) -> None:
        """Have a claim's record compared again."""
        key = self.agreed.pop(uid, None)
        self._doubted.add(uid)
        if key is not None:
            self._strange.add(key)

    def unsure(self) -> list[GPUClaim]:
        """Return the claims that are not known to have their record as it should be."""
        held, agreed = self._held, self.agreed
        self._doubted = {uid for uid in self._doubted if uid in held and uid not in agreed}
        found = [held[uid] for uid in self._doubted]
        return sorted(found, key=lambda claim: claim.meta.key)

    def others(self) -> list[tuple[ObjectKey, Workload, str]]:
        """Return key, record and owner of the records that are not agreed ones."""
        found = []
        for key in sorted(self._strange):
            item, owner = self.there.get(key, (None, ""))
            if item is None:
                self._strange.discard(key)
                continue
            if self.agreed.get(owner) == key:
                self._strange.discard(key)
            else:
                found.append((key, item, owner))
        return found
