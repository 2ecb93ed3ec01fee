"""What hosters ask while thousands of VMs wait at the gate: what-ifs and drain plans, on one snapshot."""

import functools
from collections.abc import Callable, Mapping
from time import process_time
from typing import Final

from apiserver.resources import drainplans, whatifs
from apiserver.wire.values import JsonObject
from bench import house, starts
from bench.figures import Collected, Goal, Sense, Take
from gpu import keys
from gpu.config import Config
from gpu.world import World

WAITING: Final = 2_000
_HELD, _NODES = 10_000, 1_000
_ASKED: Final[Mapping[str, JsonObject]] = {
    "setBudget": {"tenant": "tenant-000", "key": keys.QUOTA_TOTAL, "to": 1},
    "loseNode": {"nodeName": "node-00000"},
    "cordonNode": {"nodeName": "node-00000"},
    "retireClass": {"className": starts.CLASS},
    "addNodes": {"like": "node-00000", "count": 20},
}
_GOAL: Final = Goal(take=Take.MIDDLE, sense=Sense.AT_MOST, value=2_000)
_NOTE: Final = (
    f"{_HELD:,} claims, {_NODES:,} nodes, {WAITING:,} VMs at the gate that want a unit of one class each; CPU of "
    "the thread that computes everything: a pass that comes meanwhile waits for it"
)


def measure(rounds: int, got: Collected) -> None:
    """Add what each question costs, and all drain plans."""
    world = crowded()
    took = [_ms(lambda: world.snapshot)]  # shared by all who ask
    got.add("model: the snapshot they share", "ms", took, note=_NOTE)
    for change, about in _ASKED.items():
        body: JsonObject = {"spec": {change: dict(about)}}
        ask = functools.partial(whatifs.answer, Config(), world, body)
        took = [_ms(ask) for _ in range(rounds)]
        got.add(f"model: what-if {change}", "ms", took, goal=_GOAL, note=_NOTE)
    took = [_ms(lambda: tuple(drainplans.rows(Config(), world, ""))) for _ in range(rounds)]
    got.add("model: all drain plans", "ms", took, goal=_GOAL, note=_NOTE)


def crowded() -> World:
    """Return a full house, and more launchers at the gate than its class has units free."""
    return starts.waiting(house.full(_HELD, _NODES).world, WAITING, units=1)


def _ms(work: Callable[[], object]) -> float:
    began = process_time()
    work()
    return (process_time() - began) * 1000
