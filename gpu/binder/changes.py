"""The effects of a pass as frozen values; phases yield them, `writer.py` alone performs them.

A change of placement carries the claim it was decided on: its resourceVersion goes with the write,
so a claim somebody else changed meanwhile is a conflict and not overwritten.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from gpu import keys
from gpu.model.refusals import Refusal
from gpu.objects.binders import GPUBinder
from gpu.objects.claims import GPUClaim
from gpu.objects.classes import GPUClass
from gpu.objects.kinds import (
    CONFIG_MAPS,
    GPU_BINDERS,
    GPU_CLAIMS,
    GPU_CLASSES,
    GPU_NODES,
    Kind,
)
from gpu.objects.meta import Condition, ObjectKey
from gpu.objects.nodes import GPUNode, NodeUnits
from gpu.settings import Settings
from gpu.units import NodeName

SetId = str
"""What quarantine and ordering go by: claims of one set share it (`namespace/name` of its first)."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Bind a claim to a node: the write that must never be wrong."""

    claim: GPUClaim
    node: NodeName
    at: datetime
    set_id: SetId


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """Say on a claim that stays Pending why it waits; yielded only when it differs."""

    claim: GPUClaim
    refusals: tuple[Refusal, ...]
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
    """All conditions GPUBinder shall have, those of other writers included."""


ClaimStatus = Place | Explain | ExplainRefused
"""Writes of GPUClaim status: an unknown or contended one aborts the placing phases of a pass."""
Finalizer = AddFinalizer | DropFinalizer
Change = Finalizer | ClaimStatus | ReportClass | ReportNode | WriteSettings | ReportBinder

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
        case Place() | Explain() | ExplainRefused():
            return Target(GPU_CLAIMS, change.claim.key, change.claim.meta.uid)
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
    if isinstance(change, Place | Explain | ExplainRefused):
        return change.set_id
    target = target_of(change)
    return object_set(target.kind, target.key)


def object_set(kind: Kind, key: ObjectKey) -> SetId:
    """Return the set of an object written for itself: a claim's is `namespace/name`."""
    return str(key) if kind == GPU_CLAIMS else f"{kind.kind} {key}"
