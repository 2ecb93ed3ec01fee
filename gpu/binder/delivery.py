"""Write the changes of one phase: several sets in flight, one set in order (domain contract 6).

A status write of a claim that is contended or unknown, or a pin that is unknown, stops the starting of
further sets; those in flight are awaited. A definite refusal ends its own set alone, and so does a change whose evidence
did not hold: nothing was sent. Any other failure ends its own set and is told.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final

from gpu.binder import changes
from gpu.binder.changes import Change, ClaimStatus, SetId
from gpu.binder.fence import Deposed
from gpu.binder.report import Failed
from gpu.binder.start_changes import Pin
from gpu.binder.writer import ChangeWriter, Failure
from gpu.ports import Outcome

_UNCONFIGURED: Final = "denied request: failed to configure "
"""Words of kube-apiserver about a policy, or a binding, that it could not evaluate at all."""


@dataclass(frozen=True, slots=True)
class FailedSet:
    """A set whose changes were not all stored: the change that failed, and those not tried."""

    set_id: SetId
    failed: Failed
    change: Change
    left: tuple[Change, ...]
    """Changes of the set that are not stored, the failed one first."""

    @property
    def is_gone(self) -> bool:
        """Say whether the object was there and is no more: nothing to be done about it."""
        return self.failed.outcome is Outcome.GONE and bool(changes.target_of(self.change).uid)

    @property
    def is_stale(self) -> bool:
        """Say whether nothing was sent, since what the change relies on did not hold."""
        return self.failed.outcome is Outcome.STALE

    @property
    def is_unanswered(self) -> bool:
        """Say whether nobody knows what became of the write of a claim's status, or of a pin."""
        is_known = self.failed.outcome is not Outcome.UNKNOWN
        return not is_known and isinstance(self.change, ClaimStatus | Pin)

    @property
    def is_judged(self) -> bool:
        """Say whether it was refused for what it is, not for policies that are not configured yet.

        For up to half a minute after its start kube-apiserver may not know the kind of a policy's
        parameter, and refuses whatever the policy is about.
        """
        return _UNCONFIGURED not in self.failed.words

    @property
    def is_refused(self) -> bool:
        """Say whether the answer was a definite no; so is the lack of a namespace to create in."""
        return self.failed.outcome is Outcome.REFUSED or (
            self.failed.outcome is Outcome.GONE and not self.is_gone
        )


@dataclass(slots=True)
class Delivered:
    """What became of a phase's changes."""

    written: Counter[str] = field(default_factory=Counter)
    complete: list[SetId] = field(default_factory=list)
    failed: list[FailedSet] = field(default_factory=list)
    aborted: bool = False


def _unheard(_: Change) -> None:
    """Nobody wants to hear of it."""


async def deliver(
    wanted: Iterable[Change],
    writer: ChangeWriter,
    in_flight: int,
    stored: Callable[[Change], None] = _unheard,
    slots: asyncio.Semaphore | None = None,
) -> Delivered:
    """Write the changes, at most `in_flight` sets at once; `stored` hears of each that was stored.

    `slots` bound the sets of several deliveries together: who comes first is served first.

    Raises Deposed when the lease ran out; what was in flight has been awaited then.
    """
    groups: dict[SetId, list[Change]] = {}
    for change in wanted:
        groups.setdefault(changes.set_of(change), []).append(change)
    done = Delivered()
    if not groups:
        return done
    queue = iter(groups.items())
    deposed: list[Deposed] = []
    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(in_flight, len(groups))):
            tasks.create_task(
                _work(queue, writer, stored, done, deposed, slot=slots or nullcontext())
            )
    if deposed:
        raise deposed[0]
    return done


async def _work(
    queue: Iterator[tuple[SetId, list[Change]]],
    writer: ChangeWriter,
    stored: Callable[[Change], None],
    done: Delivered,
    deposed: list[Deposed],
    *,
    slot: AbstractAsyncContextManager[None],
) -> None:
    while True:
        async with slot:
            if done.aborted or deposed:
                return
            set_id, group = next(queue, (None, []))
            if set_id is None:
                return
            try:
                await _one_set(set_id, group, writer, stored, done)
            except Deposed as error:
                deposed.append(error)


async def _one_set(
    set_id: SetId,
    group: list[Change],
    writer: ChangeWriter,
    stored: Callable[[Change], None],
    done: Delivered,
) -> None:
    for index, change in enumerate(group):
        failure = await writer.perform(change)
        if failure is None:
            done.written[type(change).__name__] += 1
            stored(change)
            continue
        is_contended = isinstance(change, ClaimStatus) and failure.outcome is Outcome.CONFLICT
        places = isinstance(change, ClaimStatus | Pin)
        if is_contended or (places and failure.outcome is Outcome.UNKNOWN):
            done.aborted = True
        told = _told(set_id, change, failure)
        done.failed.append(FailedSet(set_id, told, change, tuple(group[index:])))
        return
    done.complete.append(set_id)


def _told(set_id: SetId, change: Change, failure: Failure) -> Failed:
    target = changes.target_of(change)
    return Failed(
        change=type(change).__name__,
        object=f"{target.kind.kind} {target.key}",
        set_id=set_id,
        outcome=failure.outcome,
        words=failure.words,
    )
