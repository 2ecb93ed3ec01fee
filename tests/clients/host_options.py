"""The host's Option contract as recorded, and what of it our answers may differ in, each with its reason.

A recorded answer is turned into the one we owe by the differences below, and then compared member
by member. A difference that is not listed here fails; so does one that is listed and not there.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from gpu import keys

HOST_GROUP: Final = "core.cozystack.io"
OURS: Final = ("gpu", "gpuclaim", "gpuclass", "gpuquotakey")
SHARED: Final = "gpu"
"""The one source that both serve."""

RECORDED: Final[Mapping[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "host_options.json").read_text()
)["cases"]

_NODES = re.compile(r"^(\d+ available) on .+$")
_MARKS: Final = frozenset({"uid", "creationTimestamp", "labels"})
_REFUSED: Final = 400
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")

NO_HOME: Final = "no source is shown where there is no namespace: its metadata would be made up"
VERSIONS: Final = "versions are real: one that is not reached or not a number is refused"
SELECTORS: Final = "selectors, limits and tokens are heeded"
LIVE: Final = "the watch is live: it tells where the list ended, and goes on"
NO_PROTOBUF: Final = "there is no protobuf form, so it is not named among those there are"
HEAD: Final = "HEAD is answered as GET without its body, as HTTP has it"
OLD_PATH: Final = (
    "a watch is a query of the list's own path; the path of its own is long out of use"
)
CACHED: Final = "sources are made from caches: none of them fails alone while the others answer"
NOT_OURS: Final = "other sources are the host's: a form asks its group for them, or the facade"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a read was answered: a body, or the events of a watch."""

    status: int
    content_type: str
    text: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> Any:
        """Return what is said, whatever it is encoded in."""
        return yaml.safe_load(self.text) if "yaml" in self.content_type else json.loads(self.text)

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return the lines of a watch."""
        return [json.loads(line) for line in self.text.splitlines()]


@dataclass(frozen=True, slots=True)
class Instead:
    """What is answered where the host answers otherwise; `shown` are the names in a list or watch."""

    why: str
    status: int = 200
    reason: str = ""
    shown: tuple[str, ...] | None = None


INSTEAD: Final[Mapping[str, Instead]] = {
    "query-list-unknown-namespace": Instead(NO_HOME, shown=()),
    "query-get-q-resourceversion": Instead(VERSIONS, 504, "Timeout"),
    "query-list-q-resourceversion-bogus": Instead(VERSIONS, 400, "BadRequest"),
    "watch-rv-bogus": Instead(VERSIONS, 400, "BadRequest"),
    "watch-rv-huge": Instead(VERSIONS, 504, "Timeout"),
    "query-list-q-continue-bogus": Instead(SELECTORS, 400, "BadRequest"),
    "query-list-q-fieldselector-name": Instead(SELECTORS, shown=("gpu",)),
    "query-list-q-labelselector": Instead(SELECTORS, shown=()),
    "query-list-q-limit1": Instead(SELECTORS, shown=("gpu",)),
    "watch-fieldselector-name": Instead(SELECTORS, shown=("gpu",)),
    "watch-bookmarks": Instead(LIVE, shown=(*OURS,)),
    "watch-sendinitialevents": Instead(LIVE, shown=(*OURS, "BOOKMARK")),
    "watch-legacy-path": Instead(OLD_PATH, 404, "NotFound"),
    "path-verb-head": Instead(HEAD),
    "format-accept-protobuf": Instead(NO_PROTOBUF, 406, "NotAcceptable"),
    "get-gpu-crd-missing": Instead(CACHED, shown=("gpu",)),
    "get-gpu-provider-forbidden": Instead(CACHED, shown=("gpu",)),
    **{
        f"get-{source}": Instead(NOT_OURS, 404, "NotFound")
        for source in ("appkind", "image", "network", "plan", "storageclass", "vmdisk")
    },
}
"""Reads that are answered with another status, or with other rows."""

WORDS: Final[Mapping[str, str]] = {
    "format-accept-cbor": NO_PROTOBUF,
    "format-accept-html": NO_PROTOBUF,
    "format-accept-unsupported": NO_PROTOBUF,
    "format-partialmetadata-list-wrong-kind": "it names a Go type",
    "format-table-includeobject-bogus": "it tells of a conversion that is not made here",
    "query-list-q-labelselector-bogus": "the words of newer apimachinery",
}
"""Refusals with the recorded status and reason in other words; clients read those two."""


def asked(case: str) -> dict[str, Any]:
    """Return the recorded request, put to our group."""
    request = RECORDED[case]["request"]
    path = request["path"].replace(HOST_GROUP, keys.CATALOG_GROUP)
    return {**request, "path": path.replace("timeoutSeconds=2", "timeoutSeconds=1")}


def differences(case: str, answer: Answer) -> list[str]:
    """Return what is neither as recorded nor as listed above; empty when all is well."""
    recorded = RECORDED[case]
    instead = INSTEAD.get(case)
    status = recorded["status"] if instead is None else instead.status
    if answer.status != status:
        return [f"answered {answer.status} instead of {status}: {answer.text[:300]}"]
    if instead is not None and instead.reason:
        return _compare({"kind": "Status", "reason": instead.reason}, answer.body, part=True)
    if recorded["request"]["method"] == "HEAD":
        return ["a HEAD with a body"] if answer.text else []
    if status >= _REFUSED:
        return _refusal(case, recorded["body"], answer)
    shown = None if instead is None else instead.shown
    if "events" in recorded:
        return _watch(case, recorded, answer, shown)
    return _rows(recorded, answer, shown)


def _rows(recorded: Mapping[str, Any], answer: Answer, shown: tuple[str, ...] | None) -> list[str]:
    """Compare objects; of a list that was recorded as "all there is" the names alone."""
    found = settled(answer.body)
    if shown is not None or "answer" in recorded:
        return _compare([*(OURS if shown is None else shown)], names(found))
    return [*_compare(owed(recorded["body"]), _comparable(found)), *metadata(answer.body)]


def names(found: Mapping[str, Any]) -> list[str]:
    """Return the names of the objects of a list, or of the one object there is."""
    rows = found.get("items", [found])
    return [one["metadata"]["name"] for one in rows]


def _refusal(case: str, recorded: Mapping[str, Any], answer: Answer) -> list[str]:
    """Compare two Statuses; empty `details` and none are the same to every client."""
    theirs, ours = {"details": {}, **_renamed(recorded)}, {"details": {}, **answer.body}
    if case in WORDS:
        same = _compare(theirs["message"], ours["message"])
        if not same:
            return [f"the words are the host's by now: take {case} out of WORDS"]
        theirs["message"] = ours["message"]
        theirs["details"] = ours["details"]
    return _compare(theirs, ours)


def _watch(
    case: str, recorded: Mapping[str, Any], answer: Answer, expected: tuple[str, ...] | None
) -> list[str]:
    """Compare streams: the rows each tells first, in order; ours may end with where it got to."""
    events = answer.events
    ends = [one["type"] for one in events if one["type"] == "BOOKMARK"]
    told = [_named(one) for one in events if one["type"] == "ADDED"]
    shown = [*(OURS if expected is None else expected)]
    wrong = _compare(shown, [*told, *ends] if "BOOKMARK" in shown else told)
    others = {one["type"] for one in events} - {"ADDED", "BOOKMARK"}
    if others:
        wrong.append(f"events that nobody caused: {others}")
    if ends and case not in INSTEAD:
        wrong.append("a bookmark that nobody asked for")
    if not str(answer.content_type).startswith(recorded["contentType"]):
        wrong.append(f"{answer.content_type} instead of {recorded['contentType']}")
    return wrong


def _named(event: Mapping[str, Any]) -> str:
    shown = event["object"]
    return str(shown["rows"][0]["cells"][0] if "rows" in shown else shown["metadata"]["name"])


def owed(recorded: Any) -> Any:
    """Return what we owe where this was recorded: no node names, our group, our sources alone."""
    if isinstance(recorded, str):
        return owed(yaml.safe_load(recorded))
    return _comparable(_without_nodes(_renamed(recorded)))


def _renamed(value: Any) -> Any:
    return json.loads(json.dumps(value).replace(HOST_GROUP, keys.CATALOG_GROUP))


def _without_nodes(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nodes(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_nodes(one) for one in value]
    return _NODES.sub(r"\1", value) if isinstance(value, str) else value


def _comparable(found: dict[str, Any]) -> dict[str, Any]:
    """Keep of a list or Table what both serve: the source `gpu`, and the first two columns.

    A Table of ours says besides what its columns mean, and shows values behind the first two.
    """
    if "columnDefinitions" in found:
        columns = [one["name"].upper() for one in found["columnDefinitions"]][:2]
        kinds = [one["type"] for one in found["columnDefinitions"]][:2]
        rows = [
            {"cells": one["cells"][:2], "object": one["object"]}
            for one in found["rows"]
            if one["cells"][0] == SHARED
        ]
        return {**found, "columnDefinitions": [columns, kinds], "rows": rows}
    if "items" in found:
        rows = [_homeless(one) for one in found["items"] if one["metadata"]["name"] == SHARED]
        return {**found, "items": rows[:1]}
    return found


def _homeless(one: dict[str, Any]) -> dict[str, Any]:
    """Leave out the namespace: the host's list of all namespaces shows a source once, and none."""
    meta = {key: value for key, value in one["metadata"].items() if key != "namespace"}
    return {**one, "metadata": meta}


