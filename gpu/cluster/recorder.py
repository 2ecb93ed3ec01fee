"""Recorder: Kubernetes Events (events.k8s.io/v1), one per change of reason of an object.

`event()` only queues: it never waits and never raises. The queue is bounded, and one Event is
written at a time, so that a burst of them does not compete with the writes they tell of. What does
not fit, or cannot be written, is dropped and counted: an Event is news, not a record. While somebody
waits for an answer of this replica they give way to it, for a while.
"""

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, Unpack

import structlog

from gpu import ports
from gpu.cluster import errors, options
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from gpu.objects.meta import ObjectKey

log: Final = structlog.get_logger(__name__)

QUEUE: Final = 1000
REMEMBERED: Final = 20_000
"""Objects whose last reason is remembered."""
NOTE_CAP: Final = 1024
"""Characters of a note; the API server takes no more bytes than that."""
DEADLINE: Final = 5.0
PAUSE: Final = 5.0
"""Seconds of rest after an Event that found no server."""
MOST: Final = 1.0
"""Seconds that Events are held back at most, from when the first of them was."""
LOOK_AGAIN: Final = 0.05
"""Seconds until it is asked again whether anybody waits."""
CLUSTER_NAMESPACE: Final = "default"
"""Where Events about objects without a namespace go, as everywhere in Kubernetes."""

About = tuple[Kind, str]
"""An object: its kind, and its uid or else its key."""


class Api(Protocol):
    """What a recorder asks of a client."""

    async def create(
        self, kind: Kind, body: Mapping[str, Any], **how: Unpack[options.WriteOptions]
    ) -> dict[str, Any]:
        """Create one object."""


@dataclass(frozen=True, slots=True)
class Reporter:
    """Who reports: `gpu.cozystack.io/binder`, and this process."""

    controller: str
    instance: str


def _never() -> bool:
    """Nobody waits."""
    return False


class Recorder:
    """Satisfies the Recorder port; `run()` writes what `event()` queues."""

    def __init__(
        self,
        api: Api,
        reporter: Reporter,
        *,
        clock: ports.Clock,
        waits: Callable[[], bool] = _never,
    ) -> None:
        """Have Events give way while `waits` says that somebody waits for an answer; it is asked often."""
        self.written = 0
        self.dropped = 0
        """Events that were not written: the queue was full, or the server away or against it."""
        self._api = api
        self._reporter = reporter
        self._clock = clock
        self._waits = waits
        self._queue: asyncio.Queue[tuple[About, dict[str, Any]]] = asyncio.Queue(QUEUE)
        self._last: OrderedDict[About, str] = OrderedDict()
        self._held = 0
        """Queued Events that were held back."""
        self._until = 0.0
        """When these are written at the latest, in seconds of the event loop."""

    def event(
        self, regarding: Kind, key: ObjectKey, uid: str, *, warning: bool, reason: str, note: str
    ) -> None:
        """Queue one Event, unless the object's last one had the same reason."""
        about = (regarding, uid or str(key))
        if self._last.get(about) == reason:
            return
        self._last[about] = reason
        self._last.move_to_end(about)
        if len(self._last) > REMEMBERED:
            self._last.popitem(last=False)
        body = self._body(regarding, key, uid)
        body |= {
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "action": reason,
            "note": _capped(note),
        }
        try:
            self._queue.put_nowait((about, body))
        except asyncio.QueueFull:
            self._drop(about)

    async def run(self) -> None:
        """Write queued Events until cancelled."""
        while True:
            about, body = await self._queue.get()
            await self._give_way()
            try:
                await self._api.create(kinds.EVENTS, body, deadline=DEADLINE)
            except errors.ApiError as error:
                self._drop(about)
                log.warning("event dropped", reason=body["reason"], error=str(error))
                if not error.definite:
                    await asyncio.sleep(PAUSE)  # away or overrun: the rest of the queue can wait
            else:
                self.written += 1

    async def _give_way(self) -> None:
        """Hold the next Event back while somebody waits; those that were held for MOST go in any case."""
        now = asyncio.get_running_loop().time
        if not self._held:
            self._until = now() + MOST
        while now() < self._until and self._waits():
            await asyncio.sleep(min(LOOK_AGAIN, self._until - now()))
            self._held = 1 + self._queue.qsize()
        self._held = max(self._held - 1, 0)

    def _drop(self, about: About) -> None:
        self.dropped += 1
        self._last.pop(about, None)  # so that the next one of this reason is news again

    def _body(self, regarding: Kind, key: ObjectKey, uid: str) -> dict[str, Any]:
        namespace = key.namespace or CLUSTER_NAMESPACE
        return {
            "metadata": {
                "namespace": namespace,
                "name": f"{key.name[:200]}.{uuid.uuid4().hex[:16]}",
            },
            "eventTime": self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": self._reporter.controller,
            "reportingInstance": self._reporter.instance[:128],
            "regarding": {
                "apiVersion": regarding.api_version,
                "kind": regarding.kind,
                "name": key.name,
                **({"namespace": key.namespace} if key.namespace else {}),
                **({"uid": uid} if uid else {}),
            },
        }


def _capped(note: str) -> str:
    raw = note.encode()
    if len(raw) <= NOTE_CAP:
        return note
    return raw[: NOTE_CAP - 3].decode(errors="ignore") + "…"
