"""What is measured in which order, in rounds; every figure of a run comes from one plane."""

import asyncio
import contextlib
import os
import platform
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bench import (
    admission,
    api_scenarios,
    bare,
    catalogue,
    lag,
    model,
    orders,
    passes,
    policies,
    reads,
    scrape,
    stats,
    vm_scenarios,
    waiting,
)
from bench.figures import Collected, Goal, Run, Sense, Take
from bench.orders import Burst
from bench.scale import Scale
from bench.stage import Stage, stage
from devcluster import components
from gpu.objects import kinds

Say = Callable[[str], None]

BOUND_GOAL: Final = Goal(take=Take.MIDDLE, sense=Sense.AT_MOST, value=50)
LIST_GOAL: Final = Goal(take=Take.P99, sense=Sense.AT_MOST, value=100)
SHARE_GOAL: Final = Goal(take=Take.MIDDLE, sense=Sense.AT_LEAST, value=60)
LEAST_GOAL: Final = Goal(take=Take.MIDDLE, sense=Sense.AT_LEAST, value=100)
JUDGED_GOAL: Final = Goal(take=Take.P99, sense=Sense.AT_MOST, value=50)
LAG_GOAL: Final = Goal(take=Take.MIDDLE, sense=Sense.AT_MOST, value=20)
REUSE_GOAL: Final = Goal(take=Take.P99, sense=Sense.AT_MOST, value=1000)
WRITES_A_CLAIM: Final = 2
"""Placement and usage record (docs/binding.md); its finalizer comes with its own create."""


