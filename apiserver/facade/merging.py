"""The host's options beside ours, as rows of one list; pure.

A source that both have is ours: the host's is the same contract with node names in it, and it is not
empty while raw names are denied. What is the host's keeps the metadata that the host gave it.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from apiserver.wire.items import Item, Row

_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
_HEAD: Final = frozenset({"kind", "apiVersion", "metadata"})
_SHOWN: Final = 120


def items(listed: bytes, ours: Collection[str]) -> tuple[Item, ...]:
    """Read the host's OptionList, in any order; leaves out `ours`. Raises ValueError for no such list."""
    try:
        found = msgspec.json.decode(listed)
        return tuple(_item(one) for one in found["items"] if one["metadata"]["name"] not in ours)
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a list of options: {type(error).__name__}") from error


def merged(theirs: Collection[Item], ours: Collection[Item]) -> tuple[Item, ...]:
    """Return one list in key order."""
    return tuple(sorted((*theirs, *ours), key=lambda item: item.key))


def _item(given: Mapping[str, Any]) -> Item:
    meta = given["metadata"]
    choices = (given.get("spec") or {}).get("items") or []
    texts = [one["description"] for one in choices if one.get("description")]
    row = Row(
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        uid=meta.get("uid", ""),
        created=_NEVER,
        labels=meta.get("labels") or {},
        body={key: value for key, value in given.items() if key not in _HEAD},
        cells=(
            len(choices),
            _cut(", ".join(one["value"] for one in choices)),
            _cut("; ".join(texts)),
        ),
        given=meta,
    )
    return Item(row, 0)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
