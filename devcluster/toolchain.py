"""Go: the one on PATH when it is new enough, else the one in our own environment."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from devcluster import errors

MINIMUM = (1, 26)
"""Oldest Go that builds what go/*/go.mod ask for."""

_VERSION = re.compile(r"go(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Go:
    """One Go toolchain: where its command is, and its version as (major, minor)."""

    path: Path
    version: tuple[int, int]

    @property
    def family(self) -> str:
        """The release a binary is tied to; a bug fix release of Go rebuilds nothing."""
        return f"go{self.version[0]}.{self.version[1]}"


def find() -> Go:
    """Return the first Go that is new enough; BuildError says how to get one."""
    seen = []
    for candidate in _candidates():
        version = _version(candidate)
        if version is not None and version >= MINIMUM:
            return Go(candidate, version)
        seen.append(
            f"{candidate} is " + ("no Go" if version is None else f"{version[0]}.{version[1]}")
        )
    wanted = f"{MINIMUM[0]}.{MINIMUM[1]}"
    found = "; ".join(seen) or "none found"
    message = f"Go {wanted} or newer is needed ({found}): run `make setup`, which installs one."
    raise errors.BuildError(message)


def environment() -> dict[str, str]:
    """Return what builds run in: ours, with what would change the result pinned."""
    pinned = {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    return {**os.environ, **pinned}


def _candidates() -> tuple[Path, ...]:
    on_path = shutil.which("go")
    ours = Path(sys.prefix) / "bin" / "go"
    paths = [] if on_path is None else [Path(on_path)]
    if ours.exists() and ours not in paths:
        paths.append(ours)
    return tuple(paths)


def _version(go: Path) -> tuple[int, int] | None:
    try:
        answer = subprocess.run(
            [go, "version"],
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stdout)
    return (int(match[1]), int(match[2])) if match else None


if __name__ == "__main__":
    try:
        find()
    except errors.BuildError:
        sys.exit(1)
