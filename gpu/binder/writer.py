"""Change to API write, one exhaustive match; what a failed write means, as a value.

A claim must have our finalizer before it is Bound, or one deleted in between would be gone without
its units being let go. It is stored with it where the chart's policy puts it on; else it takes two
writes: the finalizer is metadata, which a write of the status subresource ignores, and the placement
is status, which a write of the main resource ignores.

Status of a claim is a merge patch of the leader's own fields with metadata.resourceVersion; the
answer's version feeds the next write of that object within the pass (FreshView does so between
passes). Every placement carries the term, and so does a launcher's pin: a strategic merge patch, which
of a pod costs the API server half a millisecond less than a merge patch. Units of a GPUNode are
server-side applied, since the node agent writes beside us.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from gpu import keys
from gpu.binder import bodies, changes, confirming, start_bodies
from gpu.binder.answer_changes import OwnClaim
from gpu.binder.bodies import Body
from gpu.binder.changes import Change, Target
from gpu.binder.fence import Fence
from gpu.binder.rejection_changes import DeletePod
from gpu.binder.start_changes import CreateClaim, Pin
from gpu.objects.kinds import GPU_BINDERS, GPU_CLAIMS, GPU_NODES, PODS, Kind
from gpu.objects.meta import ObjectKey
from gpu.ports import MERGE_PATCH, STRATEGIC_PATCH, Outcome, Writer
from gpu.reading import FreshView

_LATELY: Final = 1000
"""Claims whose last answer is kept beyond its pass, while a launcher noted in it is not let through yet."""
_UNREAD: Final = Outcome.STALE
"""Nothing was sent, so nothing of the cluster is in doubt."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A write that did not succeed: what that means, and the API's words."""

    outcome: Outcome
    words: str


