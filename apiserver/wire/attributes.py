"""Attributes: what a request is about, read from method, path and query as kube-apiserver reads it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from apiserver.wire import options, selectors, status
from apiserver.wire.status import BadRequest, StatusError

_VERBS: Final = {
    "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete",
    "GET": "get", "HEAD": "get",
}  # fmt: skip
_NAMED = 3  # /namespaces/NS/RESOURCE
_WITH_VERSION = 3  # /apis/GROUP/VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """A request as authorization, audit and metrics see it; `resource` is empty for plain paths."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""

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
            text = unquote_to_bytes(part).decode()
        except UnicodeDecodeError:
            raise BadRequest("the path is not UTF-8") from None
        if text in {"", ".", ".."} or any(char in "/%\\" or char < " " for char in text):
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
    verb = _VERBS.get(method, method.lower())
    if not name:
        verb, name = _on_collection(verb, query)
    return Attributes(
        verb=verb, path=path, group=group, version=version, namespace=namespace,
        resource=resource, name=name, subresource="/".join(rest[2:]) if subresource else "",
    )  # fmt: skip


def _on_collection(verb: str, query: Mapping[str, str]) -> tuple[str, str]:
    """Return verb and name of a request on a collection; a watch of one name is about that name."""
    if verb == "delete":
        return "deletecollection", ""
    if verb != "get":
        return verb, ""
    try:
        name = selectors.parse("", query.get("fieldSelector", "")).name
    except StatusError:
        name = ""  # the handler will refuse it; authorization judges the whole collection
    return ("watch" if options.is_true(query.get("watch")) else "list"), name
