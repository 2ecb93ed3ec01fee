"""Seating: may a start at the gate be let in, and where: by what objects say, for answers.

Nodes that refused its launcher a short while ago, and starts that are put off since they fail, are in
the leader's memory alone.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from gpu.model import (
    booking,
    fit,
    foreseen,
    gate_reasons,
    reach,
    refusals,
    seats,
    starts,
    template_units,
)
from gpu.model.ahead import Ahead
from gpu.model.draft import Draft
from gpu.model.fit_facts import Facts
from gpu.model.gate_reasons import GateReason
from gpu.model.misfits import Misfit
from gpu.model.reach import Reach
from gpu.model.snapshot import Snapshot
from gpu.model.starts import Start
from gpu.units import NodeName

Reasons = tuple[GateReason, ...]


class Look:
    """The facts about pods, made once somebody asks: most starts wait for units alone."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], Facts]) -> None:
        """`make` is called once at most."""
        self._make = make
        self._made: Facts | None = None

    def at(self) -> Facts:
        """Return them."""
        if self._made is None:
            self._made = self._make()
        return self._made


def judge(draft: Draft, start: Start, where: Reach, look: Look) -> NodeName | Reasons:
    """Return the node for a start whose turn it is, or every reason why it waits."""
    tied: Reasons = ()
    if where.is_tied:
        tied = starts.still_used(draft, start) or (refusals.GuestMayRun(),)
    if start.barred or tied:
        return tuple(dict.fromkeys((*start.barred, *tied)))
    draft.count_older(start.age)
    refused: Reasons = template_units.of_start(draft, start)
    needs = fit.asked(start.pod)

    def why_not(name: NodeName) -> Misfit | None:
        return fit.why_not(needs, draft.snapshot.nodes[name], look.at())

    found = seats.choose(draft, start, where.without, why_not)
    if not isinstance(found, tuple):
        return refused or found
    skipped = len(where.without & draft.snapshot.nodes.keys())
    told = (*refused, *found, *((gate_reasons.NodesRefused(skipped),) if skipped else ()))
    return tuple(dict.fromkeys(told))


@dataclass(frozen=True, slots=True, kw_only=True)
class Seated:
    """A start that is let in, and where."""

    start: Start
    node: NodeName


@dataclass(slots=True, kw_only=True)
class Line:
    """Starts that wait at the gate without any claim yet; those that have some are told of by these."""

    look: Look
    waits: list[Start] = field(default_factory=list)
    """In turn."""

    def turns(self, draft: Draft) -> Iterator[Seated]:
        """Yield those that one pass lets in, as it lets them in: before sets leave and orders are bound.

        The draft shows each. Whoever undoes that shows those that stand anew, by `show`.
        """
        if not self.waits:
            return
        ahead = Ahead(draft, reach.by_record(draft), frozenset())
        for start in self.waits:
            ahead.of(start.age)
            found = judge(draft, start, Reach(), self.look)
            if not isinstance(found, tuple):
                one = Seated(start=start, node=found)
                show(draft, one)
                self.look.at().pin(start.pod, found)
                yield one
        ahead.give_back()

    def go(self, seated: Iterable[Seated]) -> None:
        """Have these wait no more."""
        gone = {one.start.key for one in seated}
        self.waits = [start for start in self.waits if start.key not in gone]


def line(snapshot: Snapshot, facts: Callable[[Snapshot], Facts]) -> Line:
    """Return those of a snapshot that wait; `facts` says what pods and volumes there are beside them."""
    draft = Draft.of(snapshot)
    found = starts.waiting(draft)
    keys = {start.key for start in found}
    with_claims = {item.vm for item in draft.sets} if found else set()
    return Line(
        look=Look(lambda: foreseen.beside(draft, facts(snapshot), keys)),
        waits=[one for one in found if not one.is_plain and one.key not in with_claims],
    )


def show(draft: Draft, one: Seated) -> None:
    """Have the room of a start be gone on its node, and its units count for budgets."""
    start, book = one.start, draft.ledger
    for resource, units in seats.asked(draft, start).items():
        book.reserve(one.node, resource, units)
    for name, units in start.new_units.items():
        book.more = True
        for key in draft.snapshot.quota_keys(name):
            book.charge(start.tenant, key, units)
    booking.charge_raw(book, start.tenant, start.raw, +1)
