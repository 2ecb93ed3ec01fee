"""VMI (active pods) and the KubeVirt CR's permitted-devices table."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu.objects import meta
from gpu.objects.decode import Fields, Raw
from gpu.objects.meta import ObjectMeta
from gpu.units import NodeName, ResourceName


@dataclass(frozen=True, slots=True, kw_only=True)
class VMI:
    """A VirtualMachineInstance as far as claims look at it."""

    meta: ObjectMeta
    phase: str = ""
    active_pods: Mapping[str, NodeName] = field(default_factory=dict)
    """Pod uid to node; KubeVirt keeps finished pods in it."""
    raw: Raw = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeVirt:
    """The KubeVirt CR; `permitted` is None when it has no permittedHostDevices table."""

    meta: ObjectMeta
    permitted: tuple[ResourceName, ...] | None = None
    raw: Raw = field(default_factory=dict, compare=False, repr=False)


def decode_vmi(raw: Raw) -> VMI:
    """Read a VMI. Raises DecodeError where it is broken."""
    fields = Fields(raw)
    status = fields.child("status")
    return VMI(
        meta=meta.decode_meta(fields),
        phase=status.text_or("phase"),
        active_pods={uid: NodeName(node) for uid, node in status.text_map("activePods").items()},
        raw=raw,
    )


def decode_kubevirt(raw: Raw) -> KubeVirt:
    """Read a KubeVirt CR. `usb` entries and duplicates are passed over, as the host does."""
    fields = Fields(raw)
    configuration = fields.child("spec").child("configuration")
    permitted: tuple[ResourceName, ...] | None = None
    if configuration.has("permittedHostDevices"):
        table = configuration.child("permittedHostDevices")
        names = {
            ResourceName(entry.text("resourceName"))
            for part in ("pciHostDevices", "mediatedDevices")
            for entry in table.children(part)
        }
        permitted = tuple(sorted(names))
    return KubeVirt(meta=meta.decode_meta(fields), permitted=permitted, raw=raw)
