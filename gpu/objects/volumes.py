"""Claim (PVC) and Volume (PV): which nodes a pod's volumes can be reached from."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from gpu.objects import meta, pod_needs
from gpu.objects.decode import Fields, Raw
from gpu.objects.meta import ObjectMeta
from gpu.objects.pod_needs import NodeTerm

_BOUND: Final = "pv.kubernetes.io/bind-completed"
_CHOSEN: Final = "volume.kubernetes.io/selected-node"
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
"""Names the class before the field does, where it is there."""
STATE: Final = "persistent-state-for"
"""KubeVirt's label of a claim with the state of a VMI, and the first part of its name."""
_IN_TREE: Final[Mapping[str, str]] = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "azureDisk": "disk.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "portworxVolume": "pxd.portworx.com",
}
"""Sources of old, and the drivers that attach and count them now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A PersistentVolumeClaim: nothing is kept of its contents, size or other labels."""

    meta: ObjectMeta
    volume: str = ""
    """The PersistentVolume it names; empty as long as there is none."""
    phase: str = ""
    bound: bool = False
    """It is bound to that volume, and the volume to it."""
    class_name: str = ""
    """Its StorageClass."""
    alone: bool = False
    """One pod at a time may use it (ReadWriteOncePod)."""
    chosen: str = ""
    """The node that its volume is being made for."""
    state_of: str = ""
    """The VMI whose TPM, EFI variables or changed blocks KubeVirt keeps in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A PersistentVolume: where it can be reached. Its labels are kept, some name a zone."""

    meta: ObjectMeta
    terms: tuple[NodeTerm, ...] | None = None
    """The node must match one of them; None is any node."""
    driver: str = ""
    """The CSI driver that attaches it; empty where none does."""
    handle: str = ""
    """What the driver knows it by."""


def decode(raw: Raw) -> Claim:
    """Read a PersistentVolumeClaim. Raises DecodeError where it is broken."""
    fields = Fields(raw)
    spec = fields.child("spec")
    found = meta.decode_meta(fields)
    volume, notes = spec.text_or("volumeName"), found.annotations
    return Claim(
        meta=_bare(found, {}),
        volume=volume,
        phase=fields.child("status").text_or("phase"),
        bound=bool(volume) and _BOUND in notes,
        class_name=notes.get(_CLASS, spec.text_or("storageClassName")),
        alone="ReadWriteOncePod" in spec.texts("accessModes"),
        chosen=notes.get(_CHOSEN, ""),
        state_of=found.labels.get(STATE, ""),
    )


def decode_volume(raw: Raw) -> Volume:
    """Read a PersistentVolume. Raises DecodeError where it is broken."""
    fields = Fields(raw)
    found = meta.decode_meta(fields)
    spec = fields.child("spec")
    affinity = spec.child("nodeAffinity")
    driver, handle = _attached(found.name, spec)
    return Volume(
        meta=_bare(found, found.labels),
        terms=pod_needs.node_terms(affinity.child("required"))
        if affinity.has("required")
        else None,
        driver=driver,
        handle=handle,
    )


def _attached(name: str, spec: Fields) -> tuple[str, str]:
    if spec.has("csi"):
        source = spec.child("csi")
        return source.text_or("driver"), source.text_or("volumeHandle")
    # Two volumes of one disk count twice: a node is taken for fuller than it is, never for emptier.
    found = (driver for member, driver in _IN_TREE.items() if spec.has(member))
    driver = next(found, "")
    return driver, f"volume {name}" if driver else ""


def _bare(found: ObjectMeta, labels: Mapping[str, str]) -> ObjectMeta:
    return replace(found, labels=labels, annotations={}, finalizers=(), owners=(), generation=0)
