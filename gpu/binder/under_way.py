"""A pass under way: each phase decided, written and drawn from, until the report can be made."""

from asyncio import Semaphore
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Protocol

from gpu import keys
from gpu.binder import aftermath, changes, conditions, delivery, news, replaying, term
from gpu.binder.answer_changes import Answer
from gpu.binder.beside import Beside
from gpu.binder.changes import (
    Attach,
    Change,
    ClaimStatus,
    DropFinalizer,
    ExplainRefused,
    Place,
    Placement,
    WriteMonitor,
    WriteRecord,
    WriteSettings,
)
from gpu.binder.course import Course, Fate
from gpu.binder.delivery import Delivered, FailedSet
from gpu.binder.fence import Deposed
from gpu.binder.phase import Phase, Scene
from gpu.binder.phases import release
from gpu.binder.quarantine import Quarantine
from gpu.binder.replaying import Saves
from gpu.binder.report import Failed, PassReport, Spent
from gpu.binder.start_changes import CreateClaim, Pin
from gpu.binder.writer import ChangeWriter
from gpu.config import Config
from gpu.model import dues, usage
from gpu.model.sightings import Sightings
from gpu.objects import claims
from gpu.objects.claims import GPUClaim
from gpu.objects.meta import ObjectKey
from gpu.ports import Clock, Outcome, Recorder
from gpu.reading import InThread

STRETCH: Final = 0.002
"""Seconds of planning after which no further phase is planned before others had their turn to decide."""


class Among(Protocol):
    """What a pass needs of the leadership it is one of: `run_pass.Passes`."""

    config: Config
    clock: Clock
    quarantine: Quarantine
    recorder: Recorder
    saves: Saves
    sightings: Sightings
    in_thread: InThread

    async def decide(self, run: "Run", left: list[Phase], began: float) -> tuple[Change, ...]:
        """Have a pass `plan` while no other decides, and every other count what it planned."""

    def puts_off(self, *, is_starting: bool) -> bool:
        """Say whether what may wait is put off in this pass; asked once, when it would have its turn."""

    def put_off_until(self) -> float | None:
        """Return when what was put off has its turn at the latest, in seconds of the monotonic clock."""

    def announce(self, run: "Run", wanted: Iterable[Change]) -> None:
        """Have a pass bear what it is about to write, and every other pass count it."""

    def done(self, run: "Run") -> None:
        """Note that all that a pass has planned so far was written, or will not be."""


