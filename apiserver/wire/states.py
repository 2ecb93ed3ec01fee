"""The successive states of one list, their versions, and which of them are remembered.

A state is what a list held at a version. Rows that change from one state to the next get versions of
their own above the old state's and up to the new one's, so that a watcher cut in mid-change resumes
from the old state and misses nothing. Where there are too few numbers in between, several rows share
the new state's own version; such a state is `shared`, and resuming exactly from it goes back to the
state before (repeats are allowed, gaps are not).
"""

import bisect
import operator
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from apiserver.wire.items import Item, Key, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A list at a version: its items in key order, and what went away lately and when."""

    version: int
    items: tuple[Item, ...] = ()
    gone: Mapping[Key, Item] = field(default_factory=dict)
    """The last content of each removed object, with the version of its removal."""
    shared: bool = False

    def find(self, key: Key) -> Item | None:
        """Return the object of that key."""
        at = bisect.bisect_left(self.items, key, key=lambda item: item.key)
        found = self.items[at] if at < len(self.items) else None
        return found if found is not None and found.key == key else None


def first(rows: Iterable[Row], version: int) -> State:
    """Return the state nothing is known before."""
    return State(
        version=version,
        items=tuple(Item(row, version) for row in sorted(rows, key=lambda row: row.key)),
    )


def following(
    before: State, rows: Iterable[Row], version: int, *, after: int = 0, forget: int = 0
) -> State | None:
    """Return the state after `before`, None when nothing changed.

    `version` must be above `before`'s and above `after`, up to which readers of `before` were told
    that they know all; removals older than `forget` are forgotten.
    """
    known = {item.key: item for item in before.items}
    fresh = {row.key: row for row in rows}
    changed = [key for key, row in fresh.items() if key not in known or known[key].row != row]
    removed = [key for key in known if key not in fresh]
    order = sorted([*changed, *removed])
    if not order:
        return None
    lowest = max(before.version, after) + 1
    numbers = {
        key: max(lowest, version - later)
        for later, key in zip(_down(len(order)), order, strict=True)
    }
    gone = {
        key: item
        for key, item in before.gone.items()
        if key not in fresh and item.version >= forget
    }
    gone |= {key: Item(known[key].row, numbers[key]) for key in removed}
    return State(
        version=version,
        items=tuple(
            Item(fresh[key], numbers[key]) if key in numbers else known[key]
            for key in sorted(fresh)
        ),
        gone=gone,
        shared=_is_shared(numbers.values(), version),
    )


def merged(
    parts: Iterable[State], version: int, before: State | None, forget: int = 0
) -> State | None:
    """Return one state over several lists with disjoint keys; None when it is as `before`.

    A part may be one that was forgotten and made anew, with new versions for rows that are as they
    were, with old ones for rows that come back, and without what went away: here rows keep their
    version or get the newest, and removals are remembered as `following` remembers them.
    """
    kept = list(parts)
    items = sorted((item for part in kept for item in part.items), key=lambda i: i.key)
    gone = {key: item for part in kept for key, item in part.gone.items()}
    if before is None:
        return State(version=version, items=tuple(items), gone=gone)
    known = {item.key: item for item in before.items}
    items = [_renumbered(item, known.get(item.key), before.version, version) for item in items]
    if len(items) == len(known) and all(map(operator.is_, items, before.items)):
        return None
    present = {item.key for item in items}
    left = {
        key: item
        for key, item in before.gone.items()
        if key not in present and item.version >= forget
    }
    for key in known.keys() - present:
        told = gone.get(key)
        left[key] = (
            told if told and told.version > before.version else Item(known[key].row, version)
        )
    news = [item.version for item in (*items, *left.values()) if item.version > before.version]
    return State(version=version, items=tuple(items), gone=left, shared=_is_shared(news, version))


def _renumbered(item: Item, known: Item | None, before: int, version: int) -> Item:
    """Return what is known if the row is the same, else the item with a version above `before`."""
    if known is not None and (known.row is item.row or known.row == item.row):
        return known
    return item if item.version > before else Item(item.row, version)


def _down(count: int) -> range:
    return range(count - 1, -1, -1)


def _is_shared(numbers: Iterable[int], version: int) -> bool:
    return sum(number == version for number in numbers) > 1


@dataclass(slots=True)
class _Entry:
    """A remembered state; it is known to have held up to `through`."""

    state: State
    through: int
    adjacent: bool
    """No published view of the world lies between this state and the one before."""


class History:
    """The remembered states of one list, oldest first; bounded."""

    __slots__ = ("_entries",)

    def __init__(self, most: int = 100) -> None:
        self._entries: deque[_Entry] = deque(maxlen=most)

    @property
    def latest(self) -> State | None:
        """The newest state."""
        return self._entries[-1].state if self._entries else None

    @property
    def oldest(self) -> int:
        """The version of the oldest state remembered, 0 for none."""
        return self._entries[0].state.version if self._entries else 0

    def add(self, state: State, *, adjacent: bool) -> None:
        """Remember a newer state."""
        self._entries.append(_Entry(state, state.version, adjacent))

    def held_through(self, version: int) -> None:
        """Note that the newest state still holds at a version."""
        if self._entries:
            self._entries[-1].through = max(self._entries[-1].through, version)

    def at(self, version: int) -> State | None:
        """Return the state known to have held at exactly that version."""
        for entry in reversed(self._entries):
            if entry.state.version <= version:
                return entry.state if version <= entry.through else None
        return None

    def after(self, state: State) -> State | None:
        """Return the state remembered next after one of these, None after the newest.

        A watcher cut in mid-change has seen a part of it. Resumed at the state before, it is led
        through this one: from there to the newest, what came and went again would not be told, and
        the part it has seen would stay with it for ever.
        """
        return next((e.state for e in self._entries if e.state.version > state.version), None)

    def resume(self, version: int) -> State | None:
        """Return the state from which a watcher at that version misses nothing, None for 410.

        What comes next to it is `after` that state, not the newest.
        """
        entries = list(self._entries)
        for index in range(len(entries) - 1, -1, -1):
            entry = entries[index]
            if entry.state.version > version:
                continue
            if entry.state.version == version and entry.state.shared:
                return entries[index - 1].state if index else None
            later = index + 1 < len(entries) and version > entry.through
            return None if later and not entries[index + 1].adjacent else entry.state
        return None
