"""Draft: the working copy of a snapshot that a pass plans in: claims bound so far, and units with them.

What was undone is exactly as before, nodes, budgets and claims alike.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self

from gpu.model import booking, coverage
from gpu.model.indexes import Index, Indexed
from gpu.model.ledger import Holder, Ledger
from gpu.model.sets import ClaimSet
from gpu.model.snapshot import Snapshot
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.meta import ObjectKey
from gpu.objects.pods import Pod
from gpu.units import ClassName, NodeName, ResourceName

Age = tuple[datetime, str]
"""Creation time and uid: how orders are told older from younger."""


@dataclass(slots=True)
class Savepoint:
    """What `Draft.savepoint` gives: keep what is done under it, or it is undone at the end."""

    kept: bool = False

    def keep(self) -> None:
        """Let what was done stand."""
        self.kept = True


@dataclass(slots=True, kw_only=True, eq=False)
class Draft(Indexed):
    """A working copy of one Snapshot. It belongs to one pass, in one thread at a time."""

    snapshot: Snapshot
    ledger: Ledger
    earmarks: dict[ResourceName, NodeName] = field(default_factory=dict)
    """Nodes kept for the oldest Lost set of a resource, which fits nowhere yet."""
    lost_served: bool = False
    """Units of Lost sets have been reserved."""
    waiting_sets: set[str] = field(default_factory=set)
    """Lost sets, by id, that units are reserved for, or a node is kept."""
    shared: dict[ObjectKey, ClaimSet] | None = field(default=None, repr=False)
    """For `mates`: sets of more than one claim, by VM, once somebody asked for them."""
    changed: dict[ObjectKey, GPUClaim] = field(default_factory=dict)
    indexes: dict[ClassName, object] = field(default_factory=dict, repr=False)
    """For `placement`: what it knows of rooms, kept up to date from ledger.touched."""
    cases: dict[tuple[str, ClassName, int], object] = field(default_factory=dict, repr=False)
    """For `cases`: what it found out about orders of one tenant, class and count."""
    _index: Index
    _moved: dict[ObjectKey, None] = field(default_factory=dict)
    """Claims put since `_index` was made."""
    _counted: set[ObjectKey] = field(default_factory=set)
    """Pending claims of the snapshot that are in the budgets now."""
    _horizon: int = 0
    """Pending claims before this index are counted in the budgets."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        """Open a working copy; several of one snapshot do not see each other."""
        return cls(snapshot=snapshot, ledger=snapshot.ledger.copy(), _index=snapshot.index)

    def indexed(self) -> Index:
        """Return the index of the claims as the draft has them.

        The first question after a claim was put costs a copy: ask once, not in a loop that puts.
        """
        if self._moved:
            held, shown = self._index.claims, self.changed
            self._index = self._index.moved(
                (held.get(key), shown.get(key))
                for key in self._moved
                if held.get(key) is not shown.get(key)
            )
            self._moved.clear()
        return self._index

    def claim(self, key: ObjectKey) -> GPUClaim | None:
        """Return a claim as the draft has it, if it exists."""
        return self.changed.get(key) or self.snapshot.claims.get(key)

    def claims(self) -> Iterator[GPUClaim]:
        """Yield every claim as the draft has it: those of the snapshot in key order, then added ones."""
        stored = self.snapshot.claims
        for key, claim in stored.items():
            yield self.changed.get(key, claim)
        yield from (claim for key, claim in self.changed.items() if key not in stored)

    def add(self, claim: GPUClaim) -> None:
        """Have the draft show a Pending claim that is still to be created."""
        self._show(claim.key, claim)
        self.ledger.more = True
        self.ledger.on_undo(lambda: self._hide(claim.key))

    def drop(self, claim: GPUClaim) -> None:
        """Take back an added claim that was not created; it holds nothing by then."""
        self._discount((claim,))
        self._hide(claim.key)

    def seat(self, pod: Pod, node: NodeName, holder: Holder, sign: int = +1) -> None:
        """Have a pod of a VM use what it requests on a node (-1: no more)."""
        for resource, units in pod.requests.items():
            if units and resource in self.snapshot.capacities:
                self.ledger.occupy(node, resource, sign * units, holder)

    def bind(self, claim: GPUClaim, node: NodeName) -> GPUClaim:
        """Have the claim hold its units on a node; returns it as Bound. Checks nothing."""
        bound = replace(self._now(claim), phase=Phase.BOUND, node=node)
        self.put(bound)
        return bound

    def lift(self, claim: GPUClaim) -> GPUClaim:
        """Have the claim hold no units and count for budgets still; returns it as Lost."""
        lifted = replace(self._now(claim), phase=Phase.LOST)
        self.put(lifted)
        return lifted

    def unbind(self, claim: GPUClaim) -> None:
        """Put a claim back as the snapshot has it: its write was refused for good.

        What was decided meanwhile on the strength of it stands.
        """
        if claim.key in self.changed:
            self.put(self.snapshot.claims[claim.key])

    def count_older(self, than: Age | None) -> None:
        """Have the budgets count Pending claims older than an age, and no others; None is all."""
        pending = self.snapshot.pending
        old = new = self._horizon
        while new < len(pending) and (than is None or pending[new].age < than):
            new += 1
        while new and than is not None and pending[new - 1].age >= than:
            new -= 1
        if new == old:
            return
        self._horizon = new
        if new > old:
            self._count(pending[old:new])
        else:
            self._discount(pending[new:old])
        self.ledger.on_undo(lambda: setattr(self, "_horizon", old))

    @contextmanager
    def savepoint(self) -> Iterator[Savepoint]:
        """Undo everything done under it at the end, unless `keep` was called; also on an error."""
        mark = self.ledger.mark()
        point = Savepoint()
        try:
            yield point
        except BaseException:
            self.ledger.close(mark, keep=False)
            raise
        self.ledger.close(mark, keep=point.kept)

    def _now(self, claim: GPUClaim) -> GPUClaim:
        return self.changed.get(claim.key) or self.snapshot.claims[claim.key]

    def put(self, claim: GPUClaim) -> None:
        """Have the draft show a claim as given: its units move with it. Checks nothing."""
        old = self._now(claim)
        self._hold(old, -1)
        self._hold(claim, +1)
        key = claim.key
        self._show(key, claim)
        self.ledger.on_undo(lambda: self._show(key, old))
        if not booking.is_settled(claim) and not self._is_older(claim):
            self._discount((claim,))
        else:
            self._count((claim,))

    def _show(self, key: ObjectKey, claim: GPUClaim) -> None:
        self.changed[key] = claim
        self._moved[key] = None

    def _hide(self, key: ObjectKey) -> None:
        self.changed.pop(key, None)
        self._moved[key] = None

    def _hold(self, claim: GPUClaim, sign: int) -> None:
        node = coverage.node_held(claim)
        found = self.snapshot.classes.get(claim.class_name)
        if node is not None and found is not None:
            self.ledger.hold(node, found.resource, sign * claim.count, coverage.holder_of(claim))

    def _is_older(self, claim: GPUClaim) -> bool:
        """Say whether a Pending claim lies before the horizon."""
        pending = self.snapshot.pending
        return self._horizon > 0 and claim.age <= pending[self._horizon - 1].age

    def _count(self, claims: Collection[GPUClaim]) -> None:
        """Count claims that were Pending in the snapshot; all others always are."""
        stored, counted = self.snapshot.claims, self._counted
        fresh = [
            claim
            for claim in claims
            if claim.key not in counted
            and not (claim.key in stored and booking.is_settled(stored[claim.key]))
        ]
        found = {claim.key for claim in fresh}
        counted |= found
        self.ledger.on_undo(lambda: counted.difference_update(found))
        booking.charge(self.ledger, fresh, self.snapshot.classes, +1)

    def _discount(self, claims: Collection[GPUClaim]) -> None:
        counted = self._counted
        gone = [
            claim
            for claim in claims
            if claim.key in counted and not booking.is_settled(self._now(claim))
        ]
        found = {claim.key for claim in gone}
        counted -= found
        self.ledger.on_undo(lambda: counted.update(found))
        booking.charge(self.ledger, gone, self.snapshot.classes, -1)


View = Snapshot | Draft
"""What a question may be asked of; a Draft answers for what is planned so far."""


def snapshot_of(view: View) -> Snapshot:
    """Return the snapshot behind a view."""
    return view.snapshot if isinstance(view, Draft) else view
