"""Assemble the v3 and v2 documents from the schemas and the table of kinds."""

from dataclasses import dataclass
from typing import Any, Final

from gpu import keys
from openapi import (
    drainplans,
    explanations,
    meta,
    offers,
    options,
    orderreviews,
    quotareviews,
    quotas,
    whatifs,
)
from openapi.meta import Schema

GROUP: Final = keys.CATALOG_GROUP
VERSION: Final = keys.CATALOG_VERSION
GVK: Final = "x-kubernetes-group-version-kind"
ACTION: Final = "x-kubernetes-action"
INFO: Final = {"title": "cozystack-gpu", "version": VERSION}
MEDIA: Final = ("application/json", "application/yaml")
STREAM: Final = "application/json;stream=watch"

_TAG: Final = "catalogGpuCozystackIo_v1alpha1"
_ID: Final = "CatalogGpuCozystackIoV1alpha1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One served kind: where it is, what it is called, and its schema's name."""

    plural: str
    kind: str
    schema: str
    is_question: bool = False
    """It is posted and answered, never stored: no list, no watch."""
    namespaced: bool = True

    @property
    def scope(self) -> str:
        """As it stands in the names of operations."""
        return "Namespaced" if self.namespaced else ""


KINDS: Final = (
    Kind(plural="drainplans", kind="DrainPlan", schema=drainplans.KIND, namespaced=False),
    Kind(plural="explanations", kind="Explanation", schema=explanations.KIND),
    Kind(plural="gpuoffers", kind="GPUOffer", schema=offers.KIND),
    Kind(plural="options", kind="Option", schema=options.KIND),
    Kind(plural="orderreviews", kind="OrderReview", schema=orderreviews.KIND, is_question=True),
    Kind(plural="quotagates", kind="QuotaGate", schema=quotas.KIND),
    Kind(plural="quotareviews", kind="QuotaReview", schema=quotareviews.KIND, is_question=True),
    Kind(plural="whatifs", kind="WhatIf", schema=whatifs.KIND, is_question=True, namespaced=False),
)

_VALIDATED: Final = (
    "fieldValidation",
    "string",
    "What becomes of unknown fields: Ignore, Warn or Strict.",
)
_CREATE_PARAMETERS: Final = (
    ("dryRun", "string", "Nothing is stored in any case; 'All' is accepted."),
    ("fieldManager", "string", "Not looked at."),
    _VALIDATED,
)
_LIST_PARAMETERS: Final = (
    ("allowWatchBookmarks", "boolean", "Ask for BOOKMARK events in a watch."),
    ("continue", "string", "Token of the page before."),
    ("fieldSelector", "string", "Select by metadata.name and metadata.namespace."),
    ("labelSelector", "string", "Select by labels."),
    ("limit", "integer", "Most objects of one page."),
    ("resourceVersion", "string", "Version the answer must not be older than."),
    ("resourceVersionMatch", "string", "NotOlderThan or Exact."),
    ("sendInitialEvents", "boolean", "Begin a watch with what is there."),
    ("timeoutSeconds", "integer", "How long a watch may last."),
    ("watch", "boolean", "Watch instead of list."),
)


def v3() -> dict[str, Schema]:
    """Return the OpenAPI 3.0 documents by their path, `apis/GROUP/VERSION`."""
    paths = _paths(_operation_v3, _parameter_v3)
    for kind in KINDS:
        if kind.is_question:
            paths[_inside(kind)]["patch"] = _refused_patch(kind)
    document = {
        "openapi": "3.0.0",
        "info": INFO,
        "paths": paths,
        "components": {"schemas": schemas()},
    }
    return {f"apis/{GROUP}/{VERSION}": document}


def v2() -> Schema:
    """Return the Swagger 2.0 document."""
    return {
        "swagger": "2.0",
        "info": INFO,
        "paths": _paths(_operation_v2, _parameter_v2),
        "definitions": {name: _as_v2(schema) for name, schema in schemas().items()},
    }


def schemas() -> dict[str, Schema]:
    """Return every schema by name, lists included, in v3 form."""
    found = {
        **meta.SCHEMAS,
        **drainplans.SCHEMAS,
        **explanations.SCHEMAS,
        **offers.SCHEMAS,
        **options.SCHEMAS,
        **orderreviews.SCHEMAS,
        **quotareviews.SCHEMAS,
        **quotas.SCHEMAS,
        **whatifs.SCHEMAS,
    }
    for kind in KINDS:
        found[kind.schema] = {**found[kind.schema], GVK: [_gvk(kind.kind)]}
        if kind.is_question:
            continue
        made = meta.kind_list(kind.kind, kind.schema)
        found[f"{kind.schema}List"] = {**made, GVK: [_gvk(f"{kind.kind}List")]}
    return dict(sorted(found.items()))


def _gvk(kind: str) -> Schema:
    return {"group": GROUP, "kind": kind, "version": VERSION}


