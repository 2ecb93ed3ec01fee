"""One pass: read a World, run the table of phases over it, write, report what happened.

Each phase is run to its end as a list, in a worker thread over frozen values; then its changes are
written; then the next phase starts, seeing the draft as it is by then. A second pass over an
unchanged cluster writes nothing.

Passes that only answer starts run beside a full one and beside each other (decisions 25 and 44). All
decide one after the other and write at the same time; each counts what the others have planned.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from gpu import keys
from gpu.binder import beside, news, opening, phases, rejection_news
from gpu.binder.beside import Beside
from gpu.binder.budget_news import BudgetNews
from gpu.binder.changes import Change, SetId, object_set
from gpu.binder.course import Course
from gpu.binder.fence import Deposed
from gpu.binder.housekeeping import Housekeeping
from gpu.binder.news import News
from gpu.binder.phase import Phase, Scene
from gpu.binder.quarantine import Quarantine
from gpu.binder.replaying import Saves
from gpu.binder.report import PassReport
from gpu.binder.start_changes import Pin
from gpu.binder.start_news import StartNews
from gpu.binder.under_way import Run
from gpu.binder.writer import ChangeWriter
from gpu.config import Config
from gpu.model import bind_requests, sightings
from gpu.model.draft import Draft
from gpu.model.ground import Ground
from gpu.model.sightings import Sightings
from gpu.model.snapshot import Snapshot
from gpu.objects.claims import GPUClaim
from gpu.objects.kinds import GPU_CLASSES
from gpu.objects.meta import ObjectKey
from gpu.ports import Clock, Recorder
from gpu.reading import FreshView, InThread
from gpu.world import World

LONG: Final = 0.5
"""Seconds after which another pass that only answers starts may begin beside one that is still under way."""


def _nobody() -> None:
    """Nobody is to be woken."""


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
    wake: Callable[[], None] = _nobody
    """Has a full pass run: one that only answered starts has written."""
    wake_answers: Callable[[], None] = _nobody
    """Has starts answered that had to wait for a full pass's writes to the same claims."""
    _housekeeping: Housekeeping = field(default_factory=Housekeeping)
    _ground: Ground = field(default_factory=Ground)
    """The checker's own."""
    _answers_grounds: list[Ground] = field(default_factory=list)
    """The same, of passes that only answer starts: each has one for itself while it is under way."""
    _answers_from: float = 0.0
    """When a pass that only answers starts may begin beside another, in seconds of the monotonic clock."""
    _answers_slots: asyncio.Semaphore = field(init=False)
    """Sets of all answers that may be in flight at once, whichever pass they are of."""
    _deciding: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Passes decide one after the other: reading what to decide on, and each phase that wants something."""
    _running: list[Run] = field(default_factory=list)
    """Passes under way: a full one, and some that only answer starts."""
    _deferred: bool = False
    """A start could not be answered, since a full pass has writes to its claims under way."""
    _looked: tuple[GPUClaim, ...] | None = None
    """Claims as they were last shown to a pass that answers starts."""
    _unanswered: frozenset[tuple[ObjectKey, str]] = frozenset()
    """Those of them with an open request, and its id."""
    _snapshot: Snapshot | None = None
    """Of the last pass: the next one's is made of it."""
    _expected: World | None = None
    """What the events of the last pass's own writes will show; None when it left work undone."""

    def __post_init__(self) -> None:
        """Have as many answers in flight as a phase may have sets."""
        self._answers_slots = asyncio.Semaphore(self.config.pace.sets_in_flight)

    async def once(self, *, forced: bool = True) -> PassReport:
        """Run one pass; unless forced, only if the cluster shows more than our own last writes.

        Raises Deposed when the lease ran out or a higher term was seen, and what the Writer raises
        when an object in doubt cannot be read. A failed write is in the report, never raised.
        """
        began = self.clock.monotonic()
        await self._settle()  # which may take long: it is nothing that is decided by
        async with self._deciding:
            run = await self._begin(began, forced=forced)
            if run is None:
                return PassReport(skipped=True)
            self._running.append(run)
        try:
            return await self._through(run)
        finally:
            self._running.remove(run)

    async def _settle(self) -> None:
        try:
            await self.view.settle()
        except Exception:
            self.quarantine.unread()
            raise

    async def _begin(self, began: float, *, forced: bool) -> Run | None:
        """Read and look; None when there is only the echo of our own last writes."""
        self.writer.begin()
        met = self._planned()
        seen = await self.view.world(self.in_thread)
        self._check_term(seen)
        now = self.clock.now()
        echo = None if forced or self.saves.asked else self._expected
        before = self.sightings
        opened = await self.in_thread(lambda: None if seen == echo else self._open(seen, now))
        if opened is None:
            return None
        world, draft, self.sightings, told = opened
        refused = tuple(rejection_news.seen(before.rejections, self.sightings.rejections))
        for item in (*told, *refused):
            item.send(self.recorder)
        scene = Scene(
            world=world,
            draft=draft,
            config=self.config,
            now=now,
            skip=self.quarantine.held(began),
            silent=self.quarantine.silent(),
            sightings=self.sightings,
        )
        run = Run(
            passes=self,
            writer=self.writer,
            table=self.table,
            course=Course(scene=scene, ground=self._ground),
            began=began,
            reading=self.clock.monotonic() - began,
            deletions=self.sightings.records.seen - before.records.seen,
            refused=len(refused),
        )
        run.meet(met)
        return run

    def _open(self, seen: World, now: datetime) -> tuple[World, Draft, Sightings, tuple[News, ...]]:
        """Return what a pass begins with, and what is to be told of budgets. Runs in the thread."""
        self._expected = None
        world, draft = opening.draft(seen, self._snapshot, self.config, now)
        self._snapshot = draft.snapshot
        observed = opening.observe(self.sightings, world, self.config.grace, now)
        return world, draft, observed, self.budget_news.of(draft.snapshot)

    async def _through(self, run: Run) -> PassReport:
        """Run the phases of a full pass, and tell what came of it."""
        course, scene = run.course, run.course.scene
        await run.phases(scene)
        for item in self.start_news.of(course.scene.findings.waiting):
            item.send(self.recorder)
        if course.problem:
            run.tell_problem()
        await run.save(scene, course.problem)
        self.sightings = opening.stored(self.sightings, run.recorded, run.remade)
        if run.is_done:
            self._expected = await self.view.expected(self.in_thread)
        return await self.in_thread(run.report)

    async def answer(self, *, forced: bool = True) -> PassReport:  # noqa: ARG002 -- as `once`
        """Answer starts that ask, and do nothing else; skipped when none does.

        Raises what `once` raises. It is never held behind a full pass, but while that decides a phase, or
        several that want nothing and took no longer than `under_way.STRETCH` before the last. Several may be
        under way, so that no start waits for the slowest write of those before it: each leaves alone what
        another is answering.
        """
        if not self._is_asked():
            return PassReport(skipped=True)
        # A pass costs much to begin: who asks meanwhile is answered in the next one, unless this one takes long.
        while any(run.answering for run in self._running):
            left = self._answers_from - self.clock.monotonic()
            if left <= 0:
                break
            await asyncio.sleep(left)
        began = self.clock.monotonic()
        await self.view.settle()
        async with self._deciding:
            run = await self._begin_answers(began) if self._is_asked() else None
            if run is None:
                return PassReport(skipped=True)
            self._answers_from = self.clock.monotonic() + LONG
            self._running.append(run)
        try:
            await run.phases(run.course.scene)
        finally:
            self._running.remove(run)
            self._answers_grounds.append(run.course.ground)
        if run.course.problem:
            run.tell_problem()
            await run.save(run.course.scene, run.course.problem)
        if run.written:
            self._expected = None
            self.wake()
        return run.answers_report()

    def _is_asked(self) -> bool:
        """Say whether the watch shows an open request that no pass under way answers; cheap until a claim changes."""
        return not self._requests() <= frozenset().union(*(run.answering for run in self._running))

    def is_awaited(self) -> bool:
        """Say whether the watch shows an open request, be it that a pass is answering it; as cheap."""
        return bool(self._requests())

    def _requests(self) -> frozenset[tuple[ObjectKey, str]]:
        if not self.config.enabled:
            return frozenset()
        shown = self.view.claims()
        if shown is not self._looked:
            self._looked = shown
            self._unanswered = frozenset(_asked(shown))
        return self._unanswered

    async def _begin_answers(self, began: float) -> Run | None:
        """Look for starts to be answered; None when there is none that can be."""
        met = self._planned()
        full = beside.of(it for run in self._full_runs() for it in run.pending.values())
        seen = await self.view.look(self.in_thread)
        self._check_term(seen)
        now, grace = self.clock.now(), self.config.grace.attachment
        asked = await self.in_thread(
            lambda: bind_requests.find(
                (claim for claim in seen.claims if claim.bind_request is not None), now, grace
            )
        )
        self._deferred = any(claim.key in full.touched for one in asked for claim in one.claims)
        # Another pass's writes to it are under way: it answers, or has this one woken.
        busy = met.touched | {key for run in self._running for key, _ in run.answering}
        asked = tuple(it for it in asked if busy.isdisjoint(one.key for one in it.claims))
        if not asked:
            return None
        world, draft = await self.in_thread(
            lambda: opening.draft(seen, self._snapshot, self.config, now)
        )
        scene = Scene(
            world=world,
            draft=draft,
            config=self.config,
            now=now,
            skip=self.quarantine.within(began) | _unguarded(world),
            sightings=self.sightings,
        )
        run = Run(
            passes=self,
            writer=self.writer.beside(),
            table=phases.ANSWERS,
            course=Course(scene=scene, ground=self._answers_ground()),
            began=began,
            reading=self.clock.monotonic() - began,
            slots=self._answers_slots,
            answering=frozenset((it.key, one.request.id) for one in asked for it in one.claims),
        )
        run.meet(met)
        return run

    def _answers_ground(self) -> Ground:
        return self._answers_grounds.pop() if self._answers_grounds else Ground()

    def _full_runs(self) -> Iterator[Run]:
        return (run for run in self._running if run.table is self.table)

    def _planned(self) -> Beside:
        """Return what passes under way have planned and not stored yet. Ask before anything is read."""
        return beside.of(change for run in self._running for change in run.pending.values())

    async def decide(self, run: Run, left: list[Phase], began: float) -> tuple[Change, ...]:
        """Have a pass `plan` while no other decides, and every other count what it planned."""
        async with self._deciding:
            wanted = await self.in_thread(lambda: run.plan(left, began))
            pins = (change.pod for change in wanted if isinstance(change, Pin))
            prepared = run.course.scene.findings.prepared
            self.sightings = sightings.prepare(self.sightings, prepared, pins)
            self.announce(run, wanted)
        return wanted

    def puts_off(self, *, is_starting: bool) -> bool:
        """Say whether records and numbers wait: the watch has shown something since the pass has read, or is about to."""
        has_news = is_starting or self.view.has_news()
        return self._housekeeping.waits(self.clock.monotonic(), has_news=has_news)

    def put_off_until(self) -> float | None:
        """Return when what was put off has its turn at the latest, in seconds of the monotonic clock."""
        return self._housekeeping.until

    def announce(self, run: Run, wanted: Iterable[Change]) -> None:
        """Have a pass bear what it is about to write, and every other pass count it."""
        run.pending |= {id(change): change for change in wanted}
        others = [one for one in self._running if one is not run]
        met = beside.of(run.pending.values()) if others else Beside()
        for one in others:
            one.meet(met)

    def done(self, run: Run) -> None:
        """Note that all that a pass has planned so far was written, or will not be."""
        run.pending.clear()
        if self._deferred and run.table is self.table:
            self._deferred = False
            self.wake_answers()

    def _check_term(self, world: World) -> None:
        for binder in world.binders:
            if binder.term > self.writer.fence.term:
                raise Deposed(f"term {binder.term} of {binder.holder} is above ours")


def _unguarded(world: World) -> frozenset[SetId]:
    """Return the classes without our finalizer, as sets to be left alone: this pass gives none."""
    return frozenset(
        object_set(GPU_CLASSES, offer.meta.key)
        for offer in world.classes
        if keys.CLASS_FINALIZER not in offer.meta.finalizers
    )


def _asked(shown: Iterable[GPUClaim]) -> Iterator[tuple[ObjectKey, str]]:
    for claim in shown:
        if claim.bind_request is not None and bind_requests.is_open(claim):
            yield claim.key, claim.bind_request.id
