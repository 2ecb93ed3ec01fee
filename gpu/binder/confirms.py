"""What a change relies on that is read past the cache before it is sent; `confirming` reads it.

One that does not hold stops the change: nothing is sent, and the next pass decides anew.
"""

from dataclasses import dataclass
from datetime import datetime

from gpu.objects.meta import ObjectKey
from gpu.units import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsEnded:
    """No pod of these uids lives in the namespace: each is Succeeded, Failed or not there."""

    namespace: str
    uids: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsAbsent:
    """No pod of these uids is there in the namespace, in whatever phase."""

    namespace: str
    uids: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class VMIEnded:
    """The VMI of that uid is not there any more, or is Succeeded or Failed."""

    key: ObjectKey
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VMINeverCame:
    """No VMI of that name carries the admission id for the claim."""

    key: ObjectKey
    claim: str
    admission: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOff:
    """The Node object is not there, or is tainted out-of-service."""

    node: NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLooked:
    """The node is Ready and its kubelet renewed its Lease at or after that instant."""

    node: NodeName
    at_or_after: datetime


Confirm = PodsEnded | PodsAbsent | VMIEnded | VMINeverCame | NodeOff | NodeLooked
