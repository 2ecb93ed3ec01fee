"""Caches, binder, projection and HTTP face in one process over an API server in memory: no control plane.

`python -m bench.lone HELD` tells its port in a line of JSON once passes have come to rest. From then
on until its standard input ends it orders one unit after another; then it tells what it saw and ends.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import structlog
import uvloop
from aiohttp import web

from apiserver import app, appkeys, memory, metrics
from apiserver.clock import SystemClock
from apiserver.computing import Computing
from apiserver.identity import MASTERS, User
from apiserver.observing import Observing
from apiserver.process import SWITCH_INTERVAL
from apiserver.projection import Projection
from apiserver.source import CachesSource
from bench import house
from gpu import keys
from gpu.binder.fence import Fence
from gpu.binder.loop import Loop
from gpu.binder.quarantine import Quarantine
from gpu.binder.report import PassReport
from gpu.binder.run_pass import Passes
from gpu.binder.writer import ChangeWriter
from gpu.cluster import wire
from gpu.cluster.caches import Caches
from gpu.config import Config
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from gpu.objects.meta import ObjectKey
from gpu.reading import FreshView
from tests.binder import raws
from tests.fakes.cluster import FakeCluster

NODES: Final = 100
UNITS: Final = 128
TENANTS: Final = 100
READER: Final = "tenant-reader"
"""Who orders, and in whose namespace lists are read."""
_STEP: Final = 0.02
_LOOK: Final = 0.003
"""Seconds between two looks at whether an order is Bound."""
_REST: Final = 1.0
"""Seconds without a pass after which they have come to rest."""
_ABSENT: Final = (
    kinds.WORKLOADS,
    kinds.WORKLOAD_MONITORS,
    kinds.KUBEVIRTS,
    kinds.VMIS,
    kinds.VMS,
)
"""Other products' kinds, not served: there would be as many usage records to write first."""


@dataclass(slots=True)
class Seen:
    """What one process saw, in seconds."""

    lag: list[float] = field(default_factory=list)
    bound_in: list[float] = field(default_factory=list)
    passes: list[float] = field(default_factory=list)


class Plane(FakeCluster):
    """An API server in memory that answers at once where a list is only asked how far its kind is."""

    async def list(self, kind: Kind, namespace: str | None = None, **which: Any) -> wire.ListPage:
        """List; `limit=1` gives no object, since sorting all for the first is the fake's own cost."""
        if which.get("limit") == 1:
            return wire.ListPage((), str(self.version), "")
        return await super().list(kind, namespace, **which)

    def is_bound(self, name: str) -> bool:
        """Say whether an order of the reader is stored as Bound."""
        claim = self._objects[kinds.GPU_CLAIMS][ObjectKey(READER, name)]
        return bool(claim.get("status", {}).get("phase") == "Bound")


class _Lease:
    """A lease that nobody contends for."""

    remaining = 15.0


class _Everybody:
    """Authentication and authorization that let anyone in."""

    async def identify(self, _headers: object, _connection: object) -> User:
        """Return the administrator."""
        return User("bench", groups=(MASTERS,))

    async def require(self, _user: object, _attributes: object) -> None:
        """Refuse nothing."""


class _Passed:
    """Counts what passes took."""

    def __init__(self, observing: Observing, seen: Seen) -> None:
        self._observing = observing
        self._seen = seen
        self.crashed = observing.crashed
        self.leading = observing.leading

    def passed(self, report: PassReport) -> None:
        """Note the seconds of one pass, writes and all."""
        self._observing.passed(report)
        if not report.skipped:
            spent = sum(one.deciding + one.writing for one in report.phases.values())
            self._seen.passes.append(report.reading + spent)


