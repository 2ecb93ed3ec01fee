"""Named health checks, and whether the process is on its way out."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

READY: Final = frozenset({"readyz"})
ALWAYS: Final = frozenset({"readyz", "livez", "healthz"})


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `problem` returns why it fails, for the log, or an empty string; it never waits."""

    name: str
    problem: Callable[[], str]
    probes: frozenset[str] = READY


def _fine() -> str:
    return ""


def unreachable(
    kinds: Collection[str], failing: Mapping[str, float], now: float, patience: float
) -> str:
    """Return what cannot be read, once that is everything; else an empty string.

    `failing` are kinds and since when, as `now` in seconds. A kind that alone cannot be read cannot be
    read by any replica, and the whole cluster's namespaces would wait for an API without endpoints;
    what is served stays as it was last known, and so does its version (decision 31).
    """
    broken = [kind for kind in kinds if kind in failing and now - failing[kind] > patience]
    return f"cannot be read now: {', '.join(broken)}" if len(broken) == len(kinds) > 0 else ""


@dataclass(slots=True)
class Health:
    """The checks of this process, in order. Liveness never asks about anything outside it."""

    checks: list[Check] = field(default_factory=lambda: [Check("ping", _fine, ALWAYS)])
    draining: bool = False
    _told: dict[str, str] = field(default_factory=dict)

    def is_news(self, name: str, problem: str) -> bool:
        """Say whether a check's outcome differs from what was last said of it; probes come often."""
        before = self._told.get(name, "")
        self._told[name] = problem
        return problem != before

    def add(self, name: str, problem: Callable[[], str], probes: frozenset[str] = READY) -> None:
        """Add a check; readiness only, unless said otherwise."""
        self.checks.append(Check(name, problem, probes))

    def of(self, probe: str) -> list[Check]:
        """Return the checks of `livez`, `readyz` or `healthz`; readiness knows about shutdown."""
        found = [check for check in self.checks if probe in check.probes]
        if probe == "readyz":
            found.append(Check("shutdown", self._leaving))
        return found

    def _leaving(self) -> str:
        return "the process is shutting down" if self.draining else ""
