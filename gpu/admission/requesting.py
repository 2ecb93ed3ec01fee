"""The writes of a start under `binding: request`: its template claims, the request, the wait for answers.

Claims first, then on each its attachment and the request, in one write: a request that is not on all of
its claims is acted on by nobody. The answers are looked for in the cache. What is written is undone where the
start is not admitted; what then still stays, the binder clears once the VMI does not come.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

from gpu import keys
from gpu.admission import requested, review, vmis
from gpu.admission.attach import Attachments
from gpu.admission.attempt import AnsweredError, Attempt, FailedError, superseded
from gpu.admission.claims import Claims
from gpu.admission.requested import Refused, Superseded, Written
from gpu.admission.unanswered import PAUSE
from gpu.admission.vmis import Plan
from gpu.errors import DecodeError
from gpu.objects import claims
from gpu.objects.claims import BindRequest, GPUClaim
from gpu.objects.kinds import GPU_CLAIMS
from gpu.objects.meta import ObjectKey
from gpu.ports import Clock, Outcome, Writer
from gpu.units import ClaimName, ClassName, NodeName, Units

T = TypeVar("T")

SETTLE: Final = 3.0
"""Seconds that a start waits for the guest before it to let go of its claims."""


class Seen(Protocol):
    """Claims as the watch has shown them so far."""

    def get(self, key: ObjectKey) -> GPUClaim | None:
        """Return one; None where there is none, or none that can be read."""

    def in_namespace(self, namespace: str) -> tuple[GPUClaim, ...]:
        """Return all of a namespace."""

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after each change; returns what ends it."""


