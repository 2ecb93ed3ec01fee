"""Every plan is judged by the independent checker before any of it is written (domain contract 6)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpu.binder import results
from gpu.binder.answer_changes import Answer
from gpu.binder.beside import Beside
from gpu.binder.changes import Change, ClaimStatus, Placement
from gpu.binder.start_changes import CreateClaim, Pin
from gpu.model import invariants
from gpu.model.ground import Ground
from gpu.model.naive import Cluster, PodId
from gpu.model.pinning import Pinned
from gpu.model.violations import Violation
from gpu.objects.claims import GPUClaim
from gpu.objects.meta import ObjectKey
from gpu.units import NodeName
from gpu.world import World

_TOLD = 5
"""Violations that are spelled out; one error in a sum breaks many rules at once."""


@dataclass(slots=True, kw_only=True)
class Checker:
    """Judges the plans of one pass, each beside what the pass has stored before it."""

    world: World
    ground: Ground = field(default_factory=Ground)
    """The checker's own, carried from pass to pass."""
    _written: list[GPUClaim] = field(default_factory=list)
    """Claims as they were stored, that are not so in the cluster known yet."""
    _pinned: dict[PodId, NodeName] = field(default_factory=dict)
    """Launchers let through in this pass."""
    _changed: dict[ObjectKey, GPUClaim] = field(default_factory=dict)
    _cluster: Cluster | None = None
    _claims: dict[ObjectKey, GPUClaim] = field(default_factory=dict)

    def judge(self, wanted: Sequence[Change]) -> tuple[Violation, ...]:
        """Return what a plan breaks; a plan that places nothing costs nothing."""
        if not any(isinstance(change, Placement | Answer | CreateClaim | Pin) for change in wanted):
            return ()
        planned = (
            _after(change) for change in wanted if isinstance(change, ClaimStatus | CreateClaim)
        )
        pins = (
            Pinned(vm=change.vmi, pod=change.pod.meta.uid, node=change.node)
            for change in wanted
            if isinstance(change, Pin)
        )
        return invariants.judge(self._known(), planned, pins)

    def stored(self, wanted: Iterable[Change]) -> None:
        """Take over what was written: the next plan of this pass is judged beside it."""
        for change in wanted:
            if isinstance(change, ClaimStatus | CreateClaim):
                self._written.append(_after(change))
            elif isinstance(change, Pin) and change.node is not None:
                self._pinned[change.pod.meta.namespace, change.pod.meta.uid] = change.node

    def beside(self, met: Beside) -> None:
        """Take over what another pass is about to write as if it were stored."""
        self._written += met.claims
        for seat in met.seats:
            self._pinned[seat.pod.meta.namespace, seat.pod.meta.uid] = seat.node

    def _known(self) -> Cluster:
        cluster = self._cluster or self._look()
        for claim in self._written:
            self._changed[claim.key] = self._claims[claim.key] = claim
        self._written.clear()
        return cluster

    def _look(self) -> Cluster:
        world = self.world
        # Not the snapshot's index: what plans with that must not be what judges by it.
        self.ground.follow(
            claims=world.claims,
            pods=world.pods,
            vmis=world.vmis,
            vms=world.vms,
            frame=(
                {item.name: item.resource for item in world.classes},
                [(item.permitted, item.gpus) for item in world.kubevirts],
            ),
        )
        self._claims = dict(self.ground.claims)
        self._cluster = Cluster(
            stood=self.ground.claims,
            claims=self._claims,
            classes=world.classes,
            nodes=world.nodes,
            inventory=world.inventory,
            pods=world.pods,
            vmis=world.vmis,
            vms=world.vms,
            namespaces=world.namespaces,
            releases=world.releases,
            quotas=world.quotas,
            kubevirts=world.kubevirts,
            unreadable=world.unreadable_claims,
            ground=self.ground,
            changed=self._changed,
            pinned=self._pinned,
        )
        return self._cluster


def _after(change: ClaimStatus | CreateClaim) -> GPUClaim:
    return change.claim if isinstance(change, CreateClaim) else results.after(change)


def words(found: Sequence[Violation]) -> str:
    """Return violations in one line, the first few of them; empty when there are none."""
    told = "; ".join(map(str, found[:_TOLD]))
    return f"{told}; and {len(found) - _TOLD} more" if len(found) > _TOLD else told
