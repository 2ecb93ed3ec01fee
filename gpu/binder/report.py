"""What one pass did, as values for metrics and logs; and who wants to hear of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gpu.binder.changes import SetId
from gpu.ports import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """One write that did not succeed."""

    change: str
    """Name of the change's type."""
    object: str
    """`GPUClaim tenant-a/x`."""
    set_id: SetId
    outcome: Outcome
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Seconds one phase took: deciding in the worker thread, and writing."""

    deciding: float = 0.0
    writing: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PassReport:
    """One pass from reading to its last write; durations in seconds."""

    skipped: bool = False
    """The cluster showed nothing but the echo of the last pass's writes: no phase ran."""
    reading: float = 0.0
    phases: Mapping[str, Spent] = field(default_factory=dict)
    """By phase, in the order they ran; a phase that was skipped is not in it."""
    written: Mapping[str, int] = field(default_factory=dict)
    """Changes stored, by name of the change's type."""
    failed: tuple[Failed, ...] = ()
    """Writes that did not succeed; those of outcome REFUSED put their set in quarantine."""
    aborted: bool = False
    """A write of a claim's status was contended or unknown: no later placing phase ran."""
    plan_problem: str = ""
    """What the checker found wrong with a plan of this pass, which was not written."""
    saved: str = ""
    """The file that the pass was saved in, if it was."""
    not_saved: str = ""
    """Why it could not be, if it should have been."""
    held_back: str = ""
    """Claims that cannot be read, if any: what they hold is unknown, so nothing was placed."""
    settings_healed: str = ""
    """What was wrong with the settings ConfigMap that this pass wrote anew."""
    again: bool = False
    """Units were given back, or an object turned out gone: another pass may place more."""
    awaits_release: bool = False
    """Deleted claims wait for release: passes go on even with the feature off."""
    pending: int = 0
    """Claims that were Pending when the pass began."""
    sets_held_back: int = 0
    """Sets whose loss or move the guard holds back."""
    records_deleted: int = 0
    """Usage records of living claims that somebody else was first seen to have deleted."""
    due: float | None = None
    """Monotonic second at which something is thought of again: a usage record, a start, a rejection, the end of any grace."""
    starts_demoted: int = 0
    """VMs at the gate that come after others, since their starts fail."""
    rejections: int = 0
    """Pairs of VM and node that are skipped, since the node refused the VM's launcher."""
    launchers_refused: int = 0
    """Launchers that were first seen to be refused."""
    quarantined: int = 0
    """Sets in quarantine after the pass."""
    unanswered: int = 0
    """Of them those whose writes got no answer in several passes, or that are asked again for it."""
    quarantine_ends: float | None = None
    """Monotonic second at which the next set comes out."""
    answers: Mapping[str, int] = field(default_factory=dict)
    """Starts that were answered, by result; each counts once all its claims say so."""

    @property
    def retryable(self) -> tuple[Failed, ...]:
        """Failures that the next pass may cure; a refused set has its own delay."""
        return tuple(item for item in self.failed if item.outcome in _RETRYABLE)

    @property
    def only_conflicts(self) -> bool:
        """Say whether there were retryable failures and each was a conflict."""
        found = self.retryable
        return bool(found) and all(item.outcome is Outcome.CONFLICT for item in found)


_RETRYABLE = frozenset({Outcome.CONFLICT, Outcome.UNKNOWN})


class Observer(Protocol):
    """Metrics and logs of the binder; its methods never raise and never wait."""

    def passed(self, report: PassReport) -> None:
        """One pass came to its end."""

    def answered(self, report: PassReport) -> None:
        """One pass came to its end that only answered starts, beside the others."""

    def crashed(self, error: Exception) -> None:
        """One pass ended by an exception; the loop goes on after a backoff."""

    def leading(self, term: int | None) -> None:
        """Leadership began with a term, or ended."""
