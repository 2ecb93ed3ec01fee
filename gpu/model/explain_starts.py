"""Why a VM waits at the gate: often it has no claim yet that could say so.

As the leader judges a start, by what objects say: nodes that refused the VM's launcher a short while
ago, and starts that are put off since they fail, are in the leader's memory alone. Those are told by
Events of the VMI.
"""

from collections.abc import Callable, Iterator

from gpu.model import (
    foreseen,
    orders,
    reach,
    remedies,
    seating,
    seats,
    template_units,
    waiters,
)
from gpu.model.ahead import Ahead
from gpu.model.draft import Draft
from gpu.model.explain import Explanation
from gpu.model.fit_facts import Facts
from gpu.model.gate_reasons import ClaimsUnreadable, GateReason
from gpu.model.reach import Reach
from gpu.model.remedies import Case
from gpu.model.snapshot import Snapshot
from gpu.model.starts import Start
from gpu.model.waiters import Waiters
from gpu.model.ways import Remedy
from gpu.objects.meta import ObjectKey
from gpu.units import TenantName

Judged = tuple[GateReason, ...]


def explanations(
    snapshot: Snapshot,
    tenant: TenantName,
    facts: Callable[[], Facts],
    *,
    unreadable: bool = False,
) -> tuple[Explanation, ...]:
    """Return why each VM of a tenant waits at the gate, by name.

    `facts` is asked once for a snapshot, if at all: what pods there are beside those that wait, and
    their volumes. `unreadable`: some claim of the cluster cannot be read, so nothing is placed.
    """
    line = waiters.of(snapshot)
    own = sorted(
        (one for one in line.starts if one.tenant == tenant),
        key=lambda one: one.key,
    )
    if not own:
        return ()
    if unreadable:
        return tuple(_told(line, one, (ClaimsUnreadable(),)) for one in own)
    if not line.judged:
        line.judged.update(_judged(snapshot, line, facts))
    return tuple(_of(snapshot, line, one) for one in own)


def _told(
    line: Waiters, start: Start, reasons: Judged, found: tuple[Remedy, ...] = ()
) -> Explanation:
    vmi = start.vmi.meta
    return Explanation(
        key=vmi.key,
        uid=vmi.uid,
        created=vmi.created,
        is_vm=True,
        wants=start.wants,
        since=vmi.created,
        queued=line.places[True, start.key],
        reasons=reasons,
        remedies=found,
    )


def _of(snapshot: Snapshot, line: Waiters, start: Start) -> Explanation:
    reasons = line.judged[start.key]
    is_known = all(name in snapshot.classes for name in start.wants)
    if not reasons or not is_known or start.raw or start.claims:
        # What would do depends on where its claims are, and on what may move.
        return _told(line, start, reasons)
    draft = orders.queued(snapshot)
    case = Case(
        draft=draft,
        waiters=line,
        turn=(not start.has_lost, start.age),
        tenant=start.tenant,
        wants=start.wants,
        reasons=reasons,
        check=lambda: not template_units.of_start(draft, start),
        is_pod=True,
    )
    cured = remedies.of_budgets([case]).values()
    return _told(line, start, reasons, (*cured, *remedies.of(case)))


# As the leader judges them.


def _judged(
    snapshot: Snapshot, line: Waiters, facts: Callable[[], Facts]
) -> Iterator[tuple[ObjectKey, Judged]]:
    """Yield why each start waits, in turn; whoever does not takes its units from those that follow."""
    draft = orders.queued(snapshot)
    reaches = reach.by_record(draft)
    lost = Draft.of(snapshot)
    Ahead(lost, reaches, {one.set_id for one in line.starts})
    waiting = {one.key for one in line.starts}
    look = seating.Look(lambda: foreseen.beside(draft, facts(), waiting))
    with draft.savepoint():
        for start in line.starts:
            where = reaches(start.found) if start.found else Reach()
            found = seating.judge(lost if start.has_lost else draft, start, where, look)
            if isinstance(found, tuple):
                yield start.key, found
                continue
            yield start.key, ()
            for resource, units in seats.asked(draft, start).items():
                draft.ledger.reserve(found, resource, units)
