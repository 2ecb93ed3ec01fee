"""Why a launcher waits at the gate: what bars any order, and beside it its claims and its pod.

No node name and no number of another tenant is in them.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, assert_never

from gpu.model import misfits, refusals
from gpu.model.misfits import Misfit
from gpu.model.refusals import Refusal
from gpu.units import ClaimName, ResourceName, Units


@dataclass(frozen=True, slots=True)
class ClaimMissing:
    """A held claim that the VM was started with is not there any more."""

    reason: ClassVar[str] = "ClaimMissing"
    claim: ClaimName


@dataclass(frozen=True, slots=True)
class ClaimDeleting:
    """A claim of the start is being deleted."""

    reason: ClassVar[str] = "ClaimDeleting"
    claim: ClaimName


@dataclass(frozen=True, slots=True)
class ClaimInUse:
    """A held claim is not attached to this start yet, or what ran with it before may not be over."""

    reason: ClassVar[str] = "ClaimInUse"
    claim: ClaimName


@dataclass(frozen=True, slots=True)
class ClaimPending:
    """A held claim is an order that waits its turn still."""

    reason: ClassVar[str] = "ClaimPending"
    claim: ClaimName


@dataclass(frozen=True, slots=True)
class ClaimNameTaken:
    """Somebody else's claim has the name of the template claim that the start needs."""

    reason: ClassVar[str] = "ClaimNameTaken"
    claim: ClaimName


@dataclass(frozen=True, slots=True)
class RawNameDenied:
    """The launcher asks for units by their raw name, which is not allowed any more."""

    reason: ClassVar[str] = "RawNameDenied"
    resource: ResourceName
    units: Units


@dataclass(frozen=True, slots=True)
class NoRoomForPod:
    """No one node has the units free that the launcher asks for."""

    reason: ClassVar[str] = "NoRoomForPod"
    wanted: tuple[tuple[ResourceName, Units], ...]


@dataclass(frozen=True, slots=True)
class PodFitsNowhere:
    """Nodes have the units free, and none of them takes the launcher pod for what else it asks."""

    reason: ClassVar[str] = "PodFitsNowhere"
    why: tuple[Misfit, ...]
    """What keeps it from each of them."""


@dataclass(frozen=True, slots=True)
class NodesRefused:
    """Nodes refused the VM's launcher a short while ago, and are skipped for it; beside other reasons."""

    reason: ClassVar[str] = "NodesRefused"
    nodes: int


@dataclass(frozen=True, slots=True)
class StartsFail:
    """The VM's last starts have failed, one after the other: others come first for a while."""

    reason: ClassVar[str] = "StartsFail"
    failures: int
    until: datetime


@dataclass(frozen=True, slots=True)
class ClaimsUnreadable:
    """A claim in the cluster cannot be read, so nobody knows what is free: a start is refused for it."""

    reason: ClassVar[str] = "ClaimsUnreadable"


OfClaim = (
    ClaimMissing | ClaimDeleting | ClaimInUse | ClaimPending | ClaimNameTaken | ClaimsUnreadable
)
OfPod = RawNameDenied | NoRoomForPod | PodFitsNowhere | NodesRefused | StartsFail
GateReason = Refusal | OfClaim | OfPod


def code(found: GateReason) -> str:
    """Return the stable CamelCase reason."""
    return found.reason


def words(found: GateReason) -> str:
    """Say it to the tenant: the object, the number and the next step; no full stop at the end."""
    if isinstance(found, OfClaim):
        return _about_claim(found)
    if isinstance(found, OfPod):
        return _about_pod(found)
    return refusals.words(found)


def steady(found: PodFitsNowhere) -> str:
    """Say it without the numbers that others change: what is stored must not follow every bind."""
    why = ", ".join(sorted({misfits.words(one, nodes=2) for one in found.why}))
    return (
        f"nodes have the units free, none takes the launcher pod, they {why}: change what the VM "
        "asks for, or wait"
    )


def _about_claim(found: OfClaim) -> str:
    match found:
        case ClaimMissing(claim):
            return (
                f"claim {claim} is not there any more: stop the VM, and start it with another claim"
            )
        case ClaimDeleting(claim):
            return (
                f"claim {claim} is being deleted: stop the VM, and start it with another claim, or "
                "wait until one made for this start is gone"
            )
        case ClaimInUse(claim):
            return (
                f"claim {claim} is still used by another VM, or by an earlier run of this one: wait until "
                "that has ended, or ask the hoster for its node"
            )
        case ClaimPending(claim):
            return (
                f"claim {claim} is an order that waits for units: see why in its condition Waiting"
            )
        case ClaimsUnreadable():
            return (
                "a claim in this cluster cannot be read, and nothing is placed until it can be: ask "
                "the hoster to mend it"
            )
        case ClaimNameTaken(claim):
            return (
                f"a claim named {claim} is there that was not made for this start: delete gpuclaim "
                f"{claim}"
            )
        case _:  # pragma: no cover
            assert_never(found)


def _about_pod(found: OfPod) -> str:
    match found:
        case NoRoomForPod(wanted):
            units = " and ".join(f"{amount} of {resource}" for resource, amount in wanted)
            return f"the launcher asks for {units} on one node, none has that free: wait"
        case PodFitsNowhere(why):
            return (
                f"no node with the units free takes the launcher pod, {misfits.told(why)}: change "
                "what the VM asks for, or wait"
            )
        case NodesRefused(nodes):
            count = (
                "1 node that refused the launcher is"
                if nodes == 1
                else f"{nodes} nodes that refused the launcher are"
            )
            return f"{count} skipped for this VM for ten minutes, or until changed: wait"
        case StartsFail(failures, until):
            return (
                f"the last {failures} starts of the VM failed: its next turn is at {until:%H:%M:%S} UTC, "
                "after those of others; look at the VMI's events for why they failed, or stop the VM"
            )
        case RawNameDenied(resource, units):
            return (
                f"{units} of {resource} asked by name, which this cluster denies: stop the VM, and "
                "name a class or a claim in it"
            )
        case _:  # pragma: no cover
            assert_never(found)
