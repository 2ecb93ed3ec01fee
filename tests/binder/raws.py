"""Stored objects as JSON, for FakeCluster and for Worlds; keyword arguments over good defaults."""

from collections.abc import Iterable, Mapping
from typing import Any

from gpu import keys, reading
from gpu.objects.kinds import Kind
from tests.binder.window import DECODERS

RESOURCE = "nvidia.com/H100"
Raw = dict[str, Any]


def a_class(
    name: str = "h100",
    *,
    resource: str = RESOURCE,
    mode: str = "passthrough",
    meta: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Raw:
    return {
        "metadata": {"name": name, "finalizers": [keys.CLASS_FINALIZER], **(meta or {})},
        "spec": {"mode": mode, "source": {"devicePlugin": {"resourceName": resource}}, **spec},
        **({"status": dict(status)} if status is not None else {}),
    }


def a_claim(
    name: str = "x",
    *,
    tenant: str = "tenant-a",
    class_name: str = "h100",
    count: int = 1,
    at: int = 0,
    meta: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Raw:
    """`at` is the second of its creation: what orders are served by."""
    return {
        "metadata": {
            "name": name,
            "namespace": tenant,
            "creationTimestamp": f"2026-01-01T00:{at // 60:02d}:{at % 60:02d}Z",
            **(meta or {}),
        },
        "spec": {"className": class_name, "count": count},
        **({"status": dict(status)} if status is not None else {}),
    }


def bound(node: str = "n1", *, term: int = 1, **more: Any) -> Raw:
    """The status of a Bound claim."""
    return {
        "phase": "Bound",
        "nodeName": node,
        "boundAt": "2026-01-01T00:00:00Z",
        "term": term,
        **more,
    }


DELETED: Raw = {
    "deletionTimestamp": "2026-01-01T01:00:00Z",
    "finalizers": [keys.CLAIM_FINALIZER],
}
"""Metadata of an object somebody deleted and a finalizer of ours keeps."""


def a_node(name: str = "n1", *, units: int = 8, resource: str = RESOURCE, **spec: Any) -> Raw:
    return {
        "metadata": {"name": name},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "64", resource: str(units)},
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ],
        },
    }


def a_tenant(name: str = "tenant-a", **labels: str) -> Raw:
    return {"metadata": {"name": name, "labels": labels}}


def a_release(tenant: str = "tenant-a", **quotas: Any) -> Raw:
    """The HelmRelease of a tenant under tenant-root; quotas by class, or `total`."""
    return {
        "metadata": {
            "name": tenant,
            "namespace": keys.TENANT_ROOT,
            "labels": {keys.APPLICATION_KIND_LABEL: "Tenant"},
        },
        "spec": {
            "values": {
                "resourceQuotas": {
                    keys.quota_key_of_class(name): str(units) for name, units in quotas.items()
                }
            }
        },
    }


def an_inventory(name: str = "n1", *, status: Mapping[str, Any] | None = None) -> Raw:
    return {"metadata": {"name": name}, "status": dict(status or {})}


def a_world(**objects: Iterable[Raw]) -> "reading.World":
    """A World of raw objects, by field name, as `claims=[a_claim()]`; uids and versions are given."""
    found: dict[str, Any] = {}
    number = 0
    for field, raws in objects.items():
        items = []
        for raw in raws:
            number += 1
            meta = {"uid": f"uid-{number}", "resourceVersion": str(number), "generation": 1}
            whole = {**raw, "metadata": meta | raw["metadata"]}
            items.append(DECODERS[reading.VIEWS[field]][1](whole))
        found[field] = tuple(sorted(items, key=lambda item: item.meta.key))
    return reading.World(**found)


def kind_of(field: str) -> Kind:
    """The kind stored behind a field of World."""
    return DECODERS[reading.VIEWS[field]][0]
