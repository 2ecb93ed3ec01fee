"""Command line tools run to their end: kubectl and helm."""

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence

from devcluster import errors

_OURS = ("--kubeconfig=", "--cache-dir=")
"""Words that every command has and no message needs."""


async def run(
    argv: Sequence[str],
    *,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    within: float = 120.0,
) -> str:
    """Run a command, `env` added to ours, and return its stdout.

    CommandError carries its stderr when it ends with another status than 0 or takes longer than
    `within` seconds. It is killed when the caller is cancelled.
    """
    process = await asyncio.create_subprocess_exec(
        *argv,
        env={**os.environ, **(env or {})},
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    shown = " ".join(word for word in argv if not word.startswith(_OURS))
    try:
        sent = None if stdin is None else stdin.encode()
        async with asyncio.timeout(within):
            stdout, stderr = await process.communicate(sent)
    except TimeoutError as error:
        raise errors.CommandError(f"`{shown}` takes longer than {within:.0f} s.") from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode != 0:
        said = stderr.decode(errors="replace").strip() or stdout.decode(errors="replace").strip()
        raise errors.CommandError(f"`{shown}` failed: {said}")
    return stdout.decode()
