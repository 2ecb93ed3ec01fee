"""Every plan is judged by the independent checker before any of it is written (domain contract 6)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpu.binder import results
from gpu.binder.changes import Change, ClaimStatus, Placement
from gpu.model import invariants
from gpu.model.invariants import Violation
from gpu.model.naive import Cluster
from gpu.objects.claims import GPUClaim
from gpu.objects.meta import ObjectKey
from gpu.world import World

_TOLD = 5
"""Violations that are spelled out; one error in a sum breaks many rules at once."""


@dataclass(slots=True, kw_only=True)
class Checker:
    """Judges the plans of one pass, each beside what the pass has stored before it."""

    world: World
    _claims: dict[ObjectKey, GPUClaim] = field(default_factory=dict)
    _cluster: Cluster | None = None

    def judge(self, wanted: Sequence[Change]) -> tuple[Violation, ...]:
        """Return what a plan breaks; a plan that places nothing costs nothing."""
        if not any(isinstance(change, Placement) for change in wanted):
            return ()
        planned = (results.after(change) for change in wanted if isinstance(change, ClaimStatus))
        return invariants.judge(self._known(), planned)

    def stored(self, wanted: Iterable[Change]) -> None:
        """Take over what was written: the next plan of this pass is judged beside it."""
        written = (results.after(change) for change in wanted if isinstance(change, ClaimStatus))
        self._claims.update((claim.key, claim) for claim in written)

    def _known(self) -> Cluster:
        if self._cluster is None:
            world = self.world
            # Not the snapshot's index: that one is carried from pass to pass, and may be wrong.
            stood = _keyed(world.claims)
            self._claims = stood | self._claims
            self._cluster = Cluster(
                stood=stood,
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
            )
        return self._cluster


def _keyed(claims: Iterable[GPUClaim]) -> dict[ObjectKey, GPUClaim]:
    found: dict[ObjectKey, GPUClaim] = {}
    for claim in claims:
        meta = claim.meta
        found[meta.namespace, meta.name] = claim  # type: ignore[index]  # equal, and half the time
    return found


def words(found: Sequence[Violation]) -> str:
    """Return violations in one line, the first few of them; empty when there are none."""
    told = "; ".join(map(str, found[:_TOLD]))
    return f"{told}; and {len(found) - _TOLD} more" if len(found) > _TOLD else told
