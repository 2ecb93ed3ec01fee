"""Effects of bind requests as frozen values: answered, forgotten, and whose VMI came. Part of `changes`.

An answer that goes with a placement is part of that write (`changes.Place`).
"""

from dataclasses import dataclass
from datetime import datetime

from gpu.objects.claims import BindRequest, GPUClaim
from gpu.objects.meta import OwnerRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer a request on a claim that stays where it is; it carries the term as a placement does."""

    claim: GPUClaim
    request: BindRequest
    """With its result and message."""
    awaits_uncordon: bool = False
    """It is granted on a node that is cordoned, where the VM waits."""
    at: datetime
    set_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRequest:
    """Take a request off a claim that nobody waits for."""

    claim: GPUClaim
    at: datetime
    set_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnClaim:
    """Have a template claim that was made before its VMI go with that VMI."""

    claim: GPUClaim
    owner: OwnerRef
    set_id: str


AnswerChange = Answer | ForgetRequest | OwnClaim