@dataclass(slots=True, kw_only=True)
class Run:
    """One pass under way."""

    passes: Among
    writer: ChangeWriter
    table: tuple[Phase, ...]
    course: Course
    began: float
    """When it began, in seconds of the monotonic clock. What ends later is not asked by this pass."""
    reading: float
    slots: Semaphore | None = None
    """What its sets in flight share with those of other passes; None for a full one, which has all it is configured for."""
    answering: frozenset[tuple[ObjectKey, str]] = frozenset()
    """Claims, and the ids of their requests, that this pass alone answers until it is over."""
    pending: dict[int, Change] = field(default_factory=dict)
    """Planned and perhaps not stored yet, by identity."""
    put_off: bool | None = None
    """Phases that may wait were put off; None before the first of them had its turn."""
    met: bool = False
    """Another pass has planned something meanwhile."""
    answers: Counter[str] = field(default_factory=Counter)
    """Starts answered, by result."""
    deletions: int = 0
    """Usage records that somebody else was first seen to have deleted."""
    refused: int = 0
    """Launchers that were first seen to be refused."""
    spent: dict[str, Spent] = field(default_factory=dict)
    decided: float = 0.0
    """When the last phase was planned, in seconds of the monotonic clock."""
    written: Counter[str] = field(default_factory=Counter)
    failed: list[Failed] = field(default_factory=list)
    recorded: set[str] = field(default_factory=set)
    """Uids of claims whose usage record was stored in this pass."""
    remade: set[str] = field(default_factory=set)
    """Of them those that are being deleted and had none."""
    told: Container[ObjectKey] = ()
    """VMs at the gate of which an earlier phase said why they wait."""
    healed: str = ""
    saved: str = ""
    not_saved: str = ""
    again: bool = False

    def meet(self, met: Beside) -> None:
        """Count what another pass has planned, from the next phase on."""
        if met:
            self.met = True
            self.course.arrivals.append(met)

    async def phases(self, began: Scene) -> None:
        """Run every phase that is wanted. A pass that crashes is saved."""
        left = list(self.table)
        try:
            while left:
                if self.course.wants(left[0]) and not self._puts_off(left[0]):
                    await self._stretch(left)
                else:
                    left.pop(0)
        except Deposed:
            raise
        except Exception as error:
            await self.save(began, repr(error))
            raise

    def _puts_off(self, phase: Phase) -> bool:
        """Say whether a phase is left to a later pass, which then has to come; all that may wait or none."""
        if self._is_to_be_asked(phase):
            is_starting = self.course.scene.is_starting
            self.put_off = self.passes.puts_off(is_starting=is_starting)
            self.again |= self.put_off and not is_starting  # or the news brings the next pass
        return phase.may_wait and not self.course.problem and bool(self.put_off)

    def _is_to_be_asked(self, phase: Phase) -> bool:
        """Say whether it is not known yet if a phase is put off. The watch tells, on the event loop."""
        return phase.may_wait and not self.course.problem and self.put_off is None

    async def _stretch(self, left: list[Phase]) -> None:
        """Decide phases until one wants something, write that, and draw from what came of it."""
        clock = self.passes.clock
        wanted = await self.passes.decide(self, left, clock.monotonic())
        try:
            done = await self._deliver(wanted)
            self._settle(done, wanted)
            await self._explain(done)
        finally:
            self.passes.done(self)
        name = self.course.legs[-1].phase
        self.spent[name] = replace(self.spent[name], writing=clock.monotonic() - self.decided)

    def plan(self, left: list[Phase], began: float) -> tuple[Change, ...]:
        """Plan the first of these phases, and those behind it until one wants something written.

        Takes what it planned off the list; what the last of them came to is still to be drawn. Most
        phases of most passes want nothing, and to hand each to the thread takes longer than to decide it
        in a small house; in a large one others wait to decide. `began` is when the pass came to them.
        Runs in the thread.
        """
        clock, self.decided = self.passes.clock, began
        # What it waited for its turn was others' time: that is no reason to let them go first again.
        until = clock.monotonic() + STRETCH
        while True:
            phase = left.pop(0)
            wanted = self.course.plan(phase)
            before, self.decided = self.decided, clock.monotonic()
            self.spent[phase.name] = Spent(deciding=self.decided - before)
            if wanted or self.decided >= until or not self._goes_on(left):
                return wanted
            self._draw()

    def _goes_on(self, left: list[Phase]) -> bool:
        """Say whether the next phase can be planned at once; those that have no turn go off the list."""
        while left:
            if self.course.wants(left[0]):
                if self._is_to_be_asked(left[0]):
                    return False
                if not self._puts_off(left[0]):
                    return True
            left.pop(0)
        return False

    async def _deliver(self, wanted: Iterable[Change]) -> Delivered:
        passes = self.passes
        done = await delivery.deliver(
            wanted, self.writer, passes.config.pace.sets_in_flight, self._tell, self.slots
        )
        self.written += done.written
        self.failed += [item.failed for item in done.failed if not item.is_gone]
        return done

    def _tell(self, change: Change) -> None:
        self.pending.pop(id(change), None)
        for item in news.of(change):
            item.send(self.passes.recorder)

    def _settle(self, done: Delivered, wanted: Sequence[Change]) -> None:
        """Draw what later phases and passes must know from what was stored and what was not."""
        now = self.passes.clock.monotonic()
        for set_id in done.complete:
            self.passes.quarantine.accept(set_id)
        answered = aftermath.answers(wanted, done.complete)
        self.answers += answered
        # While a set asks, phases before this one leave it alone: it is theirs again.
        self.again |= bool(answered)
        for item in done.failed:
            if item.is_refused:
                self.passes.quarantine.refuse(item.set_id, now, judged=item.is_judged)
            places = any(isinstance(change, Placement) for change in item.left)
            self.again |= item.is_gone or (places and not item.is_stale)
        unknown = [item.set_id for item in done.failed if item.is_unanswered]
        placing = {changes.set_of(it) for it in wanted if isinstance(it, ClaimStatus | Pin)}
        stored = [set_id for set_id in done.complete if set_id in placing]
        self.passes.quarantine.unanswered(unknown, stored, now)
        fates = tuple(
            Fate(set_id=item.set_id, left=len(item.left), refused=item.is_refused)
            for item in done.failed
        )
        self.course.settle(wanted, fates, aborted=done.aborted)
        self.again |= self.course.freed
        for change in wanted:
            if isinstance(change, WriteSettings) and done.written[WriteSettings.__name__]:
                self.healed = change.problem
                # Starts by a raw name wait for settings that allow it.
                before = self.course.scene.world.settings.raw_names
                self.again |= change.settings.raw_names is not before
        complete = frozenset(done.complete)
        kept = [change for change in wanted if changes.set_of(change) in complete]
        for change in kept:
            if isinstance(change, WriteRecord):
                self.recorded.add(change.claim.meta.uid)
                if change.claim.meta.deleting and not change.uid:
                    self.remade.add(change.claim.meta.uid)
        self.again |= done.written[DropFinalizer.__name__] > 0
        # The usage record of a claim that was made now needs its uid.
        self.again |= done.written[CreateClaim.__name__] > 0
        self.again |= any(aftermath.frees(it) or aftermath.leaves_to_say(it) for it in kept)
        self.again |= any(aftermath.uses(it, self.told) for it in kept)
        # What was placed since takes room from who was told why he waits.
        self.again |= bool(self.told) and done.written[Place.__name__] > 0
        self.again |= any(map(self._notes_gone, kept))
        self._tell_waiting()
        # What is held back for want of the guard's leave had room then; a claim bound since may have taken it.
        is_held_back = self.course.scene.findings.sets_held_back > 0
        self.again |= is_held_back and done.written[Place.__name__] > 0
        # Records wait for the monitor they are kept under.
        self.again |= done.written[WriteMonitor.__name__] > 0
        # GPUBinder names the sets whose writes get no answer, as they were when the pass began.
        self.again |= self.passes.quarantine.silent() != self.course.scene.silent

    def _notes_gone(self, change: Change) -> bool:
        """Say whether a pod is noted now whose object is gone: since when is counted from the next look on."""
        if not isinstance(change, Attach):
            return False
        there, namespace = self.course.scene.world.snapshot.pods, change.claim.meta.namespace
        counted = self.passes.sightings.absent
        noted = (pod.uid for pod in change.attachment.pods if not pod.ended)
        return any(uid not in counted and (namespace, uid) not in there for uid in noted)

    def _draw(self) -> None:
        """Draw from a phase that wanted nothing. Runs in the thread."""
        self.course.settle(())
        self._tell_waiting()

    def _tell_waiting(self) -> None:
        # Why a start waits is told from now on: what follows may make it another reason, or another claim's too.
        self.told = {it.vmi for it in (self.course.scene.findings.waiting or {}).values()}

    async def _explain(self, done: Delivered) -> None:
        """Say on each claim whose placement was refused that it was; a refusal of that is let be."""
        refused = [
            item
            for item in done.failed
            if item.is_refused and isinstance(item.change, Placement | Answer)
        ]
        if not refused:
            return
        await term.check(self.writer.api, self.writer.fence)
        placed = [item for item in refused if isinstance(item.change, Placement)]
        told = tuple(_explanations(placed, self.course.scene.now))
        self.passes.announce(self, told)
        await self._deliver(told)

    def tell_problem(self) -> None:
        """Have an Event say on GPUBinder that a plan was refused."""
        for binder in self.course.scene.world.binders:
            if binder.meta.name == keys.BINDER_NAME:
                told = news.plan_refused(binder.meta.key, binder.meta.uid, self.course.problem)
                told.send(self.passes.recorder)

    async def save(self, began: Scene, problem: str) -> None:
        """Write the pass to a file, if it is to be; that it cannot be written ends nothing."""
        passes = self.passes
        if not passes.saves.wants(problem, passes.clock.monotonic()):
            return
        term = self.writer.fence.term
        table = [phase for phase in self.table if not (phase.may_wait and self.put_off)]

        def write() -> str:
            legs = self.course.legs
            saved = replaying.of(began, legs, term=term, table=table)
            return str(passes.saves.write(saved))

        try:
            self.saved = await passes.in_thread(write)
        except OSError as error:
            self.not_saved = str(error)

    @property
    def is_done(self) -> bool:
        """Say whether nothing is left that a pass over the same cluster could do."""
        is_clean = all(item.outcome is Outcome.STALE for item in self.failed)
        return is_clean and not (self.again or self.met or self.course.problem)

    def answers_report(self) -> PassReport:
        """Return what a pass did that only answers starts."""
        return PassReport(
            reading=self.reading,
            phases=self.spent,
            written=dict(self.written),
            failed=tuple(self.failed),
            aborted=self.course.aborted,
            plan_problem=self.course.problem,
            saved=self.saved,
            not_saved=self.not_saved,
            answers=dict(self.answers),
        )

    def report(self) -> PassReport:
        """Return what a full pass did. Runs in the thread."""
        passes = self.passes
        world = self.course.scene.world
        return replace(
            self.answers_report(),
            held_back=", ".join(sorted(map(str, world.unreadable_claims))),
            settings_healed=self.healed,
            again=self.again or self.met,
            awaits_release=release.is_awaited(world),
            pending=len(world.claims) - len(world.snapshot.holders),
            sets_held_back=self.course.scene.findings.sets_held_back,
            records_deleted=self.deletions,
            due=self._due(),
            starts_demoted=self.course.scene.findings.demoted,
            rejections=len(passes.sightings.rejections.kept),
            launchers_refused=self.refused,
            unanswered=len(passes.quarantine.silent()),
            quarantined=passes.quarantine.count(passes.clock.monotonic()),
            quarantine_ends=passes.quarantine.next_end(self.began),
        )

    def _due(self) -> float | None:
        """Return when something is thought of again, whatever happens until then."""
        passes, scene = self.passes, self.course.scene
        looked, grace, seen = scene.now, passes.config.grace, passes.sightings
        is_on = passes.config.enabled or release.is_awaited(scene.world)
        at = (
            usage.next_look(seen.records, looked),
            seen.rejections.due(looked, grace),
            seen.demotions.due(looked),
            dues.first_end(scene.draft, seen, grace, looked) if is_on else None,
        )
        first = min(filter(None, at), default=None)
        until = passes.put_off_until() if self.put_off else None
        if first is None:
            return until
        left = first - passes.clock.now()
        due = passes.clock.monotonic() + max(left.total_seconds(), 0.0)
        return due if until is None else min(due, until)


def _explanations(refused: Iterable[FailedSet], now: datetime) -> Iterator[ExplainRefused]:
    for item in refused:
        claim = _claim_of(item)
        kind = conditions.DEGRADED if claim.phase is claims.Phase.BOUND else conditions.WAITING
        if conditions.reason_of(claim, kind) != conditions.WRITE_REFUSED:
            yield ExplainRefused(claim=claim, words=item.failed.words, at=now, set_id=item.set_id)


def _claim_of(item: FailedSet) -> GPUClaim:
    assert isinstance(item.change, Placement)
    return item.change.claim
