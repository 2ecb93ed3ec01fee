"""A plane whose computed lists are as long as asked, with stored copies of the same objects beside them."""

import asyncio
import contextlib
import functools
import json
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bench import stage
from bench.flight import in_flight
from bench.load import Aim
from devcluster import chart, control_plane, pki, plane, product, simulator, tenants
from gpu import keys
from gpu.cluster import client, errors
from gpu.objects import kinds
from gpu.objects.kinds import Kind

TENANTS: Final = tuple(f"tenant-a{index:03d}" for index in range(100))
READER: Final = TENANTS[0]
CLASSES: Final = 4
UNITS: Final = 8
"""Units of a node, of one class."""
CLAIMS: Final = 1000
COPIED: Final = ("options", "gpuoffers", "quotagates", "explanations")
PLANS: Final = "drainplans"
"""One for each node: copied when all nodes are there."""
_COPIES: Final = "copies.example.com"
_CATALOG: Final = f"/apis/{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}"
_RBAC: Final = {"apiGroup": "rbac.authorization.k8s.io"}
_WIDTH: Final = 16
_BOUND: Final = 180.0
_POLL: Final = 0.25


@dataclass(frozen=True, slots=True)
class APIStage:
    """What is measured, and the two ways to it."""

    base: stage.Stage
    through: Aim
    """kube-apiserver, as a person of the reader's tenant, who may read the copies there too."""
    everywhere: Aim
    """The same as the administrator."""
    direct: Aim
    """The product itself, as kube-apiserver asks it for that person."""
    masters: Aim
    """The same for the administrator."""

    async def grow(self, nodes: int) -> None:
        """Have so many nodes."""
        made = simulator.Simulator(self.base.api)
        there = len((await self.base.api.list(kinds.NODES)).items)
        some = [_node(index) for index in range(there, nodes)]
        await in_flight(_WIDTH, (functools.partial(made.add, node) for node in some))

    async def copy(self, plurals: Iterable[str] = COPIED) -> None:
        """Store what each of our lists has now as objects of a CRD, in the same namespaces."""
        for plural in plurals:
            kind = await _copied_kind(self.base.api, plural)
            answer = await self.base.api.raw("GET", f"{_CATALOG}/{plural}", deadline=60)
            items = json.loads(answer.body)["items"]
            await in_flight(
                _WIDTH, (functools.partial(_put, self.base.api, kind, one) for one in items)
            )


def ours(plural: str, namespace: str = "", name: str = "") -> str:
    """Return the path of a list or object of ours."""
    return _path(_CATALOG, plural, namespace, name)


def theirs(plural: str, namespace: str = "", name: str = "") -> str:
    """Return the path of its copy."""
    return _path(f"/apis/{_COPIES}/v1", plural, namespace, name)


def _path(root: str, plural: str, namespace: str, name: str) -> str:
    place = f"{root}/namespaces/{namespace}" if namespace else root
    return f"{place}/{plural}/{name}" if name else f"{place}/{plural}"


@contextlib.asynccontextmanager
async def api_stage(nodes: int, claims: int) -> AsyncIterator[APIStage]:
    """Bring up plane, product, nodes, tenants and claims that are Bound for the length of the block."""
    async with (
        control_plane.control_plane() as cp,
        product.running(cp) as running,
        stage.on(cp, running) as base,
    ):
        made = APIStage(base, *_aims(cp, running.replicas[product.FIRST].url))
        await made.grow(nodes)
        await in_flight(_WIDTH, (functools.partial(_class, base.api, i) for i in range(CLASSES)))
        await tenants.add(base.api, TENANTS[0], _quotas())
        add = functools.partial(tenants.add, base.api)
        await in_flight(_WIDTH, (functools.partial(add, one, _quotas()) for one in TENANTS[1:]))
        await cp.namespace_ready(READER)
        await _claims(base.api, claims)
        await _orders_that_wait(base.api, running)
        await _may_read_copies(base.api)
        yield made


def _aims(cp: plane.ControlPlane, url: str) -> tuple[Aim, Aim, Aim, Aim]:
    user, groups = f"somebody@{READER}", (tenants.group(READER), "system:authenticated")
    accept = {"Accept": "application/json", "User-Agent": "bench"}
    admin = _tls(cp.pki.serving_ca, cp.pki.pair(plane.ADMIN))
    acting = {"Impersonate-User": user, "Impersonate-Group": groups[0]}
    proxied = {"X-Remote-User": user, "X-Remote-Group": groups[0]}
    proxy = _tls(cp.pki.ext_ca, cp.pki.front_proxy_client)
    masters = {"X-Remote-User": "bench", "X-Remote-Group": "system:masters"}
    return (
        Aim(url=cp.server, tls=admin, headers={**accept, **acting}),
        Aim(url=cp.server, tls=admin, headers=accept),
        Aim(url=url, tls=proxy, headers={**accept, **proxied}),
        Aim(url=url, tls=proxy, headers={**accept, **masters}),
    )