@dataclass(slots=True, kw_only=True)
class Bench:
    """One run under way."""

    stage: Stage
    scale: Scale
    say: Say
    got: Collected
    remarks: list[str]

    async def orders(self) -> None:
        """Order to Bound, reads, bare writes; each round has all of them, so they share its noise."""
        self._memory("idle, before orders")
        self._admission("idle", await admission.timed(self.stage, self.scale.singles))
        for number in range(1, self.scale.rounds + 1):
            self.say(f"round {number} of {self.scale.rounds}: bare status writes")
            writes = await bare.status_writes(self.stage.api, bare.NAMESPACE, self.scale.orders)
            self.got.add("bare status writes", "1/s", [writes], note=_BARE)
            self.say(f"round {number} of {self.scale.rounds}: orders one by one, reads")
            singles = await orders.one_by_one(self.stage, self.scale.singles)
            self.got.add("order to Bound, idle", "ms", stats.ms(singles), goal=BOUND_GOAL)
            self._reads("idle", await reads.timed(self.stage, self.scale.reads), None)
            self.say(f"round {number} of {self.scale.rounds}: {self.scale.orders} orders at once")
            await self._at_once(writes)
            self.say(f"round {number} of {self.scale.rounds}: {self.scale.orders} orders waiting")
            async with self.stage.orders_wait():
                await self._backlog(writes)
        self._memory("after the orders")

    async def scheduler(self) -> None:
        """kube-scheduler binding as many one-GPU pods, while the product is idle."""
        for number in range(1, self.scale.rounds + 1):
            self.say(f"round {number} of {self.scale.rounds}: kube-scheduler")
            rate = await bare.scheduled_pods(
                self.stage.api, catalogue.PODS_NAMESPACE, self.scale.orders
            )
            self.got.add("kube-scheduler, one-GPU pods at once", "pods/s", [rate], note=_SCHEDULER)
        await self._scheduler_by_default()

    async def _scheduler_by_default(self) -> None:
        """The same with the client limits kube-scheduler has when nobody sets them."""
        for number in range(1, self.scale.rounds + 1):
            self.say(f"round {number} of {self.scale.rounds}: kube-scheduler, default limits")
            async with self._scheduler_unset():
                before = await self.stage.pod_writes()
                rate = await bare.scheduled_pods(
                    self.stage.api, catalogue.PODS_NAMESPACE, self.scale.orders
                )
                after = await self.stage.pod_writes()
            self.got.add(_DEFAULTS, "pods/s", [rate], note=_BY_DEFAULT)
            for name, count in after.items():
                each = (count - before[name]) / self.scale.orders
                self.got.add(f"{name} a pod", "", [each], note=_POD_WRITES)

    @contextlib.asynccontextmanager
    async def _scheduler_unset(self) -> AsyncIterator[None]:
        """Have kube-scheduler run with its own client limits for the length of the block."""
        cp = self.stage.cp
        await cp.stop_process(components.SCHEDULER)
        await cp.start_process(components.SCHEDULER, without=("kube-api-qps", "kube-api-burst"))
        try:
            yield
        finally:
            await cp.stop_process(components.SCHEDULER)
            await cp.start_process(components.SCHEDULER)

    async def passes(self) -> None:
        """Loop lag and latencies while passes go over a full house."""
        among = f"{self.scale.held:,} claims held"
        self.say(f"making {self.scale.held} Bound claims, the product stopped")
        await self.stage.product.stop()
        await self.stage.api.delete(kinds.CRDS, kinds.WORKLOADS.resource)
        self.remarks.append(
            f"{among}: without the host's Workload kind, or the product would write as many usage "
            "records first"
        )
        async with self.stage.orders_wait():
            await passes.fill(self.stage, self.scale.held)
        begun = asyncio.get_running_loop().time()
        await self.stage.product.start()
        await orders.one_by_one(self.stage, 1)
        took = asyncio.get_running_loop().time() - begun
        self.got.add(f"process start to an order Bound, {among}", "s", [took], note=_TAKEOVER)
        start_lag = passes.lag_p99(None, await self.stage.product_counters())
        self._lag(f"event-loop lag p99 while starting, {among}", start_lag, None)
        self.say("orders one by one in the full house")
        await self.stage.product.available()
        house = await passes.measure(self.stage, self.scale.held)
        self._lag(f"event-loop lag p99, {among}", house.lag_p99, LAG_GOAL)
        self.got.add(f"order to Bound, {among}", "ms", stats.ms(house.bound_in))
        self._reads(f"the first of each, {among}", house.first_lists, None)
        self._reads(among, house.lists, LIST_GOAL)
        self.say("orders judged in the full house")
        self._admission(among, await admission.timed(self.stage, self.scale.singles))
        await self._crowded(among)
        self.say("quotas of new tenants in the full house")
        self._admission(among, await admission.quotas(self.stage, self.scale.singles))
        for phase, seconds in house.pass_seconds.items():
            self.got.add(f"phase {phase}, {among}", "ms", stats.ms([seconds]), note=_MEAN)
        self._memory(among)

    async def waiting(self) -> None:
        """Claims per second and reuse of a freed unit while thousands of orders wait.

        Where they are refused instead, none waits.
        """
        async with self.stage.orders_wait():
            await self._waiting()

    async def _waiting(self) -> None:
        among = f"{waiting.WAITERS:,} orders waiting"
        self.say(f"having {waiting.WAITERS} orders wait")
        held = await waiting.fill(self.stage)
        for number in range(1, self.scale.rounds + 1):
            self.say(f"round {number} of {self.scale.rounds}: orders beside those that wait")
            bare_claims = await bare.claims(self.stage.api, bare.NAMESPACE, self.scale.orders)
            self.got.add("bare writes of a claim", "claims/s", [bare_claims], note=_CLAIM)
            done = await waiting.burst(self.stage, self.scale.orders)
            rate = self.scale.orders / done.seconds
            self.got.add(f"claims Bound at once, {among}", "claims/s", [rate])
            share = 100 * rate / bare_claims
            self.got.add(
                f"share of what bare writes of a claim allow, {among}",
                "%",
                [share],
                goal=SHARE_GOAL,
            )
            for phase, seconds in done.phases.items():
                self.got.add(f"phase {phase}, at once, {among}", "s", [seconds], note=_PHASES)
            pods = await bare.scheduled_pods(
                self.stage.api, catalogue.PODS_NAMESPACE, self.scale.orders
            )
            self.got.add("kube-scheduler beside it", "pods/s", [pods], note=_SCHEDULER)
            async with self._scheduler_unset():
                pods = await bare.scheduled_pods(
                    self.stage.api, catalogue.PODS_NAMESPACE, self.scale.orders
                )
            self.got.add(f"{_DEFAULTS} beside it", "pods/s", [pods], note=_BY_DEFAULT)
            share = 100 * rate / pods
            self.got.add(f"claims Bound for each pod of {_DEFAULTS}", "%", [share], goal=LEAST_GOAL)
        self.say("units given back one by one")
        took = await waiting.reuse(self.stage, held, self.scale.singles)
        self.got.add(
            f"release of a unit to its reuse, {among}", "ms", stats.ms(took), goal=REUSE_GOAL
        )
        self._memory(among)
        await waiting.clear(self.stage)

    async def policies(self) -> None:
        """How soon a change of the settings is in force, with the product and without it."""
        for number in range(self.scale.rounds):
            self.say(f"round {number + 1} of {self.scale.rounds}: settings to policies")
            count = self.scale.changes
            took = await policies.new_classes(self.stage, count, first=number * (count + 1))
            self.got.add(
                "class made to its raw name refused", "ms", stats.ms(took), note=_NEW_CLASS
            )
            for wanted, seconds in (await policies.raw_names(self.stage, count)).items():
                name = f"settings written to raw names {wanted.value}"
                self.got.add(name, "ms", stats.ms(seconds), note=_IN_FORCE)

    async def _at_once(self, writes: float) -> None:
        before = await self.stage.claim_writes()
        done = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(reads.during(self.stage, done))
            try:
                burst = await orders.at_once(self.stage, self.scale.orders)
            finally:
                done.set()
        after = await self.stage.claim_writes()
        self._reads("during the burst", reading.result(), LIST_GOAL)
        self.got.add("order to Bound, orders at once", "ms", stats.ms(burst.latencies))
        # The burst makes its claims too: a third write each.
        self._rates("orders at once", burst, writes / (WRITES_A_CLAIM + 1))
        # A metadata patch that is not in the burst itself: the claims are given back before we count.
        for name, words in (("", "metadata patches a claim"), ("status", "status patches a claim")):
            count = (after[name] - before[name]) / self.scale.orders
            self.got.add(f"{words}, life long", "", [count], note=_COUNTED if not name else "")

    async def _backlog(self, writes: float) -> None:
        burst = await orders.backlog(self.stage, self.scale.orders)
        self._rates("orders waiting", burst, writes / WRITES_A_CLAIM)

    def _rates(self, name: str, burst: Burst, allowed: float) -> None:
        """Note a burst beside the claims per second that bare writes allow."""
        rate = self.scale.orders / burst.seconds
        share = 100 * rate / allowed
        self.got.add(f"claims Bound, {name}", "claims/s", [rate], note=_RATES[name])
        self.got.add(f"share of what bare writes allow, {name}", "%", [share], goal=SHARE_GOAL)
        for process, seconds in burst.cpu.items():
            self.got.add(f"CPU, {name}: {process}", "cores", [seconds / burst.seconds])
        for phase, seconds in burst.phases.items():
            self.got.add(f"phase {phase}, {name}", "s", [seconds], note=_PHASES)
        self.got.add(f"passes, {name}", "", [burst.passes])
        self.got.add(
            f"a patch as the product saw it, {name}", "ms", stats.ms([burst.patch]), note=_PATCH
        )

    def _reads(self, when: str, took: Mapping[str, Sequence[float]], goal: Goal | None) -> None:
        for name, seconds in took.items():
            judged = goal if name.startswith("LIST") else None
            self.got.add(f"{name}, {when}", "ms", stats.ms(seconds), goal=judged)

    def _admission(self, when: str, took: Mapping[str, Sequence[float]]) -> None:
        for name, seconds in took.items():
            judged = JUDGED_GOAL if name == admission.TAKEN else None
            self.got.add(f"{name}, {when}", "ms", stats.ms(seconds), goal=judged)

    async def _crowded(self, among: str) -> None:
        """Orders many at a time: as their sender sees it, and our own share of that."""
        before = await self.stage.product_counters()
        self._admission(among, await admission.crowded(self.stage, self.scale.orders))
        after = await self.stage.product_counters()
        gained = stats.difference(
            *(counters.buckets(admission.SECONDS, webhook="orders") for counters in (after, before))
        )
        for share, name in ((0.5, "p50"), (0.99, "p99")):
            bound = stats.bucket_bound(gained, share)
            if bound is not None:
                goal = JUDGED_GOAL if share > 0.9 else None
                self.got.add(
                    f"the same as the webhook answered it, {name}, {among}",
                    "ms",
                    stats.ms([bound]),
                    goal=goal and replace(goal, take=Take.MIDDLE),
                    note=_LAG,
                )

    def _lag(self, name: str, seconds: float | None, goal: Goal | None) -> None:
        if seconds is not None:
            self.got.add(name, "ms", stats.ms([seconds]), goal=goal, note=_LAG)

    def _memory(self, when: str) -> None:
        pid = self.stage.process.pid
        self.got.add(f"memory of the process, {when}", "MiB", [scrape.memory_mib(pid)])


