"""The questions put to both twins: one row each, told apart by its name.

`{home}` is the group and version, `{offers}` and `{asks}` the two resources in the tenant's namespace, `{group}`
the group; `{version}` and `{page}` are each side's own newest version and first continue token.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

AS: Final = "application/json;as={};v={};g=meta.k8s.io"
TABLE: Final = AS.format("Table", "v1")
PARTIAL: Final = AS.format("PartialObjectMetadata", "v1")
PARTIAL_LIST: Final = AS.format("PartialObjectMetadataList", "v1")
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
JSON: Final = "application/json"
ORDER: Final = {"className": "h100", "count": 1}


@dataclass(frozen=True)
class Row:
    """One request; the body is text in which `{group}` is filled in."""

    name: str
    path: str
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    user: str = "admin"
    """Whose certificate is shown: `admin`, `tenant`, or nobody's."""


def _get(prefix: str, base: str, ways: dict[str, str]) -> list[Row]:
    return [Row(f"{prefix} {name}", base + tail) for name, tail in ways.items()]


def accepts(prefix: str, path: str, ways: Mapping[str, str | None]) -> list[Row]:
    """Return a row for each `Accept`; None sends none."""
    return [
        Row(f"{prefix} {name}", path, headers={} if accept is None else {"Accept": accept})
        for name, accept in ways.items()
    ]


