"""Run one cluster through its steps; the judge looks after each, and more closely when all is calm."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from soak import answering, asking, calm
from soak.events import EVENTS
from soak.judge import Judge
from soak.leading import Leaders
from soak.site import Site
from soak.steps import Step


@dataclass
class Outcome:
    """What became of a run; `step` is the index of the step that was wrong."""

    steps: int = 0
    passes: int = 0
    writes: int = 0
    tally: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    step: int = -1


class Run:
    """One cluster from its seed."""

    def __init__(self, seed: str, replays: Path | None = None) -> None:
        """Draw the cluster; `replays` is where every pass is saved."""
        self.site = Site(seed, replays=replays)
        self.judge = Judge(self.site)
        self.leaders = Leaders(self.site)
        self.done = Outcome(tally=self.site.tally)
        self._own = self.leaders.steps() | answering.steps(self.leaders)

    async def all(self, steps: Sequence[Step], *, settle: bool = True) -> Outcome:
        """Run the steps, then let everything settle; ends at the first thing that is wrong."""
        try:
            for index, step in enumerate(steps):
                self.done.step = index
                self.done.wrong = await self.one(step)
                if self.done.wrong:
                    return self.done
            if not settle:
                return self.done
            self.done.step = len(steps)
            self.site.begin(f"{self.site.seed}/settle")
            self.done.wrong = await calm.settle(self.site, self.leaders, self.judge)
        finally:
            self.done.writes = len(self.site.api.writes)
            self.done.passes = self.leaders.passes
            await self.leaders.end()
        return self.done

    async def one(self, step: Step) -> list[str]:
        """Run one step and return what is wrong after it."""
        self.site.begin(step.dice)
        self.done.steps += 1
        wrong: list[str] = []
        if step.name in EVENTS:
            EVENTS[step.name][0](self.site)
        elif step.name == "pass":
            _, wrong = await calm.one_pass(self.leaders, self.judge)
        elif step.name == "answers":
            wrong = await calm.one_answer(self.leaders, self.judge)
        elif step.name == "calm":
            wrong = await calm.look(self.leaders, self.judge)
        else:
            wrong = await self._own[step.name]()
        wrong += await asking.get_on(self.site)
        return wrong + self.judge.look()
