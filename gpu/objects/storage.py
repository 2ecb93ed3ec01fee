"""StorageClass: when and where its claims are bound; CSINode: how many volumes a node takes of a driver."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gpu.objects import meta
from gpu.objects.decode import Fields, Raw
from gpu.objects.meta import ObjectMeta
from gpu.objects.pod_needs import Requirement, Selector

_IN_TREE: Final[Mapping[str, str]] = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
"""Provisioners of old, and the drivers that make and count their volumes now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClass:
    """A StorageClass, its parameters left out."""

    meta: ObjectMeta
    driver: str = ""
    """The CSI driver that makes and attaches its volumes."""
    waits: bool = False
    """Its claims are bound where their first pod goes; else at once, and the pod waits for that."""
    topologies: tuple[Selector, ...] = ()
    """A node must match one of them for a volume to be made there; none is any node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CSINode:
    """The CSI drivers of the node of its name."""

    meta: ObjectMeta
    limits: Mapping[str, int] = field(default_factory=dict)
    """Most volumes of a driver; one that is not in it takes any number."""


def decode_class(raw: Raw) -> StorageClass:
    """Read a StorageClass. Raises DecodeError where it is broken."""
    fields = Fields(raw)
    provisioner = fields.text_or("provisioner")
    return StorageClass(
        meta=_bare(fields),
        driver=_IN_TREE.get(provisioner, provisioner),
        waits=fields.text_or("volumeBindingMode") == "WaitForFirstConsumer",
        topologies=tuple(
            tuple(
                Requirement(key=item.text_or("key"), operator="In", values=item.texts("values"))
                for item in term.children("matchLabelExpressions")
            )
            for term in fields.children("allowedTopologies")
        ),
    )


def decode_csi_node(raw: Raw) -> CSINode:
    """Read a CSINode. Raises DecodeError where it is broken."""
    fields = Fields(raw)
    return CSINode(
        meta=_bare(fields),
        limits={
            driver.text("name"): driver.child("allocatable").whole("count")
            for driver in fields.child("spec").children("drivers")
            if driver.child("allocatable").has("count")
        },
    )


def _bare(fields: Fields) -> ObjectMeta:
    found = meta.decode_meta(fields)
    return replace(found, labels={}, annotations={}, finalizers=(), owners=(), generation=0)
