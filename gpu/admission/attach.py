"""Attachments of a starting VM's claims: written by compare-and-swap, and undone whole.

An attachment is to a name and an id, since at admission a VMI has no uid. VMIs of one name follow each
other within milliseconds, and the CREATE of a name that is taken reaches the webhook too: so the VMI
that a claim is attached to is read past the cache before its attachment is taken over; a claim that
nobody has takes no read (decision 43). Claims are
written in the order of their names, so of two starts that want the same ones one gets all. What was
written is undone when a later one fails; what then still stays, the binder clears after a while.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from gpu.admission import forerunners, review, vmis
from gpu.admission.attempt import (
    AnsweredError,
    Attempt,
    FailedError,
    Write,
    objection,
    superseded,
)
from gpu.admission.claims import Claims
from gpu.admission.unanswered import PAUSE
from gpu.config import Config
from gpu.errors import DecodeError
from gpu.model import attaching, bind_requests, coverage, resolving, spent, start_refusals
from gpu.model.resolving import Objection
from gpu.objects import claims
from gpu.objects.claims import Attachment, BindRequest, BindResult, GPUClaim
from gpu.objects.kubevirt import VMI
from gpu.objects.pods import Pod
from gpu.ports import Clock, Outcome, Writer
from gpu.units import ClaimName

_INSTANT: Final = timedelta(seconds=1)
"""What two stored times differ by at least."""


class Attachments:
    """Writes attachments. Its methods belong to one event loop."""

    def __init__(self, *, stored: Claims, writer: Writer, clock: Clock, config: Config) -> None:
        self._stored = stored
        self._writer = writer
        self._clock = clock
        self._config = config

    async def attach(self, attempt: Attempt) -> None:
        """Attach every held claim, or raise FailedError; a dry run is judged alike and writes nothing."""
        plan = attempt.plan
        if plan.takes_nothing_over:
            await self.store(attempt, await self.judged(attempt, plan.to_attach))
        elif plan.to_attach:
            await self.store(attempt, await self.planned(attempt, plan.to_attach))

    async def planned(self, attempt: Attempt, wanted: Sequence[GPUClaim]) -> list[Write]:
        """Return the attachment of each claim to this start. Raises FailedError with all against it."""
        await self.look(attempt)
        return await self.judged(attempt, wanted)

    async def judged(self, attempt: Attempt, wanted: Sequence[GPUClaim]) -> list[Write]:
        """Return the same by the VMIs that were looked at already, after these claims were read."""
        attempt.launchers.clear()
        found = [(claim, await self._planned(attempt, claim)) for claim in wanted]
        against = tuple(one for _, one in found if isinstance(one, Objection))
        if against:
            raise FailedError(vmis.denied(attempt.asked, against))
        return [Write(claim, one) for claim, one in found if isinstance(one, Attachment)]

    async def store(
        self, attempt: Attempt, planned: Iterable[Write], request: BindRequest | None = None
    ) -> list[GPUClaim]:
        """Write attachments, in this order, each with the request in the same write; return the claims as stored.

        Raises FailedError; with a request AnsweredError too, where one carries a granted one already.
        """
        return [await self._store(attempt, one, request) for one in planned]

    async def look(self, attempt: Attempt) -> None:
        """Read the VMI of the start's own name, and forget what was read of others.

        Always after the claims: whose uid one of those has is there then, or was.
        """
        asked = attempt.asked
        attempt.others.clear()
        attempt.launchers.clear()
        attempt.mine = await self._stored.vmi(asked.namespace, asked.name)
        if attempt.mine is not None and not _is_going(attempt.mine):
            raise FailedError(vmis.taken(asked))

    async def _planned(self, attempt: Attempt, claim: GPUClaim) -> Attachment | Objection:
        """Return the claim's attachment to this start, or why it cannot be had."""
        if claim.meta.deleting:
            return objection(attempt, start_refusals.ClaimDeleting(ClaimName(claim.meta.name)))
        before, asked = claim.attached_to, attempt.asked
        vmi = attempt.mine
        if before is not None and before.vmi != asked.name:
            vmi = await self._other(attempt, before.vmi)
            grace = self._config.grace.attachment
            used = resolving.in_use(claim, vmi, self._clock.now(), grace)
            if used is not None:
                return objection(attempt, used)
        before_it = await self._forerunners(attempt, claim, vmi)
        admission, since = self._id(attempt, claim), self._clock.now()
        if before_it:
            admission = attempt.admission
        is_anew = before is None or before.admission != admission
        if before is not None and before.admission == admission and before.since is not None:
            # Another instant than that of the call before, so that it does not take this for its own.
            since = max(since, before.since + _INSTANT)
        return Attachment(
            vmi=asked.name,
            admission=admission,
            since=since,
            pods=attaching.left_behind(claim, vmi, before_it, is_anew=is_anew),
        )

    async def _forerunners(
        self, attempt: Attempt, claim: GPUClaim, vmi: VMI | None
    ) -> tuple[Pod, ...]:
        """Return launchers that nobody noted of the VMI that had the claim before; `vmi` has its name now.

        Raises FailedError when one of them cannot be read.
        """
        before, asked = claim.attached_to, attempt.asked
        if before is None or not (before.uid or bind_requests.is_promised(claim)):
            return ()
        if not before.uid and vmi is not None and not coverage.is_user(claim, vmi):
            return ()  # launchers of the name may be those of this one
        noted = {pod.uid for pod in before.pods}
        which = (before.vmi, attaching.asks_for_targets(claim))
        if which not in attempt.launchers:
            try:
                attempt.launchers[which] = await forerunners.of(
                    self._writer, asked.namespace, before.vmi, only_targets=which[1]
                )
            except DecodeError as error:
                vm = f"{asked.namespace}/{before.vmi}"
                said = f"a launcher of VM {vm} cannot be read: {error}; delete it and try again"
                raise FailedError(review.unavailable(said)) from error
        found = attaching.unnoted_of(claim, attempt.launchers[which])
        return tuple(pod for pod in found if pod.meta.uid not in noted)

    def _id(self, attempt: Attempt, claim: GPUClaim) -> str:
        """Return the id of the attachment: one that no VMI has had yet stays.

        A CREATE that is made again may overtake the one before: whichever is stored has this id.
        """
        before, mine = claim.attached_to, attempt.mine
        if before is None or before.uid or (before.vmi != attempt.asked.name):
            return attempt.admission
        if mine is not None and coverage.is_user(claim, mine):
            return attempt.admission
        return before.admission or attempt.admission

    async def _store(self, attempt: Attempt, write: Write, request: BindRequest | None) -> GPUClaim:
        """Write one attachment; whatever the claim has become meanwhile is judged anew."""
        claim, wanted = write.before, write.wanted
        name = ClaimName(claim.meta.name)
        while True:
            attempt.admissions[name] = wanted.admission
            if attempt.asked.dry_run:
                return claim
            attempt.sent.append(Write(claim, wanted))
            stored = await self._stored.patch(
                attempt.asked, claim, self._status(claim, wanted, request)
            )
            if isinstance(stored, GPUClaim):
                return stored
            found = await self._stored.claim(attempt, name)
            if found.meta.uid != claim.meta.uid:
                said = f"VM {attempt.asked.title}: claim {name} was made anew meanwhile: try again"
                raise FailedError(review.unavailable(said))
            if stored is Outcome.UNKNOWN and _has(found, wanted, request):
                return found
            if stored is Outcome.CONFLICT:
                attempt.sent.pop()
            else:
                await asyncio.sleep(PAUSE)
            if request is not None:
                _leave_to_other(attempt, claim, wanted, found)
            await self.look(attempt)
            planned = await self._planned(attempt, found)
            if isinstance(planned, Objection):
                raise FailedError(vmis.denied(attempt.asked, (planned,)))
            claim, wanted = found, planned

    def _status(
        self, claim: GPUClaim, wanted: Attachment | None, request: BindRequest | None = None
    ) -> dict[str, Any]:
        """Return what an attachment changes of a claim's status, and a request that goes with it."""
        after = replace(claim, attached_to=wanted)
        was = claim.attached_to.admission if claim.attached_to else ""
        is_anew = wanted is not None and wanted.admission != was
        return {
            "attachedTo": claims.format_attachment(wanted),
            # Pods that are noted make up the time in use: added up under what it was until now.
            **({"spent": _spent(claim, self._clock)} if _changes_use(claim, after) else {}),
            # An answer to an earlier start is none to this one.
            **({"bindRequest": None} if claim.bind_request and is_anew else {}),
            **({"bindRequest": claims.format_request(request)} if request else {}),
        }

    async def _other(self, attempt: Attempt, name: str) -> VMI | None:
        if name not in attempt.others:
            attempt.others[name] = await self._stored.vmi(attempt.asked.namespace, name)
        return attempt.others[name]

    async def undo(self, attempt: Attempt) -> None:
        """Give back what was attached, the last first."""
        for write in reversed(attempt.sent):
            await self._give_back(attempt, write)

    async def _give_back(self, attempt: Attempt, write: Write) -> None:
        """Put an attachment back to what it was, unless another call has taken it on since."""
        before, was = write.before, write.before.attached_to
        # It may have been attached to this name before, by a call that was made again: then it stays.
        stays = was is not None and was.admission == write.wanted.admission
        while not stays or attempt.is_requested:
            try:
                found = await self._stored.claim(attempt, ClaimName(before.meta.name))
                status: dict[str, Any] = {}
                if not stays and is_same(found.attached_to, write.wanted):
                    status = self._status(found, was)
                if found.bind_request and found.bind_request.id == attempt.admission:
                    status["bindRequest"] = None
                if not status:
                    return
                if isinstance(await self._stored.patch(attempt.asked, found, status), GPUClaim):
                    return
            except FailedError:
                return
            await asyncio.sleep(PAUSE)


