"""Leadership: hold a coordination Lease, run a body while it is held, cancel it when it is lost.

The rules are client-go's. Whoever wants the Lease watches its record with a clock of its own: the
holder's times are never compared with ours, only how long the record has stayed the same. A record
that has not changed for its own `leaseDurationSeconds` is free to be taken, by compare-and-swap on
its resourceVersion.

A holder may trust its hold until `lease_duration` after the *start* of the last renewal that
succeeded: nobody can have seen that renewal earlier, so nobody may take the Lease earlier. It
compares monotonic time, so a process frozen by SIGSTOP sees at its first look after the thaw that
its time is over: CLOCK_MONOTONIC runs on while a process is stopped. It does not run while the
whole machine is suspended or a virtual machine is paused; against that only the term on each write
helps (domain contract 6).
"""

import asyncio
import math
import random
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, Unpack

import structlog

from gpu import ports
from gpu.cluster import errors, options
from gpu.objects import kinds
from gpu.objects.kinds import Kind

log: Final = structlog.get_logger(__name__)

_MICRO_TIME: Final = "%Y-%m-%dT%H:%M:%S.%fZ"


class Api(Protocol):
    """What leadership asks of a client."""

    async def get(
        self, kind: Kind, name: str, namespace: str | None = None, **how: Unpack[options.GetOptions]
    ) -> dict[str, Any]:
        """Read one object."""

    async def create(
        self, kind: Kind, body: Mapping[str, Any], **how: Unpack[options.WriteOptions]
    ) -> dict[str, Any]:
        """Create one object."""

    async def update(
        self, kind: Kind, body: Mapping[str, Any], **how: Unpack[options.UpdateOptions]
    ) -> dict[str, Any]:
        """Replace one object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds; the renew deadline must be shorter than the lease, or two may lead at once."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0
    release_deadline: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew_deadline < self.lease_duration:
            raise ValueError(f"retry < renew deadline < lease duration does not hold: {self}")


USUAL: Final = Timing()


@dataclass(frozen=True, slots=True)
class Place:
    """The Lease's name."""

    namespace: str
    name: str


class Hold:
    """One leadership, from winning to losing; what a leader asks before each write."""

    def __init__(self, clock: ports.Clock, deadline: float) -> None:
        self._clock = clock
        self.deadline = deadline
        """Monotonic seconds until which nobody else can have taken the Lease."""
        self.lost = False
        """Set when somebody else was seen to hold it, or when it was given up."""

    @property
    def remaining(self) -> float:
        """Seconds of certain leadership; 0 or less when it is over."""
        return 0.0 if self.lost else self.deadline - self._clock.monotonic()

    def valid(self, margin: float = 0.0) -> bool:
        """Whether what takes `margin` seconds from now would still end while we lead for certain."""
        return self.remaining > margin