def settled(value: Any) -> Any:
    """Take real metadata off, as far as the host has none: uids, times, labels, versions."""
    if isinstance(value, list):
        return [settled(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: settled(one) for key, one in value.items()}
    if isinstance(found.get("metadata"), dict):
        meta = {key: one for key, one in found["metadata"].items() if key not in _MARKS}
        found["metadata"] = {**meta, "resourceVersion": "0"} if "resourceVersion" in meta else meta
    return found


def metadata(value: Any) -> list[str]:
    """Return what is wrong with the real metadata of objects."""
    if isinstance(value, list):
        return [line for one in value for line in metadata(one)]
    if not isinstance(value, dict):
        return []
    lines = [line for key, one in value.items() if key != "metadata" for line in metadata(one)]
    meta = value.get("metadata")
    if not isinstance(meta, dict):
        return lines
    if not re.fullmatch(r"[1-9]\d*", str(meta.get("resourceVersion"))):
        lines.append(f"no version: {meta}")
    if "name" in meta:
        if meta.get("labels") != {keys.SOURCE_LABEL: meta["name"]}:
            lines.append(f"cannot be selected by its source: {meta}")
        if not meta.get("uid") or not _TIME.match(str(meta.get("creationTimestamp"))):
            lines.append(f"neither uid nor time: {meta}")
    return lines


def _compare(theirs: Any, ours: Any, path: str = "", *, part: bool = False) -> list[str]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        known = set(theirs) if part else {*theirs, *ours}
        return [
            line
            for key in sorted(known)
            for line in _compare(theirs.get(key), ours.get(key), f"{path}.{key}", part=part)
        ]
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        pairs = enumerate(zip(theirs, ours, strict=True))
        return [line for at, (a, b) in pairs for line in _compare(a, b, f"{path}[{at}]", part=part)]
    return [] if theirs == ours else [f"{path or 'answer'}: {ours!r} instead of {theirs!r}"]
