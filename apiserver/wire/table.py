"""Columns and rows to a metav1.Table."""

from collections.abc import Iterable
from dataclasses import dataclass

from apiserver.wire import items
from apiserver.wire.items import Item, Type
from apiserver.wire.negotiate import View
from apiserver.wire.values import Json, JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column after the name; priority above 0 shows in wide output only."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


_NAME = Column(
    name="Name",
    format="name",
    description="Name must be unique within a namespace.",
)


def table(
    kind: Type, columns: Iterable[Column], rows: Iterable[Item], view: View, include: str
) -> JsonObject:
    """Return a Table without list metadata; `include` is None, Metadata or Object."""
    return {
        "kind": "Table",
        "apiVersion": view.api_version,
        "metadata": {},
        "columnDefinitions": definitions(columns),
        "rows": [_row(kind, item, view, include) for item in rows],
    }


def definitions(columns: Iterable[Column]) -> list[Json]:
    """Return `columnDefinitions`, the name first."""
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in (_NAME, *columns)
    ]


def _row(kind: Type, item: Item, view: View, include: str) -> JsonObject:
    cells: list[Json] = [item.row.name, *item.row.cells]
    shown: Json = None
    if include == "Metadata":
        shown = items.partial(view.version, item)
    elif include == "Object":
        shown = items.document(kind, item)
    return {"cells": cells, "object": shown}