class Leadership:
    """Contends for a Lease for ever. `identity` must differ for every process that ever contends."""

    def __init__(
        self,
        api: Api,
        place: Place,
        identity: str,
        *,
        clock: ports.Clock,
        timing: Timing = USUAL,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.hold: Hold | None = None
        """The present leadership; None for a follower."""
        self.leader = ""
        """Who was last seen to hold the Lease; empty when nobody."""
        self.transitions = 0
        """How often this process has won."""
        self._api = api
        self._place = place
        self._identity = identity
        self._clock = clock
        self._timing = timing
        self._jitter = jitter
        self._seen: dict[str, Any] | None = None
        self._record: Mapping[str, Any] = {}
        self._record_since = 0.0

    async def run(self, on_lead: Callable[[Hold], Coroutine[Any, Any, None]]) -> None:
        """Contend; each time the Lease is won, run `on_lead` until it ends or the Lease is lost.

        Lost: the body is cancelled and waited for, and contention goes on. When the body returns,
        so does this; when it raises, its error comes out in an ExceptionGroup. On these ways, and
        when this is cancelled, the Lease is released, for the next one to take at once.
        """
        ended = False
        while not ended:
            self.hold = hold = await self._win()
            self.transitions += 1
            log.info("leadership won", identity=self._identity, lease=self._place.name)
            try:
                ended = await self._lead(hold, on_lead)
            finally:
                held, hold.lost, self.hold = not hold.lost, True, None
                if held:
                    await self._release()
            if not ended:
                log.warning("leadership lost", identity=self._identity, leader=self.leader)

    async def _win(self) -> Hold:
        while True:
            started = await self._try(self._timing.renew_deadline / 2, holding=False)
            if started is not None:
                return Hold(self._clock, started + self._timing.lease_duration)
            await asyncio.sleep(self._pause())

    def _pause(self) -> float:
        """Return seconds until the next look: the usual, or sooner where the Lease will be free by then."""
        usual = self._timing.retry * (1 + self._jitter() / 5)
        if self.leader in {"", self._identity}:
            return usual
        left = self._free_at() - self._clock.monotonic()
        return min(usual, left) if left > 0 else usual

    async def _lead(self, hold: Hold, on_lead: Callable[[Hold], Coroutine[Any, Any, None]]) -> bool:
        """Run the body beside the renewals; True when the body ended by itself."""
        async with asyncio.TaskGroup() as tasks:
            body = tasks.create_task(on_lead(hold), name="leader")
            renewed = hold.deadline - self._timing.lease_duration
            while not (await asyncio.wait({body}, timeout=self._timing.retry))[0]:
                left = renewed + self._timing.renew_deadline - self._clock.monotonic()
                if left > 0 and hold.valid():
                    started = await self._try(min(left, self._timing.renew_deadline / 2))
                    if started is not None:
                        renewed = started
                        hold.deadline = started + self._timing.lease_duration
                        continue
                    left = renewed + self._timing.renew_deadline - self._clock.monotonic()
                if left <= 0 or not hold.valid() or self.leader != self._identity:
                    hold.lost = True
                    body.cancel()
                    break
        return not hold.lost

    async def _try(self, deadline: float, *, holding: bool = True) -> float | None:
        """Take or renew the Lease; returns when that was begun (monotonic), or None."""
        started = self._clock.monotonic()
        try:
            async with asyncio.timeout(deadline):
                if not holding or self._seen is None:
                    lease = await self._read(deadline)
                    if lease is None:
                        self._observe(await self._create(deadline))
                        return started
                    self._observe(lease)
                    if holding and self.leader != self._identity:
                        return None  # whoever had it in between: this leadership is over
                    if self.leader not in {"", self._identity} and not self._expired():
                        return None
                self._observe(await self._write(self._identity, deadline))
        except (errors.ApiError, TimeoutError) as error:
            # Ours or not is read before the next write.
            self._seen = None
            log.debug("lease not written", lease=self._place.name, error=str(error))
            return None
        return started

    async def _release(self) -> None:
        try:
            try:
                await self._let_go()
            except errors.Conflict:
                # A renewal that was under way at the end was stored, and its answer never read.
                self._seen = None
                await self._let_go()
        except errors.ApiError as error:
            log.warning("lease not released", lease=self._place.name, error=str(error))

    async def _let_go(self) -> None:
        """Write that nobody holds the Lease, if we are who does."""
        deadline = self._timing.release_deadline
        if self._seen is None:
            lease = await self._read(deadline)
            if lease is None:
                return
            self._observe(lease)
        if self.leader == self._identity:
            self._observe(await self._write("", deadline))

    async def _read(self, deadline: float) -> dict[str, Any] | None:
        try:
            return await self._api.get(
                kinds.LEASES, self._place.name, self._place.namespace, deadline=deadline
            )
        except errors.NotFound:
            return None

    async def _create(self, deadline: float) -> dict[str, Any]:
        meta = {"name": self._place.name, "namespace": self._place.namespace}
        body = {"metadata": meta, "spec": self._spec(self._identity, {})}
        return await self._api.create(kinds.LEASES, body, deadline=deadline)

    async def _write(self, holder: str, deadline: float) -> dict[str, Any]:
        assert self._seen is not None
        spec = self._spec(holder, self._seen.get("spec") or {})
        return await self._api.update(kinds.LEASES, {**self._seen, "spec": spec}, deadline=deadline)

    def _spec(self, holder: str, before: Mapping[str, Any]) -> dict[str, Any]:
        now = self._clock.now().strftime(_MICRO_TIME)
        taken = holder not in {"", before.get("holderIdentity")}
        return {
            **before,
            "holderIdentity": holder,
            # Whole seconds, and never less than we rely on. A released Lease is free at once.
            "leaseDurationSeconds": math.ceil(self._timing.lease_duration) if holder else 1,
            "acquireTime": now if taken else before.get("acquireTime"),
            "renewTime": now,
            "leaseTransitions": (before.get("leaseTransitions") or 0)
            + (1 if taken and before else 0),
        }

    def _observe(self, lease: dict[str, Any]) -> None:
        self._seen = lease
        spec = lease.get("spec") or {}
        record = {"uid": lease["metadata"].get("uid"), **spec}
        if record != self._record:
            self._record = record
            self._record_since = self._clock.monotonic()
        self.leader = spec.get("holderIdentity") or ""

    def _expired(self) -> bool:
        return self._clock.monotonic() >= self._free_at()

    def _free_at(self) -> float:
        """Return the monotonic second from which a record that stays as it is may be taken."""
        lasts = self._record.get("leaseDurationSeconds") or self._timing.lease_duration
        return self._record_since + float(lasts)
