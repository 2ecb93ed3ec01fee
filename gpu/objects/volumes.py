"""Claim (PVC) and Volume (PV): which nodes a pod's volumes can be reached from."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpu.objects import meta, pod_needs
from gpu.objects.decode import Fields, Raw
from gpu.objects.meta import ObjectMeta
from gpu.objects.pod_needs import NodeTerm


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A PersistentVolumeClaim: nothing is kept of its contents, size or labels."""

    meta: ObjectMeta
    volume: str = ""
    """The PersistentVolume it is bound to; empty as long as it is not."""
    phase: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A PersistentVolume: where it can be reached. Its labels are kept, some name a zone."""

    meta: ObjectMeta
    terms: tuple[NodeTerm, ...] | None = None
    """The node must match one of them; None is any node."""


def decode(raw: Raw) -> Claim:
    """Read a PersistentVolumeClaim. Raises DecodeError where it is broken."""
    fields = Fields(raw)
    return Claim(
        meta=_bare(meta.decode_meta(fields), {}),
        volume=fields.child("spec").text_or("volumeName"),
        phase=fields.child("status").text_or("phase"),
    )


def decode_volume(raw: Raw) -> Volume:
    """Read a PersistentVolume. Raises DecodeError where it is broken."""
    fields = Fields(raw)
    found = meta.decode_meta(fields)
    affinity = fields.child("spec").child("nodeAffinity")
    return Volume(
        meta=_bare(found, found.labels),
        terms=pod_needs.node_terms(affinity.child("required"))
        if affinity.has("required")
        else None,
    )


def _bare(found: ObjectMeta, labels: Mapping[str, str]) -> ObjectMeta:
    return replace(found, labels=labels, annotations={}, finalizers=(), owners=(), generation=0)
