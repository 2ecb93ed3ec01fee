"""The effects of a pass as frozen values; phases yield them, `writer.py` alone performs them.

A change of placement carries the claim it was decided on: its resourceVersion goes with the write,
so a claim somebody else changed meanwhile is a conflict and not overwritten.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from gpu.model.refusals import Refusal
from gpu.objects.claims import GPUClaim
from gpu.objects.classes import GPUClass
from gpu.objects.kinds import Kind
from gpu.objects.meta import Condition, ObjectKey
from gpu.objects.nodes import GPUNode, NodeUnits
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
    """Say on a claim that stays Pending why it waits; written only when it differs."""

    claim: GPUClaim
    refusals: tuple[Refusal, ...]
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
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportNode:
    """Publish a node's units held and free per resource, under the binder's field manager."""

    node: GPUNode
    resources: tuple[NodeUnits, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSettings:
    """Create or heal the settings ConfigMap."""

    data: Mapping[str, str]
    exists: bool


PlacementChange = Place | Explain
Change = AddFinalizer | DropFinalizer | PlacementChange | ReportClass | ReportNode | WriteSettings
