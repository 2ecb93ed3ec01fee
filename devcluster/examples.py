"""The files of examples/ as objects: what the demo applies, and what a person can apply by hand."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from devcluster import tenants
from gpu import keys
from gpu.objects import kinds
from gpu.objects.kinds import Kind

FOLDER: Final = Path(__file__).parents[1] / "examples"
TENANTS: Final = ("tenant-acme", "tenant-globex")
WHAT_IFS: Final = Kind(
    keys.CATALOG_GROUP, keys.CATALOG_VERSION, "whatifs", "WhatIf", namespaced=False
)
KINDS: Final = (
    kinds.GPU_CLAIMS,
    kinds.GPU_CLASSES,
    kinds.HELM_RELEASES,
    tenants.ROLE_BINDINGS,
    tenants.TENANTS,
    kinds.NAMESPACES,
    WHAT_IFS,
)


def load(name: str) -> tuple[dict[str, Any], ...]:
    """Return the objects of one file, as `tenants/acme.yaml`."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    return tuple(document for document in yaml.safe_load_all(text) if document)


def kind_of(body: Mapping[str, Any]) -> Kind:
    """Return how an object of an example is addressed; KeyError when examples have no such kind."""
    return _BY_NAME[body["kind"]]


def permitted(*more: str) -> dict[str, list[dict[str, Any]]]:
    """Return the devices of the catalogue's classes, and `more` cards, as a KubeVirt object permits them.

    Which hardware it is matters to virt-handler alone, so a selector is any that passes.
    """
    pci: list[dict[str, Any]] = []
    mediated: list[dict[str, Any]] = []
    for number, body in enumerate(load("catalogue.yaml"), start=1):
        spec = body["spec"]
        device = {
            "resourceName": spec["source"]["devicePlugin"]["resourceName"],
            "externalResourceProvider": True,
        }
        if spec["mode"] == "passthrough":
            pci.append({"pciVendorSelector": f"10DE:{number:04X}", **device})
        else:
            mediated.append({"mdevNameSelector": body["spec"]["displayName"], **device})
    for number, name in enumerate(more, start=len(pci) + len(mediated) + 1):
        device = {"resourceName": name, "externalResourceProvider": True}
        pci.append({"pciVendorSelector": f"10DE:{number:04X}", **device})
    return {"pciHostDevices": pci, "mediatedDevices": mediated}


_BY_NAME: Final = {kind.kind: kind for kind in KINDS}
