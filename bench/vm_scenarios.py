"""What is measured of starts of VMs, beside what KubeVirt alone takes for the same in the same run."""

import asyncio
import functools
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench import orders, scrape, stats, vm_requests, vm_webhooks, vms
from bench.admission import CROWD
from bench.figures import Collected, Goal, Sense, Take
from bench.scale import Scale
from bench.vm_requests import Answers
from bench.vm_stage import VMStage, vm_stage
from bench.vms import Asks, Start, Step

Say = Callable[[str], None]

SHARE_GOAL: Final = Goal(take=Take.MIDDLE, sense=Sense.AT_MOST, value=20)
ANSWER_GOAL: Final = Goal(take=Take.MIDDLE, sense=Sense.AT_MOST, value=1000)
ALONE: Final = "one by one"
_WARM: Final = 2
"""Starts of each kind, or turns of many, before any is measured."""
_SENT: Final = "VM sent"


@dataclass(slots=True, kw_only=True)
class VMBench:
    """One run under way."""

    stage: VMStage
    scale: Scale
    say: Say
    got: Collected
    remarks: list[str]

    async def idle(self) -> None:
        """Start VMs one by one: without GPUs, by class, by held claim in turn; reuse a freed unit."""
        held = await vms.hold(self.stage, 1)
        await vms.one_by_one(self.stage, _WARM, held[0])
        for number in range(self.scale.rounds):
            self.say(f"round {number + 1} of {self.scale.rounds}: VMs one by one")
            first = _WARM + number * self.scale.lives
            found = await vms.one_by_one(self.stage, self.scale.lives, held[0], first)
            self._starts(ALONE, found)
        await vms.give_back(self.stage)
        self.say("units given back one by one while VMs wait at the gate")
        freed, whole = await vms.reuse(self.stage, self.scale.lives * self.scale.rounds)
        self.got.add(_REUSED, "ms", stats.ms(freed), note=_WAITING)
        self.got.add(f"{_REUSED}, from the DELETE of the VM", "ms", stats.ms(whole))

    async def burst(self) -> None:
        """Start many VMs at once: without GPUs, then half by class and half by held claim.

        Some without GPUs go before, so that no burst is the first that a plane sees.
        """
        count = self.scale.starts
        when = f"{count} at once"
        held = await vms.hold(self.stage, count // 2)
        nothing = [(Asks.NOTHING, "")] * count
        self.say(f"{count // 2} VMs without GPUs, as a warm-up")
        await vms.at_once(self.stage, nothing[: count // 2], "warm")
        mixed = [
            (Asks.CLAIM, held[number // 2]) if number % 2 else (Asks.UNIT, "")
            for number in range(count)
        ]
        for number in range(self.scale.rounds):
            self.say(f"round {number + 1} of {self.scale.rounds}: {count} VMs without GPUs")
            plain = await self._rush(nothing, f"plain-{number}", f"{when}, {Asks.NOTHING}")
            self.say(f"round {number + 1} of {self.scale.rounds}: {count} VMs with GPUs")
            units = await self._rush(mixed, f"units-{number}", f"{when}, {_WITH}")
            self._product(units, f"{when}, {_WITH}")
            self._starts(when, {**plain.starts, **units.starts})
            share = 100 * (1 - plain.seconds / units.seconds)
            self.got.add(f"our share until the last runs, {when}", "%", [share], goal=SHARE_GOAL)
        await vms.give_back(self.stage)

    async def webhooks(self) -> None:
        """Answers of both webhooks, many at a time, nothing stored."""
        self.say("instances and launchers many at a time, dry run")
        held = await vms.hold(self.stage, CROWD)
        for asked in await vm_webhooks.crowded(self.stage, held, self.scale.orders):
            self.got.add(asked.name, "ms", stats.ms(asked.seconds))
            self._answered(f"the same as the webhook answered it, {asked.name}", asked.answered)
        await vms.give_back(self.stage)

    async def requests(self) -> None:
        """Starts under `binding: request`, many waiting for their answer while a full pass runs."""
        count = min(self.scale.orders, _REQUESTS)
        await vm_requests.request(self.stage)
        apart = (_WARM + _TURNS) * CROWD // 2
        every = await vms.hold(self.stage, apart + count // 2 * 2)
        await self._at_once(every[:apart])
        held = every[apart:]
        self.say("VMIs without GPUs while orders come and go")
        alone = await vm_requests.answers(self.stage, [[]] * count, "plain")
        self.got.add(_UNASKED, "ms", stats.ms(alone.seconds), note=_SENDER)
        self.got.add(f"made, {_UNASKED}", "/s", [count / alone.wall])
        self.got.add(f"orders bound meanwhile, {_UNASKED}", "/s", [alone.orders / alone.wall])
        self._cpu(alone.cpu, alone.wall, _UNASKED)
        await vm_requests.clear(self.stage)
        self.say("starts that wait for their answer while orders come and go (binding: request)")
        asked = vm_requests.asking(self.stage, held, count)
        self._answers(await vm_requests.answers(self.stage, asked, "asks"), _REQUESTED)
        await vm_requests.clear(self.stage)
        # The last of all: it has not been seen that virt-controller comes back from longer than its lease.
        with vm_requests.standing_still(self.stage):
            self.say("the same while virt-controller stands still")
            asked = vm_requests.asking(self.stage, held[count // 2 :], count)
            self._answers(await vm_requests.answers(self.stage, asked, "still"), _STILL)
            self.say("the bare requests of as many starts")
            bare = await vm_requests.bare_starts(self.stage, count)
        self.got.add(_BARE, "ms", stats.ms(bare.seconds), note=_BARELY)
        self.got.add(f"done, {_BARE}", "/s", [count / bare.wall])
        self._cpu(bare.cpu, bare.wall, _BARE)

    async def _at_once(self, held: Sequence[str]) -> None:
        """Send starts all at once, turn by turn, with a while between; the first turns are a warm-up.

        Each turn has its own half of the claims: of a VM that has gone they may be given back minutes later.
        """
        found: list[Answers] = []
        for turn in range(_WARM + _TURNS):
            number = f"turn {turn - _WARM + 1} of {_TURNS}" if turn >= _WARM else "a warm-up"
            self.say(f"{number}: {CROWD} starts at once (binding: request)")
            await asyncio.sleep(_CALM)
            mine = held[turn * CROWD // 2 :]
            asked = vm_requests.asking(self.stage, mine, CROWD)
            found.append(await vm_requests.answers(self.stage, asked, f"turn-{turn}"))
            await vm_requests.clear(self.stage)
        warm = found[_WARM:]
        took = [seconds for one in warm for seconds in one.seconds]
        self.got.add(_AT_ONCE, "ms", stats.ms(took), note=_SENDER)
        last = [stats.percentile(one.seconds, 0.99) for one in warm]
        name = f"p99 of a turn, {_AT_ONCE}"
        self.got.add(name, "ms", stats.ms(last), goal=ANSWER_GOAL, note=_TURN_BY_TURN)
        buckets = functools.reduce(stats.added, (one.answered for one in warm))
        self._answered(f"{_AT_ONCE}, as the webhook answered it", buckets)
        self.got.add(f"until the last of them, {_AT_ONCE}", "s", [one.wall for one in warm])
        shares = [100 * one.in_passes for one in warm]
        self.got.add(f"of that time, a full pass was under way, {_AT_ONCE}", "%", shares)
        refused = sum(len(one.refused) for one in warm)
        self.got.add(f"of those starts, refused, {_AT_ONCE}", "", [refused])
        for name in warm[0].cpu:
            spent = [1000 * one.cpu[name] / CROWD for one in warm]
            self.got.add(f"CPU a start, {_AT_ONCE}: {name}", "ms", spent)

    def _answers(self, found: Answers, what: str) -> None:
        """Note starts that were answered, and what went on meanwhile."""
        count = len(found.seconds)
        self.got.add(what, "ms", stats.ms(found.seconds), note=_SENDER)
        self._answered(f"{what}, as the webhook answered it", found.answered)
        share = 100 * found.in_passes
        self.got.add(f"of that time, a full pass was deciding or writing, {what}", "%", [share])
        self._cpu(found.cpu, found.wall, what)
        self.got.add(f"answered, {what}", "/s", [count / found.wall])
        self.got.add(f"orders bound meanwhile, {what}", "/s", [found.orders / found.wall])
        self._product(found, what)
        refused = len(found.refused)
        self.got.add(f"of those starts, refused, {what}", "", [refused])
        if refused:
            self.remarks.append(f"{what}: one that was refused: {found.refused[0]}")

    def _cpu(self, spent: Mapping[str, float], wall: float, what: str) -> None:
        for name, seconds in spent.items():
            self.got.add(f"CPU, {what}: {name}", "cores", [seconds / wall])

    async def _rush(self, wanted: Sequence[tuple[Asks, str]], mark: str, what: str) -> vms.Rush:
        found = await vms.at_once(self.stage, wanted, mark)
        self.got.add(f"until the last runs, {what}", "s", [found.seconds])
        self._cpu(found.cpu, found.seconds, what)
        return found

    def _product(self, rush: vms.Rush | Answers, what: str) -> None:
        """Note what the product did meanwhile, of its own metrics."""
        phases = scrape.gained_by(orders.PASS, "phase", rush.before, rush.after)
        for name, (_, seconds) in phases.items():
            self.got.add(f"phase {name}, {what}", "s", [seconds], note=_PHASES)
        passes = max((count for count, _ in phases.values()), default=0)
        self.got.add(f"passes, {what}", "", [passes])
        patches = scrape.gained_by(orders.CALLS, "verb", rush.before, rush.after)
        for verb, (count, seconds) in patches.items():
            name = f"a {verb} as the product saw it, {what}"
            self.got.add(name, "ms", stats.ms([seconds / count]), note=_MEAN)
            self.got.add(f"{verb}s of the product, {what}", "", [count])
        for webhook in ("vmis", "pods"):
            gained = vm_webhooks.gained(webhook, rush.before, rush.after)
            self._answered(f"webhook {webhook}, {what}", gained)

    def _starts(self, when: str, found: Mapping[Asks, Sequence[Start]]) -> None:
        """Note starts by what they asked for, and our share: what they take more than those without."""
        plain = found[Asks.NOTHING]
        for asks, starts in found.items():
            self._steps(f"{asks}, {when}", starts)
            if asks is Asks.NOTHING:
                continue
            share = share_of(plain, starts)
            self.got.add(f"our share of a start, {asks}, {when}", "%", [share], goal=SHARE_GOAL)
            share = share_of(plain, starts, listing=False)
            self.got.add(f"our share, {_UNLISTED}, {asks}, {when}", "%", [share])

    def _steps(self, what: str, starts: Sequence[Start]) -> None:
        """Note the whole of each start, then step by step."""
        self._took("VM start to Running", what, starts, None, Step.RUNS)
        is_gated = Step.LET in starts[0].at
        path = _GATED if is_gated else _PATH
        if is_gated:
            self._took(f"{Step.CREATED} to {Step.LET}", what, starts, Step.CREATED, Step.LET)
        for begin, end in zip([None, *path], path, strict=False):
            self._took(f"  {begin or _SENT} to {end}", what, starts, begin, end)
        if not is_gated:  # beside the path: nobody waits for it
            begin, end = Step.LAUNCHER, Step.LISTED
            self._took(f"  {begin} to {end}", what, starts, begin, end)

    def _took(
        self, name: str, what: str, starts: Sequence[Start], begin: Step | None, end: Step
    ) -> None:
        took = [start.took(begin, end) for start in starts]
        self.got.add(f"{name}, {what}", "ms", stats.ms(took))

    def _answered(self, name: str, buckets: Mapping[float, float]) -> None:
        for share, word in ((0.5, "p50"), (0.99, "p99")):
            bound = stats.bucket_bound(buckets, share)
            if bound is not None:
                self.got.add(f"{name}, {word}", "ms", stats.ms([bound]), note=_BOUND)


def share_of(plain: Sequence[Start], starts: Sequence[Start], *, listing: bool = True) -> float:
    """Return what part of a start KubeVirt alone would not have taken, of medians, in percent.

    Not `listing`: starts without the time from their launcher until its VMI lists it, which is KubeVirt's
    and before which nobody may let the launcher through.
    """

    def took(one: Start) -> float:
        whole = one.took(None, Step.RUNS)
        return whole if listing else whole - max(0.0, one.took(Step.LAUNCHER, Step.LISTED))

    alone = statistics.median(one.took(None, Step.RUNS) for one in plain)
    return 100 * (1 - alone / statistics.median(map(took, starts)))


async def measure(
    scale: Scale, say: Say, got: Collected, remarks: list[str], parts: Sequence[str]
) -> None:
    """Measure the named parts of VMBench on a plane of its own; none where none is named."""
    wanted = [part for part in EACH if part in parts or ALL in parts]
    if not wanted:
        return
    say("control plane, KubeVirt, product, simulated nodes")
    async with vm_stage() as stage:
        say(f"ready; logs lie in {stage.base.cp.directory}, kept if anything fails")
        bench = VMBench(stage=stage, scale=scale, say=say, got=got, remarks=remarks)
        for part in wanted:
            await EACH[part](bench)
    remarks.append(_SIMULATED)


ALL: Final = "vm"
EACH: Final[Mapping[str, Callable[[VMBench], Awaitable[None]]]] = {
    "vm-idle": VMBench.idle,
    "vm-burst": VMBench.burst,
    "vm-webhooks": VMBench.webhooks,
    "vm-requests": VMBench.requests,
}
"""In this order; the last has the product started otherwise."""
PARTS: Final = (*EACH, ALL)

_PATH: Final = (Step.CREATED, Step.LAUNCHER, Step.SCHEDULED, Step.RUNS)
_GATED: Final = (*_PATH[:2], Step.LISTED, Step.LET, *_PATH[2:])
_UNLISTED: Final = "less the time until its VMI lists the launcher"
_WITH: Final = "half by class, half by held claim"
_REUSED: Final = "launcher ended to its unit reused by a VM that waited"
_WAITING: Final = "launcher seen ended to another seen pinned and ungated; up to so many wait"
_REQUESTS: Final = 300
_REQUESTED: Final = f"VMI admitted with its units, {CROWD} in flight, binding request"
_TURNS: Final = 6
_CALM: Final = 20.0
"""Seconds before each turn, so that what the turn before left is given back: nodes are asked for 10 s after its guests went."""
_AT_ONCE: Final = f"VMI admitted with its units, {CROWD} at once, binding request"
_TURN_BY_TURN: Final = (
    "as its sender saw it, the last of a turn; the goal is asked of the middle turn"
)
_STILL: Final = f"{_REQUESTED}, virt-controller standing still"
_BARE: Final = (
    f"the bare requests of such a start, {CROWD} in flight, virt-controller standing still"
)
_BARELY: Final = (
    "a read, a claim for every second one, two status writes of its size and a VMI, by one client that "
    "waits for nobody: what kube-apiserver, etcd and virt-api take of it"
)
_UNASKED: Final = f"VMI made without GPUs, {CROWD} in flight, beside the same orders"
_SENDER: Final = (
    "as its sender saw it; half by class, half by held claim; orders come and go meanwhile"
)
_BOUND: Final = "upper bound of the histogram bucket, from the product's own /metrics"
_PHASES: Final = "deciding and writing of all passes of the burst together"
_MEAN: Final = "mean over all of the burst, any kind of object"
_SIMULATED: Final = (
    "VMs: kubelet and virt-handler are simulated: containers run 0.1 s after their node took them and "
    "the guest 0.05 s later, where a real guest takes seconds; so our share is the largest there can be"
)
