"""The one admission write: attachments with optimistic concurrency, and the handler `vmis` around it.

An attachment is to a name and an id, since at admission a VMI has no uid. VMIs of one name follow each
other within milliseconds, and the CREATE of a name that is taken reaches the webhook too: so the VMI
that a claim is attached to is read past the cache before its attachment is taken over. Claims are
written in the order of their names, so of two starts that want the same ones one gets all. What was
written is undone when a later one fails; what then still stays, the binder clears after a while.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

from gpu import keys
from gpu.admission import review, vmis
from gpu.admission.reserving import Ask
from gpu.admission.review import Allowed, Answer, Denied, Review
from gpu.admission.vmis import Plan
from gpu.config import Config
from gpu.errors import DecodeError
from gpu.model import attaching, resolving, spent, start_refusals
from gpu.model.premises import NOTHING, Premises
from gpu.model.resolving import Objection
from gpu.objects import claims, kubevirt
from gpu.objects.claims import Attachment, GPUClaim
from gpu.objects.kinds import GPU_CLAIMS, VMIS, Kind
from gpu.objects.kubevirt import VMI
from gpu.objects.meta import ObjectKey
from gpu.ports import Clock, Outcome, Writer
from gpu.units import ClaimName

SECONDS: Final = 2.0
"""A start is answered within this, allowed or not."""
UNDO: Final = 0.5
"""Seconds of these that are kept for undoing."""
_INSTANT: Final = timedelta(seconds=1)
"""What two stored times differ by at least."""
PAUSE: Final = 0.05
"""Seconds before a call is made again that got no answer."""


class _FailedError(Exception):
    """A start cannot go on; `answer` says why."""

    def __init__(self, answer: Denied) -> None:
        super().__init__(answer.message)
        self.answer = answer


@dataclass(frozen=True, slots=True)
class _Write:
    """An attachment that was sent, and the claim it was made of."""

    before: GPUClaim
    wanted: Attachment


@dataclass(slots=True)
class _Attempt:
    """One start being attached."""

    asked: Review
    plan: Plan
    admission: str
    """The id of what is attached anew; unknown to anybody before it is stored."""
    mine: VMI | None = None
    """The VMI of the start's own name: an earlier one that is about to go."""
    others: dict[str, VMI | None] = field(default_factory=dict)
    """VMIs of other names, read past the cache."""
    admissions: dict[ClaimName, str] = field(default_factory=dict)
    sent: list[_Write] = field(default_factory=list)


