"""The few JSON Patch operations used (RFC 6902), idempotent.

A patch is made by changing a copy, so an operation that changes nothing is left out, and what is put
below an object that is not there yet brings that object along.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Operation = dict[str, Any]


@dataclass(slots=True)
class Editor:
    """An object and the operations that make it what it is to be; `before` is never changed."""

    before: Mapping[str, Any]
    operations: list[Operation] = field(default_factory=list)
    after: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.after = copy.deepcopy(dict(self.before))

    def put(self, path: Sequence[str], value: object) -> None:
        """Set a member; objects on the way to it are made where they are absent or null."""
        parent, made = self.after, ""
        *way, last = path
        for depth, name in enumerate(way, start=1):
            if not isinstance(parent.get(name), dict):
                parent[name] = {}
                made = made or pointer(path[:depth])
            parent = parent[name]
        if not made and last in parent and parent[last] == value:
            return
        parent[last] = copy.deepcopy(value)
        if made:
            value = self.at(made)
        # `add` of a member that is there replaces it.
        self.operations.append(
            {"op": "add", "path": made or pointer(path), "value": copy.deepcopy(value)}
        )

    def remove(self, path: Sequence[str]) -> None:
        """Take a member away, if it is there."""
        parent: Any = self.after
        for name in path[:-1]:
            parent = parent.get(name) if isinstance(parent, dict) else None
        if isinstance(parent, dict) and path[-1] in parent:
            del parent[path[-1]]
            self.operations.append({"op": "remove", "path": pointer(path)})

    def at(self, where: str) -> object:
        """Return what a pointer points to now."""
        found: Any = self.after
        for part in where.split("/")[1:]:
            found = found[part.replace("~1", "/").replace("~0", "~")]
        return found


def pointer(path: Sequence[str]) -> str:
    """Return the JSON Pointer of a member (RFC 6901)."""
    return "".join(f"/{name.replace('~', '~0').replace('/', '~1')}" for name in path)
