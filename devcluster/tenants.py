"""Tenants as the host makes them: a namespace, its role bindings, the HelmRelease with its quotas."""

from collections.abc import Mapping
from typing import Any, Final

from gpu import keys
from gpu.cluster import client, errors
from gpu.objects import kinds
from gpu.objects.kinds import Kind

LEVELS: Final = ("view", "use", "admin", "super-admin")
"""The host's roles in a tenant, each with all rights of those before it."""

ROLE_BINDINGS: Final = Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
TENANTS: Final = Kind("apps.cozystack.io", "v1alpha1", "tenants", "Tenant")
"""The host's; on a plane of ours a stored kind that makes nothing."""
_MANAGER = "devcluster"


def group(tenant: str, level: str = "admin") -> str:
    """Return the group whose members have `level` in a tenant's namespace."""
    return f"{tenant}-{level}"


def labels(tenant: str) -> dict[str, str]:
    """Return the labels the host puts on a tenant's namespace: itself and each ancestor.

    Policies select tenants by the root's. The root's own namespace bears none of them.
    """
    parts = tenant.split("-")
    lines = ["-".join(parts[: end + 1]) for end in range(1, len(parts))]
    return {f"tenant.cozystack.io/{name}": "" for name in (keys.TENANT_ROOT, *lines)}


def objects(
    tenant: str, quotas: Mapping[str, int | str] | None = None, *, entitled: bool = False
) -> list[dict[str, Any]]:
    """Return the objects that make `tenant` (a namespace's name, `tenant-acme`), parent first.

    `quotas` are what its parent grants it, by key; None leaves it unbounded. `entitled`: may it
    order vGPU classes? The HelmRelease lies in the parent's namespace, which must be there.
    """
    parent, _, name = tenant.rpartition("-")
    parent = keys.TENANT_ROOT if parent == "tenant" else parent
    release = {
        "metadata": {
            "name": f"tenant-{name}",
            "namespace": parent,
            "labels": {
                keys.APPLICATION_KIND_LABEL: "Tenant",
                keys.APPLICATION_GROUP_LABEL: "apps.cozystack.io",
                keys.APPLICATION_NAME_LABEL: name,
            },
        },
        "spec": {"interval": "5m", "values": {"resourceQuotas": dict(quotas or {})}},
    }
    marks = labels(tenant) | ({keys.VGPU_ENTITLED_LABEL: "true"} if entitled else {})
    namespace = {"metadata": {"name": tenant, "labels": marks}}
    made = [_of(kinds.NAMESPACES, namespace), *_bindings(tenant)]
    return [*made, _of(kinds.HELM_RELEASES, release)]


async def add(
    admin: client.Client,
    tenant: str,
    quotas: Mapping[str, int | str] | None = None,
    *,
    entitled: bool = False,
) -> None:
    """Make a tenant as the administrator; `tenant-root` too when it is not there yet."""
    try:
        await admin.get(kinds.NAMESPACES, keys.TENANT_ROOT)
    except errors.NotFound:
        await admin.create(kinds.NAMESPACES, {"metadata": {"name": keys.TENANT_ROOT}})
    for body in objects(tenant, quotas, entitled=entitled):
        kind = _KINDS[body["kind"]]
        meta = body["metadata"]
        await admin.apply(kind, meta["name"], body, meta.get("namespace"), field_manager=_MANAGER)


async def set_quotas(
    admin: client.Client, tenant: str, quotas: Mapping[str, int | str] | None
) -> None:
    """Replace what a tenant's parent grants it."""
    body = objects(tenant, quotas)[-1]
    meta = body["metadata"]
    await admin.apply(
        kinds.HELM_RELEASES, meta["name"], body, meta["namespace"], field_manager=_MANAGER
    )


def acting(admin: client.Client, tenant: str, level: str = "admin") -> client.Client:
    """Return a client that acts as a person of `tenant`, with that person's rights and no more."""
    return admin.acting_as(f"somebody@{tenant}", [group(tenant, level), "system:authenticated"])


def line(tenant: str) -> tuple[str, ...]:
    """Return a tenant and its ancestors, the root last."""
    parts = tenant.split("-")
    names = ["-".join(parts[:end]) for end in range(len(parts), 1, -1)]
    return (*names, *(() if names[-1] == keys.TENANT_ROOT else (keys.TENANT_ROOT,)))


def _bindings(tenant: str) -> list[dict[str, Any]]:
    """Return who may do what in a tenant's namespace: its people and accounts, and its ancestors'."""
    lines = line(tenant)
    accounts = [{"kind": "ServiceAccount", "name": name, "namespace": name} for name in lines]
    found = [_binding(tenant, "cozy:tenant", accounts)]
    for rank, level in enumerate(LEVELS):
        groups = [
            {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": group(name, above)}
            for name in lines
            for above in LEVELS[rank:]
        ]
        found.append(_binding(tenant, f"cozy:tenant:{level}", [*groups, *accounts]))
    return found


def _binding(tenant: str, role: str, subjects: list[dict[str, Any]]) -> dict[str, Any]:
    body = {
        "metadata": {"name": role, "namespace": tenant},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": role,
        },
        "subjects": subjects,
    }
    return _of(ROLE_BINDINGS, body)


def _of(kind: Kind, body: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **body}


_KINDS = {kind.kind: kind for kind in (kinds.NAMESPACES, kinds.HELM_RELEASES, ROLE_BINDINGS)}
