"""`cozystack-gpu replay FILE`: decide a saved pass again, without a cluster, and compare."""

import difflib
import time
from pathlib import Path
from typing import Final, TextIO

from gpu.binder import replaying
from gpu.binder.replaying import ReplayError

SAME: Final = 0
DIFFERS: Final = 1
UNREADABLE: Final = 2


def replay(path: Path, *, out: TextIO, err: TextIO) -> int:
    """Print the decisions of a saved pass; returns the exit status.

    DIFFERS when they are not those in the file, with the difference on `err`; UNREADABLE for what
    cannot be read as a saved pass.
    """
    began = time.monotonic()
    try:
        saved = replaying.decode(path.read_bytes())
    except (OSError, ReplayError) as error:
        err.write(f"{path}: {error}\n")
        return UNREADABLE
    world = saved.world
    err.write(
        f"pass of term {saved.term} at {saved.now.isoformat()}: {len(world.claims)} claims, "
        f"{len(world.nodes)} nodes, {len(world.pods)} pods\n"
    )
    decided = replaying.decide(saved)
    out.writelines(f"{line}\n" for line in decided)
    out.flush()
    err.write(f"{len(decided)} decisions in {time.monotonic() - began:.2f} s\n")
    if decided == saved.decisions:
        return SAME
    err.write("these are not the decisions in the file:\n")
    differs = difflib.unified_diff(
        saved.decisions, decided, "in the file", "decided now", lineterm="", n=0
    )
    err.writelines(f"{line}\n" for line in differs)
    return DIFFERS
