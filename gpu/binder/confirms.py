"""What a change relies on that is read past the cache before it is sent; `confirming` reads it.

One that does not hold stops the change: nothing is sent, and the next pass decides anew.
"""

from dataclasses import dataclass
from datetime import datetime

from gpu.model.signs import Proof
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
class NoneGated:
    """No pod of these uids waits at our gate: each was let through, or is not there."""

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
    """The node is Ready without a break since an instant, its Lease renewed at or after another.

    A watch of nodes that lags shows one as Ready that was cut off and has just come back.
    """

    node: NodeName
    ready_since: datetime
    at_or_after: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOtherPods:
    """The VMI of that uid lists no pod but these.

    Once it is over or gone nothing need list the target of a migration: no other may live then.
    """

    key: ObjectKey
    uid: str
    pods: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoLaunchers:
    """No pod of the namespace is a launcher of these VMIs, by name and uid, that lives past our gate."""

    namespace: str
    vmis: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimsHeld:
    """Each of the claims is Bound to the node and notes the pod there as one of the VMI's."""

    namespace: str
    claims: tuple[tuple[str, str], ...]
    """Names, each with the version that was decided on; empty of one that is made in the same pass."""
    node: NodeName
    vmi_uid: str
    pod: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """If the pod is there, it is the one of that uid, not going, and refused or not bound still."""

    key: ObjectKey
    uid: str


Confirm = (
    PodsEnded
    | PodsAbsent
    | NoneGated
    | VMIEnded
    | VMINeverCame
    | NodeOff
    | NodeLooked
    | NoOtherPods
    | NoLaunchers
    | ClaimsHeld
    | Refused
)


def of(proof: Proof) -> tuple[Confirm, ...]:
    """Return what a proof that pods have ended relies on."""
    found: list[Confirm] = [
        NoOtherPods(key=key, uid=uid, pods=proof.known) for key, uid in sorted(proof.vmis)
    ]
    if proof.unnoted:
        found.append(NoLaunchers(namespace=proof.namespace, vmis=proof.unnoted))
    if proof.ended:
        found.append(PodsEnded(namespace=proof.namespace, uids=proof.ended))
    if proof.gone:
        found.append(PodsAbsent(namespace=proof.namespace, uids=proof.gone))
    found += [NodeOff(node=node) for node in sorted(proof.off)]
    looked = proof.looked or {}
    found += [
        NodeLooked(node=node, ready_since=since, at_or_after=until)
        for node, (since, until) in sorted(looked.items())
    ]
    return tuple(found)
