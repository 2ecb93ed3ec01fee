"""Two states of a list to watch events, and events to the lines of a stream."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from apiserver.wire import items as forms
from apiserver.wire import table
from apiserver.wire.items import Item, Key, Type
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


class Change(NamedTuple):
    """What became of one object from one state to a later one: not there before, or not after."""

    version: int
    before: Item | None
    after: Item | None


def changes(before: State, after: State) -> tuple[Change, ...]:
    """Return every object that is not the same in both, by version then key."""
    known = {item.key: item for item in before.items}
    found: list[tuple[int, Key, Change]] = []
    for item in after.items:
        key = item.key
        old = known.pop(key, None)
        if old is None or old.version != item.version:
            found.append((item.version, key, Change(item.version, old, item)))
    for key, old in known.items():
        gone = after.gone.get(key)
        version = gone.version if gone else after.version
        found.append((version, key, Change(version, old, None)))
    return tuple(change for _, _, change in sorted(found, key=lambda one: one[:2]))


def selected(changed: Iterable[Change], selector: Selector) -> tuple[Event, ...]:
    """Return changes as a watcher with a selector is told of them."""
    return tuple(event for change in changed if (event := _selected(change, selector)))


def _selected(change: Change, selector: Selector) -> Event | None:
    was = change.before if change.before and _matches(change.before, selector) else None
    now = change.after if change.after and _matches(change.after, selector) else None
    if now is not None:
        return Event(ADDED if was is None else MODIFIED, now)
    return Event(DELETED, Item(was.row, change.version)) if was is not None else None


def _matches(item: Item, selector: Selector) -> bool:
    row = item.row
    return selector.is_empty or selector.matches(row.namespace, row.name, row.labels)


def difference(before: State, after: State, selector: Selector) -> tuple[Event, ...]:
    """Return what a watcher of `before` must be told to know `after`, by version then key."""
    return selected(changes(before, after), selector)


@dataclass(slots=True)
class Framer:
    """Turns the events of one stream into lines; a Table's columns come in the first event only."""

    kind: Type
    columns: Sequence[Column]
    view: View
    include: str = "Metadata"
    _begun: bool = field(default=False)

    @property
    def likeness(self) -> Hashable:
        """What two streams must have in common for the same events to be the same lines."""
        begun = self._begun and self.view.form is Form.TABLE
        return self.view, self.include, begun

    def begin(self) -> None:
        """Note that an event was sent: a Table's columns were in it."""
        self._begun = True

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
