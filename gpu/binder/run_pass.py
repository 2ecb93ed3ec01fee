"""One pass: read a World, run the table of phases over it, write, report what happened.

Each phase is run to its end as a list, in a worker thread over frozen values; then its changes are
written; then the next phase starts, seeing the draft as it is by then. A second pass over an
unchanged cluster writes nothing.
"""

import asyncio
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from gpu import keys
from gpu.binder import (
    changes,
    conditions,
    delivery,
    news,
    phases,
    rejection_news,
    replaying,
    term,
)
from gpu.binder.budget_news import BudgetNews
from gpu.binder.changes import (
    Attach,
    Change,
    Detach,
    DropFinalizer,
    ExplainRefused,
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
from gpu.binder.start_changes import CreateClaim
from gpu.binder.start_news import StartNews
from gpu.binder.writer import ChangeWriter
from gpu.config import Config, Grace
from gpu.model import sightings, usage
from gpu.model.ground import Ground
from gpu.model.sightings import Sightings
from gpu.model.snapshot import Draft, Snapshot
from gpu.objects import claims
from gpu.objects.claims import GPUClaim
from gpu.objects.nodes import GPUNode
from gpu.ports import Clock, Outcome, Recorder
from gpu.reading import FreshView, InThread
from gpu.world import World

_OWNER: Final = operator.itemgetter(1)
"""Of a record as `Records.there` has it."""


@dataclass(slots=True, kw_only=True)
class Passes:
    """What every pass of one leadership works with."""

    view: FreshView
    writer: ChangeWriter
    quarantine: Quarantine
    config: Config
    clock: Clock
    table: tuple[Phase, ...] = phases.PASS
    in_thread: InThread = asyncio.to_thread
    recorder: Recorder = field(default_factory=news.Silent)
    saves: Saves = field(default_factory=Saves)
    sightings: Sightings = field(default_factory=Sightings)
    """What this leader saw of pods that use claims, pass by pass."""
    budget_news: BudgetNews = field(default_factory=BudgetNews)
    """Which budgets that cannot be read this leader has told of."""
    start_news: StartNews = field(default_factory=StartNews)
    """Which starts that wait this leader has told of."""
    _ground: Ground = field(default_factory=Ground)
    """The checker's own."""
    _snapshot: Snapshot | None = None
    """Of the last pass: the next one's is made of it."""
    _expected: World | None = None
    """What the events of the last pass's own writes will show; None when it left work undone."""

    async def once(self, *, forced: bool = True) -> PassReport:
        """Run one pass; unless forced, only if the cluster shows more than our own last writes.

        Raises Deposed when the lease ran out or a higher term was seen, and what the Writer raises
        when an object in doubt cannot be read. A failed write is in the report, never raised.
        """
        began = self.clock.monotonic()
        self.writer.begin()
        seen = await self.view.world(self.in_thread)
        self._check_term(seen)
        now = self.clock.now()
        echo = None if forced or self.saves.asked else self._expected
        opened = await self.in_thread(
            lambda: None if seen == echo else _open(seen, self._snapshot, self.config, now)
        )
        if opened is None:
            return PassReport(skipped=True)
        self._expected = None
        world, draft = opened
        self._snapshot = draft.snapshot
        before = self.sightings
        self.sightings, told = await self.in_thread(
            lambda: (
                _observe(before, world, self.config.grace, now),
                self.budget_news.of(draft.snapshot),
            )
        )
        refused = tuple(rejection_news.seen(before.rejections, self.sightings.rejections))
        for item in (*told, *refused):
            item.send(self.recorder)
        scene = Scene(
            world=world,
            draft=draft,
            config=self.config,
            now=now,
            skip=self.quarantine.held(began),
            sightings=self.sightings,
        )
        course = Course(scene=scene, ground=self._ground)
        run = _Run(
            passes=self,
            course=course,
            reading=self.clock.monotonic() - began,
            deletions=self.sightings.records.seen - before.records.seen,
            refused=len(refused),
        )
        try:
            for phase in self.table:
                if course.wants(phase):
                    await run.phase(phase)
        except Deposed:
            raise
        except Exception as error:
            await run.save(scene, repr(error))
            raise
        for item in self.start_news.of(course.scene.findings.waiting):
            item.send(self.recorder)
        if course.problem:
            run.tell_problem()
        await run.save(scene, course.problem)
        self.sightings = _stored(self.sightings, run.recorded, run.remade)
        if run.is_done:
            self._expected = await self.view.expected(self.in_thread)
        return await self.in_thread(run.report)

    def _check_term(self, world: World) -> None:
        for binder in world.binders:
            if binder.term > self.writer.fence.term:
                raise Deposed(f"term {binder.term} of {binder.holder} is above ours")


@dataclass(slots=True, kw_only=True)
class _Run:
    """One pass under way."""

    passes: Passes
    course: Course
    reading: float
    deletions: int = 0
    """Usage records that somebody else was first seen to have deleted."""
    refused: int = 0
    """Launchers that were first seen to be refused."""
    spent: dict[str, Spent] = field(default_factory=dict)
    written: Counter[str] = field(default_factory=Counter)
    failed: list[Failed] = field(default_factory=list)
    recorded: set[str] = field(default_factory=set)
    """Uids of claims whose usage record was stored in this pass."""
    remade: set[str] = field(default_factory=set)
    """Of them those that are being deleted and had none."""
    healed: str = ""
    saved: str = ""
    not_saved: str = ""
    again: bool = False

    async def phase(self, phase: Phase) -> None:
        clock = self.passes.clock
        began = clock.monotonic()
        wanted = await self.passes.in_thread(lambda: self.course.plan(phase))
        decided = clock.monotonic()
        done = await self._deliver(wanted)
        self._settle(done, wanted)
        await self._explain(done)
        self.spent[phase.name] = Spent(
            deciding=decided - began, writing=clock.monotonic() - decided
        )

    async def _deliver(self, wanted: Iterable[Change]) -> Delivered:
        passes = self.passes
        done = await delivery.deliver(
            wanted, passes.writer, passes.config.pace.sets_in_flight, self._tell
        )
        self.written += done.written
        self.failed += [item.failed for item in done.failed if not item.is_gone]
        return done

    def _tell(self, change: Change) -> None:
        for item in news.of(change):
            item.send(self.passes.recorder)

    def _settle(self, done: Delivered, wanted: Sequence[Change]) -> None:
        """Draw what later phases and passes must know from what was stored and what was not."""
        now = self.passes.clock.monotonic()
        for set_id in done.complete:
            self.passes.quarantine.accept(set_id)
        for item in done.failed:
            if item.is_refused:
                self.passes.quarantine.refuse(item.set_id, now, judged=item.is_judged)
            places = any(isinstance(change, Placement) for change in item.left)
            self.again |= item.is_gone or (places and not item.is_stale)
        fates = tuple(
            Fate(set_id=item.set_id, left=len(item.left), refused=item.is_refused)
            for item in done.failed
        )
        self.course.settle(wanted, fates, aborted=done.aborted)
        self.again |= self.course.freed
        for change in wanted:
            if isinstance(change, WriteSettings) and done.written[WriteSettings.__name__]:
                self.healed = change.problem
        complete = frozenset(done.complete)
        for change in wanted:
            if isinstance(change, WriteRecord) and changes.set_of(change) in complete:
                self.recorded.add(change.claim.meta.uid)
                if change.claim.meta.deleting and not change.uid:
                    self.remade.add(change.claim.meta.uid)
        self.again |= done.written[DropFinalizer.__name__] > 0
        # The usage record of a claim that was made now needs its uid.
        self.again |= done.written[CreateClaim.__name__] > 0
        self.again |= any(_frees(it) for it in wanted if changes.set_of(it) in complete)
        # Records wait for the monitor they are kept under.
        self.again |= done.written[WriteMonitor.__name__] > 0

    async def _explain(self, done: Delivered) -> None:
        """Say on each claim whose placement was refused that it was; a refusal of that is let be."""
        refused = [
            item for item in done.failed if item.is_refused and isinstance(item.change, Placement)
        ]
        if not refused:
            return
        await term.check(self.passes.writer.api, self.passes.writer.fence)
        await self._deliver(_explanations(refused, self.course.scene.now))

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
        term = passes.writer.fence.term

        def write() -> str:
            legs = self.course.legs
            saved = replaying.of(began, legs, term=term, table=passes.table)
            return str(passes.saves.write(saved))

        try:
            self.saved = await passes.in_thread(write)
        except OSError as error:
            self.not_saved = str(error)

    @property
    def is_done(self) -> bool:
        """Say whether nothing is left that a pass over the same cluster could do."""
        is_clean = all(item.outcome is Outcome.STALE for item in self.failed)
        return is_clean and not self.again and not self.course.problem

    def report(self) -> PassReport:
        passes = self.passes
        world = self.course.scene.world
        return PassReport(
            reading=self.reading,
            phases=self.spent,
            written=dict(self.written),
            failed=tuple(self.failed),
            aborted=self.course.aborted,
            plan_problem=self.course.problem,
            saved=self.saved,
            not_saved=self.not_saved,
            held_back=", ".join(sorted(map(str, world.unreadable_claims))),
            settings_healed=self.healed,
            again=self.again,
            awaits_release=release.is_awaited(world),
            pending=len(world.claims) - len(world.snapshot.holders),
            sets_held_back=self.course.scene.findings.sets_held_back,
            records_deleted=self.deletions,
            due=self._due(),
            starts_demoted=self.course.scene.findings.demoted,
            rejections=len(passes.sightings.rejections.kept),
            launchers_refused=self.refused,
            quarantined=passes.quarantine.count(passes.clock.monotonic()),
            quarantine_ends=passes.quarantine.next_end(passes.clock.monotonic()),
        )

    def _due(self) -> float | None:
        """Return when usage records or starts are thought of again, whatever happens until then."""
        passes, now = self.passes, self.passes.clock.now()
        seen = passes.sightings
        at = (
            usage.next_look(seen.records, now),
            seen.rejections.due(now, passes.config.grace),
            seen.demotions.due(now),
        )
        first = min(filter(None, at), default=None)
        if first is None:
            return None
        return passes.clock.monotonic() + max((first - now).total_seconds(), 0.0)


def _observe(old: Sightings, world: World, grace: Grace, now: datetime) -> Sightings:
    """Take one more look at pods, starts and usage records. Runs in the thread."""
    pods = sightings.look(old, world.snapshot, grace, now)
    if "workloads" in world.unserved:
        return replace(pods, records=replace(old.records, stored=frozenset(), missed={}))
    known = world.snapshot.memo.records
    known.follow(world.workloads, usage.owner_of, usage.is_ours)
    records = usage.remember(
        old.records,
        alive=known.living(
            world.claims,
            frozenset(item.meta.name for item in world.namespaces if item.meta.deleting),
        ),
        owners=map(_OWNER, known.there.values()),
        now=now,
    )
    if records.remade:
        going = {claim.meta.uid for claim in world.snapshot.deleting}
        records = replace(records, remade=records.remade & going)
    return replace(pods, records=records)


def _stored(old: Sightings, uids: Iterable[str], remade: Iterable[str]) -> Sightings:
    """Remember records stored in this pass: one may be gone again before the watch shows it."""
    records = old.records
    stored, again = records.stored.union(uids), records.remade.union(remade)
    return replace(old, records=replace(records, stored=stored, remade=again))


def _open(
    seen: World, before: Snapshot | None, config: Config, now: datetime
) -> tuple[World, Draft]:
    """Forget inventory that is stale, build the snapshot, and open a draft of it.

    Stale inventory is unknown, as is one without devices (domain contract 2); what the leader
    publishes on it is kept. Runs in the thread: building takes long.
    """
    oldest = now - timedelta(seconds=config.grace.inventory_stale)
    inventory = tuple(_current(node, oldest) for node in seen.inventory)
    world = replace(seen, inventory=inventory).follow(before)
    return world, world.snapshot.draft()


def _current(node: GPUNode, oldest: datetime) -> GPUNode:
    if not node.devices or (node.observed_at is not None and node.observed_at >= oldest):
        return node
    return replace(node, devices=())


def _frees(change: Change) -> bool:
    """Say whether a pod that is gone is known to have ended now: the next snapshot frees its units."""
    if isinstance(change, Attach) and change.claim.attached_to is not None:
        open_before = {pod.uid for pod in change.claim.attached_to.pods if not pod.ended}
        return any(pod.ended and pod.uid in open_before for pod in change.attachment.pods)
    return isinstance(change, Detach)


def _explanations(refused: Iterable[FailedSet], now: datetime) -> Iterator[ExplainRefused]:
    for item in refused:
        claim = _claim_of(item)
        kind = conditions.DEGRADED if claim.phase is claims.Phase.BOUND else conditions.WAITING
        if conditions.reason_of(claim, kind) != conditions.WRITE_REFUSED:
            yield ExplainRefused(claim=claim, words=item.failed.words, at=now, set_id=item.set_id)


def _claim_of(item: FailedSet) -> GPUClaim:
    assert isinstance(item.change, Placement)
    return item.change.claim
