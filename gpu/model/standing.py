"""Kind: what a reason to wait is about, told where no single change would let something in."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from gpu.model import gate_reasons, refusals
from gpu.model.gate_reasons import GateReason

_MOST: Final = 2


class Kind(StrEnum):
    """What has to change. Of one reason alone: others that wait come before it, too."""

    TENANT = "Tenant"
    CLASS = "Class"
    COUNT = "Count"
    ROOM = "Room"
    TURN = "Turn"
    """Others come before it, and what would let it in may let them in instead."""
    BUDGET = "Budget"
    ENTITLEMENT = "Entitlement"
    VM = "VM"
    """The VM itself: what it names, what else its pod asks, where its guest may run."""
    CLUSTER = "Cluster"


_KINDS: Final[dict[type[GateReason], Kind]] = {
    refusals.NoTenant: Kind.TENANT,
    refusals.NoSuchClass: Kind.CLASS,
    refusals.ClassRetired: Kind.CLASS,
    refusals.ClassDeleting: Kind.CLASS,
    refusals.NotPermitted: Kind.CLASS,
    refusals.BadCount: Kind.COUNT,
    refusals.OverMaxCount: Kind.COUNT,
    refusals.NoNodeServes: Kind.ROOM,
    refusals.NoNodeEligible: Kind.ROOM,
    refusals.NoFreeUnits: Kind.ROOM,
    refusals.NoNodeAccepts: Kind.ROOM,
    refusals.NoNodeForSet: Kind.ROOM,
    refusals.GuestMayRun: Kind.VM,
    refusals.OverBudget: Kind.BUDGET,
    refusals.NotEntitled: Kind.ENTITLEMENT,
    gate_reasons.NoRoomForPod: Kind.ROOM,
    gate_reasons.ClaimsUnreadable: Kind.CLUSTER,
}
_BEFORE_OTHERS: Final = frozenset({Kind.ROOM, Kind.BUDGET, Kind.CLASS, Kind.ENTITLEMENT})
"""Of these there may be enough for one that comes before."""


def kind_of(reason: type[GateReason]) -> Kind:
    """Return what a reason is about."""
    return _KINDS.get(reason, Kind.VM)


def kinds(reasons: Iterable[GateReason]) -> tuple[Kind, ...]:
    """Return the first two kinds of reasons that stand where no single change is told."""
    found = tuple(dict.fromkeys(kind_of(type(one)) for one in reasons))
    if len(found) == 1 and found[0] in _BEFORE_OTHERS:
        found = (*found, Kind.TURN)
    return found[:_MOST]
