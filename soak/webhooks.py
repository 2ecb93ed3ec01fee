"""Webhooks: our own replica before the API server, as it is shipped, on a watch that lags and a line that fails.

Starts under `binding: request` are calls that take several steps: they attach, ask, and wait for the leader.
What happens to one meanwhile (it gives up after eight seconds, or dies with its process) is up to the steps.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpu import reading
from gpu.admission import pods, review, starting
from gpu.config import Config
from gpu.objects import kinds
from gpu.objects.claims import GPUClaim
from gpu.objects.meta import ObjectKey
from gpu.world import World
from soak.api import Api
from soak.line import Line
from soak.watch import Watch
from tests.admission import starts
from tests.fakes.clock import FakeClock

Raw = dict[str, Any]
SETTLES = 3.0
"""Seconds that a start waits for the guest before it."""
_TURNS = 30
"""Turns of the event loop in which whatever can go on has gone on."""
_PAUSE = 0.06
"""Seconds of the event loop after which a write that got no answer is made again."""


@dataclass(eq=False)
class Call:
    """One CREATE of a VMI that is being judged."""

    key: ObjectKey
    began: float
    line: Line
    task: "asyncio.Task[None] | None" = None

    def __str__(self) -> str:
        return str(self.key)  # what dice pick it by


@dataclass(frozen=True)
class Admitted:
    """A start that was let in: its VMI as it is to be stored, and the claims as they stood just then."""

    vmi: Raw
    claims: dict[str, Raw]
    """Those of its namespace, by name."""


@dataclass
class Webhooks:
    """One replica. `calls` are under way."""

    api: Api
    clock: FakeClock
    config: Config
    watch: Watch
    calls: list[Call] = field(default_factory=list)
    admitted: list[Admitted] = field(default_factory=list)
    """Since the judge looked."""
    crashes: list[BaseException] = field(default_factory=list)
    late: list[Any] = field(default_factory=list)
    """Writes of calls that are still on their way."""
    tally: Any = None
    _followers: list[Callable[[], None]] = field(default_factory=list)

    def begin(self, body: Raw, name: str, line: Line, store: Callable[[Raw], None]) -> Call:
        """Put the CREATE of a VMI to the webhook; `store` has it stored if it is let in."""
        meta = body["metadata"]
        call = Call(ObjectKey(meta["namespace"], meta["name"]), self.clock.monotonic(), line)
        handler = starting.Starts(
            ask=self._ask,
            seen=_Seen(self, call),
            writer=line,
            clock=self.clock,
            config=self.config,
            new_id=lambda: name,
        )
        call.task = asyncio.ensure_future(self._judge(handler, call, body, store))
        self.calls.append(call)
        return call

    def launcher(self, body: Raw) -> Raw:
        """Return a launcher as the webhook leaves it: pinned or at the gate."""
        asked = starts.asked(body, kind=kinds.PODS, user=self.config.kubevirt_controller_user)
        answer = pods.answer(asked, self.world(), self.config)
        if review.rests_on(answer):
            self.show()
            answer = pods.answer(asked, self.world(), self.config)
        assert isinstance(answer, review.Allowed), answer
        return starts.patched(body, answer.patch)

    def world(self) -> World:
        """The World as this replica's watch shows it."""
        return reading.read(self.watch)

    def show(self) -> None:
        """Deliver everything stored so far; whoever waits for the watch looks again."""
        self.watch.show()
        for changed in tuple(self._followers):
            changed()

    async def get_on(self) -> None:
        """Let calls go on until each of them waits for the watch, or is over."""
        for _ in range(3 if self.calls else 0):
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            await asyncio.sleep(_PAUSE)
        for call in self.calls:
            self.late += call.line.late
            call.line.late.clear()
        self.calls = [call for call in self.calls if call.task and not call.task.done()]

    async def kill(self, calls: list[Call]) -> None:
        """Have the process of these calls die: nothing of them goes on, and nothing is undone."""
        tasks = [call.task for call in calls if call.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.get_on()

    async def _judge(
        self, handler: starting.Starts, call: Call, body: Raw, store: Callable[[Raw], None]
    ) -> None:
        try:
            response = await handler(starts.request(body))
        except Exception as error:  # noqa: BLE001 -- the judge says which is a bug
            if call.line.outcome(error) is None:
                self.crashes.append(error)
            return
        if not response["allowed"]:
            self.tally[f"starts denied: {response['status']['reason']}"] += 1
            return
        self.tally["starts admitted"] += 1
        vmi = starts.answered(body, response)
        there = self.api.all(kinds.GPU_CLAIMS)
        own = (it for it in there if it["metadata"]["namespace"] == call.key.namespace)
        self.admitted.append(Admitted(vmi, {it["metadata"]["name"]: it for it in own}))
        store(vmi)

    async def _ask(
        self,
        question: Any,
        /,
        *,
        rests_on: Any = None,
        came: float | None = None,  # noqa: ARG002
    ) -> Any:
        answer = question(self.world())
        if rests_on is not None and rests_on(answer):  # a denial: of a watch that has caught up
            self.show()
            answer = question(self.world())
        return answer

    def follow(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after each delivery; returns what ends it."""
        self._followers.append(changed)
        return lambda: self._followers.remove(changed)


@dataclass(frozen=True)
class _Seen:
    """Claims as a call's watch shows them; at the end of its time there is nothing to be seen any more."""

    webhooks: Webhooks
    call: Call

    def get(self, key: ObjectKey) -> GPUClaim | None:
        self._in_time(starting.REQUEST.work)
        found = self.webhooks.watch.items(GPUClaim)
        return next((claim for claim in found if claim.key == key), None)

    def in_namespace(self, namespace: str) -> tuple[GPUClaim, ...]:
        self._in_time(SETTLES)
        found = self.webhooks.watch.items(GPUClaim)
        return tuple(claim for claim in found if claim.meta.namespace == namespace)

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        return self.webhooks.follow(changed)

    def _in_time(self, seconds: float) -> None:
        if self.webhooks.clock.monotonic() - self.call.began > seconds:
            raise TimeoutError