class Starts:
    """The admission handler `vmis`. One per process; its methods belong to one event loop."""

    def __init__(
        self,
        *,
        ask: Ask,
        writer: Writer,
        clock: Clock,
        config: Config,
        seconds: float = SECONDS,
        new_id: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self._ask = ask
        self._writer = writer
        self._clock = clock
        self._config = config
        self._seconds = seconds
        self._new_id = new_id

    async def __call__(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer the `request` of an AdmissionReview. Raises what `ask` raises."""
        try:
            asked = review.decode(request)
        except DecodeError as error:
            said = f"not an AdmissionReview: request.{error}"
            bad = Denied(code=review.BAD_REQUEST, reason="BadRequest", message=said)
            return review.document(bad)
        return review.document(await self._answer(asked))

    async def _answer(self, asked: Review) -> Answer:
        if not vmis.is_asked(asked):
            return Allowed()
        until = asyncio.get_running_loop().time() + self._seconds
        attempt: _Attempt | None = None
        try:
            async with asyncio.timeout_at(until - UNDO):
                judged = await self._judge(asked)
                if isinstance(judged, Denied):
                    return judged
                attempt = _Attempt(asked, judged, self._new_id())
                await self._attach(attempt)
                return Allowed(patch=tuple(vmis.written(asked, judged, attempt.admissions)))
        except TimeoutError:
            failed = review.unavailable(
                f"VM {asked.title}: the GPU service could not judge it in time: try again"
            )
        except _FailedError as error:
            failed = error.answer
        if attempt is not None:
            await self._undo(attempt, until)
        return failed

    async def _judge(self, asked: Review) -> Denied | Plan:
        try:
            start = vmis.read(asked)
        except DecodeError as error:
            return vmis.unread(asked, str(error))
        now = self._clock.now()
        return await self._ask(
            lambda world: vmis.judge(asked, start, world, self._config, now), rests_on=_rests_on
        )

    async def _attach(self, attempt: _Attempt) -> None:
        """Attach every held claim, or raise _FailedError; a dry run is judged alike and writes nothing."""
        asked, wanted = attempt.asked, attempt.plan.to_attach
        if not wanted:
            return
        await self._look(attempt)
        planned = [(claim, await self._planned(attempt, claim)) for claim in wanted]
        against = tuple(found for _, found in planned if isinstance(found, Objection))
        if against:
            raise _FailedError(vmis.denied(asked, against))
        for claim, found in planned:
            if isinstance(found, Attachment):
                await self._store(attempt, claim, found)

    async def _look(self, attempt: _Attempt) -> None:
        """Read the VMI of the start's own name, and forget what was read of others.

        Always after the claims: whose uid one of those has is there then, or was.
        """
        asked = attempt.asked
        attempt.others.clear()
        attempt.mine = await self._vmi(asked.namespace, asked.name)
        if attempt.mine is not None and not _is_going(attempt.mine):
            raise _FailedError(vmis.taken(asked))

    async def _planned(self, attempt: _Attempt, claim: GPUClaim) -> Attachment | Objection:
        """Return the claim's attachment to this start, or why it cannot be had."""
        if claim.meta.deleting:
            return _objection(attempt, start_refusals.ClaimDeleting(ClaimName(claim.meta.name)))
        before, asked = claim.attached_to, attempt.asked
        vmi = attempt.mine
        if before is not None and before.vmi != asked.name:
            vmi = await self._other(attempt, before.vmi)
            grace = self._config.grace.attachment
            used = resolving.in_use(claim, vmi, self._clock.now(), grace)
            if used is not None:
                return _objection(attempt, used)
        admission, since = self._id(attempt, claim), self._clock.now()
        if before is not None and before.admission == admission and before.since is not None:
            # Another instant than that of the call before, so that it does not take this for its own.
            since = max(since, before.since + _INSTANT)
        return Attachment(
            vmi=asked.name,
            admission=admission,
            since=since,
            pods=attaching.left_behind(claim, vmi),
        )

    def _id(self, attempt: _Attempt, claim: GPUClaim) -> str:
        """Return the id of the attachment: one that no VMI has had yet stays.

        A CREATE that is made again may overtake the one before: whichever is stored has this id.
        """
        before, mine = claim.attached_to, attempt.mine
        if before is None or before.uid or (before.vmi != attempt.asked.name):
            return attempt.admission
        if mine is not None and attaching.is_user(claim, mine):
            return attempt.admission
        return before.admission or attempt.admission

    async def _store(self, attempt: _Attempt, claim: GPUClaim, wanted: Attachment) -> None:
        """Write one attachment; whatever the claim has become meanwhile is judged anew."""
        name = ClaimName(claim.meta.name)
        while True:
            attempt.admissions[name] = wanted.admission
            if attempt.asked.dry_run:
                return
            attempt.sent.append(_Write(claim, wanted))
            outcome = await self._patch(attempt.asked, claim, wanted)
            if outcome is None:
                return
            found = await self._claim(attempt, name)
            if found.meta.uid != claim.meta.uid:
                said = f"VM {attempt.asked.title}: claim {name} was made anew meanwhile: try again"
                raise _FailedError(review.unavailable(said))
            if outcome is Outcome.UNKNOWN and _has(found, wanted):
                return
            if outcome is Outcome.CONFLICT:
                attempt.sent.pop()
            else:
                await asyncio.sleep(PAUSE)
            await self._look(attempt)
            planned = await self._planned(attempt, found)
            if isinstance(planned, Objection):
                raise _FailedError(vmis.denied(attempt.asked, (planned,)))
            claim, wanted = found, planned

    async def _patch(
        self, asked: Review, claim: GPUClaim, wanted: Attachment | None
    ) -> Outcome | None:
        """Send an attachment, refused on a conflict; None when it is stored. Raises _FailedError."""
        after = replace(claim, attached_to=wanted)
        body = {
            "metadata": {"resourceVersion": claim.meta.resource_version},
            "status": {
                "attachedTo": claims.format_attachment(wanted),
                # Pods that are noted make up the time in use: added up under what it was until now.
                **({"spent": _spent(claim, self._clock)} if _changes_use(claim, after) else {}),
            },
        }
        try:
            await self._writer.patch(
                GPU_CLAIMS,
                claim.meta.name,
                body,
                claim.meta.namespace,
                subresource="status",
                field_manager=keys.WEBHOOK_MANAGER,
            )
        except Exception as error:
            outcome = self._writer.outcome(error)
            if outcome is None:
                raise
            if outcome is Outcome.REFUSED:
                said = f"claim {claim.meta.name} cannot be attached: {error}; ask the hoster"
                raise _FailedError(review.unavailable(f"VM {asked.title}: {said}")) from error
            return outcome
        return None

    async def _claim(self, attempt: _Attempt, name: ClaimName) -> GPUClaim:
        """Read a claim past the cache. Raises _FailedError when it is gone or cannot be read."""
        asked = attempt.asked
        try:
            raw = await self._get(GPU_CLAIMS, ObjectKey(asked.namespace, name))
            found = claims.decode(raw) if raw is not None else None
        except DecodeError as error:
            said = f"VM {asked.title}: claim {name} cannot be read: {error}; ask the hoster"
            raise _FailedError(review.unavailable(said)) from error
        if found is None:
            missing = _objection(attempt, start_refusals.ClaimMissing(name, asked.namespace))
            raise _FailedError(vmis.denied(asked, (missing,)))
        return found

    async def _other(self, attempt: _Attempt, name: str) -> VMI | None:
        if name not in attempt.others:
            attempt.others[name] = await self._vmi(attempt.asked.namespace, name)
        return attempt.others[name]

    async def _vmi(self, namespace: str, name: str) -> VMI | None:
        """Read a VMI past the cache. Raises _FailedError when what is stored cannot be read."""
        raw = await self._get(VMIS, ObjectKey(namespace, name))
        try:
            return kubevirt.decode_vmi(raw) if raw is not None else None
        except DecodeError as error:
            said = f"VMI {namespace}/{name} cannot be read: {error}; ask the hoster"
            raise _FailedError(review.unavailable(said)) from error

    async def _get(self, kind: Kind, key: ObjectKey) -> dict[str, Any] | None:
        """Read past the cache, again while there is no answer; None where there is no such object."""
        while True:
            try:
                return await self._writer.get(kind, key.name, key.namespace)
            except Exception as error:
                outcome = self._writer.outcome(error)
                if outcome is Outcome.GONE:
                    return None
                if outcome is None or outcome is Outcome.REFUSED:
                    raise
                await asyncio.sleep(PAUSE)

    async def _undo(self, attempt: _Attempt, until: float) -> None:
        """Give back what was attached, the last first, as far as the time goes."""
        try:
            async with asyncio.timeout_at(until):
                for write in reversed(attempt.sent):
                    await self._give_back(attempt, write)
        except TimeoutError:
            return

    async def _give_back(self, attempt: _Attempt, write: _Write) -> None:
        """Put an attachment back to what it was, unless another call has taken it on since."""
        before, was = write.before, write.before.attached_to
        if was is not None and was.admission == write.wanted.admission:
            return  # it was attached to this name before, by a call that was made again
        while True:
            try:
                found = await self._claim(attempt, ClaimName(before.meta.name))
                if not _is_same(found.attached_to, write.wanted):
                    return
                if await self._patch(attempt.asked, found, was) is None:
                    return
            except _FailedError:
                return
            await asyncio.sleep(PAUSE)


def _rests_on(judged: Denied | Plan) -> Premises:
    return judged.rests_on if isinstance(judged, Denied) else NOTHING


def _objection(attempt: _Attempt, refusal: start_refusals.OfClaim) -> Objection:
    asks = attempt.plan.start.references
    path = next((path for name, path in asks.held() if name == refusal.claim), "")
    return Objection(refusal, path)


def _is_going(vmi: VMI) -> bool:
    """Say whether a VMI makes way for the next of its name. One that only ended keeps the name."""
    return vmi.meta.deleting


def _has(claim: GPUClaim, wanted: Attachment) -> bool:
    found = claim.attached_to
    return found is not None and (found.vmi, found.admission) == (wanted.vmi, wanted.admission)


def _is_same(found: Attachment | None, written: Attachment) -> bool:
    """Say whether an attachment is as it was written: adopted by nobody, taken on by no other call."""
    told, wanted = (claims.format_attachment(it) or {} for it in (found, written))
    return all(told.get(name) == wanted[name] for name in ("name", "admission", "uid", "since"))


def _changes_use(before: GPUClaim, after: GPUClaim) -> bool:
    return spent.is_in_use(before) is not spent.is_in_use(after)


def _spent(claim: GPUClaim, clock: Clock) -> dict[str, Any] | None:
    return claims.format_spent(spent.up_to(claim, clock.now()))
