"""A line to the cluster on which some writes take as long as the test says."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.cluster import FakeCluster


@dataclass
class Slow:
    """A Writer. A write to an object whose name `stuck` says waits for `go`, then is sent."""

    cluster: FakeCluster
    stuck: Callable[[str], bool] = lambda _: False
    go: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: set[str] = field(default_factory=set)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.cluster, name)
        return self._write(found) if name in {"create", "patch", "apply", "delete"} else found

    def _write(self, send: Callable[..., Any]) -> Callable[..., Any]:
        async def write(*args: Any, **how: Any) -> Any:
            name = args[1] if isinstance(args[1], str) else args[1]["metadata"]["name"]
            if self.stuck(name):
                self.waiting.add(name)
                self.arrived.set()
                await self.go.wait()
                self.waiting.discard(name)
            return await send(*args, **how)

        return write

    async def is_stuck(self, *names: str) -> None:
        """Wait until writes to these objects are under way."""
        async with asyncio.timeout(5):
            while not self.waiting >= set(names):
                self.arrived.clear()
                await self.arrived.wait()
