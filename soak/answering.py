"""Passes that only answer starts: alone, under faults, and beside a full pass, in any order of their writes."""

import random
from collections.abc import Awaitable, Callable
from typing import Final

from gpu.binder.report import PassReport
from soak import asking, events, vms
from soak.leader import Leader
from soak.leading import COMMON, RARE, Leaders
from soak.line import Fault
from soak.watch import VIEWS

STEPS: Final = {
    "start VM": 22.0,  # many are refused, and KubeVirt tries again
    "answers": 9.0,
    "faulty answers": 6.0,
    "passes at once": 18.0,
    "webhook dies": 1.0,
}
"""Steps of clusters where starts ask first, and their weights."""


def steps(leaders: Leaders) -> dict[str, Callable[[], Awaitable[list[str]]]]:
    """Steps by name; each returns what the leader did wrong. `answers` is judged closely: see `calm`."""

    async def dies() -> list[str]:
        await asking.die(leaders.site)
        return []

    return {
        "faulty answers": lambda: _faulty(leaders),
        "passes at once": lambda: _at_once(leaders),
        "webhook dies": dies,
    }


async def undisturbed(leaders: Leaders) -> tuple[PassReport | None, list[str]]:
    """Run a pass that only answers, sees everything and fails at nothing."""
    leader = await leaders.leading()
    leader.watch.show()
    leader.line.begin({})
    wrong = (await leaders.passed(leader, leader.answer))[1]
    return leader.answered, wrong


async def _faulty(leaders: Leaders) -> list[str]:
    leader = await leaders.leading()
    leader.watch.show(leaders.some())
    _disturb(leaders, leader, (1, 1, 1, 2, 2, 3))
    return (await leaders.passed(leader, leader.answer))[1]


async def _at_once(leaders: Leaders) -> list[str]:
    """A full pass, answers beside it, and starts that go on; what they write comes in any order."""
    site = leaders.site
    for event in (vms.start, vms.start, events.order):
        if site.rng.random() < 0.8:
            event(site)
    await asking.get_on(site)
    leader = await leaders.leading()
    leader.watch.show(leaders.some() if site.rng.random() < 0.3 else VIEWS)
    if site.rng.random() < 0.5:
        _disturb(leaders, leader, (1, 1, 2, 2, 3, 4, 5, 7))
    else:
        leader.line.begin({})
    dice = random.Random(f"{site.dice}/between")
    leader.line.jitter = dice

    def between() -> None:
        if dice.random() < 0.5:
            leader.watch.show(leaders.some())
        if dice.random() < 0.5:
            site.webhooks.show()

    leader.line.between = between
    pauses = [site.rng.randrange(60) for _ in range(site.rng.choice((1, 2, 3, 5)))]
    is_forced = site.rng.random() < 0.8
    wrong = (await leaders.passed(leader, lambda: leader.both(pauses, forced=is_forced)))[1]
    leader.line.between, leader.line.jitter = (lambda: None), None
    site.tally["passes at once"] += 1
    return wrong


def _disturb(leaders: Leaders, leader: Leader, at: tuple[int, ...]) -> None:
    rng = leaders.site.rng
    plan = {}
    for _ in range(rng.choice((1, 1, 2, 3))):
        fault: Fault = rng.choice(RARE) if rng.random() < 0.15 else rng.choice(COMMON)
        plan[rng.choice(at)] = fault
    leader.line.begin(plan, bad_reads=int(rng.random() < 0.1))
    leader.hold.blind = rng.random() < 0.5
