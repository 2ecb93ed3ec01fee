"""Webhooks in flight, hundreds at any time, kept so by a process of its own.

Each caller asks again as soon as it is answered, on a connection that stays open: what comes is as much as
is answered, and no more is ever waiting than there are callers.
"""

import asyncio
import contextlib
import json
import ssl
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from bench import load
from devcluster import children

ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """Who is asked what: all that the process is told."""

    url: str
    """Of the replica."""
    authority: str
    """File of the authority that its certificate is of."""
    path: str
    review: Mapping[str, Any]
    callers: int


class Crowd:
    """The process, seen from the test."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def leave(self) -> dict[str, int]:
        """Have each caller leave once it is answered; how many answers there were, by what they said."""
        said, _ = await self._process.communicate(b"")  # its input ends
        assert self._process.returncode == 0
        return dict(json.loads(said))


@contextlib.asynccontextmanager
async def crowd(aim: Aim) -> AsyncIterator[Crowd]:
    """Begin one for the length of the block; its callers are there a moment later."""
    module = (sys.executable, "-m", "tests.real.webhook_crowd", json.dumps(asdict(aim)))
    async with children.running(*module, cwd=ROOT) as process:
        yield Crowd(process)


async def keep_asking(aim: Aim, until: asyncio.Event) -> Counter[str]:
    """Ask with every caller until told to stop; count answers by whether they allow."""
    said: Counter[str] = Counter()
    tls = ssl.create_default_context(cafile=aim.authority)
    at = load.Aim(url=aim.url, tls=tls, headers={})
    request = at.request(aim.path, json.dumps(aim.review).encode())

    async def ask() -> None:
        reader, writer = await at.connect()
        while not until.is_set():
            writer.write(request)
            answer = json.loads(await load.answer(reader))
            said["allowed" if answer["response"]["allowed"] else "refused"] += 1
        writer.transport.abort()

    async with asyncio.TaskGroup() as callers:
        for _ in range(aim.callers):
            callers.create_task(ask())
    return said


async def main() -> None:
    """Ask until the input ends."""
    aim, stop = Aim(**json.loads(sys.argv[1])), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(keep_asking(aim, stop))
        await asyncio.to_thread(sys.stdin.read)
        stop.set()
    sys.stdout.write(json.dumps(asking.result()))


if __name__ == "__main__":
    asyncio.run(main())
