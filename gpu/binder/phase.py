"""Phase: Scene -> changes; and the flags a phase declares."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from gpu import keys
from gpu.binder import changes, results
from gpu.binder.changes import Change, ClaimStatus, SetId
from gpu.config import Config
from gpu.model import attaching, coverage, usage, witness
from gpu.model.draft import Draft
from gpu.model.fit_facts import Facts
from gpu.model.foreseen import Seat
from gpu.model.gate_reasons import GateReason
from gpu.model.sightings import Sightings
from gpu.model.witness import Witness
from gpu.objects.kinds import GPU_CLASSES
from gpu.objects.meta import ObjectKey
from gpu.objects.pods import Pod
from gpu.units import ClassName, NodeName
from gpu.world import World

C = TypeVar("C", bound=ClaimStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """A VM whose launcher stays at the gate, and every reason."""

    vmi: ObjectKey
    reasons: tuple[GateReason, ...]


@dataclass(slots=True, kw_only=True)
class Findings:
    """What phases found out about the cluster as a whole; phase `status` tells it on GPUBinder."""

    held_back: dict[NodeName, str] = field(default_factory=dict)
    """Nodes whose losses the guard holds back, and the ids that acknowledge them, with commas."""
    without_inventory: frozenset[NodeName] = frozenset()
    """Those of them that have no GPUNode to put the acknowledgement on: it goes on GPUBinder."""
    guard_looked: bool = False
    """Losses were looked at in this pass; else what was said of them stands."""
    sets_held_back: int = 0
    guard_limit: int = 0
    """Sets the guard lets through in a window: as moves counted, then as it is after the pass."""
    plan_problem: str = ""
    """What the independent checker found wrong with a plan of this pass; it was not written."""
    records: usage.Standing | None = None
    """How usage records are kept; None before the phase ran."""
    demoted: int = 0
    """VMs at the gate whose turn comes later, since their starts fail."""
    waiting: dict[str, Waits] | None = None
    """Starts that wait at the gate, by uid of their VMI; None before the phase ran."""
    prepared: list[Pod] = field(default_factory=list)
    """Launchers that no claim noted yet, for which all is held though their VMI does not list them."""
    is_listed_soon: bool = False
    """One that was prepared is so new that its VMI lists it any moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a phase may look at. It updates `draft` as it yields, so that the next phase sees it."""

    world: World
    draft: Draft
    config: Config
    now: datetime
    skip: frozenset[SetId] = field(default_factory=frozenset)
    """Sets in quarantine: left alone, and what they want is given to others."""
    silent: frozenset[SetId] = field(default_factory=frozenset)
    """Sets that are left alone, or asked again just now, since their writes got no answer."""
    later: frozenset[SetId] = field(default_factory=frozenset)
    """Sets with a write that failed in this pass and is tried again in the next: nothing of them
    is written any more, but their turn is kept."""
    beside: frozenset[ObjectKey] = field(default_factory=frozenset)
    """Claims that another pass writes to meanwhile: shown as it leaves them, stored or not."""
    seats: tuple[Seat, ...] = ()
    """Launchers that another pass lets through or promises a node meanwhile."""
    sightings: Sightings = field(default_factory=Sightings)
    """What this leader saw of the pods that use claims."""
    findings: Findings = field(default_factory=Findings)

    def leaves_alone(self, set_id: SetId) -> bool:
        """Say whether nothing of a set is to be written in this pass."""
        return set_id in self.skip or set_id in self.later

    @property
    def is_starting(self) -> bool:
        """Say whether a start is under way that the next write of others lets go on."""
        young = (
            claim.attached_to and self.now < attaching.adopted_by(claim.attached_to)
            for claim in self.draft.unadopted
        )
        return self.config.enabled and (self.findings.is_listed_soon or any(young))

    def is_unguarded(self, names: Iterable[ClassName]) -> bool:
        """Say whether one of these classes lacks our finalizer and is not given it in this pass.

        When it is deleted it is gone at once, and what holds units of it would count for nothing: so nothing
        takes any. A pass that gives no finalizers leaves all such classes alone (`unguarded`).
        """
        classes = self.draft.snapshot.classes
        for offer in filter(None, map(classes.get, names)):
            if keys.CLASS_FINALIZER not in offer.meta.finalizers:
                set_id = changes.object_set(GPU_CLASSES, offer.meta.key)
                if offer.meta.deleting or self.leaves_alone(set_id):
                    return True
        return False

    def witness(self) -> Witness:
        """Return what a judgement about the pods of a set looks at; made anew at each call."""
        return witness.of(
            self.draft.snapshot,
            self.world.inventory,
            self.sightings,
            self.config.grace,
            self.now,
        )

    def fit_facts(self) -> Facts:
        """Return what a launcher is judged by; one phase at a time may ask it, until the next does."""
        snapshot = self.draft.snapshot
        return self.world.fit_facts(snapshot, known=snapshot.memo.standing)

    def plan(self, change: C) -> C:
        """Have the draft show what the change makes of its claim; returns the change.

        Units that it frees can be placed on by the next phase: the writes of a phase are stored or
        not each set for itself.
        """
        draft, claim = self.draft, change.claim
        node, offer = coverage.node_held(claim), draft.snapshot.classes.get(claim.class_name)
        if node is None or offer is None:
            draft.put(results.after(change))
            return change
        before = draft.ledger.free(node, offer.resource)
        draft.put(results.after(change))
        freed = draft.ledger.free(node, offer.resource) - before
        if freed > 0:
            draft.ledger.withhold(node, offer.resource, freed)
        return change


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One step of the pass. It decides; it neither reads a clock nor writes."""

    name: str
    changes: Callable[[Scene], Iterator[Change]]
    when_disabled: bool = False
    """Runs with the feature off too: a namespace must never hang."""
    after_failed_write: bool = False
    """Runs even when a placement write of this pass failed: it depends on no placement."""
    may_wait: bool = False
    """May be put off while there is news: it tells how things stand, and nothing is placed by that."""
    after_refused_plan: bool = False
    """Runs even when a plan of this pass was refused: it tells how things stand, and places nothing."""
