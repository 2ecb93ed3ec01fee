"""Line: one leader's way to the API server, on which replies and requests are lost, late and refused.

What it does to the n-th write from now is planned before a pass; direct reads can fail too.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gpu.cluster import errors
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from gpu.objects.meta import ObjectKey
from gpu.ports import Outcome
from soak.api import Api

Send = Callable[[], Awaitable[Any]]


class Fault(StrEnum):
    """What becomes of one write."""

    LOST_REPLY = "lost reply"
    """Executed; the reply never comes."""
    TIMEOUT = "timeout"
    """Not executed, and nobody knows."""
    LATE = "late landing"
    """No reply; it is executed some steps later, if it still may be."""
    CONFLICT = "conflict"
    """Somebody wrote the object a moment before."""
    REFUSED = "refused"
    """A definite no."""
    BUSY = "busy"
    """429 or 5xx: not executed."""
    FREEZE = "frozen leader"
    """The process stops with the request sent; it wakes some steps later and goes on."""
    UNREAD = "read failed"
    """Of direct reads: no answer."""


@dataclass
class Line:
    """The Writer of one leader."""

    api: Api
    plan: dict[int, Fault] = field(default_factory=dict)
    """By number of the write, from 1 since `begin`."""
    bad_reads: int = 0
    """So many of the next direct reads fail."""
    jitter: random.Random | None = None
    """Has each write take a while before and after it is executed: others come in between."""
    tally: Counter[str] = field(default_factory=Counter)
    between: Callable[[], None] = lambda: None
    """Called after each write: the world does not wait for the end of a pass."""
    sent: int = 0
    ended: list[str] = field(default_factory=list)
    """VMIs that were to be deleted, by key; never emptied here."""
    late: list[Send] = field(default_factory=list)
    frozen: asyncio.Event = field(default_factory=asyncio.Event)
    thawed: asyncio.Event = field(default_factory=asyncio.Event)

    def begin(
        self, plan: dict[int, Fault], bad_reads: int = 0, jitter: random.Random | None = None
    ) -> None:
        """Plan the faults of what comes now."""
        self.plan, self.bad_reads, self.sent, self.jitter = plan, bad_reads, 0, jitter
        self.frozen.clear()
        self.thawed.clear()

    def outcome(self, error: Exception) -> Outcome | None:
        return self.api.outcome(error)

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Any:
        await self._stand_still()
        self._read()
        return await self.api.get(kind, name, namespace)

    async def list_all(self, kind: Kind, namespace: str | None = None, **which: Any) -> Any:
        await self._stand_still()
        self._read()
        return await self.api.list_all(kind, namespace, **which)

    async def create(self, kind: Kind, body: Any, **how: Any) -> Any:
        return await self._send(kind, None, lambda: self.api.create(kind, body, **how))

    async def patch(
        self, kind: Kind, name: str, patch: Any, namespace: str | None = None, **how: Any
    ) -> Any:
        key = ObjectKey(namespace or "", name)
        return await self._send(
            kind, key, lambda: self.api.patch(kind, name, patch, namespace, **how)
        )

    async def apply(
        self, kind: Kind, name: str, body: Any, namespace: str | None = None, **how: Any
    ) -> Any:
        key = ObjectKey(namespace or "", name)
        return await self._send(
            kind, key, lambda: self.api.apply(kind, name, body, namespace, **how)
        )

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        key = ObjectKey(namespace or "", name)
        if kind == kinds.VMIS:
            self.ended.append(str(key))
        only = {"uid": uid, "resource_version": resource_version}
        await self._send(kind, key, lambda: self.api.delete(kind, name, namespace, **only))

    def _read(self) -> None:
        if self.bad_reads:
            self.bad_reads -= 1
            self.tally[Fault.UNREAD] += 1
            raise errors.Unreachable("the read got no answer", sent=True)

    async def _send(self, kind: Kind, key: ObjectKey | None, send: Send) -> Any:
        await self._stand_still()
        await self._linger()
        self.sent += 1
        fault = self.plan.get(self.sent)
        if fault is not None:
            self.tally[fault] += 1
            await self._suffer(fault, kind, key, send)
        try:
            return await send()
        finally:
            self.between()
            await self._linger()

    async def _stand_still(self) -> None:
        """A frozen process does nothing: no pass of it, and none of the writes beside the one that stopped."""
        if self.frozen.is_set():
            await self.thawed.wait()

    async def _linger(self) -> None:
        for _ in range(self.jitter.randrange(12) if self.jitter else 0):
            await asyncio.sleep(0)

    async def _suffer(self, fault: Fault, kind: Kind, key: ObjectKey | None, send: Send) -> None:
        """Have the fault happen; returns when the write goes on all the same."""
        match fault:
            case Fault.LOST_REPLY:
                await send()
            case Fault.LATE:
                self.late.append(send)
            case Fault.CONFLICT:
                self._touch(kind, key)
                return
            case Fault.REFUSED:
                raise _status(403, "Forbidden", "some admission webhook says no")
            case Fault.BUSY:
                raise _status(500, "InternalError", "etcdserver: leader changed")
            case Fault.FREEZE:
                self.frozen.set()
                await self.thawed.wait()
                return
            case _:
                pass
        raise errors.Unreachable("no answer", sent=True)

    def _touch(self, kind: Kind, key: ObjectKey | None) -> None:
        found = self.api.find(kind, key) if key is not None else None
        if found is not None and kind != kinds.VMIS:
            touched = {"touched": str(self.api.version)}
            self.api.edit(
                kind, found, lambda it: it["metadata"].setdefault("annotations", {}).update(touched)
            )


def _status(code: int, reason: str, message: str) -> errors.ApiError:
    return errors.from_status({"code": code, "reason": reason, "message": message})
