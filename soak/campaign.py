"""Many clusters, one after the other or on several processes, until the steps or the time are spent."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field

from soak import shrink, steps
from soak.failures import Failure

STEPS_OF_A_CLUSTER = 300
SHRINKS = 30.0
"""Seconds a failure is shrunk for at most."""


@dataclass(frozen=True)
class Plan:
    """What is asked: so many steps from a seed, on so many processes, for so many seconds."""

    steps: int
    seed: str
    jobs: int = 1
    seconds: float | None = None
    shrinks: float = SHRINKS


@dataclass
class Totals:
    """Sums over all clusters so far."""

    steps: int = 0
    clusters: int = 0
    passes: int = 0
    writes: int = 0
    tally: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, other: "Totals") -> None:
        self.steps += other.steps
        self.clusters += other.clusters
        self.passes += other.passes
        self.writes += other.writes
        self.tally.update(other.tally)
        self.failures += other.failures


def one_cluster(seed: str, count: int, shrinks: float) -> Totals:
    """Run one cluster; a failure is shrunk."""
    drawn = steps.drawn(seed, count)
    done = shrink.replay(seed, drawn)
    totals = Totals(
        steps=done.steps,
        clusters=1,
        passes=done.passes,
        writes=done.writes,
        tally=Counter({str(name): number for name, number in done.tally.items()}),
    )
    if done.wrong:
        until = time.monotonic() + shrinks
        kept, best = shrink.shrink(seed, drawn, done, lambda: until - time.monotonic())
        totals.failures.append(Failure(seed, tuple(best.wrong), tuple(kept), done.step + 1))
    return totals


def run(plan: Plan, told: Callable[[Totals], None]) -> Totals:
    """Run all of it; `told` hears the totals after every cluster."""
    totals = Totals()
    began = time.monotonic()

    def goes_on() -> bool:
        return plan.seconds is None or time.monotonic() - began < plan.seconds

    clusters = _clusters(plan)
    if plan.jobs == 1:
        for seed, count in clusters:
            if not goes_on():
                break
            totals.add(one_cluster(seed, count, plan.shrinks))
            told(totals)
        return totals
    with ProcessPoolExecutor(plan.jobs) as pool:
        running: set[Future[Totals]] = set()
        while True:
            while goes_on() and len(running) < plan.jobs * 2:
                found = next(clusters, None)
                if found is None:
                    break
                running.add(pool.submit(one_cluster, *found, plan.shrinks))
            if not running:
                return totals
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for one in ended:
                totals.add(one.result())
                told(totals)


def _clusters(plan: Plan) -> Iterator[tuple[str, int]]:
    left, number = plan.steps, 0
    while left > 0:
        count = min(left, STEPS_OF_A_CLUSTER)
        yield f"{plan.seed}-{number}", count
        left -= count
        number += 1
