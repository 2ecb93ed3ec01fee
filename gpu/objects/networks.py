"""Networks of a VMI beside its pod's own: which NetworkAttachmentDefinitions they name, and what one asks of a node."""

import re
from collections.abc import Iterator
from typing import Final

from gpu import settings
from gpu.objects.decode import Fields, Raw
from gpu.objects.meta import ObjectKey

RESOURCE: Final = "k8s.v1.cni.cncf.io/resourceName"
"""Annotation of a definition: the resource of which a pod asks for one unit per network."""
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def definitions(spec: Fields, namespace: str) -> Iterator[ObjectKey]:
    """Yield the definition of each network of a VMI's spec; `namespace` is the VMI's. Raises DecodeError.

    As `NetAttachDefNamespacedName` of KubeVirt 1.8.4 reads `networkName`. What no object can be called is passed over.
    """
    for network in spec.children("networks"):
        named = network.child("multus").text_or("networkName")
        first, slash, rest = named.partition("/")
        within, name = (first, rest) if slash else (namespace, first)
        if _NAMESPACE.fullmatch(within) and _NAME.fullmatch(name):
            yield ObjectKey(within, name)


def resource(raw: Raw) -> str:
    """Return the resource of a definition; empty where it has none that a node can have. Raises DecodeError."""
    name = Fields(raw).child("metadata").text_map("annotations").get(RESOURCE, "")
    return name if settings.is_resource_name(name) else ""
