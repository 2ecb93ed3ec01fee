"""What leaders do: undisturbed and faulty passes, changes of leader, freezes, late writes."""

import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from gpu.binder.report import PassReport
from soak.leader import Leader
from soak.line import Fault
from soak.site import Site
from soak.watch import VIEWS

COMMON = (Fault.LOST_REPLY, Fault.TIMEOUT, Fault.LATE, Fault.CONFLICT, Fault.BUSY)
RARE = (Fault.REFUSED, Fault.FREEZE)
ALLOWED_WHEN_OFF = {
    "AddFinalizer",
    "DropFinalizer",
    "Attach",  # what release learns of a deleted claim's pods
    "ExplainKept",
    "WriteRecord",
    "DropRecord",
    "WriteMonitor",
    "ReportBinder",  # that it is off, and what waits
}


@dataclass
class Leaders:
    """The leaders of a site, one after the other, and now and then one beside the other."""

    site: Site
    enabled: bool = True
    passes: int = 0

    def steps(self) -> dict[str, Callable[[], Awaitable[list[str]]]]:
        """Steps of leaders by name; each returns what it did wrong."""
        return {
            "faulty pass": self._faulty_pass,
            "unforced pass": self._unforced,
            "deliver": self._deliver,
            "watch goes back": self._go_back,
            "leader changes": self._change_leader,
            "leader dies in a pass": self._die,
            "feature off": self._feature_off,
            "thaw": self._thaw,
            "land": self._land,
        }

    async def end(self) -> None:
        """Leave no task behind."""
        for leader in [*self.site.old, self.site.leader]:
            if leader is not None:
                await leader.kill()
        await self.site.webhooks.kill(self.site.webhooks.calls)

    async def leading(self) -> Leader:
        """The leader, elected now when there is none."""
        site = self.site
        if site.leader is None or site.leader.deposed:
            leader = site.new_leader(enabled=self.enabled)
            await leader.elect()
            site.leader = leader
            site.tally["leaders"] += 1
        site.leader.hold.until = site.clock.monotonic() + 15
        return site.leader

    async def passed(
        self, leader: Leader, run: Callable[[], Awaitable[PassReport | None]] | None = None
    ) -> tuple[PassReport | None, list[str]]:
        """Have a leader run a pass, a forced one unless told; returns its report and what it did wrong."""
        self.passes += 1
        if run != leader.answer:
            self.site.looked = self.site.api.version
        report = await (run or leader.once)()
        if leader.task is not None:
            self.site.old.append(leader)
            self.site.leader = None
        self.site.late += leader.line.late
        leader.line.late.clear()
        wrong = _crashes(leader)
        for one in {id(it): it for it in (report, leader.answered) if it is not None}.values():
            wrong += _disabled(leader, one)
            if one.plan_problem:
                wrong.append(f"the checker refused a plan: {one.plan_problem}")
        return report, wrong

    async def undisturbed(self) -> tuple[PassReport | None, list[str]]:
        """Run a pass that sees everything and fails at nothing."""
        leader = await self.leading()
        leader.watch.show()
        leader.line.begin({})
        return await self.passed(leader)

    async def _unforced(self) -> list[str]:
        leader = await self.leading()
        leader.watch.show(self.some())
        leader.line.begin({})
        return (await self.passed(leader, lambda: leader.once(forced=False)))[1]

    async def _faulty_pass(self) -> list[str]:
        rng = self.site.rng
        leader = await self.leading()
        leader.watch.show(self.some())
        plan = {}
        for _ in range(rng.choice((1, 1, 2, 2, 3))):
            fault = rng.choice(RARE) if rng.random() < 0.15 else rng.choice(COMMON)
            plan[rng.choice((1, 1, 1, 2, 2, 3, 4, 5, 7))] = fault
        leader.line.begin(plan, bad_reads=int(rng.random() < 0.1))
        leader.hold.blind = rng.random() < 0.5
        if rng.random() < 0.3:
            leader.line.between = lambda: leader.watch.show(self.some())
        wrong = (await self.passed(leader))[1]
        leader.line.between = lambda: None
        return wrong

    async def _deliver(self) -> list[str]:
        leader = await self.leading()
        leader.watch.show(self.some())
        return []

    async def _go_back(self) -> list[str]:
        leader = await self.leading()
        leader.watch.go_back()
        self.site.tally["watch went back"] += 1
        return []

    async def _change_leader(self) -> list[str]:
        self._retire_leader()
        self.site.tally["leader changes"] += 1
        return []

    async def _die(self) -> list[str]:
        """The leader dies at some write of a pass: nothing of it goes on."""
        leader = await self.leading()
        leader.watch.show()
        leader.line.begin({self.site.rng.choice((1, 1, 2, 2, 3, 4)): Fault.FREEZE})
        _, wrong = await self.passed(leader)
        if leader in self.site.old:
            self.site.old.remove(leader)
            await leader.kill()
            self.site.tally["leaders killed in a pass"] += 1
        self._retire_leader()
        return wrong

    async def _feature_off(self) -> list[str]:
        self.enabled = not self.enabled
        self._retire_leader()
        self.site.tally["feature switched"] += 1
        return []

    async def _thaw(self) -> list[str]:
        """A frozen leader wakes and goes on with its pass."""
        leader = self.site.pick(self.site.old)
        if leader is None:
            return []
        self.site.old.remove(leader)
        await leader.thaw()
        self.site.tally["frozen leaders woke"] += 1
        return _crashes(leader)

    async def _land(self) -> list[str]:
        """A write that was long on its way arrives."""
        send = self.site.pick(self.site.late)
        if send is not None:
            self.site.late.remove(send)
            try:
                await send()
            except Exception as error:
                if self.site.api.outcome(error) is None:
                    raise
            self.site.tally["late writes landed"] += 1
        return []

    def _retire_leader(self) -> None:
        self.site.leader = None

    def some(self) -> list[type]:
        """Some of the views: what is delivered in a step."""
        share = self.site.rng.choice((0.0, 0.5, 0.8, 1.0))
        return [view for view in VIEWS if self.site.rng.random() < share]


def _crashes(leader: Leader) -> list[str]:
    found = [f"a pass crashed: {error!r} at {_where(error)}" for error in leader.crashes]
    leader.crashes.clear()
    return found


def _disabled(leader: Leader, report: PassReport) -> list[str]:
    if leader.config.enabled:
        return []
    return [
        f"with the feature off a leader wrote {name}"
        for name in report.written
        if name not in ALLOWED_WHEN_OFF
    ]


def _where(error: BaseException) -> str:
    """Return the last frames, and those of the first error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    return " > ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