def _tls(authority: pki.Pair, login: pki.Pair) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.crt))
    context.load_cert_chain(login.crt, login.key)
    return context


def _resource(index: int) -> str:
    return f"nvidia.com/API_GPU_{index % CLASSES}"


def _node(index: int) -> simulator.Simulated:
    return simulator.Simulated(name=f"api-{index:04d}", resources={_resource(index): UNITS})


def _quotas() -> Mapping[str, int | str]:
    return {keys.quota_key_of_class(class_name(index)): 50 for index in range(CLASSES)}


def class_name(index: int) -> str:
    """Return the name of a class by its number."""
    return f"api-{index}"


async def _class(admin: client.Client, index: int) -> None:
    spec = {
        "mode": "passthrough",
        "source": {"devicePlugin": {"resourceName": _resource(index)}},
        "displayName": f"Class {index}",
        "description": "80 GB, whole cards",
    }
    await admin.create(kinds.GPU_CLASSES, {"metadata": {"name": class_name(index)}, "spec": spec})


async def _claims(admin: client.Client, count: int) -> None:
    """Order units and wait until all are Bound."""

    async def order(index: int) -> None:
        meta = {"name": f"held-{index:04d}", "namespace": TENANTS[index % len(TENANTS)]}
        spec = {"className": class_name(index % CLASSES), "count": 1}
        await _soon(admin, kinds.GPU_CLAIMS, {"metadata": meta, "spec": spec})

    await in_flight(_WIDTH, (functools.partial(order, index) for index in range(count)))
    async with asyncio.timeout(_BOUND):
        while True:
            found = (await admin.list(kinds.GPU_CLAIMS)).items
            if sum(one.get("status", {}).get("phase") == "Bound" for one in found) >= count:
                return
            await asyncio.sleep(_POLL)


async def _orders_that_wait(admin: client.Client, running: product.Product) -> None:
    """Have one order of each tenant wait: more units than a node has, taken unjudged."""
    await running.configure(chart.UNATTENDED)

    async def order(tenant: str) -> None:
        spec = {"className": class_name(0), "count": UNITS + 1}
        meta = {"name": "waits", "namespace": tenant}
        await _soon(admin, kinds.GPU_CLAIMS, {"metadata": meta, "spec": spec})

    await in_flight(_WIDTH, (functools.partial(order, tenant) for tenant in TENANTS))
    await running.configure()


async def _may_read_copies(admin: client.Client) -> None:
    """Have the reader's tenant read copies as it reads ours: who asks is part of what a read costs."""
    rules = [{"apiGroups": [_COPIES], "resources": ["*"], "verbs": ["get", "list"]}]
    await admin.create(kinds.CLUSTER_ROLES, {"metadata": {"name": _COPIES}, "rules": rules})
    binding = {
        "metadata": {"name": _COPIES, "namespace": READER},
        "roleRef": {**_RBAC, "kind": "ClusterRole", "name": _COPIES},
        "subjects": [{**_RBAC, "kind": "Group", "name": tenants.group(READER)}],
    }
    await admin.create(tenants.ROLE_BINDINGS, binding)


async def _soon(admin: client.Client, kind: Kind, body: dict[str, Any]) -> None:
    """Create an object that is refused until what it names is known."""
    async with asyncio.timeout(_BOUND):
        while True:
            try:
                await admin.create(kind, body)
            except errors.ApiError:
                await asyncio.sleep(_POLL)
            else:
                return


async def _copied_kind(admin: client.Client, plural: str) -> Kind:
    kind = Kind(_COPIES, "v1", plural, f"Copied{plural.capitalize()}")
    place = None if plural == PLANS else "default"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = {
        "group": _COPIES,
        "scope": "Cluster" if plural == PLANS else "Namespaced",
        "names": {"plural": plural, "kind": kind.kind, "singular": f"copied{plural}"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        ],
    }
    await admin.create(kinds.CRDS, {"metadata": {"name": f"{plural}.{_COPIES}"}, "spec": spec})
    async with asyncio.timeout(_BOUND):
        while True:
            try:
                await admin.list(kind, place, limit=1)
            except errors.ApiError:
                await asyncio.sleep(_POLL)
            else:
                return kind


async def _put(admin: client.Client, kind: Kind, item: dict[str, Any]) -> None:
    meta = item["metadata"]
    kept = {key: meta[key] for key in ("name", "namespace", "labels") if key in meta}
    await _soon(
        admin, kind, {**item, "apiVersion": f"{_COPIES}/v1", "kind": kind.kind, "metadata": kept}
    )
