"""The admission handler `vmis`: judge, attach, where starts are requested have it placed, answer in time.

Whatever keeps a start from being admitted, what was written for it is undone before it is answered.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu.admission import foreseen, networks, requested, review, vmis
from gpu.admission.attach import Attachments
from gpu.admission.attempt import Attempt, FailedError
from gpu.admission.claims import Claims
from gpu.admission.requesting import Requests, Seen
from gpu.admission.reserving import Ask
from gpu.admission.review import Allowed, Answer, Denied, Review
from gpu.admission.vmis import Plan
from gpu.config import Binding, Config
from gpu.errors import DecodeError
from gpu.model.premises import NOTHING, Premises
from gpu.ports import Clock, Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a start may take, in seconds, allowed or not."""

    work: float
    """Until it is admitted or refused."""
    undo: float
    """More, to give back what was written for it."""


GATE: Final = Limits(work=1.5, undo=0.5)
"""kube-apiserver is told to wait three."""
REQUEST: Final = Limits(work=8.0, undo=1.0)
"""kube-apiserver is told to wait ten."""


class Starts:
    """The admission handler `vmis`. One per process; its methods belong to one event loop."""

    def __init__(
        self,
        *,
        ask: Ask,
        seen: Seen,
        writer: Writer,
        clock: Clock,
        config: Config,
        limits: Limits | None = None,
        new_id: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self._ask = ask
        self._writer = writer
        self._clock = clock
        self._config = config
        self._is_requested = config.binding is Binding.REQUEST
        self._limits = limits or (REQUEST if self._is_requested else GATE)
        self._new_id = new_id
        stored = Claims(writer)
        self._attachments = Attachments(stored=stored, writer=writer, clock=clock, config=config)
        self._requests = Requests(
            attachments=self._attachments, stored=stored, seen=seen, writer=writer, clock=clock
        )

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
        until = asyncio.get_running_loop().time() + self._limits.work
        attempt: Attempt | None = None
        try:
            async with asyncio.timeout_at(until):
                judged = await self._judge(asked)
                if isinstance(judged, Denied):
                    return judged
                attempt = Attempt(asked, judged, self._new_id())
                if self._is_requested and requested.is_asked(judged):
                    return await self._request(attempt)
                await self._attachments.attach(attempt)
                return Allowed(patch=tuple(vmis.written(asked, judged, attempt.admissions)))
        except TimeoutError:
            failed = self._late(attempt) or review.unavailable(
                f"VM {asked.title}: the GPU service could not judge it in time: try again"
            )
        except FailedError as error:
            failed = error.answer
        if attempt is not None:
            await self._undo(attempt, until + self._limits.undo)
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

    async def _request(self, attempt: Attempt) -> Answer:
        """Have all claims of a start placed on one node before it is admitted. Raises FailedError."""
        asked, plan = attempt.asked, attempt.plan
        await self._requests.settle(attempt)
        of_networks = await networks.amounts(self._writer, asked)
        judged = await self._ask(
            lambda world: (
                requested.refused(asked, plan, world)
                or foreseen.launcher(asked, world, of_networks)
            ),
            rests_on=_rests_on,
        )
        if isinstance(judged, Denied):
            return judged
        attempt.launcher = judged
        node = await self._requests.bind(attempt)
        return Allowed(patch=tuple(vmis.written(asked, plan, attempt.admissions, node)))

    def _late(self, attempt: Attempt | None) -> Denied | None:
        return requested.late(attempt.asked) if attempt and attempt.is_requested else None

    async def _undo(self, attempt: Attempt, until: float) -> None:
        """Give back what was written, as far as the time goes; the binder clears the rest."""
        try:
            async with asyncio.timeout_at(until):
                await self._attachments.undo(attempt)
                await self._requests.undo(attempt)
        except TimeoutError:
            return


def _rests_on(judged: Denied | Plan | str) -> Premises:
    return judged.rests_on if isinstance(judged, Denied) else NOTHING
