"""Two states of a list to watch events, and events to the lines of a stream."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from apiserver.wire import items as forms
from apiserver.wire import table
from apiserver.wire.items import Item, Type
from apiserver.wire.listing import select
from apiserver.wire.negotiate import Form, View
from apiserver.wire.selectors import Selector
from apiserver.wire.states import State
from apiserver.wire.status import StatusError
from apiserver.wire.table import Column
from apiserver.wire.values import Json, JsonObject, json_line

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
INITIAL_END: Final = "k8s.io/initial-events-end"


class Event(NamedTuple):
    """One change of one object; a DELETED one carries the last matching content."""

    type: str
    item: Item


def initial(state: State, selector: Selector) -> tuple[Event, ...]:
    """Return every selected object as ADDED, in key order."""
    return tuple(Event(ADDED, item) for item in select(state.items, selector))


def difference(before: State, after: State, selector: Selector) -> tuple[Event, ...]:
    """Return what a watcher of `before` must be told to know `after`, by version then key."""
    known = {item.key: item for item in select(before.items, selector)}
    fresh = {item.key: item for item in select(after.items, selector)}
    versions = {item.key: item.version for item in after.items}
    events = []
    for key, item in fresh.items():
        old = known.get(key)
        if old is None:
            events.append(Event(ADDED, item))
        elif old.version != item.version:
            events.append(Event(MODIFIED, item))
    for key, item in known.items():
        if key in fresh:
            continue
        gone = after.gone.get(key)
        version = versions.get(key) or (gone.version if gone else after.version)
        events.append(Event(DELETED, Item(item.row, version)))
    return tuple(sorted(events, key=lambda event: (event.item.version, event.item.key)))


@dataclass(slots=True)
class Framer:
    """Turns the events of one stream into lines; a Table's columns come in the first event only."""

    kind: Type
    columns: Sequence[Column]
    view: View
    include: str = "Metadata"
    _begun: bool = field(default=False)

    def event(self, event: Event) -> bytes:
        """Return the line of an event."""
        return self._line(event.type, self._object(event.item))

    def bookmark(self, version: int, *, ends_initial: bool = False) -> bytes:
        """Return a BOOKMARK line: everything up to the version has been sent."""
        meta: dict[str, Json] = {"resourceVersion": str(version)}
        if ends_initial:
            marks: dict[str, Json] = {INITIAL_END: "true"}
            meta["annotations"] = marks
        match self.view.form:
            case Form.TABLE:
                marked: JsonObject = self._table_bookmark(version, meta, ends_initial=ends_initial)
            case Form.PARTIAL:
                marked = {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": self.view.api_version,
                    "metadata": meta,
                }
            case _:
                marked = {
                    "kind": self.kind.kind,
                    "apiVersion": self.kind.api_version,
                    "metadata": meta,
                }
        return self._line("BOOKMARK", marked)

    def error(self, error: StatusError) -> bytes:
        """Return an ERROR line; its object is a Status in every view."""
        return self._line("ERROR", error.document())

    def _object(self, item: Item) -> JsonObject:
        match self.view.form:
            case Form.TABLE:
                made = table.table(self.kind, self.columns, (item,), self.view, self.include)
                meta: dict[str, Json] = {"resourceVersion": str(item.version)}
                made = {**made, "metadata": meta}
                if self._begun:
                    made = {**made, "columnDefinitions": []}
                self._begun = True
                return made
            case Form.PARTIAL:
                return forms.partial(self.view.version, item)
            case _:
                return forms.document(self.kind, item)

    def _table_bookmark(self, version: int, meta: JsonObject, *, ends_initial: bool) -> JsonObject:
        rows: list[Json] = []
        if ends_initial:  # a Table's own metadata has no annotations: its row carries them
            marked: JsonObject = {
                "kind": "PartialObjectMetadata",
                "apiVersion": self.view.api_version,
                "metadata": meta,
            }
            cells: list[Json] = ["", *(None for _ in self.columns)]
            rows = [{"cells": cells, "object": marked}]
        list_meta: dict[str, Json] = {"resourceVersion": str(version)}
        return {
            "kind": "Table",
            "apiVersion": self.view.api_version,
            "metadata": list_meta,
            "columnDefinitions": [],
            "rows": rows,
        }

    def _line(self, kind: str, content: JsonObject) -> bytes:
        return json_line({"type": kind, "object": content})
