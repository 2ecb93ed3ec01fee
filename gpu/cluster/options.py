"""What each verb of the client takes besides the object's place, as keyword arguments.

Typed dicts for `**options: Unpack[...]`, so that a call reads `client.list(kind, limit=1)` and is
checked. `deadline` is in seconds everywhere and ends the whole request.
"""

from collections.abc import Callable
from typing import Literal, TypedDict


class GetOptions(TypedDict, total=False):
    """How one object is read."""

    subresource: str | None
    deadline: float | None


class SelectOptions(TypedDict, total=False):
    """What a list of all pages may be narrowed by."""

    label_selector: str | None
    field_selector: str | None
    deadline: float | None


class ListOptions(SelectOptions, total=False):
    """Which page of which version of a list."""

    limit: int | None
    continue_: str | None
    resource_version: str | None
    resource_version_match: Literal["Exact", "NotOlderThan"] | None


class WatchOptions(SelectOptions, total=False):
    """From which version a watch tells, and when it ends, in seconds."""

    resource_version: str | None
    timeout_seconds: int
    """The server ends the watch after this long."""
    idle: float
    """Silence after which the line counts as cut."""
    opened: Callable[[], None]
    """Called once the server has agreed to the watch, which may be long before an event."""


class WriteOptions(TypedDict, total=False):
    """How an object is created."""

    field_manager: str | None
    dry_run: bool
    deadline: float | None
    audit_id: str
    """Of the request that this one is made for; none of its own is made up for it then."""


class UpdateOptions(WriteOptions, total=False):
    """How an object is replaced."""

    subresource: str | None


class PatchOptions(UpdateOptions, total=False):
    """How an object is patched; the type of patch is a merge patch unless said otherwise."""

    content_type: str


class ApplyOptions(TypedDict, total=False):
    """How an object is applied."""

    subresource: str | None
    dry_run: bool
    deadline: float | None


class DeleteOptions(TypedDict, total=False):
    """Preconditions of a delete, and how; `grace_period` in seconds."""

    uid: str | None
    resource_version: str | None
    grace_period: int | None
    propagation: Literal["Background", "Foreground", "Orphan"] | None
    dry_run: bool
    deadline: float | None
