"""What is known of the end of a pod that used a claim, in values and words; `pod_ends` judges it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from gpu.objects.meta import ObjectKey
from gpu.units import NodeName

UNSEEN: Final = "unseen-"
"""What the uid of a pod begins with that stands for a launcher nobody saw; no pod has such a uid."""


class Sign(StrEnum):
    """What an end is known by."""

    ENDED = "Ended"
    """The pod was seen Succeeded or Failed."""
    NEVER_PLACED = "NeverPlaced"
    """It went before it had a node."""
    NODE_OFF = "NodeOff"
    """Its Node object is gone, or somebody vouches by a taint that the node is off."""
    NOT_HELD = "NotHeld"
    """The agent looked after it went, and saw no device that it holds."""
    NODE_LOOKED = "NodeLooked"
    """Its node was Ready for long enough since it went: kubelet kills what it no longer sees."""


class Lack(StrEnum):
    """Why there is no evidence yet; those that need a person first."""

    NODE_UNKNOWN = "NodeUnknown"
    POD_NOT_ENDED = "PodNotEnded"
    NODE_SETTLING = "NodeSettling"
    START_PENDING = "StartPending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Evidence for one pod on one node."""

    pod: str
    sign: Sign
    node: NodeName | None = None
    at: datetime | None = None
    """NOT_HELD: when the agent looked. NODE_LOOKED: until when its node had to be seen alive."""
    since: datetime | None = None
    """NODE_LOOKED: since when its node had to be Ready without a break."""

    @property
    def words(self) -> str:
        """For its Event; names the tenant's own pod and node only."""
        match self.sign:
            case Sign.ENDED:
                return f"{_pod(self.pod)} was seen to have ended"
            case Sign.NEVER_PLACED:
                return f"{_pod(self.pod)} went before it had a node"
            case Sign.NODE_OFF:
                return f"{_pod(self.pod)}: node {self.node} is gone or out of service"
            case Sign.NOT_HELD:
                return (
                    f"{_pod(self.pod)} holds no device of node {self.node} as seen {_time(self.at)}"
                )
            case Sign.NODE_LOOKED:
                return (
                    f"{_pod(self.pod)} went, and node {self.node} was Ready until {_time(self.at)}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A pod that may still use units, and what would tell; no pod for a VMI that may yet come."""

    lack: Lack
    vm: str
    pod: str = ""
    node: NodeName | None = None
    seconds: int = 0
    """How long a node is watched, or a start waited for."""

    @property
    def words(self) -> str:
        """What is lacking and the next step. It does not change while time passes."""
        match self.lack:
            case Lack.NODE_UNKNOWN:
                return (
                    f"{_pod(self.pod)} of VM {self.vm} may still run on node {self.node}, which is "
                    "not Ready: bring the node back, or, when it is off for good, delete the Node "
                    "or taint it node.kubernetes.io/out-of-service"
                )
            case Lack.POD_NOT_ENDED:
                where = f"on node {self.node} " if self.node else ""
                return f"{_pod(self.pod)} of VM {self.vm} {where}has not ended: stop the VM"
            case Lack.NODE_SETTLING:
                return (
                    f"{_pod(self.pod)} of VM {self.vm} is gone; that node {self.node} ended it is "
                    f"known when it stays Ready for {self.seconds} s: wait"
                )
            case Lack.START_PENDING if self.node:
                return f"VM {self.vm} starts on node {self.node}, which it was granted: stop the VM"
            case Lack.START_PENDING:
                return (
                    f"VM {self.vm} was about to start: it is waited for, {self.seconds} s at most"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Every pod looked at is known to have ended; what of it is to be read past the cache."""

    words: tuple[str, ...] = ()
    """One per pod and node, by pod uid."""
    namespace: str = ""
    ended: frozenset[str] = frozenset()
    """Pods that must not live."""
    gone: frozenset[str] = frozenset()
    """Pods whose object must not be there."""
    off: frozenset[NodeName] = frozenset()
    """Nodes that must be gone or out of service."""
    looked: Mapping[NodeName, tuple[datetime, datetime]] | None = None
    """Nodes that must be Ready since an instant, with a Lease renewed at or after another."""
    vmis: frozenset[tuple[ObjectKey, str]] = frozenset()
    """VMIs, with uid, that must list no pod but those in `known`."""
    known: frozenset[str] = frozenset()
    unnoted: frozenset[tuple[str, str]] = frozenset()
    """VMIs, by name and uid (empty where nobody saw it), of which no launcher may live past the gate."""


def _pod(uid: str) -> str:
    return "a launcher that nobody saw" if uid.startswith(UNSEEN) else f"pod {uid}"


def _time(at: datetime | None) -> str:
    return at.isoformat(timespec="seconds") if at else "unknown"
