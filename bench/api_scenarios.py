"""What is measured of the served API, beside stored objects of the same content in the same run."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bench import api_stage, fan, load, passes, scrape, stats
from bench.api_stage import READER, APIStage, class_name, ours, theirs
from bench.figures import Collected, Goal, Sense, Take
from bench.load import Aim, Took
from bench.scale import Scale
from devcluster import product
from gpu import keys
from gpu.objects import kinds

Say = Callable[[str], None]
WIDTHS: Final = (1, 8, 64)
WATCHERS: Final = (1000, 5000)
_VERSION: Final = f"{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}"
_TURNS: Final = 4
"""Requests on each connection, at least."""
_TOLD: Final = 30.0
_CHANGES: Final = 8
_REST: Final = 3.0
_IDLE: Final = 10.0

BESIDE: Final = Goal(take=Take.MIDDLE, sense=Sense.AT_MOST, value=1.5)
CORE: Final = Goal(take=Take.MIDDLE, sense=Sense.AT_LEAST, value=1500)
HUNDREDTH: Final = Goal(take=Take.MIDDLE, sense=Sense.AT_MOST, value=4.29)
"""The host's own GET of `gpu` with 1,000 nodes took 429 ms."""
SECOND: Final = Goal(take=Take.MIDDLE, sense=Sense.AT_MOST, value=1000)


@dataclass(frozen=True, slots=True)
class _Read:
    """One thing that is read: in the reader's namespace, or in all as the administrator."""

    plural: str
    name: str = ""
    everywhere: bool = False
    widths: tuple[int, ...] = WIDTHS
    reads: int | None = None
    """At most so many, of what takes a CRD long."""

    @property
    def words(self) -> str:
        place = " of all tenants" if self.everywhere and self.plural != api_stage.PLANS else ""
        return f"GET {self.plural} {self.name}" if self.name else f"LIST {self.plural}{place}"

    def path(self, of: Callable[[str, str, str], str]) -> str:
        return of(self.plural, "" if self.everywhere else READER, self.name)


_OF_ALL: Final = 60
READS: Final = (
    _Read("options", "gpu"),
    _Read("gpuoffers", class_name(0)),
    _Read("quotagates", class_name(0)),
    _Read("options"),
    _Read("gpuoffers"),
    _Read("quotagates"),
    _Read("options", everywhere=True, reads=_OF_ALL),
    _Read("gpuoffers", everywhere=True, reads=_OF_ALL),
    _Read("quotagates", everywhere=True, reads=_OF_ALL),
    _Read("explanations", "waits"),
    _Read("explanations"),
    _Read("explanations", everywhere=True, reads=_OF_ALL),
)
PLANS: Final = (
    _Read(api_stage.PLANS, "api-0000", everywhere=True),
    _Read(api_stage.PLANS, everywhere=True, widths=(1, 8), reads=20),
)
_ORDER: Final = {"className": class_name(0), "count": 1}
_QUOTAS: Final = {"resourceQuotas": {keys.quota_key_of_class(class_name(0)): 1}}
QUESTIONS: Final = {
    "orderreviews": {"kind": "OrderReview", "spec": _ORDER},
    "quotareviews": {"kind": "QuotaReview", "spec": _QUOTAS},
}
_ACCESS_REVIEW: Final = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SelfSubjectAccessReview",
    "spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": READER}},
}
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
"""What kube-apiserver answers itself and stores as little: what a question costs without us."""
WHAT_IFS: Final = {
    "a node lost": {"loseNode": {"nodeName": "api-0000"}},
    "a budget lowered": {
        "setBudget": {"tenant": READER, "key": keys.quota_key_of_class(class_name(0)), "to": 1}
    },
}


