"""Requests made from a served OpenAPI v3 document, and what it says of the answer to each.

Every documented parameter gets every value of POOL; every part of a documented body is left out, or
gets what does not fit it. What is sent is told apart by its operation and by what was done to it.
"""

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import jsonschema

Json = Any
Document = Mapping[str, Any]

POOL: Final = (
    *("", "0", "1", "2", "-1", "7.5", "9" * 20, " 1", "0x1", "true", "false", "True", "null", "[]"),
    *(
        "x",
        "é",
        "\x00",
        "a b",
        "x" * 2000,
        "a=b",
        "a in (b,c)",
        "!a",
        "a in (",
        "metadata.name=h100",
    ),
    *("spec.x=1", "NotOlderThan", "Exact", "All", "Strict", "Warn", "Ignore", "e30", "%", "a,b"),
)
"""Values of every kind that a parameter may have, fitting or not."""
NAMES: Final = ("h100", "gpuclass", "total", "waits", "n1", "absent", "A_B", "x" * 300)
NAMESPACES: Final = ("tenant-a", "tenant-b", "nowhere", "A_B")
OTHER_TYPES: Final[tuple[Json, ...]] = (
    None,
    True,
    "x",
    "",
    7,
    -1,
    2.5,
    2**40,
    [],
    ["x"],
    {},
    {"x": 1},
)


@dataclass(frozen=True)
class Operation:
    """One documented way to ask."""

    method: str
    path: str
    parameters: tuple[Mapping[str, Any], ...]
    answers: Mapping[str, Any]
    asked: Mapping[str, Any] | None

    @property
    def queries(self) -> list[str]:
        return [one["name"] for one in self.parameters if one["in"] == "query"]


@dataclass(frozen=True)
class Request:
    """What is sent. `fits` says of a body whether its `spec` is as documented; None where that is not asked."""

    operation: Operation
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Json = None
    accept: str = "application/json"
    fits: bool | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Description:
    """A served document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.operations = [
            Operation(
                method=method.upper(),
                path=path,
                parameters=(*item.get("parameters", ()), *said.get("parameters", ())),
                answers=said["responses"],
                asked=said.get("requestBody"),
            )
            for path, item in document["paths"].items()
            for method, said in item.items()
            if method != "parameters"
        ]

    def problems(self, schema: Mapping[str, Any], value: Json) -> list[str]:
        """Say what in a value is not as a schema has it: what does not fit, and what is not described."""
        whole = {**schema, "components": self.document["components"]}
        found = jsonschema.Draft202012Validator(whole).iter_errors(value)
        return [error.message for error in found] + list(self._undescribed(schema, value, ""))

    def resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in schema or "allOf" in schema:
            reference = schema["$ref"] if "$ref" in schema else schema["allOf"][0]["$ref"]
            schema = self.document["components"]["schemas"][reference.rsplit("/", 1)[-1]]
        return schema

    def _undescribed(self, schema: Mapping[str, Any], value: Json, at: str) -> Iterator[str]:
        schema = self.resolved(schema)
        if isinstance(value, list):
            for part in value:
                yield from self._undescribed(schema.get("items", {}), part, f"{at}[]")
        elif isinstance(value, dict) and "properties" in schema:
            for name, part in value.items():
                if name in schema["properties"]:
                    yield from self._undescribed(schema["properties"][name], part, f"{at}.{name}")
                else:
                    yield f"{at}.{name} is not described"

    def requests(self) -> Iterator[Request]:
        """Yield every request there is to make."""
        for operation in self.operations:
            paths = list(_paths(operation.path))
            body = self.example(operation)
            for path in paths:
                for accept in self.accepts(operation):
                    yield Request(operation, path, body=body, accept=accept)
            for name, value in itertools.product(operation.queries, POOL):
                yield Request(operation, paths[0], ((name, value),), body)
                if name == "watch" or "watch" not in operation.queries:
                    continue
                ends = (("watch", "true"), ("timeoutSeconds", "1"))
                if name != "timeoutSeconds":
                    yield Request(operation, paths[0], ((name, value), *ends))
            if operation.asked:
                yield from self.spoiled(operation)

    def mixed(self, dice: random.Random) -> Request:
        """Return a request with several parameters at once."""
        operation = dice.choice(self.operations)
        names = dice.sample(operation.queries, k=min(len(operation.queries), dice.randint(2, 5)))
        query = tuple((name, dice.choice(POOL)) for name in names if name != "timeoutSeconds")
        path = dice.choice(list(_paths(operation.path)))
        accept = dice.choice(self.accepts(operation))
        return Request(operation, path, query, self.example(operation), accept)

    def accepts(self, operation: Operation) -> list[str]:
        """Return the media types that some answer is documented in, and one that none is."""
        found = {media for said in operation.answers.values() for media in said.get("content", ())}
        return [*sorted(found), "text/html"]

    def example(self, operation: Operation) -> Json:
        """Return a body that fits; None where none is asked for."""
        if not operation.asked:
            return None
        schema = self.resolved(operation.asked["content"]["application/json"]["schema"])
        (kind,) = schema["x-kubernetes-group-version-kind"]
        made = {"apiVersion": f"{kind['group']}/{kind['version']}", "kind": kind["kind"]}
        return {
            **made,
            "metadata": {"name": "asked"},
            "spec": self.made(schema["properties"]["spec"]),
        }

    def made(self, schema: Mapping[str, Any]) -> Json:
        """Return the value of a schema that has all it may have; of an object of choices one of them."""
        schema = self.resolved(schema)
        if "properties" in schema:
            names = list(schema["properties"])
            chosen = names[:1] if schema.get("maxProperties") == 1 else names
            return {name: self.made(schema["properties"][name]) for name in chosen}
        if schema.get("type") == "array":
            return [self.made(schema["items"])]
        plain = {"object": {"gpu.cozystack.io/total": 1}, "boolean": True}
        plain["integer"] = max(1, schema.get("minimum", 1))
        return plain.get(schema.get("type", ""), schema.get("enum", ["h100"])[0])

    def spoiled(self, operation: Operation) -> Iterator[Request]:
        """Yield a body for each part of `spec` that is left out or is of another type."""
        schema = operation.asked["content"]["application/json"]["schema"]
        spec = self.resolved(schema)["properties"]["spec"]
        whole = self.example(operation)
        path = next(_paths(operation.path))
        for changed in _changed(whole["spec"]):
            wrong = {**spec, "components": self.document["components"]}
            fits = jsonschema.Draft202012Validator(wrong).is_valid(changed)
            yield Request(operation, path, body={**whole, "spec": changed}, fits=fits)
        for name, value in itertools.product(("metadata", "status", "kind", "more"), OTHER_TYPES):
            yield Request(operation, path, body={**whole, name: value})


def _paths(template: str) -> Iterator[str]:
    for namespace, name in itertools.product(NAMESPACES, NAMES):
        path = template.replace("{namespace}", namespace).replace("{name}", name)
        if "{name}" in template or name == NAMES[0]:
            yield path
        if "{namespace}" not in template and "{name}" not in template:
            return


def _changed(value: Json) -> Iterator[Json]:
    """Yield a value with each part of it replaced, or left out."""
    yield from OTHER_TYPES
    if isinstance(value, dict):
        for name, part in value.items():
            yield {key: one for key, one in value.items() if key != name}
            for other in _changed(part):
                yield {**value, name: other}
