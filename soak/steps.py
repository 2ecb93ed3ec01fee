"""The steps of a run: names with their own dice, so that any of them can be left out."""

import random
from dataclasses import dataclass

from soak import answering
from soak.events import EVENTS
from soak.site import asks

LEADERS = {
    "pass": 20.0,
    "faulty pass": 14.0,
    "unforced pass": 4.0,
    "deliver": 5.0,
    "watch goes back": 0.3,
    "leader changes": 0.8,
    "leader dies in a pass": 0.6,
    "feature off": 0.15,
    "thaw": 1.5,
    "land": 1.5,
    "calm": 1.0,
}
"""Steps of the leaders and their weights, beside those of the world."""
_WEIGHTS = {name: weight for name, (_, weight) in EVENTS.items()} | LEADERS
_ASKING = _WEIGHTS | answering.STEPS


@dataclass(frozen=True, slots=True)
class Step:
    """One step and the seed of its dice."""

    name: str
    dice: str


def drawn(seed: str, count: int) -> list[Step]:
    """Return the steps of a run."""
    rng = random.Random(f"{seed}/steps")
    weights = _ASKING if asks(seed) else _WEIGHTS
    names = rng.choices(list(weights), list(weights.values()), k=count)
    return [Step(name, f"{seed}/{index}") for index, name in enumerate(names)]
