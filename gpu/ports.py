"""What the domain asks of the outside, as small Protocols: Reader, Writer, Recorder, Clock.

`gpu.cluster` and the fakes of the tests provide them; only `apiserver/wiring.py` knows both sides.
Writer's methods raise an exception of the caller's ApiError tree; `Outcome` tells the domain what a
failed write means without it having to know that tree.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Protocol, TypeVar

from gpu.objects.kinds import Kind
from gpu.objects.meta import ObjectKey

T = TypeVar("T")
Json = Mapping[str, Any]
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
"""Kinds of Kubernetes itself only; lists that are merged by a key are told so by the kind."""


class Outcome(StrEnum):
    """What a failed write means (domain contract 6, Writes)."""

    CONFLICT = "conflict"
    """Somebody else wrote first: contended, nothing of ours was written."""
    UNKNOWN = "unknown"
    """Timeout, cut line, 5xx, 429: it may or may not have been written."""
    REFUSED = "refused"
    """A definite no: any other 4xx."""
    GONE = "gone"
    """404: the object is not there (any more)."""
    STALE = "stale"
    """What was read past the cache first contradicts the view: nothing was sent. Never of an error."""


class Clock(Protocol):
    """Two clocks: wall time for what is stored, monotonic seconds for how long something took."""

    def now(self) -> datetime:
        """Return the wall time, in UTC."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""


class Reader(Protocol):
    """Typed objects as the watch has shown them so far."""

    def items(self, view: type[T]) -> tuple[T, ...]:
        """Return every well-formed object of a view, in key order."""

    def malformed(self, view: type[T]) -> Mapping[ObjectKey, str]:
        """Return the objects of a view that could not be read, and why."""

    def served(self, view: type[T]) -> bool:
        """Say whether the API server serves the view's kind at all."""

    def version(self, view: type[T]) -> int:
        """Return the highest resourceVersion the view's watch has proved: event, bookmark or list.

        Whatever was written at or before it is in `items` as it was stored then, or later; 0 when
        nothing has been seen yet. An event of an object whose typed view did not change counts too.
        """

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after each change of a typed view; returns what ends it."""


class Listing(Protocol):
    """All objects of a kind as of one resourceVersion."""

    @property
    def items(self) -> Sequence[dict[str, Any]]:
        """The objects, as JSON."""

    @property
    def resource_version(self) -> str:
        """The version the list is consistent at."""


class Writer(Protocol):
    """Writes and direct reads, one object at a time; each answers with the object as stored."""

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> dict[str, Any]:
        """Read one object past the cache."""

    async def list_all(
        self, kind: Kind, namespace: str | None = None, *, label_selector: str | None = None
    ) -> Listing:
        """List a kind past the cache, in one namespace or whole; nothing written before is missing."""

    async def create(
        self, kind: Kind, body: Json, *, field_manager: str | None = None, dry_run: bool = False
    ) -> dict[str, Any]:
        """Create; the namespace is the body's."""

    async def patch(
        self,
        kind: Kind,
        name: str,
        patch: Json,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
        dry_run: bool = False,
        content_type: str = MERGE_PATCH,
    ) -> dict[str, Any]:
        """Merge-patch, or another kind of patch by `content_type`.

        Put `metadata.resourceVersion` in the patch to be refused on a conflict.
        """

    async def apply(
        self,
        kind: Kind,
        name: str,
        body: Json,
        namespace: str | None = None,
        *,
        field_manager: str,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Server-side apply with force."""

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        """Delete; with a uid, only that very object, and with a version only as it was then."""

    def outcome(self, error: Exception) -> Outcome | None:
        """Say what a failed call means; None when the exception is not of this writer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """Ways to the API servers; closed with the block that opened them."""

    each: Mapping[str, Writer]
    """One API server each, by `host:port`; empty where their addresses are not known."""
    usual: Writer
    """The way everything else goes: to any one of them."""
    usual_name: str


OpenDoors = Callable[[], AbstractAsyncContextManager[Doors]]


class Recorder(Protocol):
    """Kubernetes Events."""

    def event(
        self, regarding: Kind, key: ObjectKey, uid: str, *, warning: bool, reason: str, note: str
    ) -> None:
        """Queue one Event; never waits, never raises."""
