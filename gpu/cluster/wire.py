"""Bytes of the API server to values: an object, a page of a list, the lines of a watch; no IO."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gpu import units
from gpu.cluster import errors
from gpu.objects.kinds import Kind

SLICE: Final = 100
"""Objects decoded before the event loop gets its turn: about 3 ms for objects of 1.5 KB."""
LINE_CAP: Final = 16 * 1024 * 1024
"""Bytes of one watch line; etcd takes objects of 1.5 MB, so more than this is no event."""


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page of a list; an empty `continue_` says that it is the last. The version is the list's."""

    items: tuple[dict[str, Any], ...]
    resource_version: str
    continue_: str = ""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """ADDED, MODIFIED, DELETED or BOOKMARK; an ERROR is raised as ApiError instead."""

    type: str
    object: dict[str, Any]


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


class _Frame(msgspec.Struct):
    type: str
    object: dict[str, Any]


_LIST: Final = msgspec.json.Decoder(_List)
_FRAME: Final = msgspec.json.Decoder(_Frame)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])


def encode(body: object) -> bytes:
    """Return a request body."""
    return msgspec.json.encode(body, enc_hook=units.plain)


def decode_object(body: bytes) -> dict[str, Any]:
    """Return one object. A 2xx answer that is no object counts as cut: Unreachable."""
    try:
        return _OBJECT.decode(body)
    except msgspec.DecodeError as error:
        raise errors.Unreachable(f"the answer is no object: {error}", sent=True) from error


async def decode_page(kind: Kind, body: bytes) -> ListPage:
    """Return one page; gives way to the event loop after every SLICE objects.

    The items of a list of a built-in kind carry neither apiVersion nor kind; they get both here.
    """
    try:
        found = _LIST.decode(body)
        items: list[dict[str, Any]] = []
        for count, raw in enumerate(found.items or (), start=1):
            item = _OBJECT.decode(raw)
            item.setdefault("apiVersion", kind.api_version)
            item.setdefault("kind", kind.kind)
            items.append(item)
            if count % SLICE == 0:
                await asyncio.sleep(0)
    except msgspec.DecodeError as error:
        raise errors.Unreachable(f"the answer is no list: {error}", sent=True) from error
    return ListPage(tuple(items), found.metadata.resource_version, found.metadata.continue_)


def decode_event(line: bytes) -> WatchEvent:
    """Return the event of one watch line; raises the ApiError that an ERROR event carries."""
    try:
        frame = _FRAME.decode(line)
    except msgspec.DecodeError as error:
        raise errors.Unreachable(f"the watch sent no event: {error}", sent=True) from error
    if frame.type == "ERROR":
        raise errors.from_status(frame.object)
    return WatchEvent(frame.type, frame.object)


class Lines:
    """Chunks of a stream to whole lines; what is left at its end was half a line."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that this chunk completes, without their newline and without empty ones."""
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LINE_CAP:
            raise errors.Unreachable(f"a watch line is longer than {LINE_CAP} bytes", sent=True)
        return (line for line in whole if line)


async def events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[WatchEvent, None]:
    """Yield the events of a stream; half a line at its end is dropped."""
    lines = Lines()
    async for chunk in chunks:
        for line in lines.feed(chunk):
            yield decode_event(line)