async def run(scale: Scale, say: Say, parts: Sequence[str]) -> Run:
    """Measure the named parts of Bench on a plane of its own."""
    got = Collected()
    if "model" in parts:
        model.measure(scale.rounds, say, got)
    if "lag" in parts:
        await lag.measure(scale.rounds, scale.held, say, got)
    remarks: list[str] = []
    on_plane = [part for part in PARTS if part in parts and part not in ALONE]
    if on_plane:
        say("control plane, product, catalogue")
        async with stage() as made:
            say(f"ready; logs lie in {made.cp.directory}, kept if anything fails")
            bench = Bench(stage=made, scale=scale, say=say, got=got, remarks=remarks)
            for part in on_plane:
                await getattr(bench, part)()
    await api_scenarios.measure(scale, say, got, remarks, parts)
    await vm_scenarios.measure(scale, say, got, remarks, parts)
    return Run(_machine(), got.figures(), tuple(remarks))


ALONE: Final = ("model", "lag")
"""Parts that need no control plane."""
PARTS: Final = (*ALONE, "orders", "scheduler", "policies", "waiting", "passes")
"""What is measured when nobody names parts."""
ALL_PARTS: Final = (*PARTS, *api_scenarios.PARTS, *vm_scenarios.PARTS)

_NEW_CLASS: Final = (
    "watch, pass, settings written, policies: from the POST to the first pod refused"
)
_IN_FORCE: Final = "from the write to the first dry-run pod answered so; the product is stopped"
_BARE: Final = (
    f"status merge-patches with resourceVersion on as many distinct objects, {bare.WIDTH} in flight, "
    "one client, a copy of the GPUClaim CRD that neither our process nor our policies see"
)
_CLAIM: Final = (
    "status patch and create, one after another for each of as many objects, "
    f"{bare.WIDTH} objects in flight: what placement and usage record cost bare"
)
_SCHEDULER: Final = "client limit raised to 1000 qps; created at once, the product idle"
_DEFAULTS: Final = "kube-scheduler with its default limits"
_BY_DEFAULT: Final = "50 requests a second, 100 at once; created at once, the product idle"
_POD_WRITES: Final = "counted by kube-apiserver; kube-scheduler sends Events in the background"
_MEAN: Final = "deciding and writing, mean over the passes, from the product's own /metrics"
_COUNTED: Final = (
    "counted by kube-apiserver from order to gone: one metadata patch takes the finalizer off"
)
_LAG: Final = "upper bound of the histogram bucket, from the product's own /metrics"
_TAKEOVER: Final = "Python, lists, lease, term, fence wait (2 s), first pass, one order"
_PHASES: Final = "deciding and writing of all passes of the burst together"
_PATCH: Final = "mean over all its patches of the burst, any kind of object"
_RATES: Final = {
    "orders at once": "first order sent to last seen Bound: the tenants' creates compete with the binder, "
    "and count as a third write",
    "orders waiting": "from waking the product to last seen Bound: nobody but the binder writes",
}


def _machine() -> str:
    load = os.getloadavg()[0]
    cpus = len(os.sched_getaffinity(0))
    python = platform.python_version()
    return f"{cpus} CPUs, load average {load:.1f} at the end, Python {python}, everything on one machine"
