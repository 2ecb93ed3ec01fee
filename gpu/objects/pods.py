"""Pod: phase, node, extended requests, gates, and whose launcher it says it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gpu.objects import meta, nodes
from gpu.objects.decode import Fields, Raw
from gpu.objects.meta import ObjectMeta
from gpu.units import NodeName, ResourceName, Units

LAUNCHER_LABEL: Final = "kubevirt.io"
LAUNCHER_VALUE: Final = "virt-launcher"
CREATED_BY_LABEL: Final = "kubevirt.io/created-by"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod as far as it can hold units of an extended resource."""

    meta: ObjectMeta
    phase: str = "Pending"
    node: NodeName | None = None
    requests: Mapping[ResourceName, Units] = field(default_factory=dict)
    """Extended resources only, as the scheduler counts them."""
    gates: tuple[str, ...] = ()
    pinned: NodeName | None = None
    """The one node that every term of its required node affinity names by metadata.name."""
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
    node = spec.text_or("nodeName")
    return Pod(
        meta=replace(meta.decode_meta(fields), annotations={}),
        phase=fields.child("status").text_or("phase", "Pending"),
        node=NodeName(node) if node else None,
        requests=_requests(spec),
        gates=tuple(gate.text("name") for gate in spec.children("schedulingGates")),
        pinned=_pinned(spec),
        raw=raw,
    )


def _pinned(spec: Fields) -> NodeName | None:
    required = (
        spec.child("affinity")
        .child("nodeAffinity")
        .child("requiredDuringSchedulingIgnoredDuringExecution")
    )
    named: set[str] = set()
    for term in required.children("nodeSelectorTerms"):
        names = [
            field.texts("values")
            for field in term.children("matchFields")
            if field.text_or("key") == "metadata.name" and field.text_or("operator") == "In"
        ]
        if len(names) != 1 or len(names[0]) != 1:
            return None
        named.update(names[0])
    return NodeName(named.pop()) if len(named) == 1 else None


def _requests(spec: Fields) -> dict[ResourceName, Units]:
    """Sum as the scheduler does: containers and sidecars add up, an init container is a peak.

    Source: KEP-753 (sidecar containers); requests of an extended resource equal its limits.
    """
    running: dict[ResourceName, int] = {}
    peak: dict[ResourceName, int] = {}
    for container in spec.children("initContainers"):
        wants = _of(container)
        sidecar = container.text_or("restartPolicy") == "Always"
        for name, amount in wants.items():
            if sidecar:
                running[name] = running.get(name, 0) + amount
            peak[name] = max(peak.get(name, 0), running.get(name, 0) + (0 if sidecar else amount))
    for container in spec.children("containers"):
        for name, amount in _of(container).items():
            running[name] = running.get(name, 0) + amount
    return {
        name: Units(max(running.get(name, 0), peak.get(name, 0)))
        for name in running.keys() | peak.keys()
    }


def _of(container: Fields) -> dict[ResourceName, Units]:
    resources = container.child("resources")
    found = nodes.extended(resources.child("limits").raw)
    found.update(nodes.extended(resources.child("requests").raw))
    return found
