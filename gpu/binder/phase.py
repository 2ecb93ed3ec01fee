"""Phase: Scene -> changes; and the flags a phase declares."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from gpu.binder.changes import Change, SetId
from gpu.config import Config
from gpu.model.snapshot import Draft
from gpu.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a phase may look at. It updates `draft` as it yields, so that the next phase sees it."""

    world: World
    draft: Draft
    config: Config
    now: datetime
    skip: frozenset[SetId] = field(default_factory=frozenset)
    """Sets in quarantine: left alone, and what they want is given to others."""
    later: frozenset[SetId] = field(default_factory=frozenset)
    """Sets with a write that failed in this pass and is tried again in the next: nothing of them
    is written any more, but their turn is kept."""

    def leaves_alone(self, set_id: SetId) -> bool:
        """Say whether nothing of a set is to be written in this pass."""
        return set_id in self.skip or set_id in self.later


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One step of the pass. It decides; it neither reads a clock nor writes."""

    name: str
    changes: Callable[[Scene], Iterator[Change]]
    when_disabled: bool = False
    """Runs with the feature off too: a namespace must never hang."""
    after_failed_write: bool = False
    """Runs even when a placement write of this pass failed: it depends on no placement."""
