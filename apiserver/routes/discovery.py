"""/api, /apis, group and version lists, aggregated discovery: derived from what is served.

Static bytes from the start of the process: they depend on no cache and no other server, because a
discovery that fails keeps every namespace of the cluster from being deleted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from apiserver import appkeys
from apiserver.resources.base import Resource
from apiserver.routes import answers
from apiserver.wire import negotiate, status
from apiserver.wire.negotiate import Subject
from apiserver.wire.values import Json, JsonObject, json_line

_JSON: Final = "application/json"
_PUBLIC: Final = {"Cache-Control": "public"}
_VERSIONS: Final = ("v2", "v2beta1")


@dataclass(frozen=True, slots=True)
class Documents:
    """Every discovery document, by path and, for the aggregated ones, by version."""

    plain: Mapping[str, JsonObject]
    aggregated: Mapping[str, bytes]


DOCUMENTS: Final = web.AppKey("discovery", Documents)


def build(resources: Sequence[Resource]) -> Documents:
    """Make the documents of what is served."""
    groups = sorted({resource.group for resource in resources})
    plain: dict[str, JsonObject] = {
        "/api": {"kind": "APIVersions", "versions": [], "serverAddressByClientCIDRs": []},
        "/apis": {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(group, resources) for group in groups],
        },
    }
    for group in groups:
        plain[f"/apis/{group}"] = {
            "kind": "APIGroup",
            "apiVersion": "v1",
            **_group(group, resources),
        }
        for version in _versions(group, resources):
            plain[f"/apis/{group}/{version}"] = {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": f"{group}/{version}",
                "resources": [_entry(one) for one in _served(group, version, resources)],
            }
    aggregated = {version: _aggregated(version, groups, resources) for version in _VERSIONS}
    return Documents(plain, aggregated)


async def apis(request: web.Request) -> web.StreamResponse:
    """GET /apis and /api: the plain list, or the aggregated one where it is asked for."""
    documents = request.app[DOCUMENTS]
    version = negotiate.wants_aggregated(request.headers.get("Accept"))
    path = request[appkeys.ATTRIBUTES].path
    if version and path == "/apis":
        kind = f"{_JSON};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
        return answers.tagged(request, documents.aggregated[version], kind, _PUBLIC)
    return await document(request)


async def document(request: web.Request) -> web.StreamResponse:
    """GET one of the plain documents."""
    found = request.app[DOCUMENTS].plain.get(request[appkeys.ATTRIBUTES].path)
    if found is None:
        raise status.no_such_path()
    view = negotiate.choose(request.headers.get("Accept"), Subject.OTHER)
    response = answers.document(request, found, view)
    response.headers["Vary"] = "Accept"
    return response


async def root(request: web.Request) -> web.StreamResponse:
    """GET /: the paths there are."""
    paths = ["/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
    found: list[Json] = [*sorted([*request.app[DOCUMENTS].plain, *paths])]
    view = negotiate.choose(request.headers.get("Accept"), Subject.OTHER)
    return answers.document(request, {"paths": found}, view)


async def version(request: web.Request) -> web.StreamResponse:
    """GET /version: what is running."""
    build = request.app[appkeys.SERVICES].build
    major, minor, *_ = [*build.version.split("."), "0", "0"]
    content = {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{build.version}",
        "gitCommit": build.commit,
    }
    view = negotiate.choose(request.headers.get("Accept"), Subject.OTHER)
    return answers.document(request, content, view)


def _versions(group: str, resources: Sequence[Resource]) -> list[str]:
    return sorted({one.version for one in resources if one.group == group})


def _served(group: str, version: str, resources: Sequence[Resource]) -> list[Resource]:
    found = [one for one in resources if (one.group, one.version) == (group, version)]
    return sorted(found, key=lambda one: one.plural)


def _group(group: str, resources: Sequence[Resource]) -> JsonObject:
    versions: list[JsonObject] = [
        {"groupVersion": f"{group}/{version}", "version": version}
        for version in _versions(group, resources)
    ]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _entry(resource: Resource) -> JsonObject:
    entry: dict[str, Json] = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": sorted(resource.verbs),
    }
    return {**entry, **_names(resource)}


def _names(resource: Resource) -> dict[str, Json]:
    # `kubectl get CATEGORY` lists all of it, and ends with an error at what cannot be listed.
    names: dict[str, Json] = {
        "shortNames": [*resource.short_names],
        "categories": [*resource.categories] if "list" in resource.verbs else [],
    }
    return {key: value for key, value in names.items() if value}


def _aggregated(version: str, groups: Iterable[str], resources: Sequence[Resource]) -> bytes:
    items: list[Json] = [
        {
            "metadata": {"name": group, "creationTimestamp": None},
            "versions": [
                {
                    "version": served,
                    "resources": [_found(one) for one in _served(group, served, resources)],
                    "freshness": "Current",
                }
                for served in _versions(group, resources)
            ],
        }
        for group in groups
    ]
    return json_line(
        {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"apidiscovery.k8s.io/{version}",
            "metadata": {},
            "items": items,
        }
    )


def _found(resource: Resource) -> JsonObject:
    kind: dict[str, Json] = {
        "group": resource.group,
        "version": resource.version,
        "kind": resource.kind,
    }
    return {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": sorted(resource.verbs),
        **_names(resource),
    }
