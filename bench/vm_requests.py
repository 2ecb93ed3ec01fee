"""Starts that are answered before their VMI is there (`binding: request`), while a full pass runs."""

import asyncio
import contextlib
import functools
import itertools
import signal
from collections.abc import (
    AsyncIterator,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import Any, Final

from bench import bare, orders, scrape, watching
from bench.admission import CROWD
from bench.flight import in_flight
from bench.vm_stage import VMStage
from bench.vm_webhooks import gained
from devcluster import kubevirt, processes, vms
from gpu.cluster import errors
from gpu.config import Binding
from gpu.objects import kinds

_LANES: Final = 8
"""Orders that come and go beside the starts, each lane's one after the other: with two a full pass is under way two thirds of the time."""
_BESIDE: Final = "answers"
"""What the product calls a pass that only answers, beside the full ones."""
_PREFIX: Final = "churn"
_WIDTH: Final = 8
"""With those that wait for an answer, fewer than the client has connections: none queues there."""
_WITHIN: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Starts sent many at a time, and what their webhook took."""

    seconds: Sequence[float]
    """As the sender saw each, one that was refused too."""
    answered: Mapping[float, float]
    """What the webhook's own histogram gained."""
    refused: Sequence[str]
    """Words of those that were refused."""
    in_passes: float
    """Of the time, the part in which a full pass was deciding or writing."""
    wall: float
    """Seconds from the first sent to the last answered."""
    orders: int
    """Orders that were Bound beside them; each is given back at once."""
    cpu: Mapping[str, float]
    """Seconds of CPU by process."""
    before: scrape.Counters
    after: scrape.Counters
    """The product's own metrics."""


async def request(stage: VMStage) -> None:
    """Have starts requested from now on; no VM may be there. Nothing is measured after it."""
    running, binding = stage.base.product, Binding.REQUEST.value
    await running.stop()
    await running.configure({"binding": binding})
    await running.start(flags=(f"--binding={binding}",))
    await running.available()
    await orders.one_by_one(stage.base, 1)  # who has just been started places nothing for seconds


def asking(stage: VMStage, held: Sequence[str], count: int) -> list[list[str]]:
    """Return what so many starts ask for: half by class, half by held claim."""
    return [
        [vms.claim(held[number // 2]) if number % 2 else vms.unit(stage.base.class_name)]
        for number in range(count)
    ]


async def clear(stage: VMStage) -> None:
    """Delete every VMI of the tenant; wait until neither instance nor launcher is left."""
    api, place = stage.base.api, stage.base.namespace
    await bare.delete_all(api, kinds.VMIS, place, within=_WITHIN)
    async with asyncio.timeout(_WITHIN):
        while (await api.list(kinds.PODS, place, limit=1)).items:  # noqa: ASYNC110 -- asks a server
            await asyncio.sleep(0.1)


@contextlib.contextmanager
def standing_still(stage: VMStage) -> Iterator[None]:
    """Stop the clock of virt-controller for the length of the block.

    What it does with VMIs that are there already is no part of an answer: it is never asked for one, as
    virt-api is. Keep it to seconds: after ten its lease is lost.
    """
    record = stage.base.cp.record(kubevirt.CONTROLLER)
    processes.kill(record, signal.SIGSTOP)
    try:
        yield
    finally:
        processes.kill(record, signal.SIGCONT)


async def answers(stage: VMStage, asked: Sequence[Sequence[str]], mark: str) -> Answers:
    """Start a VMI of each of these devices, at most CROWD at a time beside full passes; `mark` is in their names.

    All stay. Raises what a start fails with that is no refusal.
    """
    refused: list[str] = []
    jobs = (
        functools.partial(_start, stage, f"{mark}-{number:04d}", devices, refused)
        for number, devices in enumerate(asked)
    )
    loop = asyncio.get_running_loop()
    async with _passes(stage, mark) as bound:
        had = len(bound)
        before, spent, began = await stage.base.product_counters(), stage.cpu(), loop.time()
        took = await in_flight(CROWD, jobs)
        wall, found = loop.time() - began, len(bound) - had
        cpu = {name: seconds - spent[name] for name, seconds in stage.cpu().items()}
        after = await stage.base.product_counters()
    phases = scrape.gained_by(orders.PASS, "phase", before, after)
    return Answers(
        seconds=took,
        answered=gained("vmis", before, after),
        refused=refused,
        in_passes=sum(spent for name, (_, spent) in phases.items() if name != _BESIDE) / wall,
        wall=wall,
        orders=found,
        cpu=cpu,
        before=before,
        after=after,
    )


async def _start(stage: VMStage, name: str, devices: Sequence[str], refused: list[str]) -> None:
    body = vms.instance(stage.base.namespace, name, list(devices))
    try:
        await stage.virt.create(kinds.VMIS, body, deadline=30)
    except (errors.Forbidden, errors.Invalid, errors.Conflict) as error:
        refused.append(error.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bare:
    """The requests of starts without anybody who waits, decides or writes beside them."""

    seconds: Sequence[float]
    wall: float
    cpu: Mapping[str, float]


async def bare_starts(stage: VMStage, count: int) -> Bare:
    """Send what an answered start asks of kube-apiserver at the least, each start's one after the other.

    As many at a time as starts wait: a VMI that is not there is read, a claim is made for every second
    one, two status writes as large as those of `answers` before, and a VMI that asks nobody of
    ours. The claims are copies that neither the product nor a policy sees.
    """
    shown = await _answered_claim(stage)
    await bare.install_copy(stage.base.api)
    held = [f"bare-{number:04d}" for number in range(1, count, 2)]
    await in_flight(_WIDTH, (functools.partial(_copy, stage, name) for name in held))
    loop = asyncio.get_running_loop()
    spent, began = stage.cpu(), loop.time()
    jobs = (functools.partial(_bare_start, stage, number, shown) for number in range(count))
    took = await in_flight(CROWD, jobs)
    wall = loop.time() - began
    cpu = {name: seconds - spent[name] for name, seconds in stage.cpu().items()}
    await bare.delete_all(stage.base.api, bare.COPIES, bare.NAMESPACE)
    return Bare(seconds=took, wall=wall, cpu=cpu)


async def _answered_claim(stage: VMStage) -> dict[str, Any]:
    page = await stage.base.api.list(kinds.GPU_CLAIMS, stage.base.namespace)
    told = ((it, it.get("status", {}).get("bindRequest", {})) for it in page.items)
    return next(it for it, request in told if request.get("result"))


async def _copy(stage: VMStage, name: str) -> None:
    body = {
        "metadata": {"name": name, "namespace": bare.NAMESPACE},
        "spec": {"className": stage.base.class_name, "count": 1},
    }
    await stage.base.api.create(bare.COPIES, body)


async def _bare_start(stage: VMStage, number: int, shown: Mapping[str, Any]) -> None:
    api, name, place = stage.base.api, f"bare-{number:04d}", bare.NAMESPACE
    with contextlib.suppress(errors.NotFound):
        await api.get(kinds.VMIS, name, stage.base.namespace)
    if number % 2 == 0:
        await _copy(stage, name)
    status = shown["status"]
    request = {key: it for key, it in status["bindRequest"].items() if key != "result"}
    for wrote in ({"attachedTo": status["attachedTo"], "bindRequest": request}, status):
        await api.patch(bare.COPIES, name, {"status": wrote}, place, subresource="status")
    await stage.virt.create(kinds.VMIS, vms.instance(stage.base.namespace, name, []), deadline=30)


@contextlib.asynccontextmanager
async def _passes(stage: VMStage, mark: str) -> AsyncIterator[Collection[str]]:
    """Keep the binder in full passes for the length of the block: orders come and go; told are those Bound."""
    begun = asyncio.Event()
    api, place = stage.base.api, stage.base.namespace
    async with (
        watching.watching(api, kinds.GPU_CLAIMS, place, _is_bound_order) as seen,
        asyncio.TaskGroup() as group,
    ):
        task = group.create_task(_churn(stage, mark, seen, begun))
        await begun.wait()
        try:
            yield seen.at
        finally:
            task.cancel()


def _is_bound_order(found: dict[str, Any]) -> bool:
    return str(found["metadata"]["name"]).startswith(_PREFIX) and watching.is_bound(found)


async def _churn(stage: VMStage, mark: str, seen: watching.Sightings, begun: asyncio.Event) -> None:
    async with asyncio.TaskGroup() as group:
        for lane in range(_LANES):
            group.create_task(_one_after_another(stage, f"{_PREFIX}-{mark}-{lane}", seen, begun))


async def _one_after_another(
    stage: VMStage, lane: str, seen: watching.Sightings, begun: asyncio.Event
) -> None:
    for turn in itertools.count():
        name = f"{lane}-{turn:04d}"
        await _order(stage, name)
        await seen.all_of(
            [name], within=_WITHIN
        )  # or its deletion would be a conflict of the binder's
        begun.set()
        await _back(stage, name)


async def _order(stage: VMStage, name: str) -> None:
    body: dict[str, Any] = {
        "metadata": {"name": name, "namespace": stage.base.namespace},
        "spec": {"className": stage.base.class_name, "count": 1},
    }
    await stage.base.tenant.create(kinds.GPU_CLAIMS, body, deadline=30)


async def _back(stage: VMStage, name: str) -> None:
    with contextlib.suppress(errors.NotFound):
        await stage.base.tenant.delete(kinds.GPU_CLAIMS, name, stage.base.namespace)
