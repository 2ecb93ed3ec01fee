"""One served object: what it says (Row), since which version (Item), and its JSON forms."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from apiserver.wire.negotiate import META_GROUP
from apiserver.wire.values import Json, JsonObject, Scalar


class Key(NamedTuple):
    """Namespace and name; sorts as lists are ordered."""

    namespace: str
    name: str


class Type(NamedTuple):
    """The apiVersion and kind of a resource's objects."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """`group/version`."""
        return f"{self.group}/{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A computed object without a version; equal rows are the same state of the object."""

    namespace: str
    name: str
    uid: str
    created: datetime
    labels: Mapping[str, str] = field(default_factory=dict)
    body: JsonObject = field(default_factory=dict)
    """Everything beside kind, apiVersion and metadata: `spec`, `status`."""
    cells: tuple[Scalar, ...] = ()
    """The values of the Table columns after the name."""
    given: JsonObject | None = None
    """Metadata as another server gave it, where the object is not ours; else it is made."""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)


class Item(NamedTuple):
    """A row and the version at which it last changed."""

    row: Row
    version: int

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.row.namespace, self.row.name)


def metadata(item: Item) -> JsonObject:
    """Return the object's `metadata`."""
    row = item.row
    if row.given is not None:
        return row.given
    meta: dict[str, Json] = {"name": row.name}
    if row.namespace:
        meta["namespace"] = row.namespace
    meta["uid"] = row.uid
    meta["resourceVersion"] = str(item.version)
    meta["creationTimestamp"] = timestamp(row.created)
    if row.labels:
        meta["labels"] = row.labels
    return meta


def document(kind: Type, item: Item) -> JsonObject:
    """Return the whole object."""
    return {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        "metadata": metadata(item),
        **item.row.body,
    }


def partial(version: str, item: Item) -> JsonObject:
    """Return the object as PartialObjectMetadata of meta.k8s.io/`version`."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"{META_GROUP}/{version}",
        "metadata": metadata(item),
    }


@lru_cache(maxsize=4096)
def timestamp(moment: datetime) -> str:
    """Return RFC 3339 in UTC, whole seconds, as metav1.Time is written."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
