"""Rendered: the newest state of one list as bodies that were sent already, whole and compressed."""

import gzip
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

_MOST: Final = 512
"""Bodies remembered of one list: callers choose the forms, so their number must be bounded."""
_LEVEL: Final = 1
"""As upstream compresses: most of the gain at a tenth of the time."""


@dataclass(slots=True)
class Body:
    """An encoded document; compressed when somebody first wants it so."""

    plain: bytes
    packed: bytes | None = None

    def pack(self) -> bytes:
        """Compress it with gzip; takes about 10 ms a MB, so not in the event loop."""
        self.packed = gzip.compress(self.plain, _LEVEL, mtime=0)
        return self.packed


@dataclass(slots=True)
class Rendered:
    """Of one list; forgotten as soon as there is a newer state."""

    _bodies: dict[Hashable, tuple[int, Body]] = field(default_factory=dict)

    def forget(self) -> None:
        """Forget all: the list has a newer state."""
        self._bodies.clear()

    def body(self, about: Hashable, version: int, make: Callable[[], bytes]) -> Body:
        """Return what is asked `about` as it is at a version, made only if it was not made before."""
        found = self._bodies.get(about)
        if found is not None and found[0] == version:
            return found[1]
        made = Body(make())
        if found is not None or len(self._bodies) < _MOST:
            self._bodies[about] = (version, made)
        return made
