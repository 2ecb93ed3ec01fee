"""Twins: CRDs of the same shape as what we serve, so that kube-apiserver can be asked the same questions."""

from collections.abc import Mapping
from typing import Any, Final

from gpu.cluster import errors
from gpu.objects import kinds
from openapi import document
from tests.real import site as sites

GROUP: Final = "twins.example.com"
VERSION: Final = "v1alpha1"
TENANT: Final = "tenant-twin"
OTHER: Final = "tenant-without"
READ: Final = "gpuoffers"
ASKED: Final = "orderreviews"
OURS: Final = "catalog.gpu.cozystack.io"
NAMES: Final = {READ: ("gpuoffer", "GPUOffer"), ASKED: ("orderreview", "OrderReview")}
TWINS: Final = kinds.Kind(GROUP, VERSION, READ, "GPUOffer")
CLASSES: Final = ("a100", "h100", "l40s", "unserved")
_COLUMNS: Final = (
    ("Mode", "string", ".spec.mode", 0),
    ("Free", "integer", ".status.free", 0),
    ("Orderable", "integer", ".status.orderable", 0),
    ("Why not more", "string", ".status.message", 0),
    ("Title", "string", ".spec.displayName", 1),
    ("Description", "string", ".spec.description", 1),
)
Json = dict[str, Any]


async def fill(site: sites.Site) -> None:
    """Offer classes to a tenant, and store as twins what it is then offered."""
    await site.node("gpu-1", 8)
    for name in CLASSES:
        resource = sites.H100 if name != "unserved" else "nvidia.com/NOWHERE"
        await site.offer(name, resource, displayName=name.upper(), description=f"cards: {name}")
    for tenant in (TENANT, OTHER):
        await site.tenant(tenant)
    for plural in NAMES:
        await site.admin.create(kinds.CRDS, crd(plural))

    async def all_offered() -> list[Json]:
        items = (await site.served(TENANT, READ))["items"]
        return list(items) if len(items) == len(CLASSES) else []

    for item in await sites.until(all_offered, 20, "all classes offered"):
        meta = {key: item["metadata"][key] for key in ("name", "namespace", "labels")}
        await sites.until(lambda body={**item, "metadata": meta}: _put(site, body), 20, "a twin")


async def _put(site: sites.Site, body: Json) -> bool:
    try:
        await site.admin.create(TWINS, {**body, "apiVersion": f"{GROUP}/{VERSION}"})
    except errors.NotFound:  # not served yet
        return False
    return True


def crd(plural: str) -> Json:
    """Return the CRD of a twin; its schema is what we publish."""
    singular, kind = NAMES[plural]
    columns = [
        {"name": name, "type": type_, "jsonPath": path, "priority": priority}
        for name, type_, path, priority in _COLUMNS
    ]
    schemas = document.schemas()
    names = {one.kind: one.schema for one in document.KINDS}
    version: Json = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _structural(schemas[names[kind]], schemas)},
    }
    if plural == READ:
        version["additionalPrinterColumns"] = columns
    return {
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": singular, "kind": kind},
            "versions": [version],
        },
    }


def _structural(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Json:
    """Return a schema without references, and with what a CRD may not say left out."""
    while "allOf" in schema or "$ref" in schema:
        target = schema["$ref"] if "$ref" in schema else schema["allOf"][0]["$ref"]
        schema = schemas[target.rsplit("/", 1)[-1]]
    made = {
        key: value
        for key, value in schema.items()
        if key not in {"x-kubernetes-group-version-kind", "properties", "items"}
    }
    if "items" in schema:
        made["items"] = _structural(schema["items"], schemas)
    if "properties" in schema:
        made["properties"] = {
            name: {"type": "object"} if name == "metadata" else _structural(part, schemas)
            for name, part in schema["properties"].items()
        }
    return made
