"""VM (which claims its template names), VMI (pods, phase) and KubeVirt's permitted-devices table."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from gpu import keys
from gpu.objects import launching, meta, permitted
from gpu.objects.decode import Fields, Raw
from gpu.objects.launching import Launching
from gpu.objects.meta import ObjectMeta, OwnerRef
from gpu.units import MOST, ClaimName, ClassName, NodeName, ResourceName, Units

MOST_CLAIMS: Final = 256
"""As many as one VM can use; a template that names thousands must cost nobody else anything."""
ENDED: Final = frozenset({"Succeeded", "Failed"})
NOT_STARTED: Final = frozenset({"", "Pending", "Scheduling", "Scheduled"})
"""Phases of a VMI whose guest has never run: virt-handler has not started it (kubevirt-real 3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VM:
    """A VirtualMachine as far as claims look at it: the held claims its template names."""

    meta: ObjectMeta
    claims: tuple[ClaimName, ...] = ()
    """By device name or annotation, sorted, each once; MOST_CLAIMS of them at most."""
    failed_vmi: str = ""
    """Uid of the last VMI that never ran, as KubeVirt says; it forgets when one runs, or the VM is stopped."""
    failures: int = 0
    """Such VMIs in a row."""
    raw: Raw = field(default_factory=dict, compare=False, repr=False)


class Device(NamedTuple):
    """One entry of a VMI's gpus or hostDevices."""

    name: str
    device_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VMI:
    """A VirtualMachineInstance as far as claims look at it."""

    meta: ObjectMeta
    phase: str = ""
    node: NodeName | None = None
    """Where the guest runs, as virt-handler says."""
    active_pods: Mapping[str, NodeName] = field(default_factory=dict)
    """Pod uid to node; KubeVirt keeps finished pods in it."""
    admissions: Mapping[ClaimName, str] = field(default_factory=dict)
    """Claims the webhook attached for this start, and the id it gave each attachment: held ones, and
    those it made for the template's units where starts are requested (`binding: request`)."""
    template_units: Mapping[ClassName, Units] = field(default_factory=dict)
    """Units of each class that its template asks for, as the webhook resolved them."""
    is_resolved: bool = False
    """The webhook's record is there and can be read; it may say that nothing is referenced."""
    gpus: tuple[Device, ...] = ()
    host_devices: tuple[Device, ...] = ()
    volumes: tuple[str, ...] = ()
    """PersistentVolumeClaims it uses, by name, each once: a DataVolume has one of its own name."""
    provisioning: bool = False
    """Its volumes are being made: a temporary pod stands in for the launcher, or none does."""
    migrated_to: NodeName | None = None
    """Where the last live migration that is over left it: on its target, or its source where it failed."""

    @property
    def ended(self) -> bool:
        """Say whether the guest is over for good: a VMI never starts twice."""
        return self.phase in ENDED

    @property
    def started(self) -> bool:
        """Say whether the guest runs, or may: any phase we do not know counts."""
        return self.phase not in ENDED and self.phase not in NOT_STARTED

    @property
    def owner_vm(self) -> OwnerRef | None:
        """The VirtualMachine that controls it; None of a bare one, or of a replica set's."""
        owners = self.meta.owners
        return next((it for it in owners if it.controller and it.kind == "VirtualMachine"), None)

    raw: Raw = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeVirt:
    """The KubeVirt CR; `permitted` is None when it has no permittedHostDevices table."""

    meta: ObjectMeta
    permitted: tuple[ResourceName, ...] | None = None
    gpus: tuple[ResourceName, ...] = ()
    """Those of the permitted ones that count as GPUs."""
    launching: Launching = field(default_factory=Launching)
    raw: Raw = field(default_factory=dict, compare=False, repr=False)


def decode_vmi(raw: Raw) -> VMI:
    """Read a VMI. Raises DecodeError where it is broken."""
    fields = Fields(raw)
    status = fields.child("status")
    found = meta.decode_meta(fields)
    node = status.text_or("nodeName")
    spec = fields.child("spec")
    devices = spec.child("domain").child("devices")
    resolved = parse_resolved(found.annotations.get(keys.RESOLVED_CLAIMS_ANNOTATION, ""))
    return VMI(
        meta=replace(found, annotations={}),
        phase=status.text_or("phase"),
        node=NodeName(node) if node else None,
        active_pods={uid: NodeName(node) for uid, node in status.text_map("activePods").items()},
        admissions=resolved[0] if resolved else {},
        template_units=resolved[1] if resolved else {},
        is_resolved=resolved is not None,
        gpus=_devices(devices, "gpus"),
        host_devices=_devices(devices, "hostDevices"),
        volumes=tuple(dict.fromkeys(volume_claims(spec))),
        provisioning=any(
            item.raw.get("type") == "Provisioning" and item.raw.get("status") == "True"
            for item in status.children("conditions")
        ),
        migrated_to=_migrated_to(status.child("migrationState")),
        raw=raw,
    )


def decode_vm(raw: Raw) -> VM:
    """Read a VirtualMachine. Raises DecodeError where it is broken."""
    fields = Fields(raw)
    template = fields.child("spec").child("template")
    named = {
        device.text_or("deviceName").removeprefix(keys.CLAIM_DEVICE_PREFIX)
        for device in template.child("spec").child("domain").child("devices").children("gpus")
        if device.text_or("deviceName").startswith(keys.CLAIM_DEVICE_PREFIX)
    }
    listed = template.child("metadata").text_map("annotations").get(keys.CLAIMS_ANNOTATION, "")
    named |= {name.strip() for name in listed.split(",")}
    failed = fields.child("status").child("startFailure")
    return VM(
        meta=replace(meta.decode_meta(fields), annotations={}),
        claims=tuple(ClaimName(name) for name in sorted(named - {""})[:MOST_CLAIMS]),
        failed_vmi=failed.text_or("lastFailedVMIUID"),
        failures=failed.whole("consecutiveFailCount", 0),
        raw=raw,
    )


def format_resolved(
    admissions: Mapping[ClaimName, str], template_units: Mapping[ClassName, Units] | None = None
) -> str:
    """Write what the webhook resolved, as the annotation holds it: attached claims, then classes."""
    items: list[dict[str, str | int]] = [
        {"claim": name, "admission": admissions[name]} for name in sorted(admissions)
    ]
    units = template_units or {}
    items += [{"class": name, "units": int(units[name])} for name in sorted(units)]
    return json.dumps(items, separators=(",", ":"))


Resolved = tuple[dict[ClaimName, str], dict[ClassName, Units]]


def parse_resolved(text: str) -> Resolved | None:
    """Read it; None for what the webhook would never write, since a tenant may have written it."""
    try:
        items = json.loads(text) if text else None
    except (ValueError, RecursionError):  # nested a hundred thousand deep, too
        return None
    if not isinstance(items, list):
        return None
    held: dict[ClaimName, str] = {}
    units: dict[ClassName, Units] = {}
    for item in items:
        match item:
            case {"claim": str(name), "admission": str(admission)} if name and admission:
                held[ClaimName(name)] = admission
            case {"class": str(name), "units": amount} if name and _is_amount(amount):
                units[ClassName(name)] = Units(amount)
            case _:
                return None
    return (held, units) if len(held) + len(units) == len(items) else None


def _is_amount(value: Any) -> bool:
    return type(value) is int and 0 < value <= MOST


def _devices(devices: Fields, name: str) -> tuple[Device, ...]:
    return tuple(
        Device(item.text_or("name"), item.text_or("deviceName")) for item in devices.children(name)
    )


def volume_claims(spec: Fields) -> Iterator[str]:
    """Yield the PersistentVolumeClaims that a VMI's spec uses, by name; a DataVolume has one of its own name."""
    for volume in spec.children("volumes"):
        claim = volume.child("persistentVolumeClaim")
        claim = claim if claim.raw else volume.child("ephemeral").child("persistentVolumeClaim")
        claim = claim if claim.raw else volume.child("memoryDump")
        name = claim.text_or("claimName") or volume.child("dataVolume").text_or("name")
        if name:
            yield name


def keeps_state(vmi: Fields) -> bool:
    """Say whether a VMI has a volume for its own state: `IsBackendStorageNeeded` of KubeVirt 1.8.4. Raises DecodeError."""
    domain = vmi.child("spec").child("domain")
    tpm = domain.child("devices").child("tpm")
    efi = domain.child("firmware").child("bootloader").child("efi")
    blocks = vmi.child("status").child("changedBlockTracking").text_or("state")
    return (
        (tpm.flag("persistent") and tpm.raw.get("enabled") is not False)
        or efi.flag("persistent")
        or blocks in {"Initializing", "Enabled"}
    )


def _migrated_to(state: Fields) -> NodeName | None:
    if not state.flag("completed"):
        return None
    node = state.text_or("sourceNode" if state.flag("failed") else "targetNode")
    return NodeName(node) if node else None


def decode_kubevirt(raw: Raw) -> KubeVirt:
    """Read a KubeVirt CR. `usb` entries and duplicates are passed over, as the host does."""
    fields = Fields(raw)
    configuration = fields.child("spec").child("configuration")
    table = configuration.child("permittedHostDevices")
    has_table = configuration.has("permittedHostDevices")
    return KubeVirt(
        meta=meta.decode_meta(fields),
        permitted=permitted.names(table) if has_table else None,
        gpus=permitted.gpus(table),
        launching=launching.decode(fields),
        raw=raw,
    )