@dataclass(slots=True, kw_only=True)
class APIBench:
    """One run under way."""

    stage: APIStage
    scale: Scale
    say: Say
    got: Collected

    async def reads(self, nodes: int, reads: Sequence[_Read] = READS) -> None:
        """Each path, each way, at each width; a copy's turn comes right before ours."""
        when = f"{nodes:,} nodes"
        for number in range(1, self.scale.rounds + 1):
            self.say(f"round {number} of {self.scale.rounds}: reads, {when}")
            for read in reads:
                for width in read.widths:
                    await self._read(read, width, when)
        memory = scrape.memory_mib(self.stage.base.process.pid)
        self.got.add(f"memory of the process after the reads, {when}", "MiB", [memory])

    async def _read(self, read: _Read, width: int, when: str) -> None:
        through = self.stage.everywhere if read.everywhere else self.stage.through
        about = f"{width} in flight, {when}"
        copy, _ = await self._timed(through, read.path(theirs), width, read.reads)
        self._add(f"{read.words}, a CRD's, {about}", copy)
        seen, spent = await self._timed(through, read.path(ours), width, read.reads)
        goal = HUNDREDTH if (read.name, width, when) == ("gpu", 1, "1,000 nodes") else None
        self._add(f"{read.words}, {about}", seen, goal)
        self._cpu(f"{read.words}, {about}", seen, spent)
        ratio = _p99(seen) / _p99(copy)
        judged = None if read.name else BESIDE
        self.got.add(f"p99 of {read.words} ÷ a CRD's, {about}", "", [ratio], goal=judged)
        if read.everywhere and read.plural != api_stage.PLANS:
            return
        direct = self.stage.masters if read.everywhere else self.stage.direct
        alone, spent = await self._timed(direct, read.path(ours), width, read.reads)
        self._direct(read.words, about, alone, spent, None if read.everywhere else CORE)

    async def questions(self) -> None:
        """What is posted and answered, beside a question that kube-apiserver answers itself."""
        for plural, asked in QUESTIONS.items():
            body = json.dumps({"apiVersion": _VERSION, **asked}).encode()
            for width in WIDTHS:
                await self._question(f"POST {plural}", ours(plural, READER), body, width)

    async def _question(self, words: str, path: str, body: bytes, width: int) -> None:
        about, through = f"{width} in flight", self.stage.through
        own = json.dumps(_ACCESS_REVIEW).encode()
        beside, _ = await self._timed(through, _ACCESS_REVIEWS, width, body=own)
        self._add(f"{words}, kube-apiserver's own question, {about}", beside)
        seen, spent = await self._timed(through, path, width, body=body)
        self._add(f"{words}, {about}", seen)
        self._cpu(f"{words}, {about}", seen, spent)
        alone, spent = await self._timed(self.stage.direct, path, width, body=body)
        self._direct(words, about, alone, spent)

    def _direct(
        self, words: str, about: str, took: Took, spent: float, goal: Goal | None = None
    ) -> None:
        self._add(f"{words}, direct, {about}", took)
        self._cpu(f"{words}, direct, {about}", took, spent)
        core = len(took.seconds) / spent if spent else 0.0
        self.got.add(f"{words}, direct, for each core, {about}", "1/s", [core], goal=goal)

    def _add(self, name: str, took: Took, goal: Goal | None = None) -> None:
        self.got.add(name, "ms", stats.ms(took.seconds), goal=goal)
        self.got.add(f"{name}: rate", "1/s", [took.rate])

    def _cpu(self, name: str, took: Took, spent: float) -> None:
        self.got.add(f"{name}: CPU of the process", "ms", [1000 * spent / len(took.seconds)])

    async def _timed(
        self, aim: Aim, path: str, width: int, most: int | None = None, body: bytes = b""
    ) -> tuple[Took, float]:
        """Read or post, connections open and warm; returns what it took and the product's CPU seconds."""
        pid = self.stage.base.process.pid
        async with load.connected(aim, width) as pool:
            await pool.reads(path, width, body)
            before = scrape.cpu_seconds(pid)
            count = max(min(self.scale.reads, most or self.scale.reads), width * _TURNS)
            took = await pool.reads(path, count, body)
            return took, scrape.cpu_seconds(pid) - before

    async def plans(self) -> None:
        """The first reads of all drain plans after a change, which is when they are made; what-ifs."""
        aim, pid = self.stage.everywhere, self.stage.base.process.pid
        async with load.connected(aim, 1) as pool:
            for number in range(self.scale.rounds + 1):
                await self._change(f"plans, {number}")
                await asyncio.sleep(_REST)
                before = scrape.cpu_seconds(pid)
                took = await pool.reads(ours(api_stage.PLANS), 1)
                self._add("LIST drainplans after a change", took)
                self._cpu("LIST drainplans after a change", took, scrape.cpu_seconds(pid) - before)
            for about, change in WHAT_IFS.items():
                sent = {"apiVersion": _VERSION, "kind": "WhatIf", "spec": change}
                body = json.dumps(sent).encode()
                await pool.reads(ours("whatifs"), 1, body)
                self._add(f"POST whatifs, {about}", await pool.reads(ours("whatifs"), 20, body))

    async def watches(self) -> None:
        """Many watches direct: what they cost idle, and how soon all are told of a change."""
        for count in WATCHERS:
            await self._watches(count)

    async def _watches(self, count: int) -> None:
        pid, about = self.stage.base.process.pid, f"{count:,} watches"
        self.say(f"{about}, direct")
        names = [api_stage.TENANTS[index % len(api_stage.TENANTS)] for index in range(count)]
        paths = [f"{ours('gpuoffers', name)}{fan.STREAMING}" for name in names]
        loop = asyncio.get_running_loop()
        memory = scrape.memory_mib(pid)
        async with fan.watching(self.stage.masters, paths) as watchers:
            await asyncio.sleep(_REST)
            each = (scrape.memory_mib(pid) - memory) * 1024 / count
            self.got.add(f"memory of one watch, {about}", "KiB", [each])
            self.got.add(f"memory of the process, {about}", "MiB", [scrape.memory_mib(pid)])
            spent, began = scrape.cpu_seconds(pid), loop.time()
            await asyncio.sleep(_IDLE)
            idle = (scrape.cpu_seconds(pid) - spent) / (loop.time() - began)
            self.got.add(f"CPU of the process, idle, {about}", "cores", [idle])
            for number in range(min(self.scale.changes, _CHANGES)):
                began = loop.time()
                await self._change(f"{count} watchers, change {number}")
                at = sorted(await fan.told(watchers, _TOLD))
                self.got.add(f"change to the first told, {about}", "ms", stats.ms([at[0] - began]))
                goal = SECOND if count == WATCHERS[0] else None
                last = stats.ms([at[-1] - began])
                self.got.add(f"change to the last told, {about}", "ms", last, goal=goal)
                await asyncio.sleep(_REST)
            await self._lag(about)

    async def _lag(self, about: str) -> None:
        """The loop's lag of one change alone."""
        before = await self.stage.base.product_counters()
        await self._change(f"for the lag: {about}")
        await asyncio.sleep(_REST)
        bound = passes.lag_p99(before, await self.stage.base.product_counters())
        if bound is not None:
            self.got.add(f"event-loop lag p99, one change, {about}", "ms", stats.ms([bound]))

    async def _change(self, text: str) -> None:
        patch = {"spec": {"description": text}}
        await self.stage.base.api.patch(kinds.GPU_CLASSES, class_name(0), patch)

    async def starts(self) -> None:
        """Start to ready: Python, lists, and the first view of everything."""
        running, loop = self.stage.base.product, asyncio.get_running_loop()
        for number in range(self.scale.rounds):
            self.say(f"round {number + 1} of {self.scale.rounds}: start to ready")
            await running.stop(product.FIRST)
            began = loop.time()
            await running.start(product.FIRST)
            self.got.add("start to ready", "s", [loop.time() - began])
            pid = self.stage.base.process.pid
            self.got.add("memory of the process, just ready", "MiB", [scrape.memory_mib(pid)])
        await running.available()