class Requests:
    """Has the leader place what a start needs. Its methods belong to one event loop."""

    def __init__(
        self,
        *,
        attachments: Attachments,
        stored: Claims,
        seen: Seen,
        writer: Writer,
        clock: Clock,
    ) -> None:
        self._attachments = attachments
        self._stored = stored
        self._seen = seen
        self._writer = writer
        self._clock = clock

    async def settle(self, attempt: Attempt) -> None:
        """Wait a little until claims are let go of by the guest before. Raises FailedError.

        A VM that is started again at once would count twice against its budget, and a claim may be
        used, as far as is known, by the guest that has just ended.
        """
        asked = attempt.asked
        if self._is_first(attempt.plan):
            return
        await self._attachments.look(attempt)
        if attempt.mine is not None:  # about to go; its name is free only then
            raise FailedError(vmis.taken(asked))

        def is_over() -> bool | None:
            found = requested.earlier(self._seen.in_namespace(asked.namespace), attempt.plan)
            return None if any(found) else True

        if is_over():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE):
                await self._until(is_over)
        # They have changed meanwhile, and a VMI of the name may have come.
        found = attempt.plan.found
        held = tuple(self._seen.get(claim.key) or claim for claim in found.held)
        attempt.plan = replace(attempt.plan, found=replace(found, held=held))
        await self._attachments.look(attempt)

    def _is_first(self, plan: Plan) -> bool:
        """Say whether no VMI need be read (decision 43): none of the name is seen, and nobody has a claim."""
        if not plan.is_new_name or plan.found.is_repeated:
            return False
        if any(claim.attached_to for claim in plan.found.held):
            return False
        return not any(requested.earlier(self._seen.in_namespace(plan.start.namespace), plan))

    async def bind(self, attempt: Attempt) -> NodeName | None:
        """Have all claims of a start placed; return their node. Raises FailedError.

        A dry run writes nothing, asks nobody, and has no node.
        """
        held = attempt.plan.found.held
        if attempt.asked.dry_run:
            planned = await self._attachments.judged(attempt, held)
            attempt.admissions.update(
                {ClaimName(one.before.meta.name): one.wanted.admission for one in planned}
            )
            return None
        await self._attachments.judged(attempt, held)  # or claims would be made for nothing
        found = [*held, *await self._templates(attempt)]
        try:
            return await self._bind(attempt, found)
        except AnsweredError:
            names = [ClaimName(claim.meta.name) for claim in found]
            fresh = [await self._stored.claim(attempt, name) for name in names]
            await self._attachments.look(attempt)
            return await self._bind(attempt, fresh, is_fresh=True)

    async def _bind(
        self, attempt: Attempt, found: Sequence[GPUClaim], *, is_fresh: bool = False
    ) -> NodeName:
        """Have these claims placed. Raises FailedError, and AnsweredError unless they are `is_fresh`."""
        planned = await self._attachments.judged(attempt, found)
        planned.sort(key=lambda one: one.before.meta.name)
        if self._placed(attempt, [one.before for one in planned]) is not None:
            stored = await self._attachments.store(attempt, planned)
            node = self._placed(attempt, stored)
            if node is not None:
                return node
            planned = await self._attachments.judged(attempt, stored)
        attempt.is_requested = True
        request = BindRequest(
            id=attempt.admission,
            vmi=attempt.asked.name,
            claims=tuple(ClaimName(one.before.meta.name) for one in planned),
            # One dated before its attachment would pass for an earlier start's, and nobody answers those.
            requested_at=max(
                self._clock.now(), *filter(None, (one.wanted.since for one in planned))
            ),
            launcher=attempt.launcher,
        )
        try:
            stored = await self._attachments.store(attempt, planned, request)
        except AnsweredError:
            if not is_fresh:
                raise
            raise FailedError(superseded(attempt.asked)) from None
        written = [Written(claim.key, claim.meta.version) for claim in stored]
        return await self._answer(attempt, written)

    @staticmethod
    def _placed(attempt: Attempt, found: Sequence[GPUClaim]) -> NodeName | None:
        return requested.placed(found, attempt.plan, attempt.launcher)

    async def undo(self, attempt: Attempt) -> None:
        """Delete the claims that were made, the last first, once they are attached to nothing."""
        for claim in reversed(attempt.made):
            await self._delete(attempt, claim)

    async def _templates(self, attempt: Attempt) -> list[GPUClaim]:
        found = attempt.plan.found
        if found.is_repeated and found.made:
            return list(found.made)
        return [await self._template(attempt, *one) for one in sorted(found.template.items())]

    async def _template(self, attempt: Attempt, class_name: ClassName, units: Units) -> GPUClaim:
        """Return a claim of units of a class that is this start's alone, made if there is none."""
        for name in requested.names(attempt.plan.start, class_name):
            body = _body(attempt.asked.namespace, name, class_name, units)
            claim = await self._made(attempt, name, body)
            if claim.attached_to is not None:  # an earlier call's, or an earlier VMI's
                await self._attachments.look(attempt)
            if not claim.is_template:
                raise FailedError(requested.name_taken(attempt.asked, name))
            if requested.is_free(claim, class_name, units):
                return claim
        said = "units of its earlier starts are still being given back: try again"
        raise FailedError(review.unavailable(f"VM {attempt.asked.title}: {said}"))

    async def _made(self, attempt: Attempt, name: ClaimName, body: Mapping[str, Any]) -> GPUClaim:
        """Create a claim; return it, or the one that is there. Raises FailedError."""
        asked = attempt.asked
        while True:
            try:
                raw = await self._writer.create(
                    GPU_CLAIMS, body, field_manager=keys.WEBHOOK_MANAGER
                )
                claim = claims.decode(raw)
            except DecodeError as error:
                said = f"VM {asked.title}: claim {name} cannot be read: {error}; ask the hoster"
                raise FailedError(review.unavailable(said)) from error
            except Exception as error:
                outcome = self._writer.outcome(error)
                if outcome is None:
                    raise
                if outcome in {Outcome.REFUSED, Outcome.GONE}:
                    said = f"no claim can be made for its units: {error}; ask the hoster"
                    raise FailedError(review.unavailable(f"VM {asked.title}: {said}")) from error
                found = await self._stored.find(asked, name)
                if found is None:
                    await asyncio.sleep(PAUSE)
                    continue
                if outcome is Outcome.UNKNOWN and found.attached_to is None:
                    attempt.made.append(found)  # most likely by this very call
                return found
            attempt.made.append(claim)
            return claim

    async def _answer(self, attempt: Attempt, written: list[Written]) -> NodeName:
        """Wait until every claim carries the answer to this very request. Raises FailedError."""

        def told() -> NodeName | Refused | Superseded | None:
            found = [(one, self._seen.get(one.key)) for one in written]
            return requested.answer(found, attempt.admission)

        found: NodeName | Refused | Superseded = await self._until(told)
        if isinstance(found, Refused):
            raise FailedError(requested.denied(attempt.asked, found.words))
        if isinstance(found, Superseded):
            raise FailedError(superseded(attempt.asked))
        return found

    async def _until(self, look: Callable[[], T | None]) -> T:
        """Look again after each change until there is something."""
        changed = asyncio.Event()
        end = self._seen.subscribe(changed.set)
        try:
            while (found := look()) is None:
                await changed.wait()
                changed.clear()
            return found
        finally:
            end()

    async def _delete(self, attempt: Attempt, claim: GPUClaim) -> None:
        """Delete a claim as it is now, unless another call has taken it up."""
        while True:
            try:
                found = await self._stored.find(attempt.asked, ClaimName(claim.meta.name))
            except FailedError:
                return
            if found is None or found.meta.uid != claim.meta.uid or found.meta.deleting:
                return
            if found.attached_to is not None:
                return
            try:
                await self._writer.delete(
                    GPU_CLAIMS,
                    claim.meta.name,
                    claim.meta.namespace,
                    uid=claim.meta.uid,
                    resource_version=found.meta.resource_version,
                )
            except Exception as error:
                outcome = self._writer.outcome(error)
                if outcome is None:
                    raise
                if outcome in {Outcome.GONE, Outcome.REFUSED}:
                    return
                await asyncio.sleep(PAUSE)


def _body(
    namespace: str, name: ClaimName, class_name: ClassName, units: Units
) -> Mapping[str, Any]:
    """Return a template claim for its creation. The VMI that will own it has no uid yet."""
    return {
        "apiVersion": GPU_CLAIMS.api_version,
        "kind": GPU_CLAIMS.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {keys.TEMPLATE_CLAIM_LABEL: "true"},
            "finalizers": [keys.CLAIM_FINALIZER],
        },
        "spec": {"className": class_name, "count": int(units)},
    }
