"""Pod: phase, node, what it asks of it, gates, and whose launcher it says it is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from gpu import keys
from gpu.objects import meta, pod_needs
from gpu.objects.decode import Fields, Raw
from gpu.objects.meta import ObjectMeta
from gpu.objects.pod_needs import Needs
from gpu.units import NodeName, ResourceName, Units

LAUNCHER_LABEL: Final = "kubevirt.io"
LAUNCHER_VALUE: Final = "virt-launcher"
CREATED_BY_LABEL: Final = "kubevirt.io/created-by"
MIGRATION_LABEL: Final = "kubevirt.io/migrationJobUID"
_DIGITS: Final = 18
"""As many as the policies read of a term."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """Condition PodScheduled, without its message."""

    status: str
    reason: str = ""
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod as far as it takes room on a node, or waits to."""

    meta: ObjectMeta
    phase: str = "Pending"
    node: NodeName | None = None
    requests: Mapping[ResourceName, Units] = field(default_factory=dict)
    """Extended resources only, as the scheduler counts them."""
    gates: tuple[str, ...] = ()
    pinned: NodeName | None = None
    """The one node that every term of its required node affinity names by metadata.name."""
    term: int | None = None
    """Of the leader who pinned it; a policy lets nobody else write it."""
    needs: Needs = field(default_factory=Needs)
    volumes: tuple[str, ...] = ()
    """PersistentVolumeClaims it uses, by name, in its namespace."""
    reason: str = ""
    """Why it is in its phase, as kubelet says, e.g. OutOf<resource>."""
    message: str = ""
    scheduled: Scheduled | None = None
    raw: Raw = field(default_factory=dict, compare=False, repr=False)

    @property
    def live(self) -> bool:
        """A pod is live until its phase is Succeeded or Failed (domain contract 5)."""
        return self.phase not in {"Succeeded", "Failed"}

    @property
    def vmi_uid(self) -> str:
        """The VMI its controller reference claims; anyone can write one, so check activePods."""
        for owner in self.meta.owners:
            if owner.kind == "VirtualMachineInstance" and owner.controller:
                return owner.uid
        return ""


def decode(raw: Raw) -> Pod:
    """Read a Pod. Raises DecodeError where it is broken."""
    fields = Fields(raw)
    spec = fields.child("spec")
    status = fields.child("status")
    found = meta.decode_meta(fields)
    node = spec.text_or("nodeName")
    needs = pod_needs.needs(raw)
    return Pod(
        meta=replace(found, annotations={}),
        phase=status.text_or("phase", "Pending"),
        node=NodeName(node) if node else None,
        requests={
            ResourceName(name): Units(amount)
            for name, amount in needs.amounts.items()
            if "/" in name
        },
        gates=tuple(gate.text("name") for gate in spec.children("schedulingGates")),
        pinned=_pinned(needs),
        term=_term(found.annotations),
        needs=needs,
        volumes=tuple(_volumes(found.name, spec)),
        reason=status.text_or("reason"),
        message=status.text_or("message"),
        scheduled=_scheduled(status),
        raw=raw,
    )


def _pinned(needs: Needs) -> NodeName | None:
    named: set[str] = set()
    for term in needs.node_terms or ():
        names = [
            field.values
            for field in term.fields
            if field.key == "metadata.name" and field.operator == "In"
        ]
        if len(names) != 1 or len(names[0]) != 1:
            return None
        named.update(names[0])
    return NodeName(named.pop()) if len(named) == 1 else None


def _scheduled(status: Fields) -> Scheduled | None:
    """Read it; its message changes whenever anything in the cluster does, and is left out."""
    for raw in status.dicts("conditions"):
        if raw.get("type") == "PodScheduled":
            item = Fields(raw, status.at("conditions"))
            return Scheduled(
                status=item.text_or("status", "Unknown"),
                reason=item.text_or("reason"),
                since=item.time("lastTransitionTime"),
            )
    return None


def _volumes(pod: str, spec: Fields) -> Iterator[str]:
    for raw in spec.dicts("volumes"):
        if "persistentVolumeClaim" in raw:
            source = Fields(raw, spec.at("volumes")).child("persistentVolumeClaim")
            yield source.text_or("claimName")
        elif "ephemeral" in raw:
            yield f"{pod}-{raw.get('name', '')}"


def _term(annotations: Mapping[str, str]) -> int | None:
    text = annotations.get(keys.TERM_ANNOTATION, "")
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else None
