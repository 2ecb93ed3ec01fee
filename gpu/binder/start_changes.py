"""Effects of a start as frozen values: its template claims are made, its launcher is let through.

Between the two its claims are placed like any others. Part of `changes`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gpu.binder.confirms import Confirm
from gpu.model.gate_reasons import GateReason
from gpu.objects.claims import GPUClaim
from gpu.objects.meta import ObjectKey
from gpu.objects.pods import Pod
from gpu.units import NodeName, ResourceName, Units


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateClaim:
    """Make a template claim for a VMI; `claim` is as it will be, but for what the API server gives."""

    claim: GPUClaim
    set_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """Let a launcher through the gate onto one node, for good: the last write of a start."""

    vmi: ObjectKey
    vmi_uid: str
    pod: Pod
    node: NodeName | None
    """None: nothing is held for it, and the scheduler may place it anywhere."""
    set_id: str
    raw: Mapping[ResourceName, Units] = field(default_factory=dict)
    """What it asks for beyond all its claims: budgets count it from now on."""
    confirm: tuple[Confirm, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainGated:
    """Say on a Bound claim why its VM waits at the gate, or (none) that it does no more."""

    claim: GPUClaim
    reasons: tuple[GateReason, ...]
    at: datetime
    set_id: str


StartChange = CreateClaim | Pin
