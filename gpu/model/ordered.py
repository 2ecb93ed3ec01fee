"""Sorted tuples that follow a few changes without being sorted anew."""

import bisect
from collections.abc import Callable, Collection, Iterable
from typing import Final, TypeVar

T = TypeVar("T")
Sortable = tuple[object, ...]

_MANY: Final = 16
"""One change in so many items, and going over all of them is cheaper than looking each up."""


def resort(
    items: tuple[T, ...], gone: Collection[T], come: Collection[T], key: Callable[[T], Sortable]
) -> tuple[T, ...]:
    """Return sorted items without those gone, which are told by identity, and with those that came.

    Costs a copy, and for each change a search by `key`; a new sort when there are many changes.
    """
    if not gone and not come:
        return items
    if (len(gone) + len(come)) * _MANY > len(items):
        out = set(map(id, gone))
        return tuple(sorted((*(item for item in items if id(item) not in out), *come), key=key))
    left = list(items)
    for item in gone:
        del left[_place(left, item, key)]
    for item in come:
        bisect.insort(left, item, key=key)
    return tuple(left)


def changes(old: tuple[T, ...], new: tuple[T, ...]) -> tuple[list[T], list[T]]:
    """Return the items of each of two tuples that the other has not, told by identity."""
    if old is new:
        return [], []
    had, has = set(map(id, old)), set(map(id, new))
    if had == has:
        return [], []
    return _without(old, has), _without(new, had)


def _without(items: Iterable[T], known: set[int]) -> list[T]:
    return [item for item in items if id(item) not in known]


def _place(items: list[T], item: T, key: Callable[[T], Sortable]) -> int:
    at = bisect.bisect_left(items, key(item), key=key)
    while items[at] is not item:
        at += 1
    return at
