"""One page of a state: selection, limit, and a continue token bound to its query."""

import base64
import binascii
import hashlib
from collections.abc import Sequence

import msgspec

from apiserver.wire import items as forms
from apiserver.wire import table
from apiserver.wire.items import Item, Key, Type
from apiserver.wire.negotiate import Form, View
from apiserver.wire.selectors import Selector
from apiserver.wire.status import BadRequest
from apiserver.wire.table import Column
from apiserver.wire.values import Json, JsonObject

ANY_VERSION = -1
"""In a token: go on over whatever the list holds now."""


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the next page starts: after which key, at which version, of which query."""

    v: int
    rv: int
    after: tuple[str, str]
    query: str

    def text(self) -> str:
        """Return the opaque form a client is given."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).rstrip(b"=").decode()


def query_mark(scope: str, selector: Selector) -> str:
    """Return what ties a token to its resource, namespace and selectors."""
    labels = [(r.key, r.operator, *sorted(r.values)) for r in selector.labels]
    return hashlib.sha256(repr((scope, labels, selector.fields)).encode()).hexdigest()[:16]


def read_token(text: str, mark: str) -> Token:
    """Read a continue token. Raises BadRequest for a foreign or tampered one."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        token = msgspec.json.decode(raw, type=Token)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise BadRequest(f"continue key is not valid: {type(error).__name__}") from error
    if token.v != 1 or token.rv < ANY_VERSION or token.text() != text:
        raise BadRequest("continue key is not valid: unknown version")
    if token.query != mark:
        raise BadRequest("continue key is not valid: it belongs to another query")
    return token


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Some items of a list at a version, and how to go on."""

    items: tuple[Item, ...]
    version: int
    token: str = ""
    remaining: int | None = None

    def metadata(self) -> JsonObject:
        """Return the ListMeta."""
        meta: dict[str, Json] = {"resourceVersion": str(self.version)}
        if self.token:
            meta["continue"] = self.token
        if self.remaining is not None:
            meta["remainingItemCount"] = self.remaining
        return meta


def select(items: Sequence[Item], selector: Selector) -> tuple[Item, ...]:
    """Return the items the selector matches, in order."""
    if selector.is_empty:
        return tuple(items)
    return tuple(
        item
        for item in items
        if selector.matches(item.row.namespace, item.row.name, item.row.labels)
    )


def page(
    items: Sequence[Item], version: int, selector: Selector, limit: int, *, mark: str = "",
    after: Key | None = None,
) -> Page:  # fmt: skip
    """Return up to `limit` selected items after a key (0: all); `items` are in key order."""
    chosen = select(items, selector)
    if after is not None:
        chosen = tuple(item for item in chosen if item.key > after)
    if not limit or len(chosen) <= limit:
        return Page(items=chosen, version=version)
    shown = chosen[:limit]
    token = Token(v=1, rv=version, after=(shown[-1].key.namespace, shown[-1].key.name), query=mark)
    return Page(
        items=shown,
        version=version,
        token=token.text(),
        remaining=len(chosen) - limit if selector.is_empty else None,
    )


def render(
    kind: Type, columns: Sequence[Column], page: Page, view: View, include: str
) -> JsonObject:
    """Return a page in the form a view asks for."""
    meta = page.metadata()
    match view.form:
        case Form.TABLE:
            return {**table.table(kind, columns, page.items, view, include), "metadata": meta}
        case Form.PARTIAL_LIST:
            return {
                "kind": "PartialObjectMetadataList",
                "apiVersion": view.api_version,
                "metadata": meta,
                "items": [forms.partial(view.version, item) for item in page.items],
            }
        case _:
            return {
                "kind": f"{kind.kind}List",
                "apiVersion": kind.api_version,
                "metadata": meta,
                "items": [forms.document(kind, item) for item in page.items],
            }


def render_one(
    kind: Type, columns: Sequence[Column], item: Item, view: View, include: str
) -> JsonObject:
    """Return one object in the form a view asks for."""
    match view.form:
        case Form.TABLE:
            meta = {"resourceVersion": str(item.version)}
            return {**table.table(kind, columns, (item,), view, include), "metadata": meta}
        case Form.PARTIAL:
            return forms.partial(view.version, item)
        case _:
            return forms.document(kind, item)
