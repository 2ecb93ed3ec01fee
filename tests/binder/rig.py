"""Rig: a leader over a FakeCluster and a Window, with clocks and holds a test can turn."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from gpu import keys
from gpu.binder import phases
from gpu.binder.fence import Fence
from gpu.binder.phase import Phase
from gpu.binder.quarantine import Quarantine
from gpu.binder.report import PassReport
from gpu.binder.run_pass import Passes
from gpu.binder.writer import ChangeWriter
from gpu.config import Config
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from gpu.objects.meta import ObjectKey
from gpu.reading import FreshView
from tests.binder import raws
from tests.binder.window import Window
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster

T = TypeVar("T")


async def at_once(work: Callable[[], T]) -> T:
    """In the place of a worker thread: most tests are about something else."""
    return work()


@dataclass
class Hold:
    """A lease that lasts as long as the test says."""

    remaining: float = 15.0


@dataclass
class Rig:
    """One leader. `lag` True: the watch delivers only when the test says `window.show()`."""

    cluster: FakeCluster = field(default_factory=FakeCluster)
    clock: FakeClock = field(default_factory=FakeClock)
    config: Config = field(default_factory=Config)
    hold: Hold = field(default_factory=Hold)
    term: int = 1
    lag: bool = False
    table: tuple[Phase, ...] = phases.PASS
    in_thread: Callable[[Callable[[], Any]], Awaitable[Any]] = at_once

    def __post_init__(self) -> None:
        before = self.cluster._objects.get(kinds.GPU_BINDERS, {})
        told = before.get(ObjectKey("", keys.BINDER_NAME), {}).get("status", {})
        binder = {"metadata": {"name": keys.BINDER_NAME}, "status": told | {"term": self.term}}
        self.cluster.put(kinds.GPU_BINDERS, binder)
        self.window = Window(self.cluster)
        self.view = FreshView(self.window, self.cluster)
        self.quarantine = Quarantine(
            first=self.config.pace.quarantine_first, most=self.config.pace.quarantine_most
        )
        self.writer = ChangeWriter(
            api=self.cluster,
            view=self.view,
            fence=Fence(term=self.term, hold=self.hold),
            write_timeout=self.config.pace.write_timeout,
        )
        self.passes = Passes(
            view=self.view,
            writer=self.writer,
            quarantine=self.quarantine,
            config=self.config,
            clock=self.clock,
            table=self.table,
            in_thread=self.in_thread,
        )

    def store(self, **objects: list[raws.Raw]) -> None:
        """Put raw objects by field name of World, as `claims=[a_claim()]`, and show them."""
        for name, items in objects.items():
            for raw in items:
                self.cluster.put(raws.kind_of(name), raw)
        self.window.show()

    async def once(self) -> PassReport:
        """Run one pass on what the watch shows."""
        if not self.lag:
            self.window.show()
        return await self.passes.once()

    async def until_still(self, most: int = 20) -> list[PassReport]:
        """Run passes until one writes nothing; fails when that does not happen."""
        reports = []
        for _ in range(most):
            reports.append(await self.once())
            if not reports[-1].written and not reports[-1].failed:
                return reports
        raise AssertionError(f"still writing after {most} passes: {reports[-1]}")

    async def until_echo(self, most: int = 20) -> list[PassReport]:
        """Run passes as their own events bring them, until these are only an echo; returns those that ran."""
        reports: list[PassReport] = []
        for _ in range(most):
            self.window.show()
            report = await self.passes.once(forced=False)
            if report.skipped:
                return reports
            reports.append(report)
        raise AssertionError(f"not only an echo after {most} passes: {reports[-1]}")

    def next_leader(self, **more: Any) -> "Rig":
        """A new leader of the same cluster, one term higher, that remembers nothing."""
        return replace(self, term=self.term + 1, hold=Hold(), **more)

    def claim(self, name: str = "x", tenant: str = "tenant-a") -> dict[str, Any] | None:
        """The claim as stored."""
        found = self.cluster._objects.get(kinds.GPU_CLAIMS, {})
        return found.get(ObjectKey(tenant, name))

    def placed(self) -> dict[str, str]:
        """Names of claims that are Bound, and their nodes."""
        return {
            str(key): raw["status"]["nodeName"]
            for key, raw in self.cluster._objects.get(kinds.GPU_CLAIMS, {}).items()
            if raw.get("status", {}).get("phase") == "Bound"
        }

    def writes(self, kind: Kind | None = None) -> list[tuple[str, str, str | None]]:
        """What arrived: verb, `Kind key`, subresource."""
        return [
            (write.verb, f"{write.kind.kind} {write.key}", write.subresource)
            for write in self.cluster.writes
            if kind in {None, write.kind}
        ]


async def drained(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel and await."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
