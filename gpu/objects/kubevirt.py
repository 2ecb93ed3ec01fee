"""VM (which claims its template names), VMI (pods, phase) and KubeVirt's permitted-devices table."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gpu import keys
from gpu.objects import meta
from gpu.objects.decode import Fields, Raw
from gpu.objects.meta import ObjectMeta
from gpu.units import ClaimName, NodeName, ResourceName

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
    raw: Raw = field(default_factory=dict, compare=False, repr=False)


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
    """Held claims the webhook resolved for this start, and the id it gave each attachment."""
    migrated_to: NodeName | None = None
    """Target of a live migration that is completed and did not fail."""

    @property
    def ended(self) -> bool:
        """Say whether the guest is over for good: a VMI never starts twice."""
        return self.phase in ENDED

    @property
    def started(self) -> bool:
        """Say whether the guest runs, or may: any phase we do not know counts."""
        return self.phase not in ENDED and self.phase not in NOT_STARTED

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
    found = meta.decode_meta(fields)
    node = status.text_or("nodeName")
    return VMI(
        meta=replace(found, annotations={}),
        phase=status.text_or("phase"),
        node=NodeName(node) if node else None,
        active_pods={uid: NodeName(node) for uid, node in status.text_map("activePods").items()},
        admissions=_admissions(found.annotations.get(keys.RESOLVED_CLAIMS_ANNOTATION, "")),
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
    return VM(
        meta=replace(meta.decode_meta(fields), annotations={}),
        claims=tuple(ClaimName(name) for name in sorted(named - {""})[:MOST_CLAIMS]),
        raw=raw,
    )


def format_admissions(admissions: Mapping[ClaimName, str]) -> str:
    """Write what the webhook resolved, as the annotation holds it: a JSON list by claim name."""
    items = [{"claim": name, "admission": admissions[name]} for name in sorted(admissions)]
    return json.dumps(items, separators=(",", ":"))


def _admissions(text: str) -> dict[ClaimName, str]:
    """Read it; anything else reads as nothing, since a tenant may have written it."""
    try:
        items = json.loads(text) if text else []
    except (ValueError, RecursionError):  # nested a hundred thousand deep, too
        return {}
    found: dict[ClaimName, str] = {}
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict):
            name, admission = item.get("claim"), item.get("admission")
            if isinstance(name, str) and isinstance(admission, str) and name and admission:
                found[ClaimName(name)] = admission
    return found


def _migrated_to(state: Fields) -> NodeName | None:
    node = state.text_or("targetNode")
    done = state.flag("completed") and not state.flag("failed")
    return NodeName(node) if done and node else None


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
