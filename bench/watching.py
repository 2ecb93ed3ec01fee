"""When each object was first seen as wanted, by a watch of our own."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

from gpu.cluster import client, errors
from gpu.objects.kinds import Kind

Wanted = Callable[[dict[str, Any]], bool]
Tell = Callable[[str, dict[str, Any], float], None]
"""Is told how an object changed, the object, and the loop's time; BOOKMARK objects too."""


class Sightings:
    """Names of objects and the loop's time at which each was first seen as wanted."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        self._changed = asyncio.Event()

    def see(self, name: str, at: float) -> None:
        """Note an object; only the first time counts."""
        if name not in self.at:
            self.at[name] = at
            self._changed.set()

    async def all_of(self, names: Collection[str], *, within: float) -> dict[str, float]:
        """Return when each was seen. Raises TimeoutError that says how many are missing."""
        try:
            async with asyncio.timeout(within):
                while not self.at.keys() >= set(names):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            missing = sorted(set(names) - self.at.keys())
            raise TimeoutError(
                f"{len(missing)} of {len(names)} not there after {within:g} s, {missing[0]} among them"
            ) from None
        return {name: self.at[name] for name in names}

    async def next_after(self, known: int, *, within: float) -> tuple[str, float]:
        """Return the object seen next after `known` of them, and when. Raises TimeoutError."""
        async with asyncio.timeout(within):
            while len(self.at) <= known:
                self._changed.clear()
                await self._changed.wait()
        return list(self.at.items())[known]


@contextlib.asynccontextmanager
async def watching(
    api: client.Client, kind: Kind, namespace: str, wanted: Wanted
) -> AsyncIterator[Sightings]:
    """Watch a namespace for the length of the block, from now on."""
    seen = Sightings()

    def tell(change: str, found: dict[str, Any], at: float) -> None:
        if change in {"ADDED", "MODIFIED"} and wanted(found):
            seen.see(found["metadata"]["name"], at)

    async with following(api, kind, namespace, tell):
        yield seen


@contextlib.asynccontextmanager
async def following(
    api: client.Client, kind: Kind, namespace: str, tell: Tell
) -> AsyncIterator[None]:
    """Be told each change in a namespace for the length of the block, from now on."""
    version = (await api.list(kind, namespace, limit=1)).resource_version
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_follow(api, (kind, namespace, version), tell))
        try:
            yield
        finally:
            task.cancel()


async def _follow(api: client.Client, where: tuple[Kind, str, str], tell: Tell) -> None:
    kind, namespace, version = where
    loop = asyncio.get_running_loop()
    while True:
        try:
            stream = api.watch(kind, namespace, resource_version=version)
            async with contextlib.aclosing(stream) as events:
                async for event in events:
                    version = event.object["metadata"]["resourceVersion"]
                    tell(event.type, event.object, loop.time())
        except errors.Unreachable:
            await asyncio.sleep(0.1)


def is_bound(claim: dict[str, Any]) -> bool:
    """Say whether a claim is Bound."""
    return bool(claim.get("status", {}).get("phase") == "Bound")


def is_told(claim: dict[str, Any]) -> bool:
    """Say whether a claim has been told why it waits."""
    return bool(claim.get("status", {}).get("conditions"))


def is_scheduled(pod: dict[str, Any]) -> bool:
    """Say whether a pod has a node."""
    return bool(pod["spec"].get("nodeName"))
