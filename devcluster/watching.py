"""Watch one kind and look at each object that changed; one look at a time for each object.

    pods = watching.Watch(admin, kinds.PODS, look)
    async def look(key): ...                # returns the seconds after which to look again, or None
    pods.again(key)                         # a look that no event asks for

A look that meets a Conflict is repeated: what it saw was old. Nothing is polled.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from gpu.cluster import client, errors, reflector
from gpu.cluster.store import Store
from gpu.objects import meta
from gpu.objects.decode import Fields
from gpu.objects.kinds import Kind
from gpu.objects.meta import ObjectKey, ObjectMeta

log: Final = structlog.get_logger(__name__)

Look = Callable[[ObjectKey], Awaitable[float | None]]

_AT_ONCE: Final = 16
_AGAIN: Final = 0.05
"""Seconds until a look that met a newer object is repeated; its event is on the way."""
_LATER: Final = 1.0
"""Seconds until a look that the server refused is repeated."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An object as the server sent it. Two are equal only when they are the same version of it."""

    meta: ObjectMeta
    raw: Mapping[str, Any]

    @property
    def status(self) -> Mapping[str, Any]:
        """Its status, empty where it has none."""
        found: Mapping[str, Any] = self.raw.get("status") or {}
        return found

    @property
    def phase(self) -> str:
        """The phase in its status."""
        return str(self.status.get("phase") or "")

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return self.meta.labels


class Watch:
    """One kind's objects in memory, and the looks at those that changed; `run()` never returns."""

    def __init__(
        self,
        api: client.Client | reflector.Api,
        kind: Kind,
        look: Look,
        scope: reflector.Scope = reflector.EVERYTHING,
    ) -> None:
        self.store: Store[Seen] = _Told(kind, self.again)
        self._reflector = reflector.Reflector(api, self.store, scope)
        self._look = look
        self._queue: asyncio.Queue[ObjectKey] = asyncio.Queue()
        self._waiting: set[ObjectKey] = set()
        self._busy: set[ObjectKey] = set()
        self._missed: set[ObjectKey] = set()
        self._timers: dict[ObjectKey, asyncio.TimerHandle] = {}
        self._ages: dict[ObjectKey, tuple[str, dict[str, float]]] = {}

    async def run(self) -> None:
        """Fill the store and look until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._reflector.run())
                for _ in range(_AT_ONCE):
                    group.create_task(self._work())
        finally:
            for timer in self._timers.values():
                timer.cancel()

    def again(self, key: ObjectKey, after: float = 0.0) -> None:
        """Look at an object now or after some seconds, whatever its events; the last call decides."""
        self._forget_timer(key)
        if after > 0:
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(after, self.again, key)
        elif key in self._busy:
            self._missed.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._queue.put_nowait(key)

    def all_again(self) -> None:
        """Look at every object once more: what decides about them has changed."""
        for item in self.store.items():
            self.again(item.meta.key)

    def left(self, item: Seen, stage: str, seconds: float) -> float:
        """Return how many of these seconds are left since this stage was first asked for.

        At most 0 when they are over. A new object of the same name begins anew.
        """
        uid, stages = self._ages.get(item.meta.key, ("", {}))
        if uid != item.meta.uid:
            stages = {}
            self._ages[item.meta.key] = (item.meta.uid, stages)
        now = asyncio.get_running_loop().time()
        return stages.setdefault(stage, now) + seconds - now

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            self._waiting.discard(key)
            self._busy.add(key)
            try:
                after = await self._look(key)
            except errors.ApiError as error:
                after = self._after(key, error)
            finally:
                self._busy.discard(key)
            if self.store.get(key) is None:
                self._ages.pop(key, None)
            if key in self._missed:
                self._missed.discard(key)
                self.again(key)
            elif after is not None:
                self.again(key, max(after, 0.001))

    def _after(self, key: ObjectKey, error: errors.ApiError) -> float:
        if isinstance(error, errors.Conflict | errors.NotFound):
            return _AGAIN
        log.warning("a write failed", kind=self.store.kind.resource, key=str(key), error=str(error))
        return _LATER

    def _forget_timer(self, key: ObjectKey) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()


class _Told(Store[Seen]):
    """A store that tells which object changed, not only that one did."""

    def __init__(self, kind: Kind, tell: Callable[[ObjectKey], None]) -> None:
        super().__init__(kind, _decode)
        self._tell = tell

    def put(self, raw: Mapping[str, Any]) -> None:
        super().put(raw)
        self._tell(_key(raw))

    def remove(self, raw: Mapping[str, Any]) -> None:
        super().remove(raw)
        self._tell(_key(raw))

    def _replace(self, objects: dict[ObjectKey, Seen], *rest: Any) -> None:
        before = {item.meta.key: item for item in self.items()}
        super()._replace(objects, *rest)
        for key in before.keys() | objects.keys():
            if before.get(key) is not objects.get(key):
                self._tell(key)


def _decode(raw: Mapping[str, Any]) -> Seen:
    return Seen(meta.decode_meta(Fields(raw)), raw)


def _key(raw: Mapping[str, Any]) -> ObjectKey:
    place = raw["metadata"]
    return ObjectKey(place.get("namespace") or "", place["name"])
