"""A failure as a file: its seed, the steps that are left after shrinking, and what is wrong."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from soak.steps import Step


@dataclass(frozen=True)
class Failure:
    """One run that went wrong."""

    seed: str
    wrong: tuple[str, ...]
    steps: tuple[Step, ...]
    before: int
    """Steps before shrinking."""


def save(failure: Failure, folder: Path) -> Path:
    """Write it; returns where."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"soak-{failure.seed.replace('/', '-')}.json"
    path.write_text(json.dumps(asdict(failure), indent=1) + "\n", encoding="utf-8")
    return path


def load(path: Path) -> Failure:
    """Read one that was saved."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    steps = tuple(Step(**step) for step in raw["steps"])
    return Failure(raw["seed"], tuple(raw["wrong"]), steps, raw["before"])