def _paths(operation: Any, parameter: Any) -> Schema:
    root = f"/apis/{GROUP}/{VERSION}"
    named = parameter("name", "path", "string", "Name of the object.")
    spaced = parameter("namespace", "path", "string", "Namespace of the objects.")
    pretty = parameter("pretty", "query", "string", "Indent the answer when 'true'.")
    listed = [parameter(name, "query", *rest) for name, *rest in _LIST_PARAMETERS]
    posted = [parameter(name, "query", *rest) for name, *rest in _CREATE_PARAMETERS]
    paths: Schema = {}
    for kind in KINDS:
        one, many = kind.schema, f"{kind.schema}List"
        inside, scope = _inside(kind), kind.scope
        inner = [spaced, pretty] if kind.namespaced else [pretty]
        if kind.is_question:
            paths[inside] = {
                "post": operation(kind, "post", f"create{_ID}{scope}{kind.kind}", one),
                "parameters": [*posted, *inner],
            }
            continue
        if kind.namespaced:
            paths[f"{root}/{kind.plural}"] = {
                "get": operation(kind, "list", f"list{_ID}{kind.kind}ForAllNamespaces", many),
                "parameters": [*listed, pretty],
            }
        paths[inside] = {
            "get": operation(kind, "list", f"list{_ID}{scope}{kind.kind}", many),
            "parameters": [*listed, *inner],
        }
        paths[f"{inside}/{{name}}"] = {
            "get": operation(kind, "get", f"read{_ID}{scope}{kind.kind}", one),
            "parameters": [named, *inner],
        }
    return paths


def _inside(kind: Kind) -> str:
    where = "namespaces/{namespace}/" if kind.namespaced else ""
    return f"/apis/{GROUP}/{VERSION}/{where}{kind.plural}"


def _refused_patch(kind: Kind) -> Schema:
    """Return what is said of a PATCH that is answered 405.

    kubectl looks at PATCH alone to learn that a kind's fields are validated by the server. Finding
    none it wants to list every CRD, which no tenant may, and gives up before it has asked.
    """
    return {
        "description": f"not served: a {kind.kind} is asked, and never stored",
        "operationId": f"patch{_ID}{kind.scope}{kind.kind}",
        "tags": [_TAG],
        ACTION: "patch",
        GVK: _gvk(kind.kind),
        "parameters": [_parameter_v3(_VALIDATED[0], "query", *_VALIDATED[1:])],
        "responses": {"405": {"description": "Method Not Allowed"}},
    }


def _operation(kind: Kind, action: str, identity: str) -> Schema:
    verb = {
        "list": "list or watch objects",
        "get": "read the specified object",
        "post": "ask a question",
    }[action]
    return {
        "description": f"{verb} of kind {kind.kind}",
        "operationId": identity,
        "tags": [_TAG],
        ACTION: action,
        GVK: _gvk(kind.kind),
    }


def _operation_v3(kind: Kind, action: str, identity: str, schema: str) -> Schema:
    body = {"schema": {"$ref": f"#/components/schemas/{schema}"}}
    media = (*MEDIA, STREAM) if action == "list" else MEDIA
    content = dict.fromkeys(media, body)
    refused = {"schema": {"$ref": f"#/components/schemas/{meta.STATUS}"}}
    failed = dict.fromkeys(MEDIA, refused)
    asked = {"content": dict.fromkeys(MEDIA, body), "required": True}
    return {
        **_operation(kind, action, identity),
        **({"requestBody": asked} if action == "post" else {}),
        "responses": {
            **_success(action, content=content),
            "default": {"description": "Not OK", "content": failed},
        },
    }


def _success(action: str, **answer: Any) -> Schema:
    """Return the response of a request that went well."""
    if action == "post":
        return {"201": {"description": "Created", **answer}}
    return {"200": {"description": "OK", **answer}}


def _operation_v2(kind: Kind, action: str, identity: str, schema: str) -> Schema:
    body = {"$ref": f"#/definitions/{schema}"}
    asked = {
        "consumes": list(MEDIA),
        "parameters": [{"in": "body", "name": "body", "required": True, "schema": body}],
    }
    return {
        **_operation(kind, action, identity),
        **(asked if action == "post" else {}),
        "produces": [*MEDIA, STREAM] if action == "list" else list(MEDIA),
        "schemes": ["https"],
        "responses": {
            **_success(action, schema=body),
            "default": {
                "description": "Not OK",
                "schema": {"$ref": f"#/definitions/{meta.STATUS}"},
            },
        },
    }


def _parameter(name: str, where: str, description: str) -> Schema:
    found: Schema = {"name": name, "in": where, "description": description}
    return {**found, "required": True} if where == "path" else found


def _parameter_v3(name: str, where: str, kind: str, description: str) -> Schema:
    return {**_parameter(name, where, description), "schema": {"type": kind}}


def _parameter_v2(name: str, where: str, kind: str, description: str) -> Schema:
    return {**_parameter(name, where, description), "type": kind}


def _as_v2(schema: Any) -> Any:
    """Return a schema in Swagger 2.0's words: a bare $ref instead of a described one."""
    if isinstance(schema, list):
        return [_as_v2(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "allOf" in schema and not isinstance(schema["allOf"], dict):
        name = schema["allOf"][0]["$ref"].rsplit("/", 1)[-1]
        return {"$ref": f"#/definitions/{name}"}
    return {key: _as_v2(part) for key, part in schema.items()}
