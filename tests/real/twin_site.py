"""Twins: CRDs of the same shape as what we serve, so that kube-apiserver can be asked the same questions."""

import json
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
NODES: Final = ("gpu-1", "gpu-2")
UNITS: Final = 8
"""Of each node."""
SERVED: Final = ("a100", "h100", "l40s")
CLASSES: Final = (*SERVED, "unserved")
WAITING: Final = ("wait-one", "wait-two")
"""Orders that wait for ever."""
COUNTS: Final = {
    "drainplans": len(NODES),
    "explanations": len(WAITING),
    READ: len(CLASSES),
    "options": 4,
    "quotagates": len(CLASSES) + 3,
}
"""How many objects of each kind there are, once all is served."""
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
    for name in NODES:
        await site.node(name, UNITS)
    for name in CLASSES:
        resource = sites.H100 if name in SERVED else "nvidia.com/NOWHERE"
        await site.offer(name, resource, displayName=name.upper(), description=f"cards: {name}")
    for name in SERVED:
        await site.class_has(name, UNITS * len(NODES))
    for tenant in (TENANT, OTHER):
        await site.tenant(tenant)
    for name in WAITING:
        await site.order(TENANT, name, "unserved")
        await site.waits(TENANT, name, "NoNodeServes")
    for one in document.KINDS:
        await site.admin.create(kinds.CRDS, crd(one))
    for one in document.KINDS:
        if not one.is_question:
            await _copy(site, one)


async def _copy(site: sites.Site, one: document.Kind) -> None:
    """Store as twins what is served of a kind."""
    home = f"namespaces/{TENANT}/" if one.namespaced else ""

    async def all_served() -> list[Json]:
        answer = await site.admin.raw("GET", f"{sites.CATALOG}/{home}{one.plural}")
        items = list(json.loads(answer.body)["items"])
        return items if len(items) == COUNTS[one.plural] else []

    twins = kinds.Kind(GROUP, VERSION, one.plural, one.kind, namespaced=one.namespaced)
    for item in await sites.until(all_served, sites.BEFORE_RESYNC, f"all {one.plural} served"):
        kept = {"name", "namespace", "labels"} & {*item["metadata"]}
        meta = {key: item["metadata"][key] for key in kept}
        body = {**item, "apiVersion": f"{GROUP}/{VERSION}", "metadata": meta}
        await sites.until(lambda body=body: _put(site, twins, body), sites.LATE, "a twin")


async def _put(site: sites.Site, twins: kinds.Kind, body: Json) -> bool:
    try:
        await site.admin.create(twins, body)
    except errors.NotFound:  # not served yet
        return False
    return True


def crd(one: document.Kind) -> Json:
    """Return the CRD of a twin; its schema is what we publish."""
    columns = [
        {"name": name, "type": type_, "jsonPath": path, "priority": priority}
        for name, type_, path, priority in _COLUMNS
    ]
    schemas = document.schemas()
    version: Json = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _structural(schemas[one.schema], schemas)},
    }
    if one.plural == READ:
        version["additionalPrinterColumns"] = columns
    return {
        "metadata": {"name": f"{one.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if one.namespaced else "Cluster",
            "names": {"plural": one.plural, "singular": one.kind.lower(), "kind": one.kind},
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
