"""Specs of VMIs drawn from KubeVirt's own schema: whatever its kind may say, in small pieces.

hypothesis-jsonschema would do this, and fails with the Hypothesis that is pinned.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

Json = dict[str, Any]

DEPTH: Final = 6
"""So deep an object has no members but those it must have."""
WORDS: Final = (
    "",
    "a",
    "b-1",
    "virtio",
    "tcp",
    "x/y",
    "1",
    "100m",
    "64Mi",
    "2006-01-02T15:04:05Z",
    "ä~",
)
_AMOUNTS: Final = ("1", "250m", "64Mi", 1, 0)


class Drawn:
    """Draws values of a structural schema by one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def spec(self, schema: Mapping[str, Any], base: Json, *, most: int = 3) -> Json:
        """Return `base` with up to `most` members of the schema and of its domain beside it."""
        made = {**base, "domain": dict(base["domain"])}
        domain = schema["properties"]["domain"]
        for part, told, taken in (
            (made, schema, {"domain"}),
            (made["domain"], domain, {"devices", "resources"}),
        ):
            free = sorted(told["properties"].keys() - taken - part.keys())
            for name in self.random.sample(free, self.random.randint(0, most)):
                part[name] = self.value(told["properties"][name])
        return made

    def value(self, schema: Mapping[str, Any], depth: int = 0) -> Any:
        """Return a value that the schema allows."""
        if "enum" in schema or schema.get("x-kubernetes-int-or-string"):
            return self.random.choice(schema.get("enum", _AMOUNTS))
        match schema.get("type"):
            case "object":
                return self._object(schema, depth)
            case "array":
                count = 0 if depth >= DEPTH else self.random.randint(0, 2)
                return [self.value(schema["items"], depth + 1) for _ in range(count)]
            case "boolean":
                return self.random.random() < 0.5
            case "integer" | "number":
                least = int(schema.get("minimum", 0))
                return least + self.random.choice((0, 1, 2, 600, 65536))
            case _:
                return self.random.choice(WORDS)

    def _object(self, schema: Mapping[str, Any], depth: int) -> Json:
        members: Mapping[str, Any] = schema.get("properties", {})
        must: Sequence[str] = schema.get("required", ())
        may = sorted(members.keys() - set(must))
        count = 0 if depth >= DEPTH else min(len(may), self.random.randint(0, 3))
        made = {
            name: self.value(members[name], depth + 1)
            for name in (*must, *self.random.sample(may, count))
        }
        each = schema.get("additionalProperties")
        if isinstance(each, Mapping) and self.random.random() < 0.5:
            made[self.random.choice(("a", "example.com/b"))] = self.value(each, depth + 1)
        return made
