"""A Recorder that remembers what it was told."""

from dataclasses import dataclass, field

from gpu.objects.kinds import Kind
from gpu.objects.meta import ObjectKey


@dataclass
class HeardRecorder:
    """`heard` has one line an Event: `Kind key Reason`, in the order they came."""

    heard: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def event(
        self, regarding: Kind, key: ObjectKey, _uid: str, *, warning: bool, reason: str, note: str
    ) -> None:
        self.heard.append(f"{regarding.kind} {key} {reason}{'!' if warning else ''}")
        self.notes.append(note)
