"""The course of one pass without its IO: plan a phase, have it judged, draw what its writes came to.

`run_pass` goes through it with a cluster, `replaying` with a file: both decide alike.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from gpu.binder import beside, changes, checking
from gpu.binder.beside import Beside
from gpu.binder.changes import Change, ClaimStatus, SetId
from gpu.binder.checking import Checker
from gpu.binder.phase import Phase, Scene
from gpu.binder.start_changes import CreateClaim, Pin
from gpu.model import booking
from gpu.model.ground import Ground
from gpu.model.violations import Violation
from gpu.units import TenantName


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of a set whose changes were not all stored."""

    set_id: SetId
    left: int
    """How many of its changes are not stored: always its last ones."""
    refused: bool
    """The answer was a definite no: the set is left alone from now on, and loses its turn."""


@dataclass(slots=True, kw_only=True)
class Leg:
    """One phase that ran: what it wanted, what is wrong with that, what became of it."""

    phase: str
    wanted: tuple[Change, ...]
    violations: tuple[Violation, ...] = ()
    beside: tuple[Beside, ...] = ()
    """What another pass had planned since the phase before, and this one counted."""
    fates: tuple[Fate, ...] = ()
    aborted: bool = False


@dataclass(slots=True, kw_only=True)
class Course:
    """One pass under way; `plan` and `settle` in turn for each phase that it wants."""

    scene: Scene
    legs: list[Leg] = field(default_factory=list)
    ground: Ground = field(default_factory=Ground)
    """For the checker; of the pass before, or empty."""
    freed: bool = False
    """Placements of this pass freed units, which other sets of their phase could not have yet."""
    arrivals: list[Beside] = field(default_factory=list)
    """What another pass has planned meanwhile: counted before the next phase is."""
    _checker: Checker | None = None

    @property
    def aborted(self) -> bool:
        """Say whether a claim's write was contended or unknown: nothing more is placed."""
        return any(leg.aborted for leg in self.legs)

    @property
    def problem(self) -> str:
        """What the checker found wrong with a plan; empty while none was refused."""
        return self.scene.findings.plan_problem

    def wants(self, phase: Phase) -> bool:
        """Say whether a phase runs, given what happened so far."""
        if self.aborted and not phase.after_failed_write:
            return False
        if self.problem and not (phase.after_refused_plan or phase.after_failed_write):
            return False
        return self.scene.config.enabled or phase.when_disabled

    def plan(self, phase: Phase) -> tuple[Change, ...]:
        """Return what is to be written: all that the phase wants, or nothing when it breaks a rule.

        A refused plan is taken out of the draft, and nothing more is placed. Runs in the thread.
        """
        if self._checker is None:
            self._checker = Checker(world=self.scene.world, ground=self.ground)
        met = tuple(self.arrivals)
        del self.arrivals[: len(met)]  # more may be announced meanwhile, on the event loop
        for one in met:
            self.scene = beside.count(self.scene, one)
            self._checker.beside(one)
        wanted = tuple(phase.changes(self.scene))
        found = self._checker.judge(wanted)
        self.legs.append(Leg(phase=phase.name, wanted=wanted, violations=found, beside=met))
        if not found:
            return wanted
        self._put_back(wanted)
        self.scene.draft.ledger.hand_out()
        self.scene.findings.plan_problem = f"phase {phase.name}: {checking.words(found)}"
        return ()

    def settle(
        self, wanted: Sequence[Change], fates: tuple[Fate, ...] = (), *, aborted: bool = False
    ) -> None:
        """Draw what later phases must know from what was stored and what was not."""
        leg = self.legs[-1]
        leg.fates, leg.aborted = fates, aborted
        left = left_of(wanted, fates)
        self._put_back(left)
        self.freed |= self.scene.draft.ledger.hand_out()
        if self._checker is not None:
            undone = {id(change) for change in left}
            self._checker.stored(change for change in wanted if id(change) not in undone)
        refused = frozenset(fate.set_id for fate in fates if fate.refused)
        failed = frozenset(fate.set_id for fate in fates) - refused
        self.scene = replace(
            self.scene, skip=self.scene.skip | refused, later=self.scene.later | failed
        )

    def _put_back(self, undone: Sequence[Change]) -> None:
        draft = self.scene.draft
        for change in reversed(undone):
            match change:
                case CreateClaim():
                    draft.drop(change.claim)
                case Pin(node=node) if node is not None:
                    draft.seat(change.pod, node, change.vmi, -1)
                    tenant = TenantName(change.vmi.namespace)
                    booking.charge_raw(draft.ledger, tenant, change.raw, -1)
                case _:
                    if isinstance(change, ClaimStatus):
                        draft.put(change.claim)


def left_of(wanted: Iterable[Change], fates: Iterable[Fate]) -> list[Change]:
    """Return the changes that were not stored, in the order they were wanted."""
    failed = {fate.set_id: fate.left for fate in fates}
    if not failed:
        return []
    groups: dict[SetId, list[Change]] = {}
    for change in wanted:
        if (set_id := changes.set_of(change)) in failed:
            groups.setdefault(set_id, []).append(change)
    return [
        change
        for set_id, group in groups.items()
        for change in group[len(group) - failed[set_id] :]
    ]