def full(held: int) -> Plane:
    """Return an API server with so many Bound claims, equally of a hundred tenants."""
    plane = Plane()
    binder = {"metadata": {"name": keys.BINDER_NAME}, "status": {"term": 1}}
    plane.put(kinds.GPU_BINDERS, binder)
    plane.put(kinds.GPU_CLASSES, raws.a_class())
    for index in range(NODES):
        plane.put(kinds.NODES, raws.a_node(_node(index), units=UNITS))
    tenants = [f"tenant-{index:03d}" for index in range(TENANTS)]
    for tenant in (*tenants, READER):
        plane.put(kinds.NAMESPACES, raws.a_tenant(tenant))
        plane.put(kinds.HELM_RELEASES, raws.a_release(tenant, h100=house.MOST_A_TENANT))
    for index in range(held):
        claim = raws.a_claim(
            f"held-{index:05d}",
            tenant=tenants[index % TENANTS],
            meta={"finalizers": [keys.CLAIM_FINALIZER]},
            status=raws.bound(_node(index // UNITS)),
        )
        plane.put(kinds.GPU_CLAIMS, claim)
    for kind in _ABSENT:
        plane.unserve(kind)
    plane.compact()  # what led here is history that every watch would go through
    return plane


def _node(index: int) -> str:
    return f"node-{index:03d}"


@contextlib.asynccontextmanager
async def running(plane: Plane, seen: Seen) -> AsyncIterator[int]:
    """Run what `apiserver.process` runs, as far as it can without a control plane; gives the port."""
    computing, clock, config, made = Computing(), SystemClock(), Config(), metrics.create()
    caches, observing = Caches(plane), Observing(made, "bench")
    projection = Projection(CachesSource(caches, plane), in_thread=computing)
    services = appkeys.Services(
        authenticator=_Everybody(),
        authorizer=_Everybody(),
        projection=projection,
        metrics=made,
    )
    view = FreshView(caches, plane)
    fence = Fence(term=1, hold=_Lease())
    passes = Passes(
        view=view,
        writer=ChangeWriter(
            api=plane, view=view, fence=fence, write_timeout=config.pace.write_timeout
        ),
        quarantine=Quarantine(first=config.pace.quarantine_first, most=config.pace.quarantine_most),
        config=config,
        clock=clock,
        in_thread=computing,
    )
    observer = _Passed(observing, seen)
    loop = Loop(passes.once, config=config, observer=observer, monotonic=clock.monotonic)
    runner = app.runner(services)
    await runner.setup()
    async with asyncio.TaskGroup() as tasks:
        works = [caches.run(), projection.run()]
        background = [tasks.create_task(work) for work in works]
        await memory.settle(caches.wait_synced)
        await view.begin()
        caches.subscribe(loop.signal)
        background.append(tasks.create_task(loop.run()))
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield runner.addresses[0][1]
        for task in background:
            task.cancel()
    await runner.cleanup()


async def _at_rest(seen: Seen) -> None:
    """Wait until passes have come to rest."""
    count = -1
    while count != len(seen.passes):
        count = len(seen.passes)
        await asyncio.sleep(_REST)


async def _order(plane: Plane, seen: Seen) -> None:
    """Order one unit after another, each when the one before is Bound."""
    loop = asyncio.get_running_loop()
    for number in range(sys.maxsize):
        name, began = f"order-{number:06d}", loop.time()
        await plane.create(kinds.GPU_CLAIMS, raws.a_claim(name, tenant=READER))
        while not plane.is_bound(name):  # noqa: ASYNC110 -- a stored object has no event
            await asyncio.sleep(_LOOK)
        seen.bound_in.append(loop.time() - began)


async def _lag(seen: Seen) -> None:
    """Note how late the event loop wakes from a short sleep."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _STEP
        await asyncio.sleep(_STEP)
        seen.lag.append(max(0.0, loop.time() - due))


async def _asked_to_end() -> None:
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def main(held: int) -> None:
    """Run until standard input ends; tells on standard output."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    sys.setswitchinterval(SWITCH_INTERVAL)
    plane, seen = full(held), Seen()
    async with running(plane, seen) as port:
        await _at_rest(seen)
        seen.passes.clear()
        _tell({"port": port})
        async with asyncio.TaskGroup() as tasks:
            working = [tasks.create_task(work) for work in (_order(plane, seen), _lag(seen))]
            await _asked_to_end()
            for task in working:
                task.cancel()
        _tell(asdict(seen))


def _tell(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner_:
        runner_.run(main(int(sys.argv[1])))
