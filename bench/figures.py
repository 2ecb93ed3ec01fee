"""Figure: one measured thing with its unit, spread and goal; all of a run as one value."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from bench.stats import Spread


class Take(StrEnum):
    """Which number of the spread a goal is about."""

    MIDDLE = "p50"
    P99 = "p99"


class Sense(StrEnum):
    """Which way is good."""

    AT_MOST = "<="
    AT_LEAST = ">="


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a figure should be; it is told, never enforced: a busy machine proves nothing."""

    take: Take
    sense: Sense
    value: float

    def met(self, spread: Spread) -> bool:
        """Say whether the spread reaches the goal."""
        seen = spread.middle if self.take is Take.MIDDLE else spread.p99
        return seen <= self.value if self.sense is Sense.AT_MOST else seen >= self.value

    def __str__(self) -> str:
        return f"{self.take} {self.sense} {self.value:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One row: `name` is what was measured, `note` what one must know to read it."""

    name: str
    unit: str
    spread: Spread
    goal: Goal | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """Everything one run measured, in the order it is told."""

    machine: str
    figures: tuple[Figure, ...]
    remarks: tuple[str, ...] = ()


@dataclass(slots=True)
class Collected:
    """Values by name as rounds bring them, in order of first appearance; made into figures at the end."""

    _values: dict[str, list[float]] = field(default_factory=dict)
    _about: dict[str, tuple[str, Goal | None, str]] = field(default_factory=dict)

    def add(
        self,
        name: str,
        unit: str,
        values: Sequence[float],
        *,
        goal: Goal | None = None,
        note: str = "",
    ) -> None:
        """Add a round's values; unit, goal and note are those of the first time."""
        self._values.setdefault(name, []).extend(values)
        self._about.setdefault(name, (unit, goal, note))

    def middle(self, name: str) -> float | None:
        """Return the median of what was added under a name so far."""
        values = self._values.get(name)
        return Spread.of(values).middle if values else None

    def figures(self) -> tuple[Figure, ...]:
        """Return a figure for each name that has values."""
        return tuple(
            Figure(name=name, unit=unit, spread=Spread.of(values), goal=goal, note=note)
            for name, (unit, goal, note) in self._about.items()
            if (values := self._values[name])
        )