_PATHS = {
    "list": "{offers}",
    "list with a slash at its end": "{offers}/",
    "list of every namespace": "{home}/gpuoffers",
    "list of a namespace that is not there": "{home}/namespaces/nowhere/gpuoffers",
    "get": "{offers}/h100",
    "get what is not there": "{offers}/absent",
    "get without a namespace": "{home}/gpuoffers/h100",
    "get in capitals": "{offers}/H100",
    "unknown resource": "{home}/namespaces/tenant-twin/nothings",
    "unknown resource, one": "{home}/namespaces/tenant-twin/nothings/one",
    "unknown version": "/apis/{group}/v9/gpuoffers",
    "unknown subresource": "{offers}/h100/status",
    "unknown subresource, deeper": "{offers}/h100/status/deeper",
    "discovery of the version": "{home}",
    "discovery of the group": "/apis/{group}",
    "pretty": "{offers}/h100?pretty=true",
    "an unknown parameter": "{offers}?nonsense=1",
}
_SELECTORS = {
    "labels =": "labelSelector=gpu.cozystack.io/mode%3Dpassthrough",
    "labels !=": "labelSelector=gpu.cozystack.io/mode!%3Dpassthrough",
    "labels in": "labelSelector=gpu.cozystack.io/class+in+(h100,a100)",
    "labels notin": "labelSelector=gpu.cozystack.io/class+notin+(h100,a100)",
    "labels exists": "labelSelector=gpu.cozystack.io/class",
    "labels exists not": "labelSelector=!gpu.cozystack.io/class",
    "labels several": "labelSelector=gpu.cozystack.io/class,gpu.cozystack.io/mode%3Dpassthrough,!x",
    "labels empty": "labelSelector=",
    "labels in nothing": "labelSelector=a+in+()",
    "labels not in nothing": "labelSelector=a+notin+()",
    "labels unclosed": "labelSelector=a+in+(",
    "labels no key": "labelSelector=%3Dx",
    "labels bad value": "labelSelector=a%3Db%20c",
    "labels bad key": "labelSelector=a/b/c%3Dd",
    "labels lone comma": "labelSelector=,",
    "labels greater": "labelSelector=a%3E1",
    "labels greater than a word": "labelSelector=a%3Eb",
    "fields name": "fieldSelector=metadata.name%3Dh100",
    "fields name of nothing": "fieldSelector=metadata.name%3Dabsent",
    "fields name not": "fieldSelector=metadata.name!%3Dh100",
    "fields namespace": "fieldSelector=metadata.namespace%3Dtenant-twin",
    "fields other namespace": "fieldSelector=metadata.namespace%3Dother",
    "fields two": "fieldSelector=metadata.name%3Dh100,metadata.namespace%3Dtenant-twin",
    "fields unknown": "fieldSelector=spec.mode%3Dpassthrough",
    "fields unreadable": "fieldSelector=metadata.name",
    "fields empty": "fieldSelector=",
}
PAGES: Final = {
    "limit 1": "limit=1",
    "limit 1 of a selection": "limit=1&labelSelector=gpu.cozystack.io/class",
    "limit of all": "limit=500",
    "limit 0": "limit=0",
    "limit below 0": "limit=-1",
    "limit a word": "limit=abc",
    "limit too large for a number": "limit=99999999999999999999",
    "the next page": "limit=1&continue={page}",
    "the rest": "continue={page}",
    "a page of nonsense": "limit=1&continue=zzz",
    "a page and a version": "limit=1&continue={page}&resourceVersion={version}",
    "a page and a match": "limit=1&continue={page}&resourceVersionMatch=Exact",
    "a page and version 0": "limit=1&continue={page}&resourceVersion=0",
}
VERSIONS: Final = {
    "version 0": "resourceVersion=0",
    "version now": "resourceVersion={version}",
    "version now, not older": "resourceVersion={version}&resourceVersionMatch=NotOlderThan",
    "version now, exact": "resourceVersion={version}&resourceVersionMatch=Exact",
    "version now, exact, a page": "resourceVersion={version}&resourceVersionMatch=Exact&limit=1",
    "version 0, exact": "resourceVersion=0&resourceVersionMatch=Exact",
    "version 0, not older": "resourceVersion=0&resourceVersionMatch=NotOlderThan",
    "version 1, exact": "resourceVersion=1&resourceVersionMatch=Exact",
    "match without version": "resourceVersionMatch=Exact",
    "match unknown": "resourceVersion=1&resourceVersionMatch=Nearly",
    "version a word": "resourceVersion=abc",
    "version negative": "resourceVersion=-1",
    "version of the future": "resourceVersion=99999999999",
    "initial events of a list": "sendInitialEvents=true",
    "initial events of a list, matched": (
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0"
    ),
    "timeout a word": "timeout=abc",
    "timeout a second": "timeout=1s",
    "timeoutSeconds a word": "timeoutSeconds=abc",
}
WATCHES: Final = {
    "watch": "",
    "watch from 0": "&resourceVersion=0",
    "watch from now": "&resourceVersion={version}",
    "watch from nonsense": "&resourceVersion=abc",
    "watch from the future": "&resourceVersion=99999999999",
    "watch with bookmarks": "&resourceVersion={version}&allowWatchBookmarks=true",
    "watch a label": "&labelSelector=gpu.cozystack.io/class%3Dh100",
    "watch a bad label": "&labelSelector=a+in+(",
    "watch a name": "&fieldSelector=metadata.name%3Dh100",
    "watch a bad field": "&fieldSelector=spec.x%3D1",
    "streaming list": (
        "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    ),
    "streaming list from 0": (
        "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        "&resourceVersion=0"
    ),
    "streaming list without bookmarks": (
        "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    ),
    "streaming list, no match": "&sendInitialEvents=true&allowWatchBookmarks=true",
    "streaming list, exact": "&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1",
    "no initial events": "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion={version}",
    "match on a watch": "&resourceVersionMatch=NotOlderThan&resourceVersion={version}",
    "watch with a limit": "&limit=1",
}
LIST_ACCEPTS: Final = {
    "no Accept": None,
    "*/*": "*/*",
    "application/*": "application/*",
    "yaml": "application/yaml",
    "yaml before json": "application/yaml,application/json",
    "by quality": "application/yaml;q=0.5,application/json;q=0.9",
    "text": "text/html",
    "text or json": "text/html,application/json;q=0.1",
    "protobuf": PROTOBUF,
    "protobuf or json": f"{PROTOBUF},application/json",
    "cbor": "application/cbor",
    "table": TABLE,
    "table v1beta1": AS.format("Table", "v1beta1"),
    "table v9": AS.format("Table", "v9"),
    "table v9 or json": f"{AS.format('Table', 'v9')},application/json",
    "table of no group": "application/json;as=Table;v=v1",
    "metadata list": PARTIAL_LIST,
    "metadata list v1beta1": AS.format("PartialObjectMetadataList", "v1beta1"),
    "metadata of one": PARTIAL,
    "something else": AS.format("Nothing", "v1"),
    "kubectl": f"{TABLE},{AS.format('Table', 'v1beta1')},application/json",
}
ONE_ACCEPTS: Final = {
    "table": TABLE,
    "metadata": PARTIAL,
    "metadata list": PARTIAL_LIST,
    "protobuf": PROTOBUF,
    "yaml": "application/yaml",
}
_WATCH_ACCEPTS = {
    "table": TABLE,
    "metadata": PARTIAL,
    "metadata list": PARTIAL_LIST,
    "text": "text/html",
    "protobuf or json": f"{PROTOBUF},application/json",
}
_INCLUDES = ("None", "Metadata", "Object", "bogus", "")


def body(**changed: Any) -> str:
    """Return a question's text, of an order unless changed; None leaves a member out."""
    made = {"apiVersion": "GROUP/v1alpha1", "kind": "OrderReview", "spec": ORDER, **changed}
    return json.dumps({key: value for key, value in made.items() if value is not None})


_NAME = {"name": "asked"}
BODIES: Final = {
    "whole": body(metadata=_NAME),
    "of another kind": body(metadata=_NAME, kind="Nothing"),
    "of another version": body(metadata=_NAME, apiVersion="GROUP/v9"),
    "of another group": body(metadata=_NAME, apiVersion="apps/v1"),
    "for another namespace": body(metadata={**_NAME, "namespace": "other"}),
    "for this namespace": body(metadata={**_NAME, "namespace": "tenant-twin"}),
    "without spec": body(metadata=_NAME, spec=None),
    "an empty spec": body(metadata=_NAME, spec={}),
    "spec a word": body(metadata=_NAME, spec="abc"),
    "spec a list": body(metadata=_NAME, spec=[]),
    "a count of 0": body(metadata=_NAME, spec={**ORDER, "count": 0}),
    "a count of words": body(metadata=_NAME, spec={**ORDER, "count": "one"}),
    "a count too large": body(metadata=_NAME, spec={**ORDER, "count": 2**31}),
    "a count of a half": body(metadata=_NAME, spec={**ORDER, "count": 1.5}),
    "a count of 1.0": body(metadata=_NAME, spec={**ORDER, "count": 1.0}),
    "a count of null": body(metadata=_NAME, spec={**ORDER, "count": None}),
    "a class without letters": body(metadata=_NAME, spec={**ORDER, "className": ""}),
    "two faults": body(metadata=_NAME, spec={"className": "", "count": 0}),
    "a name of capitals": body(metadata={"name": "NOT_A_NAME"}),
    "metadata a word": body(metadata="abc"),
    "a list": "[]",
    "a word": '"abc"',
    "null": "null",
    "nothing": "",
    "no JSON": "{",
    "two objects": body(metadata=_NAME) + body(metadata=_NAME),
}
_UNKNOWN = body(metadata=_NAME, spec={**ORDER, "cuont": 1}, more={})
_TWICE = body(metadata=_NAME).replace('"count": 1', '"count": 1, "count": 2')
_TYPES = {
    "json": JSON,
    "none": "",
    "text": "text/plain",
    "form": "application/x-www-form-urlencoded",
    "charset": "application/json; charset=utf-8",
    "protobuf": PROTOBUF,
    "nonsense": "abc",
}


def _asks() -> list[Row]:
    path = "{asks}?dryRun=All"
    typed = {"Content-Type": JSON}
    found = [
        Row(f"ask {name}", path, "POST", typed, text.replace("GROUP", "{group}"))
        for name, text in BODIES.items()
    ]
    good = BODIES["whole"].replace("GROUP", "{group}")
    for name, kind in _TYPES.items():
        sent = {"Content-Type": kind} if kind else {}
        found.append(Row(f"ask as {name}", path, "POST", sent, good))
    yaml = "apiVersion: {group}/v1alpha1\nkind: OrderReview\nmetadata: {name: asked}\nspec: {className: a, count: 1}"
    found.append(Row("ask as yaml", path, "POST", {"Content-Type": "application/yaml"}, yaml))
    for how in ("Strict", "Warn", "Ignore", "Nonsense", ""):
        for name, made in (("unknown", _UNKNOWN), ("twice", _TWICE)):
            text = made.replace("GROUP", "{group}")
            asked = f"{path}&fieldValidation={how}"
            found.append(Row(f"ask {name} fields {how}", asked, "POST", typed, text))
    found.append(
        Row("ask unknown fields", path, "POST", typed, _UNKNOWN.replace("GROUP", "{group}"))
    )
    found.append(Row("ask dryRun nonsense", "{asks}?dryRun=Some", "POST", typed, good))
    for accept in (TABLE, PARTIAL, PROTOBUF, "application/yaml", "text/html"):
        sent = {**typed, "Accept": accept}
        found.append(Row(f"ask, answered as {accept}", path, "POST", sent, good))
    nowhere = "{home}/namespaces/nowhere/orderreviews?dryRun=All"
    found.append(Row("ask in a namespace that is not there", nowhere, "POST", typed, good))
    found.append(Row("ask in none", "{home}/orderreviews?dryRun=All", "POST", typed, good))
    found.append(Row("ask of one", "{asks}/one?dryRun=All", "POST", typed, good))
    found.append(Row("ask too much", path, "POST", typed, '"' + "x" * (3 * 2**20) + '"'))
    return found


def _verbs() -> list[Row]:
    merge = {"Content-Type": "application/merge-patch+json"}
    unread = {"Content-Type": "text/plain"}
    return [
        Row("head of a list", "{offers}", "HEAD"),
        Row("head of one", "{offers}/h100", "HEAD"),
        Row("head of nothing", "{offers}/absent", "HEAD"),
        Row("options", "{offers}", "OPTIONS"),
        Row("trace", "{offers}", "TRACE"),
        Row("a verb of nobody", "{offers}", "BREW"),
        Row("create", "{offers}?dryRun=All", "POST", {"Content-Type": JSON}, "{}"),
        Row("update", "{offers}/h100?dryRun=All", "PUT", {"Content-Type": JSON}, "{}"),
        Row("patch", "{offers}/h100?dryRun=All", "PATCH", merge, "{}"),
        Row("patch as text", "{offers}/h100?dryRun=All", "PATCH", unread, "{}"),
        Row("delete", "{offers}/h100?dryRun=All", "DELETE"),
        Row("delete all", "{offers}?dryRun=All", "DELETE"),
        Row("delete what is not there", "{offers}/absent?dryRun=All", "DELETE"),
        Row("update of a list", "{offers}?dryRun=All", "PUT", {"Content-Type": JSON}, "{}"),
        Row("post to one", "{offers}/h100?dryRun=All", "POST", {"Content-Type": JSON}, "{}"),
        Row("delete of nothing known", "{home}/nothings/one", "DELETE"),
    ]


ROWS: Final = (
    *_get("path:", "", _PATHS),
    *_get("select:", "{offers}?", _SELECTORS),
    *_get("page:", "{offers}?", PAGES),
    *_get("version:", "{offers}?", VERSIONS),
    *_get("watch:", "{offers}?watch=true&timeoutSeconds=1", WATCHES),
    *(Row(f"watch: said as {word}", "{offers}?timeoutSeconds=1&watch=" + word) for word in ("1", "TRUE", "x", "")),
    *accepts("accept:", "{offers}", LIST_ACCEPTS),
    *accepts("accept for one:", "{offers}/h100", ONE_ACCEPTS),
    *accepts("accept for a watch:", "{offers}?watch=true&timeoutSeconds=1", _WATCH_ACCEPTS),
    *(
        Row(f"include: {word}", "{offers}?includeObject=" + word, headers={"Accept": TABLE})
        for word in _INCLUDES
    ),
    *_verbs(),
    *_asks(),
)  # fmt: skip
"""Every question; none changes anything."""
