"""How long lists, discovery and probes take, asked by a process that does nothing else.

Asked from the event loop of a test, which also makes the load and carries the product's own line to
kube-apiserver, most of what is measured would be that loop's own queue.
"""

import asyncio
import contextlib
import json
import math
import ssl
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from devcluster import children
from gpu.cluster import credentials
from gpu.cluster.client import Client

ROOT: Final = Path(__file__).parents[2]
DEADLINE: Final = 30.0
"""Seconds that an answer may take before the measuring itself has failed."""
PAUSE: Final = 0.02
"""Seconds between two rounds of questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """Who asks whom: all that the process is told."""

    kubeconfig: str
    """Login of an administrator of kube-apiserver, who may act as anybody."""
    user: str
    groups: tuple[str, ...]
    list: str
    """Path of a list, through kube-apiserver, as the user."""
    discovery: str
    """Path through kube-apiserver, as the administrator."""
    replica: str
    """URL of the replica whose probes are asked."""
    authority: str
    """File of the authority that the replica's certificate is of."""


@dataclass(slots=True)
class Took:
    """Seconds of each answer, in the order they came."""

    lists: list[float] = field(default_factory=list)
    discovery: list[float] = field(default_factory=list)
    probes: list[float] = field(default_factory=list)

    def worst(self) -> dict[str, float]:
        """Return of each the 99th percentile by nearest rank: of fewer than a hundred, the slowest."""
        return {
            name: sorted(found)[math.ceil(len(found) * 0.99) - 1]
            for name, found in asdict(self).items()
        }


class Measurer:
    """The process, seen from the test."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def measured(self, seconds: float) -> Took:
        """Have it ask over and over for a while. Fails with what it said where an answer was not a 200."""
        await self._say(seconds)
        return Took(**await self._told())

    async def _say(self, words: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words).encode() + b"\n")
        await self._process.stdin.drain()

    async def _told(self) -> Any:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line, f"the measurer has ended: {await self._process.wait()}"
        return json.loads(line)

    async def begin(self, aim: Aim) -> None:
        """Tell it whom to ask, and wait until it has asked once: connections are open then."""
        await self._say(asdict(aim))
        await self.measured(0)


@contextlib.asynccontextmanager
async def measurer(aim: Aim) -> AsyncIterator[Measurer]:
    """Run one until the block ends."""
    module = (sys.executable, "-m", "tests.real.answer_times")
    async with children.running(*module, cwd=ROOT) as process:
        found = Measurer(process)
        await found.begin(aim)
        yield found


class Asking:
    """The questions, in the process that asks them."""

    def __init__(self, aim: Aim, admin: Client) -> None:
        self._aim, self._admin = aim, admin
        self._person = admin.acting_as(aim.user, aim.groups)
        self._tls = ssl.create_default_context(cafile=aim.authority)

    async def asked(self, seconds: float) -> Took:
        """Ask one after another, each once at least."""
        took, until = Took(), time.monotonic() + seconds
        while not took.probes or time.monotonic() < until:
            took.lists.append(await self._read(self._person, self._aim.list))
            took.discovery.append(await self._read(self._admin, self._aim.discovery))
            took.probes += [await self._probe(name) for name in ("livez", "readyz")]
            await asyncio.sleep(PAUSE)
        return took

    async def _read(self, who: Client, path: str) -> float:
        began = time.monotonic()
        answer = await who.raw("GET", path, deadline=DEADLINE)
        assert answer.status == 200, answer.body
        return time.monotonic() - began

    async def _probe(self, name: str) -> float:
        """Ask on a connection of its own, as kubelet does."""
        began = time.monotonic()
        whole = aiohttp.ClientTimeout(total=DEADLINE)
        async with (
            aiohttp.ClientSession(timeout=whole) as session,
            session.get(f"{self._aim.replica}/{name}", ssl=self._tls) as answer,
        ):
            assert answer.status == 200, await answer.text()
        return time.monotonic() - began


async def main() -> None:
    """Read an aim, then for how many seconds to ask, over and over until there is no more."""
    aim = Aim(**json.loads(await asyncio.to_thread(sys.stdin.readline)))
    access = await credentials.load(Path(aim.kubeconfig))
    async with Client(access) as admin:
        asking = Asking(aim, admin)
        while line := await asyncio.to_thread(sys.stdin.readline):
            took = await asking.asked(json.loads(line))
            sys.stdout.write(json.dumps(asdict(took)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
