"""Effects of a rejection as frozen values: noted on the claims, and the launcher deleted. Part of `changes`."""

from dataclasses import dataclass
from datetime import datetime

from gpu.binder.confirms import Confirm
from gpu.model.rejections import Rejection
from gpu.objects.claims import GPUClaim, RejectedNode
from gpu.objects.pods import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """Note on a claim which nodes are skipped for its set; those that are over are left out."""

    claim: GPUClaim
    nodes: tuple[RejectedNode, ...]
    """All that shall be noted."""
    news: tuple[Rejection, ...]
    """Those that are new; none where some are only taken off."""
    at: datetime
    set_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePod:
    """Delete a launcher that its node refused: as it was when that was decided, or not at all."""

    pod: Pod
    set_id: str
    confirm: tuple[Confirm, ...]


RejectionChange = Reject | DeletePod
