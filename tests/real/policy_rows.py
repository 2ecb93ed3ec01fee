"""Row: one request, who may make it, and who is refused: by RBAC, by a policy, by the API server itself."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from devcluster import guests, tenants
from gpu.cluster.client import Client
from gpu.config import Config
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from policies import users

Json = Mapping[str, Any]
Ask = Callable[[Client], Awaitable[object]]

CONFIG: Final = Config()
CONTROLLER: Final = CONFIG.controller_user
TENANT: Final = "tenant-b"
"""Made as the host makes tenants: what its people may do is what the host's roles grant."""
TERM: Final = 7
"""The term that leads."""
HOSTERS: Final = "gpu-hosters"
"""A group with the chart's role for hosters and no other."""


@dataclass(frozen=True, slots=True)
class Actor:
    """A user as kube-apiserver sees it."""

    user: str
    groups: tuple[str, ...] = ()


def _account(namespace: str, name: str) -> Actor:
    return Actor(
        f"system:serviceaccount:{namespace}:{name}",
        ("system:serviceaccounts", f"system:serviceaccounts:{namespace}"),
    )


def _person(tenant: str, level: str) -> Actor:
    return Actor(f"somebody@{tenant}", (tenants.group(tenant, level),))


ACTORS: Final[Mapping[str, Actor]] = {
    **{level: _person(TENANT, level) for level in tenants.LEVELS},
    "sibling": _person("tenant-c", "super-admin"),
    "ancestor": _person("tenant-root", "super-admin"),
    "tenant's account": _account(TENANT, TENANT),
    "ancestor's account": _account("tenant-root", "tenant-root"),
    "controller": _account(CONFIG.namespace, CONFIG.service_account),
    # The same name with every right: for what no role grants it yet.
    "controller, any right": Actor(CONTROLLER, ("system:masters",)),
    "other account of ours": Actor(f"{CONTROLLER}-agent", ("system:masters",)),
    "host": Actor(users.HOST_CONTROLLER, ("hosts-controllers",)),
    "kubevirt": Actor(guests.KUBEVIRT),
    "virt-handler": Actor(
        f"system:serviceaccount:{CONFIG.kubevirt_namespace}:kubevirt-handler", ("system:masters",)
    ),
    "scheduler": Actor("system:kube-scheduler"),
    "node": Actor("system:node:n1", ("system:nodes",)),
    "namespaces": _account("kube-system", "namespace-controller"),
    "collector": _account("kube-system", "generic-garbage-collector"),
    "pod collector": _account("kube-system", "pod-garbage-collector"),
    "replica sets": _account("kube-system", "replicaset-controller"),
    "hoster": Actor("hoster", (HOSTERS,)),
    "cluster admin": Actor("hoster", ("cozystack-cluster-admin",)),
    "masters": Actor("root", ("system:masters",)),
}
PEOPLE: Final = (*tenants.LEVELS, "sibling", "ancestor", "tenant's account", "ancestor's account")
ADMINS: Final = ("cluster admin", "masters")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request that changes nothing (a dry run)."""

    what: str
    ask: Ask
    passes: tuple[str, ...] = ()
    rbac: tuple[str, ...] = ()
    """Whom RBAC refuses, before any policy is asked."""
    policy: tuple[str, ...] = ()
    topic: str = ""
    """Of the policy that refuses these."""
    words: str = ""
    """The whole of its message, `{kind} {namespace}/{name}: ` included."""
    server: tuple[str, ...] = ()
    says: str = ""
    """What the API server itself says, in part."""

    def __str__(self) -> str:
        """Name it in the list of tests."""
        return self.what


def create(kind: Kind, name: str, *, namespace: str | None = TENANT, **body: Any) -> Ask:
    """Create an object; `meta` are more members of its metadata."""
    meta = {"name": name, **({"namespace": namespace} if namespace else {}), **body.pop("meta", {})}
    return lambda them: them.create(kind, {"metadata": meta, **body}, dry_run=True)


def patch(
    kind: Kind,
    name: str,
    change: Json,
    *,
    namespace: str | None = TENANT,
    subresource: str | None = None,
) -> Ask:
    """Merge a patch into an object."""
    return lambda them: them.patch(
        kind, name, change, namespace, subresource=subresource, dry_run=True
    )


def meta(**members: Any) -> Json:
    """Return a patch of metadata."""
    return {"metadata": members}


def delete(kind: Kind, name: str, *, namespace: str | None = TENANT) -> Ask:
    """Delete an object."""
    return lambda them: them.delete(kind, name, namespace, dry_run=True)


def claim(name: str = "new", **meta: Any) -> Ask:
    """Order one unit."""
    return create(kinds.GPU_CLAIMS, name, meta=meta, spec={"className": "h100", "count": 1})
