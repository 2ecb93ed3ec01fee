"""Starts of VMs: when each step of one was first seen, one by one, many at once, and as units are freed."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from bench import bare, catalogue, watching
from bench.flight import in_flight
from bench.scrape import Counters
from bench.vm_stage import VMStage
from bench.watching import Sightings
from devcluster import vms
from gpu import keys
from gpu.objects import kinds

OF_VM: Final = "vm.kubevirt.io/name"
"""Label of a launcher with the name of its VM."""
BREATH: Final = 0.1
"""Seconds between single starts, so that what the one before left behind is over."""
_WITHIN: Final = 60.0
_MANY_WITHIN: Final = 200.0


class Asks(StrEnum):
    """What a VM asks for."""

    NOTHING = "without GPUs"
    UNIT = "by class"
    CLAIM = "by held claim"


class Step(StrEnum):
    """A step of a VM's life, as a watch shows it."""

    CREATED = "VMI created"
    LAUNCHER = "launcher created"
    LISTED = "launcher listed by its VMI"
    """Nothing else makes it the VMI's launcher, so before that nobody may let it through."""
    LET = "launcher pinned and ungated"
    SCHEDULED = "launcher scheduled"
    RUNS = "guest runs"
    ENDED = "launcher ended"
    GONE = "VMI gone"


@dataclass(frozen=True, slots=True)
class Start:
    """One start: when its VM was sent, and when each step was first seen, on the loop's clock."""

    sent: float
    at: Mapping[Step, float]

    def took(self, begin: Step | None, end: Step) -> float:
        """Return the seconds between two steps; from the sending of the VM where `begin` is None."""
        return self.at[end] - (self.sent if begin is None else self.at[begin])


class Lives:
    """What was seen of each VM: by step, the VMs by name."""

    def __init__(self) -> None:
        self.seen: Mapping[Step, Sightings] = {step: Sightings() for step in Step}

    def tell_instance(self, change: str, found: dict[str, Any], at: float) -> None:
        """Note what a change of a VMI shows."""
        for step in steps_of_instance(change, found):
            self.seen[step].see(found["metadata"]["name"], at)

    def tell_pod(self, change: str, found: dict[str, Any], at: float) -> None:
        """Note what a change of a launcher shows."""
        name = found["metadata"].get("labels", {}).get(OF_VM)
        if name is not None:
            for step in steps_of_pod(change, found):
                self.seen[step].see(name, at)

    async def reached(
        self, step: Step, names: Collection[str], within: float = _WITHIN
    ) -> dict[str, float]:
        """Wait until each VM has reached a step; return when. Raises TimeoutError."""
        try:
            return await self.seen[step].all_of(names, within=within)
        except TimeoutError as error:
            raise TimeoutError(f"{step}: {error}") from None

    def start(self, name: str, sent: float) -> Start:
        """Return what was seen of a VM."""
        at = {step: found.at[name] for step, found in self.seen.items() if name in found.at}
        return Start(sent, at)


def steps_of_instance(change: str, found: Mapping[str, Any]) -> Iterator[Step]:
    """Yield the steps that a change of a VMI proves to be reached."""
    if change == "DELETED":
        yield Step.GONE
    elif change in {"ADDED", "MODIFIED"}:
        yield Step.CREATED
        status = found.get("status", {})
        if status.get("activePods"):
            yield Step.LISTED
        if status.get("phase") == "Running":
            yield Step.RUNS


def steps_of_pod(change: str, found: Mapping[str, Any]) -> Iterator[Step]:
    """Yield the steps that a change of a launcher proves to be reached."""
    if change not in {"ADDED", "MODIFIED", "DELETED"}:
        return
    yield Step.LAUNCHER
    spec = found["spec"]
    gates = {gate["name"] for gate in spec.get("schedulingGates") or ()}
    if keys.PLACEMENT_GATE not in gates and _is_pinned(spec):
        yield Step.LET
    if spec.get("nodeName"):
        yield Step.SCHEDULED
    if change == "DELETED" or found.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
        yield Step.ENDED


def _is_pinned(spec: Mapping[str, Any]) -> bool:
    """Say whether each term of a pod's node affinity names one node."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = spec.get("affinity", {}).get("nodeAffinity", {}).get(required, {})
    terms = affinity.get("nodeSelectorTerms") or ()
    return bool(terms) and all(
        any(field["key"] == "metadata.name" for field in term.get("matchFields") or ())
        for term in terms
    )


@contextlib.asynccontextmanager
async def followed(stage: VMStage) -> AsyncIterator[Lives]:
    """Watch VMIs and launchers of the tenant for the length of the block."""
    lives, api, place = Lives(), stage.base.api, stage.base.namespace
    async with (
        watching.following(api, kinds.VMIS, place, lives.tell_instance),
        watching.following(api, kinds.PODS, place, lives.tell_pod),
    ):
        yield lives


async def hold(stage: VMStage, count: int) -> list[str]:
    """Order claims of one unit each; return their names once all are Bound."""
    names = [f"held-{index:04d}" for index in range(count)]
    place = stage.base.namespace
    async with watching.watching(
        stage.base.api, kinds.GPU_CLAIMS, place, watching.is_bound
    ) as seen:
        bodies = [
            {
                "metadata": {"name": name, "namespace": place},
                "spec": {"className": stage.base.class_name, "count": 1},
            }
            for name in names
        ]
        jobs = (functools.partial(_order, stage, body) for body in bodies)
        await in_flight(bare.CREATORS, jobs)
        await seen.all_of(names, within=_MANY_WITHIN)
    return names


async def _order(stage: VMStage, body: dict[str, Any]) -> None:
    await stage.base.tenant.create(kinds.GPU_CLAIMS, body, deadline=30)


async def give_back(stage: VMStage) -> None:
    """Give all claims of the tenant back and wait until they are gone."""
    await bare.delete_all(stage.base.api, kinds.GPU_CLAIMS, stage.base.namespace)


async def one_by_one(
    stage: VMStage, count: int, claim: str, first: int = 0
) -> dict[Asks, list[Start]]:
    """Start a VM of each kind in turn, `count` times, each alone until nothing of it is left."""
    found: dict[Asks, list[Start]] = {asks: [] for asks in Asks}
    async with followed(stage) as lives:
        for number in range(first, first + count):
            for asks in Asks:
                name = f"one-{asks.name.lower()}-{number:04d}"
                sent = await _make(stage, name, _devices(stage, asks, claim))
                await lives.reached(Step.RUNS, [name])
                await _delete(stage, name)
                await lives.reached(Step.ENDED, [name])
                await lives.reached(Step.GONE, [name])
                found[asks].append(lives.start(name, sent))
                await asyncio.sleep(BREATH)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Rush:
    """Many starts at once."""

    starts: Mapping[Asks, Sequence[Start]]
    seconds: float
    """From the first VM sent to the last guest seen running."""
    cpu: Mapping[str, float]
    """Seconds of CPU by process."""
    before: Counters
    after: Counters
    """The product's own metrics."""


