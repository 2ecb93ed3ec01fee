"""Store: typed objects of one kind in memory, and a change signal without a payload.

Its reflector is the only writer; readers may be on any thread, since a read gives out a finished
tuple. The signal is sent only when something a decision may look at changed: a typed view (compared
with `==`, where resourceVersions and heartbeats do not count), the set of malformed objects, or
whether the kind is served. The newest object is kept in any case, so that a write carries the
newest resourceVersion.
"""

import asyncio
import bisect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from gpu.errors import DecodeError
from gpu.objects.kinds import Kind
from gpu.objects.meta import HasMeta, ObjectKey

T = TypeVar("T", bound=HasMeta)
Json = Mapping[str, Any]
Report = Callable[[Kind, ObjectKey, DecodeError], None]

_NOWHERE: Final = ObjectKey("", "")
MOST_LINGERING: Final = 1024
"""Deleted objects that stay for their last word; the longest gone go first."""


class Store(Generic[T]):
    """Objects of one kind by key. `decode` raises DecodeError for what it cannot read.

    An object that cannot be decoded is in `malformed` and in nothing else, also when an older
    version of it could be: what it holds is unknown, which is not the same as nothing.

    One that was deleted stays, as its last event shows it, where `lingers` says so of it: a pod may be
    there for no longer after its end than a reader takes to look again. A new list drops it.
    """

    def __init__(
        self,
        kind: Kind,
        decode: Callable[[Json], T],
        report: Report | None = None,
        *,
        lingers: Callable[[T], bool] | None = None,
    ) -> None:
        self.kind = kind
        self.has_synced = False
        """Whether a first list is complete."""
        self.served = True
        """Whether the server serves the kind, as far as is known."""
        self.resource_version = 0
        """How far the list, its events and bookmarks have come; goes back only with a new list."""
        self.generation = 0
        """Counts the signals."""
        self._decode = decode
        self._report = report
        self._objects: dict[ObjectKey, T] = {}
        self._order: list[ObjectKey] = []
        self._sorted: list[T] = []
        """The objects as `_order` has their keys, so that a change costs a search, not a new list."""
        self._malformed: dict[ObjectKey, DecodeError] = {}
        self._versions: dict[ObjectKey, str] = {}  # of malformed objects
        self._lingers = lingers
        self._lingering: dict[ObjectKey, None] = {}
        self._edits = 0
        """Counts what was done to `_sorted`."""
        self._items: tuple[int, tuple[T, ...]] = (0, ())
        """What was given out last, and after how many edits."""
        self._subscribers: list[Callable[[], None]] = []
        self._synced = asyncio.Event()

    # Reading.

    def items(self) -> tuple[T, ...]:
        """Return every well-formed object in key order; the same tuple until something changes."""
        given = self._items
        if given[0] != self._edits:
            # The number is read first: another thread must not keep what is older than it says.
            given = self._items = (self._edits, tuple(self._sorted))
        return given[1]

    def get(self, key: ObjectKey) -> T | None:
        """Return one object, or None when it is not there or malformed."""
        return self._objects.get(key)

    def version_of(self, key: ObjectKey) -> str:
        """Return the version one object is held at, well-formed or not; empty when it is not there."""
        held = self._objects.get(key)
        return held.meta.resource_version if held else self._versions.get(key, "")

    def in_namespace(self, namespace: str) -> tuple[T, ...]:
        """Return the objects of one namespace in name order, without a look at any other."""
        first = bisect.bisect_left(self._order, ObjectKey(namespace, ""))
        last = bisect.bisect_left(self._order, ObjectKey(namespace + "\0", ""))
        return tuple(self._sorted[first:last])

    @property
    def malformed(self) -> Mapping[ObjectKey, DecodeError]:
        """Objects that are in the cluster and cannot be read, and why."""
        return MappingProxyType(self._malformed)

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed`, which must not raise, after each change; returns what ends it."""
        self._subscribers.append(changed)

        def end() -> None:
            if changed in self._subscribers:
                self._subscribers.remove(changed)

        return end

    async def wait_synced(self) -> None:
        """Wait for the first complete list; waits on while the kind is not served."""
        await self._synced.wait()

    # Writing: the reflector's.

    def listing(self) -> "Listing[T]":
        """Begin to take in a new list; nothing is seen of it before it is finished."""
        return Listing(self)

    def put(self, raw: Json) -> None:
        """Take in an added or modified object; one that is not newer than ours is ignored."""
        key, version = _identity(raw)
        if self._is_old(key, version):
            return
        self._advance(version)
        before = self._objects.get(key)
        seen = self._read(key, raw)
        if isinstance(seen, DecodeError):
            changed = before is not None or str(self._malformed.get(key)) != str(seen)
            self._forget(key)
            self._malformed[key] = seen
            self._versions[key] = version
        else:
            changed = before is None or before != seen
            self._malformed.pop(key, None)
            self._keep(key, seen, is_new=before is None)
        if changed:
            self._signal()

    def remove(self, raw: Json) -> None:
        """Take out a deleted object; one that is older than ours is ignored."""
        key, version = _identity(raw)
        if self._is_old(key, version, equal=False):
            return
        self._advance(version)
        changed = self._stay(key, raw) if self._lingers else self._forget(key)
        if changed:
            self._signal()

    def bookmark(self, raw: Json) -> None:
        """Note how far the watch has come without a change."""
        self._advance(_identity(raw)[1])

    def not_served(self) -> None:
        """Empty the store, since the kind is not served (any more)."""
        if not self.served and not self.has_synced:
            return
        self._replace({}, {}, {})
        self.served = False
        self.has_synced = False
        self._synced.clear()
        self._signal()

    def _replace(
        self,
        objects: dict[ObjectKey, T],
        malformed: dict[ObjectKey, DecodeError],
        versions: dict[ObjectKey, str],
    ) -> None:
        self._objects, self._malformed, self._versions = objects, malformed, versions
        self._lingering.clear()
        self._order = sorted(objects)
        self._sorted = list(map(objects.__getitem__, self._order))
        self._edits += 1

    def _keep(self, key: ObjectKey, item: T, *, is_new: bool) -> None:
        self._lingering.pop(key, None)
        at = bisect.bisect_left(self._order, key)
        if is_new:
            self._order.insert(at, key)
            self._sorted.insert(at, item)
        else:
            self._sorted[at] = item
        self._objects[key] = item
        self._edits += 1

    def _stay(self, key: ObjectKey, raw: Json) -> bool:
        """Have a deleted object stay for its last word, or forget it; returns whether it differs."""
        before = self._objects.get(key)
        seen = self._read(key, raw)
        if isinstance(seen, DecodeError) or self._lingers is None or not self._lingers(seen):
            return self._forget(key)
        was_malformed = self._malformed.pop(key, None) is not None
        self._versions.pop(key, None)
        self._keep(key, seen, is_new=before is None)
        self._lingering[key] = None
        if len(self._lingering) > MOST_LINGERING:
            self._forget(next(iter(self._lingering)))
        return was_malformed or before != seen

    def _read(self, key: ObjectKey, raw: Json) -> T | DecodeError:
        meta = raw.get("metadata")
        if isinstance(meta, dict):
            meta.pop("managedFields", None)  # half of an object's memory, and nobody reads them
        try:
            return self._decode(raw)
        except DecodeError as error:
            seen = error
        # A bug in one decoder must not blind the process to every other object.
        except Exception as error:  # noqa: BLE001 -- reported and listed like any malformed object
            seen = DecodeError("object", f"cannot be decoded: {error!r}")
        if self._report is not None:
            self._report(self.kind, key, seen)
        return seen

    def _forget(self, key: ObjectKey) -> bool:
        self._versions.pop(key, None)
        self._lingering.pop(key, None)
        if self._objects.pop(key, None) is not None:
            at = bisect.bisect_left(self._order, key)
            del self._order[at], self._sorted[at]
            self._edits += 1
            return True
        return self._malformed.pop(key, None) is not None

    def _is_old(self, key: ObjectKey, version: str, *, equal: bool = True) -> bool:
        held, new = _number(self.version_of(key)), _number(version)
        return bool(held and new) and (new <= held if equal else new < held)

    def _advance(self, version: str) -> None:
        self.resource_version = max(self.resource_version, _number(version))

    def _signal(self) -> None:
        self.generation += 1
        for changed in tuple(self._subscribers):
            changed()


class Listing(Generic[T]):
    """A new list on its way into a store: `add` each object, then `finish`.

    Decoding and comparing happen in `add`, so that the caller can give way to the event loop
    between objects, and `finish` is short for any number of them.
    """

    def __init__(self, store: Store[T]) -> None:
        self._store = store
        self._objects: dict[ObjectKey, T] = {}
        self._malformed: dict[ObjectKey, DecodeError] = {}
        self._versions: dict[ObjectKey, str] = {}
        self._changed = False

    def add(self, raw: Json) -> None:
        """Take in one object of the list; one of a version the store has is not decoded again."""
        store = self._store
        key, version = _identity(raw)
        held = store.get(key)
        if held is not None and version and held.meta.resource_version == version:
            self._objects[key] = held
            return
        seen = store._read(key, raw)  # noqa: SLF001 -- the other half of one thing
        if isinstance(seen, DecodeError):
            self._malformed[key] = seen
            self._versions[key] = version
            self._changed |= str(store.malformed.get(key)) != str(seen)
        else:
            self._objects[key] = seen
            self._changed |= held is None or held != seen

    def finish(self, resource_version: str) -> None:
        """Put the list in the place of all that was there."""
        store = self._store
        changed = (
            self._changed
            or not store.has_synced
            or not store.served
            or len(store._objects) != len(self._objects)  # noqa: SLF001 -- as above
            or store.malformed.keys() != self._malformed.keys()
        )
        store._replace(self._objects, self._malformed, self._versions)
        store.served = True
        store.has_synced = True
        store.resource_version = _number(resource_version)
        store._synced.set()  # noqa: SLF001 -- as above
        if changed:
            store._signal()  # noqa: SLF001 -- as above


def _identity(raw: Json) -> tuple[ObjectKey, str]:
    meta = raw.get("metadata")
    if not isinstance(meta, dict):
        return _NOWHERE, ""
    key = ObjectKey(str(meta.get("namespace") or ""), str(meta.get("name") or ""))
    return key, str(meta.get("resourceVersion") or "")


def _number(version: str) -> int:
    """Return a resourceVersion as a number; they are comparable since KEP-5504, 0 when it is none."""
    return int(version) if version.isdecimal() else 0
