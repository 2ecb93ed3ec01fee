"""Claims of a start, and the VMIs they are attached to: read past the cache, written by compare-and-swap."""

from collections.abc import Mapping
from typing import Any

from gpu import keys
from gpu.admission import review, unanswered, vmis
from gpu.admission.attempt import Attempt, FailedError, objection
from gpu.admission.review import Review
from gpu.errors import DecodeError
from gpu.model import start_refusals
from gpu.objects import claims, kubevirt
from gpu.objects.claims import GPUClaim
from gpu.objects.kinds import GPU_CLAIMS, VMIS, Kind
from gpu.objects.kubevirt import VMI
from gpu.objects.meta import ObjectKey
from gpu.ports import Outcome, Writer
from gpu.units import ClaimName


class Claims:
    """Those objects as stored. Calls without an answer are made again; put a deadline around them."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def patch(
        self, asked: Review, claim: GPUClaim, status: Mapping[str, Any]
    ) -> GPUClaim | Outcome:
        """Change a claim's status, refused on a conflict; return it as stored. Raises FailedError."""
        body = {
            "metadata": {"resourceVersion": claim.meta.resource_version},
            "status": status,
        }
        try:
            raw = await self._writer.patch(
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
                raise FailedError(review.unavailable(f"VM {asked.title}: {said}")) from error
            return outcome
        return _decoded(asked, claim.meta.name, raw)

    async def claim(self, attempt: Attempt, name: ClaimName) -> GPUClaim:
        """Read a claim past the cache. Raises FailedError when it is gone or cannot be read."""
        found = await self.find(attempt.asked, name)
        if found is None:
            refusal = start_refusals.ClaimMissing(name, attempt.asked.namespace)
            raise FailedError(vmis.denied(attempt.asked, (objection(attempt, refusal),)))
        return found

    async def find(self, asked: Review, name: ClaimName) -> GPUClaim | None:
        """Read a claim past the cache; None where there is none. Raises FailedError."""
        raw = await self._get(GPU_CLAIMS, ObjectKey(asked.namespace, name))
        return _decoded(asked, name, raw) if raw is not None else None

    async def vmi(self, namespace: str, name: str) -> VMI | None:
        """Read a VMI past the cache. Raises FailedError when what is stored cannot be read."""
        raw = await self._get(VMIS, ObjectKey(namespace, name))
        try:
            return kubevirt.decode_vmi(raw) if raw is not None else None
        except DecodeError as error:
            said = f"VMI {namespace}/{name} cannot be read: {error}; ask the hoster"
            raise FailedError(review.unavailable(said)) from error

    async def _get(self, kind: Kind, key: ObjectKey) -> dict[str, Any] | None:
        """Read past the cache, again while there is no answer; None where there is no such object."""
        try:
            return await unanswered.again(
                self._writer, lambda: self._writer.get(kind, key.name, key.namespace)
            )
        except Exception as error:
            if self._writer.outcome(error) is not Outcome.GONE:
                raise
            return None


def _decoded(asked: Review, name: str, raw: Mapping[str, Any]) -> GPUClaim:
    try:
        return claims.decode(raw)
    except DecodeError as error:
        said = f"VM {asked.title}: claim {name} cannot be read: {error}; ask the hoster"
        raise FailedError(review.unavailable(said)) from error