async def at_once(stage: VMStage, wanted: Sequence[tuple[Asks, str]], mark: str) -> Rush:
    """Start as many VMs as there are pairs of what one asks for and its claim; ends when all run.

    `mark` goes into their names: none may have been seen before. They are deleted again, unmeasured.
    """
    loop = asyncio.get_running_loop()
    names = {f"many-{mark}-{number:04d}": pair for number, pair in enumerate(wanted)}
    sent: dict[str, float] = {}

    async def make(name: str) -> None:
        sent[name] = await _make(stage, name, _devices(stage, *names[name]))

    before = await stage.base.product_counters()
    async with followed(stage) as lives:
        spent, began = stage.cpu(), loop.time()
        await in_flight(bare.CREATORS, (functools.partial(make, name) for name in names))
        at = await lives.reached(Step.RUNS, names, _MANY_WITHIN)
        cpu = {name: seconds - spent[name] for name, seconds in stage.cpu().items()}
    found: dict[Asks, list[Start]] = {}
    for name, (asks, _) in names.items():
        found.setdefault(asks, []).append(lives.start(name, sent[name]))
    after = await stage.base.product_counters()
    await clear(stage)
    return Rush(starts=found, seconds=max(at.values()) - began, cpu=cpu, before=before, after=after)


async def reuse(stage: VMStage, count: int) -> tuple[list[float], list[float]]:
    """Delete a running VM of the tight class `count` times, while others wait at the gate.

    Returns seconds from the end of each launcher, and from each DELETE, to the next launcher pinned.
    """
    units = catalogue.TIGHT_UNITS
    names = [f"tight-{number:04d}" for number in range(units + count)]
    freed, whole = [], []
    loop = asyncio.get_running_loop()
    async with followed(stage) as lives:
        await _tight(stage, names[:units])
        await lives.reached(Step.RUNS, names[:units])
        await _tight(stage, names[units:])
        await lives.reached(Step.LAUNCHER, names, _MANY_WITHIN)
        holders = list(names[:units])
        for number in range(units, units + count):
            began = loop.time()
            name = holders.pop(0)
            await _delete(stage, name)
            ended = (await lives.reached(Step.ENDED, [name]))[name]
            heir, at = await lives.seen[Step.LET].next_after(number, within=_WITHIN)
            freed.append(at - ended)
            whole.append(at - began)
            await lives.reached(Step.RUNS, [heir])
            holders.append(heir)
    await clear(stage)
    return freed, whole


async def _tight(stage: VMStage, names: Sequence[str]) -> None:
    device = vms.unit(catalogue.TIGHT_CLASS)
    await in_flight(bare.CREATORS, (functools.partial(_make, stage, it, [device]) for it in names))


async def clear(stage: VMStage) -> None:
    """Delete every VM of the tenant; wait until neither instance, launcher nor template claim is left."""
    api, place = stage.base.api, stage.base.namespace
    await bare.delete_all(api, kinds.VMS, place, within=_MANY_WITHIN)
    label = {"label_selector": keys.TEMPLATE_CLAIM_LABEL}
    async with asyncio.timeout(_MANY_WITHIN):
        for kind, which in ((kinds.VMIS, {}), (kinds.PODS, {}), (kinds.GPU_CLAIMS, label)):
            while (await api.list(kind, place, limit=1, **which)).items:  # noqa: ASYNC110 -- asks a server
                await asyncio.sleep(0.1)


def _devices(stage: VMStage, asks: Asks, claim: str) -> list[str]:
    names = {
        Asks.NOTHING: [],
        Asks.UNIT: [vms.unit(stage.base.class_name)],
        Asks.CLAIM: [vms.claim(claim)],
    }
    return names[asks]


async def _make(stage: VMStage, name: str, devices: Sequence[str]) -> float:
    """Make a VM that is to run; return when it was sent."""
    body = vms.body(stage.base.namespace, name, devices, running=True, labels={})
    sent = asyncio.get_running_loop().time()
    await stage.owner.create(kinds.VMS, body, deadline=30)
    return sent


async def _delete(stage: VMStage, name: str) -> None:
    await stage.owner.delete(kinds.VMS, name, stage.base.namespace)
