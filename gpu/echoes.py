"""Echoes: what own writes left behind, laid over what the watch shows, and told from news."""

import bisect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from gpu.model import ordered
from gpu.objects.binders import GPUBinder
from gpu.objects.classes import GPUClass
from gpu.objects.meta import HasMeta, ObjectKey
from gpu.objects.nodes import GPUNode

Items = tuple[HasMeta, ...]
_MANY: Final = 16
"""More than one object in so many is ours: one walk finds them sooner than as many searches."""
_OURS: Final[Mapping[type, tuple[str, ...]]] = {
    GPUClass: ("status",),
    GPUNode: ("resources",),
    GPUBinder: ("term", "holder", "settings", "conditions"),
}
"""Of kinds whose numbers are written with no version named: what is the leader's alone."""


@dataclass(frozen=True, slots=True)
class Own:
    """What a write of ours, or a direct read, left behind; no item means that the uid is gone."""

    uid: str
    version: int = 0
    item: HasMeta | None = None


def overlay(
    items: Items, own: Mapping[ObjectKey, Own], proved: int
) -> tuple[Items, dict[ObjectKey, Own]]:
    """Lay what we know over what the watch showed up to version `proved`, in key order.

    Returns the items and the knowledge still needed: an answer until the watch has proved its
    version, a deletion until the watch has dropped that uid.
    """
    if not own:
        return items, {}
    needed: dict[ObjectKey, Own] = {}
    shown = list(items)
    dropped: list[int] = []
    added: list[HasMeta] = []
    places = _places(items, own)
    for key, known in own.items():
        at = places.get(key)
        if at is None:
            if known.item is not None and proved < known.version:
                needed[key] = known
                added.append(known.item)
        elif known.item is None:
            if items[at].meta.uid == known.uid:
                needed[key] = known
                dropped.append(at)
        elif items[at].meta.version < known.version:
            needed[key] = known
            shown[at] = known.item
    for at in sorted(dropped, reverse=True):
        del shown[at]
    for item in added:
        bisect.insort(shown, item, key=_key_of)
    return tuple(shown), needed


def is_merged(before: HasMeta | None, answer: HasMeta) -> bool:
    """Say whether the answer of a write shows what somebody else had written since we read the object.

    A write that names no version succeeds all the same. Finalizers are put on and off with one named.
    """
    fields = _OURS.get(type(answer))
    if before is None or fields is None:
        return False
    ours: dict[str, Any] = {name: getattr(answer, name) for name in fields}
    meta = replace(before.meta, finalizers=answer.meta.finalizers)
    return bool(replace(cast("Any", before), meta=meta, **ours) != answer)


def has_news(before: Items, shown: Items, own: Mapping[ObjectKey, Own]) -> bool:
    """Say whether anything is there anew, says something else or is no more, which we do not know.

    What our own writes have made of an object is no news. Costs a walk where anything has changed.
    """
    gone, come = ordered.changes(before, shown)
    left = {item.meta.key: item for item in gone}
    for item in come:
        if left.pop(item.meta.key, None) != item and not _is_echo(item, own.get(item.meta.key)):
            return True
    return any(key not in own or own[key].item is not None for key in left)


def _is_echo(shown: HasMeta, own: Own | None) -> bool:
    """Say whether an object is shown no newer than we know it."""
    if own is None or own.uid != shown.meta.uid:
        return False
    return own.item is None or shown.meta.version <= own.version


def find(items: Items, key: ObjectKey) -> HasMeta | None:
    """Return the object of a key, of items in key order."""
    at = bisect.bisect_left(items, key, key=_key_of)
    return items[at] if at < len(items) and items[at].meta.key == key else None


def _places(items: Items, own: Mapping[ObjectKey, Own]) -> dict[ObjectKey, int]:
    """Return where each object that we know of stands, of those that the watch showed."""
    if len(own) * _MANY > len(items):
        return {item.meta.key: at for at, item in enumerate(items) if item.meta.key in own}
    found = {key: bisect.bisect_left(items, key, key=_key_of) for key in own}
    return {key: at for key, at in found.items() if at < len(items) and items[at].meta.key == key}


def _key_of(item: HasMeta) -> ObjectKey:
    return item.meta.key
