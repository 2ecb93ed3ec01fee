"""Attributes: what a request is about, read from method, path and query as kube-apiserver reads it."""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec

from apiserver.wire import options, selectors, status
from apiserver.wire.selectors import Selector
from apiserver.wire.status import BadRequest, StatusError

T = TypeVar("T")

_VERBS: Final = {
    "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete",
    "GET": "get", "HEAD": "get",
}  # fmt: skip
_NO_NAME = re.compile(r"[/%\\\x00-\x1f]")
_NAMED = 3  # /namespaces/NS/RESOURCE
_WITH_VERSION = 3  # /apis/GROUP/VERSION


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """A request as authorization, audit and metrics see it; `resource` is empty for plain paths."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    selector: Selector = selectors.ALL
    """What narrows a list or watch: a user may be allowed that part of it alone."""

    @property
    def is_resource(self) -> bool:
        """Say whether it is about a resource."""
        return bool(self.resource)

    @property
    def is_long(self) -> bool:
        """Say whether it lasts as long as the client wants."""
        return self.verb == "watch"


def segments(raw_path: str) -> tuple[str, ...]:
    """Split and decode a raw path. Raises for what no name can be; a trailing slash is ignored."""
    parts = raw_path.removeprefix("/").removesuffix("/").split("/")
    if parts == [""]:
        return ()
    found = []
    for part in parts:
        try:
            text = unquote_to_bytes(part).decode() if "%" in part else part
        except UnicodeDecodeError:
            raise BadRequest("the path is not UTF-8") from None
        if text in {"", ".", ".."} or _NO_NAME.search(text):
            raise status.no_such_path()
        found.append(text)
    return tuple(found)


def parse(method: str, parts: tuple[str, ...], query: Mapping[str, str]) -> Attributes:
    """Read the attributes of a request from its decoded path segments."""
    path = "/" + "/".join(parts)
    if len(parts) <= _WITH_VERSION or parts[0] != "apis":
        return Attributes(verb=method.lower(), path=path)
    _, group, version, *rest = parts
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= _NAMED:
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = [*rest, "", ""][:3]
    verb, selector = _VERBS.get(method, method.lower()), selectors.ALL
    if not name:
        verb, selector = _on_collection(verb, query)
        name = selector.name if verb in {"list", "watch"} else ""
    return Attributes(
        verb=verb, path=path, group=group, version=version, namespace=namespace,
        resource=resource, name=name, subresource="/".join(rest[2:]) if subresource else "",
        selector=selector,
    )  # fmt: skip


def _on_collection(verb: str, query: Mapping[str, str]) -> tuple[str, Selector]:
    """Return verb and selector of a request on a collection; a watch of one name is about that name."""
    if verb == "delete":
        verb = "deletecollection"
    elif verb == "get":
        verb = "watch" if options.is_true(query.get("watch")) else "list"
    else:
        return verb, selectors.ALL
    # The handler refuses what cannot be read; authorization judges without that half of it.
    return verb, Selector(
        labels=_read(selectors.parse_labels, query.get("labelSelector", "")),
        fields=_read(selectors.parse_fields, query.get("fieldSelector", "")),
    )


def _read(read: Callable[[str], tuple[T, ...]], text: str) -> tuple[T, ...]:
    try:
        return read(text)
    except StatusError:
        return ()
