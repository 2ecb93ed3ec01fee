"""Full passes and answers at the same time, writes in any order, some lost: no unit is ever given twice."""

import asyncio
import contextlib
import random
from typing import Any

import pytest

from gpu.cluster import errors
from gpu.objects import kinds
from tests.binder import asking, interrupting, raws
from tests.binder.rig import Rig
from tests.fakes.cluster import Fault

SINCE = "2026-01-02T03:04:00Z"
NODES = {"n1": 5, "n2": 4}
BUDGET = 8
CONFLICT = errors.from_status({"code": 409, "reason": "Conflict", "message": "modified"})


class Jittery:
    """A Writer each of whose writes takes a while, before and after it is executed."""

    def __init__(self, cluster: Any, dice: random.Random) -> None:
        self._cluster = cluster
        self._dice = dice

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cluster, name)
        if name not in {"create", "patch", "apply", "delete"}:
            return found

        async def write(*args: Any, **how: Any) -> Any:
            await self._wait()
            answer = await found(*args, **how)
            await self._wait()
            return answer

        return write

    async def _wait(self) -> None:
        for _ in range(self._dice.randrange(12)):
            await asyncio.sleep(0)


def booked(rig: Rig) -> dict[str, int]:
    units = dict.fromkeys(NODES, 0)
    for key, node in rig.placed().items():
        found = rig.claim(key.partition("/")[2])
        assert found is not None
        units[node] += found["spec"]["count"]
    return units


def is_right(rig: Rig) -> None:
    now = booked(rig)
    assert all(now[name] <= units for name, units in NODES.items()), now
    assert sum(now.values()) <= BUDGET


async def one(rig: Rig, dice: random.Random, number: int) -> None:
    """Something happens: a start asks, an order comes, or the watch delivers."""
    count = dice.randint(1, 3)
    if dice.random() < 0.5:
        name = f"t{number}"
        rig.store(
            claims=[
                asking.claim(
                    name, asks=[name], vm=name, id_=name, since=SINCE, template=True, count=count
                )
            ]
        )
    else:
        at = {"creationTimestamp": f"2026-01-02T03:04:{number % 60:02d}Z"}
        rig.store(claims=[raws.a_claim(f"x{number}", count=count, meta=interrupting.OURS | at)])


@pytest.mark.parametrize("seed", range(40))
async def test_whatever_comes_in_between_no_unit_is_given_twice(seed):
    dice = random.Random(seed)
    rig = Rig(config=asking.CONFIG)
    rig.store(
        classes=[raws.a_class(meta={"finalizers": ["gpu.cozystack.io/class"]})],
        nodes=[raws.a_node(name, units=units) for name, units in NODES.items()],
        namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant()],
        releases=[raws.a_release(total=BUDGET)],
    )
    rig.writer.api = Jittery(rig.cluster, dice)  # type: ignore[assignment]  # by __getattr__
    problems: list[str] = []

    async def keeps(run: Any) -> None:
        for _ in range(6):
            with contextlib.suppress(errors.Unreachable):  # nor could be read what was in doubt
                report = await run()
                problems.append(report.plan_problem)
            is_right(rig)
            await asyncio.sleep(0)

    async def goes_on() -> None:
        for number in range(12):
            await one(rig, dice, number)
            if dice.random() < 0.2:
                error = dice.choice([CONFLICT, errors.Unreachable("cut", sent=True)])
                rig.cluster.fail(Fault(dice.randint(1, 3), executed=False, error=error))
            for _ in range(dice.randrange(30)):
                await asyncio.sleep(0)
            is_right(rig)

    async with asyncio.TaskGroup() as tasks:
        for run in (rig.passes.once, *[rig.passes.answer] * 3):
            tasks.create_task(keeps(run))
        tasks.create_task(goes_on())
    rig.cluster._faults.clear()
    rig.window.show()
    await rig.passes.answer()
    await rig.until_still()
    is_right(rig)
    assert set(problems) <= {""}
    told = [
        raw["status"]["bindRequest"].get("result")
        for key, raw in rig.cluster._objects[kinds.GPU_CLAIMS].items()
        if key.name.startswith("t")
    ]
    assert None not in told
