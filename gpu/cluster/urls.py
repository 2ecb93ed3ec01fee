"""The one builder of API server paths and queries; everything put into a path is escaped."""

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from gpu.objects.kinds import Kind


def path(
    kind: Kind,
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
) -> str:
    """Return the path of a collection, an object or a subresource.

    A namespaced kind without a namespace gives the collection of all namespaces. Raises ValueError
    for what cannot be a place: an empty name, an object of a namespaced kind without a namespace.
    """
    if name is not None and (not name or (kind.namespaced and not namespace)):
        raise ValueError(f"no place for {kind.resource} {name!r} in namespace {namespace!r}")
    parts = ["apis", kind.group, kind.version] if kind.group else ["api", kind.version]
    if kind.namespaced and namespace:
        parts += ["namespaces", namespace]
    parts += [kind.plural, *([name] if name else []), *([subresource] if subresource else [])]
    return "/" + "/".join(quote(part, safe="") for part in parts)


def query(params: Mapping[str, str | int | bool | None]) -> str:
    """Return `?a=b&…` without what is None; empty when nothing is left."""
    pairs = {
        name: ("true" if value else "false") if isinstance(value, bool) else str(value)
        for name, value in params.items()
        if value is not None
    }
    return f"?{urlencode(pairs, quote_via=quote)}" if pairs else ""
