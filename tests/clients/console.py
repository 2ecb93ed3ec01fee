"""What a console's form does with options: find the fields of a schema, list, pick, watch, list again.

It knows of a server what a browser would: a path to list and watch, and the shape of an Option.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gpu import keys
from gpu.cluster.client import Client
from gpu.objects.kinds import Kind

KEYWORD: Final = "x-cozystack-options"
OURS: Final = Kind(keys.CATALOG_GROUP, keys.CATALOG_VERSION, "options", "Option")
HOSTS: Final = Kind("core.cozystack.io", "v1alpha1", "options", "Option")


class Field(NamedTuple):
    """A field of a form with choices: its path below `spec`, and the source of its choices."""

    path: str
    source: str


def fields(schema: Mapping[str, Any], path: str = "") -> Iterator[Field]:
    """Find the fields of a schema that name a source, as deep as the console looks.

    It looks into properties, items and additionalProperties, and into no alternative.
    """
    named = schema.get(KEYWORD)
    if named:
        yield Field(path, named["source"])
    for name, below in schema.get("properties", {}).items():
        yield from fields(below, f"{path}.{name}" if path else name)
    for word, mark in (("items", "[]"), ("additionalProperties", ".*")):
        below = schema.get(word)
        if isinstance(below, Mapping):
            yield from fields(below, f"{path}{mark}")


class Choice(NamedTuple):
    """One line of a drop-down: what is written, what is shown, and the text beside it."""

    value: str
    shown: str
    tooltip: str


@dataclass
class Widget:
    """The drop-down of one field, filled from a source in a tenant's namespace."""

    api: Client
    namespace: str
    source: str
    kind: Kind = OURS
    rest: float = 1.0
    """Seconds from the end of a watch to the next list."""
    value: str = ""
    """What stands in the field."""
    lists: int = 0
    known: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Items by source, of the last list and what the watch told since."""
    _chose_default: bool = False

    @property
    def choices(self) -> list[Choice]:
        """Return what can be picked, in the server's order; nothing where the source is unknown."""
        return [
            Choice(one["value"], one.get("label") or one["value"], one.get("description", ""))
            for one in self.known.get(self.source, [])
        ]

    @property
    def shown(self) -> str:
        """Return the field's text: the choice's, or the bare value where it is no choice any more."""
        return next((one.shown for one in self.choices if one.value == self.value), self.value)

    @property
    def hint(self) -> str:
        """Return what an empty drop-down says."""
        return "" if self.choices else "no options"

    def pick(self, shown: str) -> str:
        """Choose a line by its text; returns the value that is written."""
        self.value = next(one.value for one in self.choices if one.shown == shown)
        return self.value

    async def load(self) -> str:
        """List; returns the version to watch from. A default fills an empty field once."""
        page = await self.api.list(self.kind, self.namespace)
        self.lists += 1
        self.known = {one["metadata"]["name"]: _items(one) for one in page.items}
        preset = [one["value"] for one in self.known.get(self.source, []) if one.get("default")]
        if preset and not self.value and not self._chose_default:
            self.value, self._chose_default = preset[0], True
        return page.resource_version

    async def follow(self, seconds: int = 300) -> None:
        """Watch from version 0, and list again a moment after each watch ended, until cancelled."""
        while True:
            watch = self.api.watch(
                self.kind, self.namespace, resource_version="0", timeout_seconds=seconds
            )
            async with contextlib.aclosing(watch):
                async for event in watch:
                    self._heed(event.type, event.object)
            await asyncio.sleep(self.rest)
            await self.load()

    def _heed(self, what: str, option: Mapping[str, Any]) -> None:
        name = option["metadata"].get("name", "")
        if what in {"ADDED", "MODIFIED"}:
            self.known[name] = _items(option)
        elif what == "DELETED":
            self.known.pop(name, None)


def _items(option: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(option["spec"].get("items", []))
