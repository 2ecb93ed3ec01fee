"""GPUClass: mode, source, resource name, max count, tolerations, cordon behaviour."""

from dataclasses import dataclass, field
from enum import StrEnum

from gpu.objects import meta
from gpu.objects.decode import Fields, Raw
from gpu.objects.meta import Condition, ObjectMeta
from gpu.units import ClassName, NodeName, ResourceName, Units


class Mode(StrEnum):
    """How a card reaches the guest."""

    PASSTHROUGH = "passthrough"
    VGPU = "vgpu"


class OnCordon(StrEnum):
    """What a cordon does to sets of the class."""

    MOVE = "Move"
    STAY = "Stay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A toleration of the class's VMs; operators Exists and Equal only."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassStatus:
    """What the leader last published of a class."""

    observed_generation: int = 0
    capacity: int = 0
    allocatable: int = 0
    held: int = 0
    free: int = 0
    nodes: tuple[NodeName, ...] = ()
    node_count: int = 0
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUClass:
    """One offer of the hoster. `max_count` is as written: resolve it through gpu.model.orders."""

    meta: ObjectMeta
    mode: Mode
    resource: ResourceName
    max_count: Units | None = None
    on_cordon: OnCordon = OnCordon.MOVE
    tolerations: tuple[Toleration, ...] = ()
    display_name: str = ""
    description: str = ""
    retired: bool = False
    status: ClassStatus = field(default_factory=ClassStatus)
    raw: Raw = field(default_factory=dict, compare=False, repr=False)

    @property
    def name(self) -> ClassName:
        """Its name, part of quota keys."""
        return ClassName(self.meta.name)


def decode(raw: Raw) -> GPUClass:
    """Read a GPUClass. Raises DecodeError where its schema is broken."""
    fields = Fields(raw)
    spec = fields.child("spec")
    status = fields.child("status")
    return GPUClass(
        meta=meta.decode_meta(fields),
        mode=spec.one_of("mode", Mode, ""),
        resource=ResourceName(spec.child("source").child("devicePlugin").text("resourceName")),
        max_count=spec.units("maxCount") if spec.has("maxCount") else None,
        on_cordon=spec.one_of("onCordon", OnCordon, OnCordon.MOVE.value),
        tolerations=tuple(
            Toleration(
                key=item.text_or("key"),
                operator=item.text_or("operator", "Equal"),
                value=item.text_or("value"),
                effect=item.text_or("effect"),
                seconds=item.whole("tolerationSeconds") if item.has("tolerationSeconds") else None,
            )
            for item in spec.children("tolerations")
        ),
        display_name=spec.text_or("displayName"),
        description=spec.text_or("description"),
        retired=spec.flag("retired"),
        status=ClassStatus(
            observed_generation=status.whole("observedGeneration", 0),
            capacity=status.whole("capacity", 0),
            allocatable=status.whole("allocatable", 0),
            held=status.whole("held", 0),
            free=status.whole("free", 0),
            nodes=tuple(NodeName(name) for name in status.texts("nodes")),
            node_count=status.whole("nodeCount", 0),
            conditions=meta.decode_conditions(status),
        ),
        raw=raw,
    )
