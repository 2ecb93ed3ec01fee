"""The effects of a pass as frozen values; phases yield them, `writer.py` alone performs them.

A change of placement carries the claim it was decided on: its resourceVersion goes with the write,
so a claim somebody else changed meanwhile is a conflict and not overwritten.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from gpu import keys
from gpu.binder.answer_changes import Answer, ForgetRequest, OwnClaim
from gpu.binder.confirms import Confirm
from gpu.binder.rejection_changes import DeletePod, Reject
from gpu.binder.start_changes import CreateClaim, ExplainGated, Pin
from gpu.model.refusals import Refusal
from gpu.model.signs import Missing
from gpu.model.usage import Record
from gpu.objects.binders import GPUBinder
from gpu.objects.claims import Alarm, Attachment, BindRequest, Cause, Displaced, GPUClaim
from gpu.objects.classes import GPUClass
from gpu.objects.kinds import (
    CONFIG_MAPS,
    GPU_BINDERS,
    GPU_CLAIMS,
    GPU_CLASSES,
    GPU_NODES,
    PODS,
    VMIS,
    WORKLOAD_MONITORS,
    WORKLOADS,
    Kind,
)
from gpu.objects.meta import Condition, ObjectKey
from gpu.objects.nodes import GPUNode, NodeUnits
from gpu.settings import Settings
from gpu.units import NodeName

SetId = str
"""What quarantine and ordering go by: claims of one set share it (`namespace/name` of its first)."""


class How(StrEnum):
    """How a claim came to be on its node; the reason of its condition Bound."""

    PLACED = "Placed"
    MOVED = "Moved"
    REBOUND = "Rebound"
    GATHERED = "Gathered"
    MIGRATED = "Migrated"


class Detached(StrEnum):
    """Why an attachment is over."""

    ENDED = "GuestEnded"
    EXPIRED = "NeverStarted"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddFinalizer:
    """Put our finalizer on a class or claim."""

    kind: Kind
    key: ObjectKey
    uid: str
    version: str
    finalizers: tuple[str, ...]
    """All finalizers the object shall have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropFinalizer:
    """Take our finalizer off a class or claim: the last thing before it is gone."""

    kind: Kind
    key: ObjectKey
    uid: str
    version: str
    finalizers: tuple[str, ...]
    """All finalizers the object keeps."""
    confirm: tuple[Confirm, ...] = ()
    evidence: tuple[str, ...] = ()
    """How each pod that used a claim is known to have ended, in words; for its Event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Bind a claim to a node, or hold it there from now on: the write that must never be wrong."""

    claim: GPUClaim
    node: NodeName
    at: datetime
    set_id: SetId
    how: How = How.PLACED
    displaced: Displaced | None = None
    """Of a move: what it left and why; None leaves what is stored."""
    attachment: Attachment | None = None
    """Of a start: the VMI that uses it from now on, and its launcher; None leaves what is stored."""
    answer: BindRequest | None = None
    """Of a start that is answered: its request with the result; None leaves what is stored."""
    confirm: tuple[Confirm, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lose:
    """Make a Bound claim Lost: it holds no units from now on and counts for budgets still."""

    claim: GPUClaim
    displaced: Displaced
    at: datetime
    set_id: SetId
    refusals: tuple[Refusal, ...]
    """Why no other node takes its set; never empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attach:
    """Note on a claim what is known of the VMI that uses it: its uid, pods and their ends."""

    claim: GPUClaim
    attachment: Attachment
    at: datetime
    set_id: SetId
    confirm: tuple[Confirm, ...] = ()
    """Of pods noted as ended that nobody saw end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detach:
    """End a claim's attachment, and a request with it: it is held for a VM that is off."""

    claim: GPUClaim
    why: Detached
    at: datetime
    set_id: SetId
    confirm: tuple[Confirm, ...] = ()
    evidence: tuple[str, ...] = ()
    """How each pod is known to have ended, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Degrade:
    """Say on a Bound claim that its node does not keep it well, or (cause None) that it does again."""

    claim: GPUClaim
    cause: Cause | Alarm | None
    words: str
    at: datetime
    set_id: SetId


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """Say on a claim that stays Pending or Lost why it waits; yielded only when it differs."""

    claim: GPUClaim
    refusals: tuple[Refusal, ...]
    at: datetime
    set_id: SetId


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainKept:
    """Say on a deleted claim why it is not let go yet; yielded only when it differs."""

    claim: GPUClaim
    missing: tuple[Missing, ...]
    """What keeps it, the worst first; never empty."""
    at: datetime
    set_id: SetId


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainRefused:
    """Say on a claim that the API server refuses to store its placement, in the server's words."""

    claim: GPUClaim
    words: str
    at: datetime
    set_id: SetId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportClass:
    """Publish a class's derived status (the whole of it)."""

    offer: GPUClass
    capacity: int
    allocatable: int
    held: int
    free: int
    nodes: tuple[NodeName, ...]
    """Nodes that serve it, by name; the first of them when there are more than fit the schema."""
    node_count: int
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportNode:
    """Publish a node's units held and free per resource, under the binder's field manager."""

    node: GPUNode
    resources: tuple[NodeUnits, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSettings:
    """Create the settings ConfigMap, or heal it; `problem` says what was wrong with the old one."""

    settings: Settings
    exists: bool
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportBinder:
    """Publish on GPUBinder the settings in force and the leader's own conditions."""

    binder: GPUBinder
    settings: Settings
    conditions: tuple[Condition, ...]
    """The leader's own; those of other writers stay as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndGuest:
    """Delete the VMI whose node cannot keep its set, so that the set can be placed anew.

    A deletion that is on its way for long must not end a guest that has changed since.
    """

    vmi: ObjectKey
    uid: str
    version: str
    node: NodeName
    cause: Cause
    set_id: SetId
    confirm: tuple[Confirm, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteClaim:
    """Delete a template claim whose VM never came, or is over."""

    claim: GPUClaim
    set_id: SetId
    version: str = ""
    """It goes as it was then, or not at all; empty where its uid is enough."""
    confirm: tuple[Confirm, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRecord:
    """Create a claim's usage record, or bring it to what it should be."""

    claim: GPUClaim
    record: Record
    uid: str
    """Of the record that is there; empty when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropRecord:
    """Delete a usage record that has no claim, which garbage collection did not take."""

    key: ObjectKey
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMonitor:
    """Create the WorkloadMonitor that usage records of a namespace are kept under, or heal it."""

    namespace: str
    uid: str
    selector: tuple[tuple[str, str], ...] = field(default_factory=tuple)


Placement = Place | Lose
"""Changes of phase or node: they carry the term, and the checker judges them."""
ClaimStatus = (
    Placement
    | Answer
    | ForgetRequest
    | Attach
    | Detach
    | Reject
    | Degrade
    | Explain
    | ExplainGated
    | ExplainKept
    | ExplainRefused
)
"""Writes of GPUClaim status: an unknown or contended one aborts the placing phases of a pass."""
Finalizer = AddFinalizer | DropFinalizer
Usage = WriteRecord | DropRecord | WriteMonitor
Derived = ReportClass | ReportNode | WriteSettings | ReportBinder
OfPod = Pin | DeletePod
OfTemplate = CreateClaim | OwnClaim | DeleteClaim
Change = Finalizer | ClaimStatus | OfTemplate | OfPod | EndGuest | Usage | Derived

SETTINGS_KEY = ObjectKey(keys.SETTINGS_NAMESPACE, keys.SETTINGS_NAME)


@dataclass(frozen=True, slots=True)
class Target:
    """The object a change writes; the uid is empty for one that is still to be created."""

    kind: Kind
    key: ObjectKey
    uid: str


def target_of(change: Change) -> Target:
    """Return the object a change writes."""
    match change:
        case AddFinalizer() | DropFinalizer():
            return Target(change.kind, change.key, change.uid)
        case EndGuest():
            return Target(VMIS, change.vmi, change.uid)
        case Pin() | DeletePod():
            return Target(PODS, change.pod.meta.key, change.pod.meta.uid)
        case WriteRecord() | DropRecord() | WriteMonitor():
            return _usage_target(change)
        case ReportClass() | ReportNode() | WriteSettings() | ReportBinder():
            return _derived_target(change)
        case _:
            return Target(GPU_CLAIMS, change.claim.key, change.claim.meta.uid)


def _usage_target(change: Usage) -> Target:
    match change:
        case WriteRecord():
            key = ObjectKey(change.claim.meta.namespace, change.record.name)
            return Target(WORKLOADS, key, change.uid)
        case DropRecord():
            return Target(WORKLOADS, change.key, change.uid)
        case WriteMonitor():
            key = ObjectKey(change.namespace, keys.USAGE_MONITOR_NAME)
            return Target(WORKLOAD_MONITORS, key, change.uid)
        case _:
            assert_never(change)


def _derived_target(change: Derived) -> Target:
    match change:
        case ReportClass():
            return Target(GPU_CLASSES, change.offer.meta.key, change.offer.meta.uid)
        case ReportNode():
            return Target(GPU_NODES, change.node.meta.key, change.node.meta.uid)
        case WriteSettings():
            return Target(CONFIG_MAPS, SETTINGS_KEY, "")
        case ReportBinder():
            return Target(GPU_BINDERS, change.binder.meta.key, change.binder.meta.uid)
        case _:
            assert_never(change)


def set_of(change: Change) -> SetId:
    """Return the set a change belongs to; an object that is no claim is a set of its own."""
    if isinstance(change, ClaimStatus | OfTemplate | OfPod | EndGuest):
        return change.set_id
    target = target_of(change)
    return object_set(target.kind, target.key)


def object_set(kind: Kind, key: ObjectKey) -> SetId:
    """Return the set of an object written for itself: a claim's is `namespace/name`."""
    return str(key) if kind == GPU_CLAIMS else f"{kind.kind} {key}"