def _p99(took: Took) -> float:
    return stats.percentile(took.seconds, 0.99)


NODES: Final = (200, 1000)
WHOLE, READS_ALONE = "api", "api-reads"
PARTS: Final = (WHOLE, READS_ALONE)
"""The second is of the first what is read and asked with many nodes: a few minutes instead of many."""


async def measure(
    scale: Scale, say: Say, got: Collected, remarks: list[str], parts: Sequence[str]
) -> None:
    """Measure the API on a plane of its own, at both sizes; nothing unless it is named."""
    if not set(PARTS) & set(parts):
        return
    fan.allow_connections()
    few, many = NODES
    say(f"control plane, product, {few} nodes, {api_stage.CLAIMS:,} claims")
    async with api_stage.api_stage(few, api_stage.CLAIMS) as stage:
        say(f"ready; logs lie in {stage.base.cp.directory}, kept if anything fails")
        bench = APIBench(stage=stage, scale=scale, say=say, got=got)
        if WHOLE in parts:
            await bench.starts()
        await stage.copy()
        if WHOLE in parts:
            await bench.reads(few)
        say(f"{many:,} nodes")
        await stage.grow(many)
        await stage.copy([api_stage.PLANS])
        await bench.reads(many, READS + PLANS)
        await bench.questions()
        await bench.plans()
        if WHOLE in parts:
            await bench.watches()
    remarks += _REMARKS


_REMARKS: Final = (
    (
        "API: through kube-apiserver unless a figure says direct; a CRD's objects are copies of ours, each "
        "in its namespace, read by the same person; lists are of one tenant or of all; connections of the "
        "bench stay open, while "
        "kube-apiserver keeps 25 to us and opens one more for each request beyond them"
    ),
    (
        "API: for each core: requests by CPU seconds of the process, with TLS, log lines and all else that "
        "the leader does meanwhile"
    ),
    (
        "API: a change is told: from sending the PATCH of a class until the last of all watches of 100 "
        "tenants' lists has its event; memory of a watch is growth of resident memory, with TLS"
    ),
    "API: start to ready: process started to /readyz",
)
