"""Told: what watchers of one list are told of its newest state, worked out once for all who are told the same."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from apiserver.wire import frames
from apiserver.wire.frames import Change, Event
from apiserver.wire.selectors import Selector
from apiserver.wire.states import State

_PIECE: Final = 64 * 1024
"""Bytes written at a time: a slow reader holds no more than that and its buffers."""
_MOST: Final = 256
"""Different questions are remembered; whoever asks yet another waits for an answer of its own."""


class Batch(NamedTuple):
    """Lines of events that belong together, in pieces for writing."""

    events: int
    pieces: tuple[bytes, ...]


def batch(lines: Sequence[bytes]) -> Batch:
    """Return lines in pieces; none but the last of a piece reaches beyond its size."""
    pieces, piece, size = [], list[bytes](), 0
    for line in lines:
        piece.append(line)
        size += len(line)
        if size >= _PIECE:
            pieces.append(b"".join(piece))
            piece, size = [], 0
    if piece:
        pieces.append(b"".join(piece))
    return Batch(len(lines), tuple(pieces))


@dataclass(slots=True)
class Told:
    """Of one list; forgotten as soon as there is a newer state."""

    _changes: dict[int, tuple[Change, ...]] = field(default_factory=dict)
    _batches: dict[Hashable, Batch] = field(default_factory=dict)

    def forget(self) -> None:
        """Forget all: the list has a newer state."""
        self._changes.clear()
        self._batches.clear()

    def events(self, known: State, newest: State, selector: Selector) -> tuple[Event, ...]:
        """Return what a watcher of `known` is told to know `newest`, the newest state."""
        changes = self._changes.get(known.version)
        if changes is None:
            changes = frames.changes(known, newest)
            if len(self._changes) < _MOST:
                self._changes[known.version] = changes
        return frames.selected(changes, selector)

    def batch(self, about: Hashable, make: Callable[[], Sequence[bytes]]) -> Batch:
        """Return the lines of what is asked `about`, made only if nobody has asked it before."""
        found = self._batches.get(about)
        if found is None:
            found = batch(make())
            if len(self._batches) < _MOST:
                self._batches[about] = found
        return found
