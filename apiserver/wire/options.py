"""Options: the query of a read, understood and judged as upstream judges ListOptions."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from apiserver.wire import selectors, status
from apiserver.wire.selectors import Selector
from apiserver.wire.status import BadRequest, Cause

EXACT: Final = "Exact"
NOT_OLDER_THAN: Final = "NotOlderThan"
_INCLUDE: Final = frozenset({"", "None", "Metadata", "Object"})

_MOST_DIGITS: Final = 39  # of a 128-bit number
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_SECONDS: Final = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0,
}  # fmt: skip


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a GET on a resource asks for. `version` is None when none was given."""

    selector: Selector = selectors.ALL
    version: int | None = None
    match: str = ""
    limit: int = 0
    token: str = ""
    watch: bool = False
    bookmarks: bool = False
    initial_events: bool | None = None
    timeout: int | None = None
    """Seconds a watch may last, as `timeoutSeconds` says."""
    include: str = "Metadata"
    """What a Table row carries as its object: None, Metadata or Object."""

    @property
    def is_plain(self) -> bool:
        """Say whether a list is asked for as it is: all of it, from its beginning, the newest."""
        return self.selector.is_empty and not self.token and self.match != EXACT


def is_true(text: str | None) -> bool:
    """Read a boolean as upstream does: absent, `false` and `0` are false, all else is true."""
    return text is not None and text.lower() not in {"false", "0"}


def parse(query: Mapping[str, str], *, namespaced: bool = True) -> Options:
    """Read the query of a list or watch of objects that are in namespaces, or are not.

    Raises BadRequest for what cannot be read, Invalid for a combination that makes no sense.
    """
    include = parse_include(query.get("includeObject", ""))
    initial = query.get("sendInitialEvents")
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    options = Options(
        selector=selectors.parse(labels, fields, namespaced=namespaced),
        version=parse_version(query.get("resourceVersion", "")),
        match=query.get("resourceVersionMatch", ""),
        limit=max(_whole(query.get("limit", "")) or 0, 0),
        token=query.get("continue", ""),
        watch=is_true(query.get("watch")),
        bookmarks=is_true(query.get("allowWatchBookmarks")),
        initial_events=None if initial is None else is_true(initial),
        timeout=_whole(query.get("timeoutSeconds", "")),
        include=include,
    )
    causes = _watch_causes(options) if options.watch else _list_causes(options)
    if causes:
        raise status.invalid("meta.k8s.io", "ListOptions", "", causes)
    if options.token and options.version:
        raise BadRequest("specifying resource version is not allowed when using continue")
    return options


def parse_version(text: str) -> int | None:
    """Read a resourceVersion; empty is None. Raises BadRequest unless it is a plain decimal."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise BadRequest(f'invalid resource version "{text[:64]}": must be a decimal number')
    return int(text)


def parse_duration(text: str) -> float:
    """Read a Go duration (`10s`, `1m30s`) as seconds. Raises BadRequest."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise BadRequest(f'invalid timeout specified in the request URL: "{text[:64]}"')
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _whole(text: str) -> int | None:
    if not text:
        return None
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text) is None:
        raise BadRequest(f'strconv.ParseInt: parsing "{text[:64]}": invalid syntax')
    return int(text)


def _forbidden(name: str, message: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {message}", name)


def _unsupported(value: str, *supported: str) -> Cause:
    known = ", ".join(f'"{one}"' for one in supported)
    text = f'Unsupported value: "{value[:64]}": supported values: {known}'
    return Cause("FieldValueNotSupported", text, "resourceVersionMatch")


def _list_causes(options: Options) -> list[Cause]:
    causes = []
    if options.initial_events is not None:
        causes.append(_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    match = options.match
    if not match:
        return causes
    name = "resourceVersionMatch"
    if options.version is None:
        causes.append(_forbidden(name, f"{name} is forbidden unless resourceVersion is provided"))
    if options.token:
        causes.append(_forbidden(name, f"{name} is forbidden when continue is provided"))
    if match not in {EXACT, NOT_OLDER_THAN}:
        causes.append(_unsupported(match, EXACT, NOT_OLDER_THAN, ""))
    if match == EXACT and options.version == 0:
        causes.append(_forbidden(name, f'{name} "exact" is forbidden for resourceVersion "0"'))
    return causes


def _watch_causes(options: Options) -> list[Cause]:
    name = "resourceVersionMatch"
    if options.initial_events is None:
        if options.match:
            text = f"{name} is forbidden for watch unless sendInitialEvents is provided"
            return [_forbidden(name, text)]
        return []
    if options.match == NOT_OLDER_THAN:
        return []
    text = f"sendInitialEvents requires setting {name} to {NOT_OLDER_THAN}"
    causes = [_forbidden(name, text)]
    if options.match:
        causes.append(_unsupported(options.match, NOT_OLDER_THAN))
    return causes


def parse_include(text: str) -> str:
    """Return what of its object a Table's row carries. Raises BadRequest for an unknown word."""
    if text not in _INCLUDE:
        raise BadRequest(f'unrecognized includeObject value: "{text}"')
    return text or "Metadata"
