"""The model alone, no control plane: full passes, binding rate, verdicts; one process, no writes."""

import functools
import gc
import os
from collections.abc import Callable
from time import perf_counter
from typing import Final

from bench import attached, forest, house, questions, scrape, starts
from bench.figures import Collected, Goal, Sense, Take
from gpu.binder.changes import Place
from gpu.model import orders
from gpu.model.draft import Draft
from gpu.model.orders import Order, Refused
from gpu.units import ClassName, TenantName

SIZES: Final = ((1_000, 100), (10_000, 1_000), (50_000, 5_000))
"""Claims held, nodes."""
_JUDGED: Final = (10_000, 1_000)
"""The size the goals are about."""
_FIRST: Final = Goal(take=Take.MIDDLE, sense=Sense.AT_MOST, value=1000)
_AFTER: Final = Goal(take=Take.MIDDLE, sense=Sense.AT_MOST, value=100)
_RATE: Final = Goal(take=Take.MIDDLE, sense=Sense.AT_LEAST, value=2000)
_VERDICT: Final = Goal(take=Take.P99, sense=Sense.AT_MOST, value=5)
_NO_FIT: Final = Goal(take=Take.MIDDLE, sense=Sense.AT_MOST, value=5)
_BURST: Final = 2_000
"""Orders of the binding rate, in one pass."""
_VERDICTS: Final = 500

_PASS: Final = (
    "all phases and the checker, in one process, without the overlay of own writes and without "
    "writing; four classes, 100 tenants with budgets, every claim has its record"
)
_ONE: Final = "one order came since the last pass, which binds it, judged by the checker"
_USED: Final = "10,000 claims, 1,000 nodes; each claim is used by a running VMI with one pod"
_IDLE: Final = "nothing changed since the last pass"
_BINDS: Final = (
    "seconds of phase orders alone, deciding and judging, of as many single units at once"
)
_ASKED: Final = "on one snapshot, as the webhook asks; the first question is the maximum"
_TIGHT: Final = (
    "9 of 16 units held on each of 1,000 nodes of one class; each on a fresh working copy"
)


def measure(rounds: int, say: Callable[[str], None], got: Collected) -> None:
    """Add every figure of the model; takes a minute or two, mostly for the largest size."""
    for held, nodes in SIZES:
        say(f"model: {held:,} claims, {nodes:,} nodes")
        _passes(held, nodes, rounds, got)
    say("model: 10,000 claims in use by running VMs")
    _in_use(rounds, got)
    say("model: binding rate, verdicts")
    for _ in range(rounds):
        _binding(got)
    _cannot_fit(got)
    say("model: budgets in a deep tree of tenants")
    forest.measure(got)
    say("model: starts at the gate")
    starts.measure(rounds, got)
    say("model: what hosters ask")
    questions.measure(rounds, got)


def _passes(held: int, nodes: int, rounds: int, got: Collected) -> None:
    made = house.full(held, nodes)
    _settle()
    among = f"{held:,} claims, {nodes:,} nodes"
    judged = (held, nodes) == _JUDGED
    for _ in range(rounds):
        made.before = None
        first = made.work()
        got.add(
            f"model: first pass, {among}",
            "ms",
            [1000 * first.total],
            goal=_FIRST if judged else None,
            note=_PASS,
        )
    for _ in range(5 * rounds):
        idle = made.work()
        got.add(f"model: pass, nothing changed, {among}", "ms", [1000 * idle.total], note=_IDLE)
        made.order()
        one = made.work()
        _placed(one, 1)
        got.add(
            f"model: pass after one order, {among}",
            "ms",
            [1000 * one.total],
            goal=_AFTER if judged else None,
            note=_ONE,
        )
        if judged:
            for phase, seconds in one.seconds.items():
                got.add(f"model: {phase}, after one order, {among}", "ms", [1000 * seconds])
        made.work()
    _verdicts(made, among, got, _VERDICT if judged else None)
    got.add(f"model: memory of the process, {among}", "MiB", [scrape.memory_mib(os.getpid())])
    gc.unfreeze()


def _in_use(rounds: int, got: Collected) -> None:
    made = attached.full(*_JUDGED)
    _settle()
    made.work()
    for _ in range(5 * rounds):
        idle = made.work()
        got.add("model: pass, nothing changed, all in use", "ms", [1000 * idle.total], note=_USED)
        made.order()
        one = made.work()
        _placed(one, 1)
        got.add("model: pass after one order, all in use", "ms", [1000 * one.total], note=_USED)
        made.work()
    gc.unfreeze()


def _verdicts(made: house.House, among: str, got: Collected, goal: Goal | None) -> None:
    snapshot = made.world.snapshot
    asked = [
        Order(
            tenant=TenantName(f"tenant-{index % house.TENANTS:03d}"),
            class_name=ClassName(house.CLASSES[index % len(house.CLASSES)]),
            count=index % 9 + 1,
        )
        for index in range(_VERDICTS)
    ]
    took = [1000 * _seconds(functools.partial(orders.check, snapshot, order)) for order in asked]
    got.add(f"model: order verdict, {among}", "ms", took, goal=goal, note=_ASKED)


def _binding(got: Collected) -> None:
    made = house.full(0, 1_000, kinds=1)
    made.order(_BURST)
    done = made.work(keep=False)
    _placed(done, _BURST)
    seconds = done.seconds["orders"]
    got.add("model: single units Bound", "1/s", [_BURST / seconds], goal=_RATE, note=_BINDS)


def _cannot_fit(got: Collected) -> None:
    made = house.full(9_000, 1_000, kinds=1)
    snapshot = made.world.snapshot
    order = Order(tenant=TenantName("tenant-000"), class_name=ClassName(house.CLASSES[0]), count=8)
    took = []
    for _ in range(50):
        draft = Draft.of(snapshot)
        began = perf_counter()
        verdict = orders.check(draft, order)
        took.append(1000 * (perf_counter() - began))
        if not isinstance(verdict, Refused):
            raise TypeError("8 units found a node with 7 free")
    got.add("model: 8 units fit on none of 1,000 nodes", "ms", took, goal=_NO_FIT, note=_TIGHT)


def _placed(done: house.Timed, count: int) -> None:
    found = sum(isinstance(change, Place) for change in done.wanted)
    if found != count:
        raise RuntimeError(f"{count} orders, {found} placed")


def _seconds(ask: Callable[[], object]) -> float:
    began = perf_counter()
    ask()
    return perf_counter() - began


def _settle() -> None:
    """Have the garbage collector leave what is there alone, as the process does with its lists."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 100, 100)
