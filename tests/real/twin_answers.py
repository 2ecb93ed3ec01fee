"""What two answers are compared by: each aspect of an answer by its name, without what must differ."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

HEADERS: Final = (
    *("content-type", "cache-control", "content-encoding", "vary", "etag", "location"),
    *("retry-after", "allow", "www-authenticate", "server", "warning"),
)
"""The headers that matter to somebody; `warning` may come several times."""
_STORED: Final = frozenset(
    {"managedFields", "generation", "uid", "resourceVersion", "creationTimestamp"}
)
"""Metadata compared by itself: of what is stored alone, or of other values on each side."""
_EACH: Final = frozenset({"uid", "resourceVersion", "creationTimestamp"})
_BAD: Final = 400
Json = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """One answer; no status means that the connection was cut instead. Headers are in lower case."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def aspects(answer: Answer, group: str) -> dict[str, Any]:
    """Return what an answer says, aspect by aspect; the group's name is left out of it."""
    found: dict[str, Any] = {"status": answer.status}
    for name in HEADERS:
        values = sorted(value for key, value in answer.headers if key == name)
        found[name] = [value.replace(group, "GROUP") for value in values]
    text = answer.body.decode(errors="replace").replace(group, "GROUP")
    documents = list(_documents(text))
    if answer.status >= _BAD:
        return {**found, **_refusal(documents[0] if documents else {})}
    return {**found, "shape": [_shape(one) for one in documents if not _is_plain_bookmark(one)]}


def differing(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the aspects that differ with both values; alone the one that explains all others."""
    names = sorted({*ours, *theirs})
    for plainest in ("status", "kind"):  # what is said in another form is said otherwise throughout
        if ours.get(plainest) != theirs.get(plainest):
            names = [plainest]
            break
    return {
        name: (ours.get(name), theirs.get(name))
        for name in names
        if ours.get(name) != theirs.get(name)
    }


def _documents(text: str) -> Iterable[Json]:
    """Yield the JSON objects of a body: one, or one a line; none of what is not JSON."""
    decoder = json.JSONDecoder()
    at = 0
    while at < len(text):
        try:
            found, at = decoder.raw_decode(text, at)
        except ValueError:
            return
        if isinstance(found, dict):
            yield found
        at += len(text[at:]) - len(text[at:].lstrip())


def _refusal(status: Json) -> Json:
    """Return the parts of a Status that clients go by, so not its words; empty `details` say nothing."""
    details = status.get("details") or {}
    causes = [(one.get("reason"), one.get("field")) for one in details.get("causes", ())]
    return {
        "kind": (status.get("kind"), status.get("apiVersion")),
        "code": status.get("code"),
        "reason": status.get("reason"),
        "details": {key: value for key, value in details.items() if key != "causes"},
        "causes": sorted(causes, key=str),
    }


def _is_plain_bookmark(event: Json) -> bool:
    """Say whether it is a bookmark of the clock: how many come before the end of a second is chance."""
    annotations = (event.get("object") or {}).get("metadata", {}).get("annotations")
    return event.get("type") == "BOOKMARK" and not annotations


def _shape(document: Json) -> Any:
    kind = document.get("kind")
    if "type" in document and "object" in document:
        return (document["type"], _shape(document["object"]))
    base = (kind, document.get("apiVersion"))
    if kind == "Status":
        return (*base, _refusal(document))
    if kind == "Table":
        columns = [
            (one["name"], one["type"], one["format"], one["priority"])
            for one in document["columnDefinitions"] or ()  # a stream's later ones have none
        ]
        rows = [(row["cells"], _shape(row["object"] or {})) for row in document["rows"]]
        return (*base, _meta(document), columns, rows)
    if "items" in document:
        return (*base, _meta(document), [_shape(item) for item in document["items"]])
    rest = {key: value for key, value in document.items() if key not in {"kind", "metadata"}}
    return (*base, _meta(document), rest)


def _meta(document: Json) -> Json:
    """Return metadata: what both sides must have, and the values that are the same on both."""
    meta = document.get("metadata") or {}
    kept = {key: value for key, value in meta.items() if key not in _STORED and value != ""}
    if kept.get("continue"):
        kept["continue"] = "a token"
    return {**kept, "has": sorted(key for key in _EACH if meta.get(key))}
