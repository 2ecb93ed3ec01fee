"""Bytes of a body, JSON or YAML, to one JSON object and the members that stand in it twice.

YAML is read as JSON would be: no aliases, no dates, no keys but texts. It is read slowly, so less of it.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple, cast

import msgspec
import yaml

from apiserver.wire import status
from apiserver.wire.negotiate import JSON, YAML
from apiserver.wire.status import BadRequest
from apiserver.wire.values import Json, JsonObject

MEDIA: Final = (JSON, YAML)
YAML_LIMIT: Final = 256 * 1024
"""Bytes; JSON may have as many as a body may."""
_RESOLVERS: Final = {
    first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:timestamp"]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
"""What an unquoted word means: all but dates, which are texts in JSON."""


class Body(NamedTuple):
    """What was sent, and the paths of members that an object of it names more than once."""

    content: JsonObject
    doubled: tuple[str, ...] = ()


def media(content_type: str | None) -> str:
    """Return the media type of a body; none said is JSON. Raises UnsupportedMediaType."""
    found = (content_type or JSON).partition(";")[0].strip().lower()
    if found not in MEDIA:
        raise status.unsupported_media_type(MEDIA)
    return found


def decode(body: bytes, media: str) -> Body:
    """Read one object. Raises BadRequest, or TooLarge for more YAML than is read."""
    if media == YAML and len(body) > YAML_LIMIT:
        raise status.TooLarge(f"a YAML body may have {YAML_LIMIT >> 10} KiB; JSON may have more")
    try:
        read = _from_yaml(body) if media == YAML else _from_json(body)
    except (ValueError, TypeError, RecursionError, yaml.YAMLError, msgspec.MsgspecError) as error:
        word = media.rpartition("/")[2].upper()
        raise BadRequest(f"the body of the request is no {word}: {str(error)[:256]}") from error
    if not isinstance(read.content, dict):
        raise BadRequest("the body of the request is no JSON object")
    return read


class _Doubled(dict[str, object]):
    """An object that names members more than once; the last value counts."""

    names: tuple[str, ...] = ()


def _from_json(body: bytes) -> Body:
    content = msgspec.json.decode(
        body
    )  # knows what is no JSON; the other one knows what stands twice
    seen: list[_Doubled] = []

    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        made = dict(found)
        return made if len(made) == len(found) else _noted(made, [key for key, _ in found], seen)

    tree = json.loads(body, object_pairs_hook=pairs)
    return Body(cast("JsonObject", content), tuple(_paths(tree, "")) if seen else ())


def _from_yaml(body: bytes) -> Body:
    loader = _Loader(body)
    try:
        tree = loader.get_single_data()
    finally:
        loader.dispose()
    # What JSON cannot say, or not in UTF-8, ends here and not in the answer.
    content = msgspec.json.decode(msgspec.json.encode(_plain(tree)))
    return Body(cast("JsonObject", content), tuple(_paths(tree, "")) if loader.seen else ())


def _noted(made: dict[str, object], keys: list[str], seen: list[_Doubled]) -> _Doubled:
    doubled = _Doubled(made)
    doubled.names = tuple(key for key, times in Counter(keys).items() if times > 1)
    seen.append(doubled)
    return doubled


def _paths(tree: object, path: str) -> Iterator[str]:
    if isinstance(tree, list):
        for index, part in enumerate(tree):
            yield from _paths(part, f"{path}[{index}]")
    if not isinstance(tree, dict):
        return
    for name in getattr(tree, "names", ()):
        yield f"{path}.{name}".removeprefix(".")
    for name, part in tree.items():
        yield from _paths(part, f"{path}.{name}")


def _plain(tree: object) -> Json:
    if isinstance(tree, dict):
        return {name: _plain(part) for name, part in tree.items()}
    if isinstance(tree, list):
        return [_plain(part) for part in tree]
    if not isinstance(tree, str | int | float | bool | None):
        raise TypeError(f"a {type(tree).__name__} is nothing that JSON has")
    return tree


class _Loader(yaml.SafeLoader):
    """Written in Python and so safe from deep nesting, where libyaml's ends the process."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self.yaml_implicit_resolvers = _RESOLVERS
        self.seen: list[_Doubled] = []

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not read")
        return super().compose_node(parent, index)

    def construct_members(self, node: yaml.MappingNode) -> dict[str, object]:
        pairs: list[tuple[str, object]] = [
            (_key(key), self.construct_object(value, deep=True)) for key, value in node.value
        ]
        made = dict(pairs)
        return (
            made if len(made) == len(pairs) else _noted(made, [key for key, _ in pairs], self.seen)
        )


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise yaml.YAMLError("a key is no text")
    return str(node.value)


_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.construct_members)