@dataclass(slots=True, kw_only=True)
class ChangeWriter:
    """Performs changes under one fence and tells the view of every answer."""

    api: Writer
    view: FreshView
    fence: Fence
    write_timeout: float
    _answers: dict[tuple[Kind, ObjectKey], Body] = field(default_factory=dict)
    """Of this pass, as far as nothing is in doubt since: each is what its object was when it was stored."""
    _noted: OrderedDict[ObjectKey, Body] = field(default_factory=OrderedDict)
    """Of earlier passes too: claims as a write left them that noted a launcher, the latest last."""

    def beside(self) -> "ChangeWriter":
        """Return a writer for a pass beside this one's: under the same fence, with its own answers."""
        return replace(self, _answers={})

    def begin(self) -> None:
        """Start a pass: its World holds all answers so far."""
        self._answers.clear()

    async def perform(self, change: Change) -> Failure | None:
        """Write one change; None when it was stored.

        Notes in the view what became of the object: the answer, that it is gone, or doubt. Raises
        Deposed without sending anything when the lease has run out. A cancelled write is in doubt.
        """
        target = changes.target_of(change)
        limit = self.fence.seconds(self.write_timeout)
        sent = False
        try:
            async with asyncio.timeout(limit):
                unmet = await confirming.unmet(change, self.api, self._claims)
                if unmet:
                    return Failure(Outcome.STALE, unmet)
                sent = True
                answer = await self._send(change)
        except asyncio.CancelledError:
            if sent:
                self.view.doubt(target.kind, target.key, may_arrive=True)
            raise
        except TimeoutError:
            failure = Failure(Outcome.UNKNOWN, f"no answer within {limit:.1f} s")
            return self._failed(target, failure) if sent else replace(failure, outcome=_UNREAD)
        except Exception as error:
            outcome = self.api.outcome(error)
            if outcome is None:
                if sent:
                    self.view.doubt(target.kind, target.key, may_arrive=True)
                raise
            if not sent:
                return Failure(_UNREAD, f"could not be read past the cache: {error}")
            return self._failed(target, Failure(outcome, str(error)))
        if answer is not None:
            self.view.wrote(target.kind, answer)
            self._answers[target.kind, target.key] = answer
            self._keep(change, answer)
        return None

    def _keep(self, change: Change, answer: Body) -> None:
        """Keep the answer to a write that noted a launcher, for the pass that lets it through."""
        if not isinstance(change, changes.Attach | changes.Place) or change.attachment is None:
            return
        self._noted[change.claim.key] = answer
        self._noted.move_to_end(change.claim.key)
        if len(self._noted) > _LATELY:
            self._noted.popitem(last=False)

    def _claims(self, key: ObjectKey, version: str) -> Body | None:
        """Return a claim as this pass has stored it, or an earlier one in this version; None when neither has."""
        answer = self._answers.get((GPU_CLAIMS, key))
        noted = self._noted.get(key)
        if answer is None and noted is not None and noted["metadata"]["resourceVersion"] == version:
            return noted
        return answer

    def _failed(self, target: Target, failure: Failure) -> Failure:
        if failure.outcome is not Outcome.REFUSED:
            self._answers.pop((target.kind, target.key), None)
        match failure.outcome:
            case Outcome.CONFLICT:
                self.view.doubt(target.kind, target.key)
            case Outcome.UNKNOWN:
                self.view.doubt(target.kind, target.key, may_arrive=True)
            case Outcome.GONE:
                if target.uid:
                    self.view.gone(target.kind, target.key, target.uid)
            case Outcome.REFUSED | Outcome.STALE:
                pass
            case _:
                assert_never(failure.outcome)
        return failure

    async def _send(self, change: Change) -> Body | None:
        """Send it; None when there is no answer to keep."""
        match change:
            case changes.AddFinalizer() | changes.DropFinalizer():
                version = self._version(change.kind, change.key, change.version)
                return await self._patch(change, bodies.finalizers(change, version))
            case changes.EndGuest() | changes.DeleteClaim() | changes.DropRecord() | DeletePod():
                await self._delete(change)
                if isinstance(change, DeletePod):  # bound nowhere or ended: it goes at once
                    self.view.gone(PODS, change.pod.meta.key, change.pod.meta.uid)
                return None
            case CreateClaim() | Pin() | OwnClaim():
                return await self._start(change)
            case changes.WriteRecord() | changes.WriteMonitor():
                return await self._usage(change)
            case (
                changes.ReportClass()
                | changes.ReportNode()
                | changes.WriteSettings()
                | changes.ReportBinder()
            ):
                return await self._derived(change)
            case _:
                meta = change.claim.meta
                version = self._version(GPU_CLAIMS, meta.key, meta.resource_version)
                body = bodies.claim_status(change, version, self.fence.term)
                return await self._patch(change, body, "status")

    async def _delete(self, change: Change) -> None:
        target = changes.target_of(change)
        await self.api.delete(
            target.kind,
            target.key.name,
            target.key.namespace or None,
            uid=target.uid,
            resource_version=self._version_to_delete(change),
        )

    def _version_to_delete(self, change: Change) -> str | None:
        """Return the version an object must have to be deleted; None where only its uid counts."""
        match change:
            case changes.EndGuest():
                return change.version
            case DeletePod():
                return change.pod.meta.resource_version
            case changes.DeleteClaim() if change.version:
                return self._version(GPU_CLAIMS, change.claim.key, change.version)
            case _:
                return None

    async def _start(self, change: CreateClaim | Pin | OwnClaim) -> Body:
        if isinstance(change, OwnClaim):
            meta = change.claim.meta
            version = self._version(GPU_CLAIMS, meta.key, meta.resource_version)
            return await self._patch(change, bodies.owned(change, version))
        if isinstance(change, Pin):
            body = start_bodies.pin(change, self.fence.term)
            return await self._patch(change, body, content_type=STRATEGIC_PATCH)
        body = start_bodies.template_claim(change)
        return await self.api.create(GPU_CLAIMS, body, field_manager=keys.BINDER_MANAGER)

    async def _usage(self, change: changes.WriteRecord | changes.WriteMonitor) -> Body:
        """Create what is not there, else bring it to what it should be."""
        target = changes.target_of(change)
        body = (
            bodies.record(change)
            if isinstance(change, changes.WriteRecord)
            else bodies.monitor(change)
        )
        if change.uid:
            body["metadata"]["uid"] = change.uid  # another of that name is a conflict
            return await self._patch(change, body)
        return await self.api.create(target.kind, body, field_manager=keys.BINDER_MANAGER)

    async def _derived(self, change: changes.Derived) -> Body:
        match change:
            case changes.ReportClass():
                return await self._patch(change, bodies.class_status(change), "status")
            case changes.ReportNode():
                return await self.api.apply(
                    GPU_NODES,
                    change.node.meta.name,
                    bodies.node_units(change),
                    field_manager=keys.BINDER_MANAGER,
                    subresource="status",
                )
            case changes.WriteSettings():
                return await self._settings(change)
            case changes.ReportBinder():
                return await self.api.apply(
                    GPU_BINDERS,
                    change.binder.meta.name,
                    bodies.binder_status(change),
                    field_manager=keys.BINDER_MANAGER,
                    subresource="status",
                )
            case _:
                assert_never(change)

    async def _settings(self, change: changes.WriteSettings) -> Body:
        if change.exists:
            return await self._patch(change, bodies.settings_data(change))
        return await self.api.create(
            changes.target_of(change).kind,
            bodies.settings_map(change),
            field_manager=keys.BINDER_MANAGER,
        )

    async def _patch(
        self,
        change: Change,
        body: Body,
        subresource: str | None = None,
        content_type: str = MERGE_PATCH,
    ) -> Body:
        target = changes.target_of(change)
        return await self.api.patch(
            target.kind,
            target.key.name,
            body,
            target.key.namespace or None,
            subresource=subresource,
            field_manager=keys.BINDER_MANAGER,
            content_type=content_type,
        )

    def _version(self, kind: Kind, key: ObjectKey, decided_on: str) -> str:
        answer = self._answers.get((kind, key))
        return answer["metadata"]["resourceVersion"] if answer else decided_on
