"""Ahead: what comes before a start when units are given out: Lost sets, and orders that are older.

Their units are reserved while starts are judged, and given back before those phases decide for
themselves. What a waiting order could not have anyway is nobody's.
"""

from collections.abc import Set as AbstractSet

from gpu.model import mates, orders, turns
from gpu.model.draft import Age, Draft
from gpu.model.orders import Accepted
from gpu.model.reach import Reaches
from gpu.objects.claims import GPUClaim
from gpu.units import NodeName, ResourceName


class Ahead:
    """Reservations in a draft for whatever comes before starts. Ask for younger and younger ones."""

    __slots__ = ("_draft", "_earmarks", "_mine", "_next", "_orders", "_without")

    def __init__(self, draft: Draft, reaches: Reaches, without: AbstractSet[str]) -> None:
        """Reserve for Lost sets. Sets whose id is in `without` have no turn: starts' own, and others."""
        self._draft = draft
        self._without = without
        self._earmarks = dict(draft.earmarks)
        self._orders: tuple[GPUClaim, ...] = orders.waiting(draft)
        self._next = 0
        before = {name: dict(room) for name, room in draft.ledger.reserved.items()}
        for _ in turns.turns(draft, reaches, without):
            pass
        self._mine: list[tuple[NodeName, ResourceName, int]] = [
            (node, resource, units - before.get(resource, {}).get(node, 0))
            for resource, room in draft.ledger.reserved.items()
            for node, units in room.items()
        ]

    def of(self, age: Age) -> None:
        """Reserve, too, for every order older than an age that could be bound now; budgets count it."""
        draft = self._draft
        while self._next < len(self._orders) and self._orders[self._next].age < age:
            claim = self._orders[self._next]
            self._next += 1
            if self._set_id(claim) in self._without:
                continue
            verdict = orders.judge(draft, orders.of(claim, mates.of(draft, claim)))
            if isinstance(verdict, Accepted):
                for one in (*verdict.gathered, claim):
                    resource = draft.snapshot.classes[one.class_name].resource
                    draft.ledger.reserve(verdict.node, resource, one.count)
                    self._mine.append((verdict.node, resource, one.count))
        draft.count_older(age)

    def give_back(self) -> None:
        """Have the draft know nothing of it any more."""
        draft = self._draft
        for node, resource, units in self._mine:
            if units:
                draft.ledger.reserve(node, resource, -units)
        draft.earmarks = self._earmarks
        draft.lost_served = False
        draft.waiting_sets.clear()
        draft.shared = None
        draft.count_older(draft.snapshot.pending[0].age if draft.snapshot.pending else None)

    def _set_id(self, claim: GPUClaim) -> str:
        found = mates.set_of(self._draft, claim)
        return found.id if found else str(claim.key)