def _is_going(vmi: VMI) -> bool:
    """Say whether a VMI makes way for the next of its name. One that only ended keeps the name."""
    return vmi.meta.deleting


def _has(claim: GPUClaim, wanted: Attachment, request: BindRequest | None) -> bool:
    found = claim.attached_to
    if found is None or (found.vmi, found.admission) != (wanted.vmi, wanted.admission):
        return False
    return request is None or (
        claim.bind_request is not None and claim.bind_request.id == request.id
    )


def _leave_to_other(attempt: Attempt, seen: GPUClaim, wanted: Attachment, found: GPUClaim) -> None:
    """Give way where another call for the same VM has attached a claim since it was seen.

    Raises FailedError; AnsweredError where it has even been granted.
    """
    theirs = found.attached_to
    if theirs is None or theirs.vmi != attempt.asked.name or theirs.uid:
        return
    told = found.bind_request
    if told is not None and (told.vmi, told.result) == (theirs.vmi, BindResult.SUCCEEDED):
        raise AnsweredError
    before = seen.attached_to
    if not is_same(theirs, wanted) and not (before and is_same(theirs, before)):
        raise FailedError(superseded(attempt.asked))


def is_same(found: Attachment | None, written: Attachment) -> bool:
    """Say whether an attachment is as it was written: adopted by nobody, taken on by no other call."""
    told, wanted = (claims.format_attachment(it) or {} for it in (found, written))
    return all(told.get(name) == wanted[name] for name in ("name", "admission", "uid", "since"))


def _changes_use(before: GPUClaim, after: GPUClaim) -> bool:
    return spent.is_in_use(before) is not spent.is_in_use(after)


def _spent(claim: GPUClaim, clock: Clock) -> dict[str, Any] | None:
    return claims.format_spent(spent.up_to(claim, clock.now()))
