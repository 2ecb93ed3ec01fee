"""The quota gate: judge a change of a tenant's quotas, and reserve what it grants before it passes.

Two changes at once, on two replicas whose caches show neither, may not both get the last unit. So what
passes is first written into one ConfigMap per tenant that bounds it, read past the cache and written by
compare-and-swap: whoever comes second sees the first. A tenant above that declares nothing yet is one of
them, since it may come to while a grant is on its way. What is reserved counts until a replica has seen a
later version of the child, or for half a minute; clocks of replicas may differ by 20 s. Whose budgets bound
it is not left to a watch: nothing is granted before what the tenants above declare now is shown.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakValueDictionary

from gpu.admission import declarations, review, tenants
from gpu.admission.declarations import Declarations, UnreadError
from gpu.admission.reserved import Shelf, Stored, UnstorableError
from gpu.admission.review import Answer, Review
from gpu.admission.sightings import Glance, Sightings
from gpu.errors import DecodeError
from gpu.model import grants, premises, reservations, tenancy
from gpu.model.grants import Change, Ruling, TooMuch
from gpu.model.premises import Named, Premises
from gpu.model.reservations import Amounts
from gpu.model.tenancy import Declaring
from gpu.objects.classes import GPUClass
from gpu.objects.config_maps import ConfigMap
from gpu.objects.meta import HasMeta
from gpu.objects.tenants import TenantRelease
from gpu.ports import Clock, Writer
from gpu.units import TenantName
from gpu.world import World

T = TypeVar("T")

SECONDS: Final = 2.0
"""A change is answered within this, allowed or not."""
RENEWAL: Final = 0.7
"""Seconds a refusal waits for what is declared to be read anew."""
SHOWN: Final = 1.5
"""Seconds a grant waits for what was read of the tenants above to be shown."""
STEP: Final = 0.01
"""Seconds until a grant looks again for what is not shown yet."""

RENEWED: Final[frozenset[type[HasMeta]]] = frozenset({TenantRelease, GPUClass, ConfigMap})
"""What is listed anew before a refusal stands: budgets, and what is a key of one."""


class Ask(Protocol):
    """Put a question to a World that is as new as may be (apiserver.views)."""

    async def __call__(
        self,
        question: Callable[[World], T],
        /,
        *,
        rests_on: Callable[[T], Premises] = ...,
        came: float | None = ...,
    ) -> T:
        """Answer it, of a World in which what the answer rests on has settled since it came.

        That is a loop time, and now where it is not given.
        """


@dataclass(slots=True)
class _Attempt:
    """One round of judging: what is asked, and the reservations that were read for it."""

    asked: Review
    change: Change
    now: datetime
    declared: dict[Named, Declaring | None]
    """What was read, since it was asked, of what the tenants above declare."""
    stored: dict[TenantName, Stored] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Judged:
    """A ruling, by which World, and what that shows of the children of each bounding tenant read."""

    ruling: Ruling
    world: World
    seen: Mapping[TenantName, Mapping[TenantName, int]]

    @property
    def passes(self) -> bool:
        """Nothing stands against it."""
        return not self.ruling.objections

    @property
    def unread(self) -> tuple[TenantName, ...]:
        """Bounding tenants whose reservations were not read yet."""
        return tuple(sorted(self.ruling.bounding.keys() - self.seen.keys()))


class Gate:
    """The admission handler `tenants`. One per process; its methods belong to one event loop."""

    def __init__(
        self,
        *,
        ask: Ask,
        renew: Callable[[], Awaitable[None]],
        is_behind: Callable[[], bool],
        sightings: Sightings,
        writer: Writer,
        clock: Clock,
        seconds: float = SECONDS,
    ) -> None:
        """Take what the gate works with.

        `renew` returns when the caches show all of `RENEWED` that was stored before the call.
        `is_behind` says that they have shown nothing for longer than reservations bear.
        """
        self._ask = ask
        self._renew = renew
        self._is_behind = is_behind
        self._sightings = sightings
        self._shelf = Shelf(writer)
        self._declarations = Declarations(writer)
        self._clock = clock
        self._seconds = seconds
        self._turns: WeakValueDictionary[TenantName, asyncio.Lock] = WeakValueDictionary()
        self._renewing = asyncio.Lock()
        self._renewed = -math.inf

    async def __call__(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer the `request` of an AdmissionReview. Raises what `ask` raises."""
        try:
            asked = review.decode(request)
        except DecodeError as error:
            bad = review.Denied(code=400, reason="BadRequest", message=f"review: {error}")
            return review.document(bad)
        found = tenants.change(asked)
        if isinstance(found, Change):
            return review.document(await self._answer(asked, found))
        return review.document(found or review.Allowed())

    async def _answer(self, asked: Review, found: Change) -> Answer:
        whose = f"quotas of {found.tenant}"
        if self._is_behind():
            return review.unavailable(f"{whose}: tenants cannot be read at present: try again", 5)
        try:
            async with asyncio.timeout(self._seconds):
                return tenants.answer(asked, await self._judge(asked, found))
        except TimeoutError:
            return review.unavailable(f"{whose}: not judged within {self._seconds:g} s: try again")
        except (UnstorableError, UnreadError) as error:
            return review.unavailable(f"{whose}: {error}")

    async def _judge(self, asked: Review, change: Change) -> Ruling:
        """Judge by what the caches show; what they refuse, again once they have caught up.

        They catch up between rounds, while nobody waits for a turn.
        """
        arrived = self._clock.monotonic()
        came = asyncio.get_running_loop().time()
        current: Premises = premises.NOTHING
        while True:
            ruling = await self._reserve(asked, change)
            lacking = premises.of_grant(ruling.objections) - current
            if not lacking:
                return ruling
            left = lacking
            if _may_be_old(ruling):
                if not await self._renewed_since(arrived):
                    return ruling
                # What rests on keys alone has all been listed; the World that shows it is waited for.
                left = lacking - RENEWED or lacking
            await self._catch_up(left, came)
            current |= lacking

    async def _catch_up(self, lacking: Premises, came: float) -> None:
        """Have a World made in which that has settled since, and which shows what was renewed.

        It settles while that is renewed. No grant rests on it: what passes then is weighed and written down like any other.
        """
        await self._ask(lambda _: None, rests_on=lambda _: lacking, came=came)

    async def _renewed_since(self, arrived: float) -> bool:
        """Have the caches read anew, once for all who wait; False when that takes too long."""
        try:
            async with asyncio.timeout(RENEWAL), self._renewing:
                if self._renewed < arrived:
                    began = self._clock.monotonic()
                    await self._renew()
                    self._renewed = began
        except TimeoutError:
            return False
        return True

    async def _reserve(self, asked: Review, change: Change) -> Ruling:
        """Judge, and write down what is granted; anew when somebody else wrote meanwhile.

        Reservations can only add to what stands against a change.
        """
        declared: dict[Named, Declaring | None] = {}
        judged = await self._look(_Attempt(asked, change, self._clock.now(), declared))
        if not judged.passes or not judged.ruling.bounding:
            return judged.ruling
        async with self._turn(judged.ruling):
            while True:
                attempt = _Attempt(asked, change, self._clock.now(), declared)
                judged = await self._weigh(attempt, judged)
                if not judged.passes or asked.dry_run or await self._write(attempt, judged):
                    return judged.ruling

    def _turn(self, ruling: Ruling) -> asyncio.Lock:
        """Return what is held while something below the topmost bounding tenant is granted.

        Replicas do without; within one it spares most conflicts.
        """
        return self._turns.setdefault(min(ruling.bounding, key=tenancy.nesting), asyncio.Lock())

    async def _weigh(self, attempt: _Attempt, before: _Judged) -> _Judged:
        """Judge with the reservations of every bounding tenant; what they hold may bound it further."""
        unread = tuple(sorted(before.ruling.bounding))
        while True:
            make = not attempt.asked.dry_run
            attempt.stored.update(await self._shelf.read_all(unread, attempt.now, make=make))
            judged = await self._look(attempt)
            unread = judged.unread
            if not judged.passes or not unread:
                return judged

    async def _look(self, attempt: _Attempt) -> _Judged:
        """Judge; a grant by a World that shows what the tenants above declare now. Raises UnreadError."""
        judged = await self._put(attempt)
        missing = await self._missing(attempt, judged)
        try:
            async with asyncio.timeout(SHOWN):
                while missing:
                    await asyncio.sleep(STEP)
                    judged = await self._put(attempt)
                    missing = await self._missing(attempt, judged)
        except TimeoutError:
            late = declarations.words(missing)
            raise UnreadError(
                f"{late} was changed a moment ago and is not seen here yet: try again"
            ) from None
        return judged

    async def _put(self, attempt: _Attempt) -> _Judged:
        glance = self._sightings.glance()
        return await self._ask(lambda world: _judged(attempt, glance, world))

    async def _missing(self, attempt: _Attempt, judged: _Judged) -> frozenset[Named]:
        """Return what a grant rests on and its World does not show as it is; what is lacking is read."""
        if not judged.passes or not judged.ruling.raises:
            return frozenset()
        where = judged.world, attempt.change.tenant, attempt.declared
        if unread := declarations.lacking(*where):
            attempt.declared.update(await self._declarations.read(unread))
        return declarations.lacking(*where)

    async def _write(self, attempt: _Attempt, judged: _Judged) -> bool:
        """Write the child's entry for every bounding tenant, the topmost first.

        False when somebody else wrote first; what was written by then stays, and is counted on.
        """
        child = attempt.change.tenant
        after = tenants.version(attempt.asked) or await self._shelf.present()
        for tenant in sorted(judged.ruling.bounding, key=tenancy.nesting):
            stored = attempt.stored[tenant]
            entry = reservations.entered(
                stored.book,
                child,
                judged.ruling.bounding[tenant],
                after=after,
                now=attempt.now,
                seen=judged.seen[tenant],
            )
            if not await self._shelf.swap(tenant, stored, child, entry, attempt.now):
                return False
        return True


def _may_be_old(ruling: Ruling) -> bool:
    """Say whether newer caches could take back a refusal; what is reserved they do not change."""
    return any(not isinstance(one, TooMuch) or not one.reserved for one in ruling.objections)


def _judged(attempt: _Attempt, glance: Glance, world: World) -> _Judged:
    seen = {
        tenant: glance.seen(world, stored.book.entries) for tenant, stored in attempt.stored.items()
    }
    reserved: dict[TenantName, Amounts] = {}
    for tenant, stored in attempt.stored.items():
        for child, units in stored.book.in_force(attempt.now, seen[tenant]).items():
            reserved[child] = _larger(reserved.get(child, {}), units)
    return _Judged(grants.judge(world.snapshot, attempt.change, reserved), world, seen)


def _larger(one: Amounts, other: Amounts) -> Amounts:
    return {
        **other,
        **{key: max(units, other.get(key, units)) for key, units in one.items()},
    }
