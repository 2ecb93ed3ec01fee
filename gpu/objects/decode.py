"""The only reader of raw dicts: path-aware getters that raise DecodeError('spec.count', why)."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar

from gpu.errors import DecodeError, UnitsError
from gpu.units import Units, parse_units

T = TypeVar("T")
Raw = Mapping[str, Any]


class Fields:
    """One JSON object and the path to it; each getter checks the shape of one field."""

    __slots__ = ("path", "raw")

    def __init__(self, raw: object, path: str = "") -> None:
        if raw is None:
            raw = {}
        if not isinstance(raw, dict):
            raise DecodeError(path or "object", f"is {type(raw).__name__}, not an object")
        self.raw: dict[str, Any] = raw
        self.path = path

    def at(self, name: str) -> str:
        """Return the path of a field, as error texts show it."""
        return f"{self.path}.{name}" if self.path else name

    def child(self, name: str) -> "Fields":
        """Return a nested object; an absent or null one reads as empty."""
        return Fields(self.raw.get(name), self.at(name))

    def has(self, name: str) -> bool:
        """Say whether the field is there and not null."""
        return self.raw.get(name) is not None

    def text(self, name: str) -> str:
        """Return a required, non-empty string."""
        value = self.raw.get(name)
        if not isinstance(value, str) or not value:
            raise DecodeError(self.at(name), "is missing" if value is None else "is not a string")
        return value

    def text_or(self, name: str, default: str = "") -> str:
        """Return a string, or the default when absent or null."""
        value = self.raw.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise DecodeError(self.at(name), f"is {type(value).__name__}, not a string")
        return value

    def flag(self, name: str) -> bool:
        """Return a boolean; absent reads as false."""
        value = self.raw.get(name, False)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise DecodeError(self.at(name), f"is {type(value).__name__}, not a boolean")
        return value

    def whole(self, name: str, default: int | None = None) -> int:
        """Return an integer; required when there is no default."""
        value = self.raw.get(name, default)
        if value is None:
            value = default
        if not isinstance(value, int) or isinstance(value, bool):
            raise DecodeError(self.at(name), "is missing" if value is None else "is not an integer")
        return value

    def units(self, name: str, default: int | None = None) -> Units:
        """Return a non-negative integer as Units."""
        try:
            return Units(self.whole(name, default))
        except UnitsError as error:
            raise DecodeError(self.at(name), str(error)) from error

    def quantity(self, name: str) -> Units:
        """Return a Kubernetes quantity as whole units."""
        try:
            return parse_units(self.raw.get(name))
        except UnitsError as error:
            raise DecodeError(self.at(name), str(error)) from error

    def time(self, name: str) -> datetime | None:
        """Return an RFC 3339 instant, or None when absent or null."""
        value = self.raw.get(name)
        if value is None:
            return None
        try:
            moment = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            raise DecodeError(self.at(name), f"{value!r} is not an RFC 3339 time") from None
        if moment.tzinfo is None:
            raise DecodeError(self.at(name), f"{value!r} has no time zone")
        return moment

    def children(self, name: str) -> Iterator["Fields"]:
        """Yield the objects of a list; an absent or null list is empty."""
        for index, item in enumerate(self._list(name)):
            yield Fields(item, f"{self.at(name)}[{index}]")

    def dicts(self, name: str) -> list[dict[str, Any]]:
        """Return the objects of a list as they are: no paths are made, for lists that are long."""
        items = self._list(name)
        for index, item in enumerate(items):
            if not isinstance(item, dict):
                raise DecodeError(f"{self.at(name)}[{index}]", "is not an object")
        return items

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings; absent or null is empty."""
        items = self._list(name)
        for index, item in enumerate(items):
            if not isinstance(item, str):
                raise DecodeError(f"{self.at(name)}[{index}]", "is not a string")
        return tuple(items)

    def text_map(self, name: str) -> dict[str, str]:
        """Return an object of strings; absent or null is empty."""
        value = self.raw.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise DecodeError(self.at(name), f"is {type(value).__name__}, not an object")
        for key, item in value.items():
            if not isinstance(item, str):
                raise DecodeError(f"{self.at(name)}[{key}]", "is not a string")
        return value

    def one_of(self, name: str, parse: Callable[[str], T], default: str) -> T:
        """Return an enumerated value; an unknown word is an error that quotes it."""
        word = self.text_or(name, default)
        try:
            return parse(word)
        except ValueError:
            raise DecodeError(self.at(name), f"{word!r} is not a known value") from None

    def _list(self, name: str) -> list[Any]:
        value = self.raw.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise DecodeError(self.at(name), f"is {type(value).__name__}, not a list")
        return value
