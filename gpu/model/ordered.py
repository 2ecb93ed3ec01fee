"""Sorted tuples that follow a few changes without being sorted anew."""

import bisect
import operator
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
    # What is alike at both ends is most of it, and is passed over without a set of all.
    begin = _alike(old, new)
    left, right = old[begin:], new[begin:]
    end = _alike(left[::-1], right[::-1])
    left, right = left[: len(left) - end], right[: len(right) - end]
    if not left or not right:
        return list(left), list(right)
    had, has = set(map(id, left)), set(map(id, right))
    return _without(left, has), _without(right, had)


def _alike(one: tuple[T, ...], other: tuple[T, ...]) -> int:
    """Return how many items at the beginning of both are the same objects."""
    try:
        return operator.indexOf(map(operator.is_, one, other), False)  # noqa: FBT003 - the one looked for
    except ValueError:
        return min(len(one), len(other))


def _without(items: Iterable[T], known: set[int]) -> list[T]:
    return [item for item in items if id(item) not in known]


def _place(items: list[T], item: T, key: Callable[[T], Sortable]) -> int:
    at = bisect.bisect_left(items, key(item), key=key)
    while items[at] is not item:
        at += 1
    return at
