"""Children: a process for the length of a block, talked to over its pipes and killed at the end."""

import asyncio
import contextlib
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

_LINE: Final = 2**26
"""Bytes of the longest line that is read of one."""


@contextlib.asynccontextmanager
async def running(
    *argv: str, cwd: Path | None = None, stderr: int | None = None
) -> AsyncIterator[Process]:
    """Run a command with pipes to its input and output; none is left after the block.

    `stderr` is that of `asyncio.create_subprocess_exec`: by default what it says there is said here.
    """
    process = await asyncio.create_subprocess_exec(
        *argv, cwd=cwd, stdin=PIPE, stdout=PIPE, stderr=stderr, limit=_LINE
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
