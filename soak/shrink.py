"""Leave steps out while the run still goes wrong in the same way, for a bounded time."""

from collections.abc import Callable, Sequence
from pathlib import Path

from soak import loops
from soak.run import Outcome, Run
from soak.steps import Step


def replay(
    seed: str, steps: Sequence[Step], *, settle: bool = True, replays: Path | None = None
) -> Outcome:
    """Run these steps on the cluster of a seed, and let it settle unless told otherwise."""

    async def main() -> Outcome:
        return await Run(seed, replays).all(steps, settle=settle)

    done = loops.run(main())
    assert isinstance(done, Outcome)
    return done


def sort_of(wrong: Sequence[str]) -> str:
    """Return what kind of thing is wrong: the words before the colon."""
    return wrong[0].partition(":")[0] if wrong else ""


def shrink(
    seed: str, steps: Sequence[Step], done: Outcome, left: Callable[[], float]
) -> tuple[list[Step], Outcome]:
    """Return the fewest steps found that still go wrong so; `left` says how many seconds remain."""
    kind = sort_of(done.wrong)
    settle = done.step == len(steps)
    kept, best = list(steps[: done.step + 1]), done
    size = max(len(kept) // 2, 1)
    while size and left() > 0:
        at, shorter = 0, False
        while at < len(kept) and left() > 0:
            trial = kept[:at] + kept[at + size :]
            found = replay(seed, trial, settle=settle)
            if sort_of(found.wrong) == kind:
                kept, best, shorter = trial[: found.step + 1], found, True
            else:
                at += size
        size = size if shorter and size == 1 else size // 2
    return kept, best
