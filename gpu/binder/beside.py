"""Beside: what one pass of a leader is about to write, as another that is under way has to count it.

Two passes decide one after the other and write at the same time. What the one has planned may be stored
already, later or never: the other counts what it takes and gives out nothing of what it frees, and writes
to none of its claims. When it is over, the next pass looks at everything anew.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpu.binder import changes, results
from gpu.binder.answer_changes import Answer
from gpu.binder.changes import Change, Place, Placement
from gpu.binder.phase import Scene
from gpu.binder.start_changes import CreateClaim, Pin
from gpu.model import booking, coverage, foreseen
from gpu.model.draft import Draft
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.kinds import GPU_CLAIMS
from gpu.objects.meta import ObjectKey
from gpu.objects.pods import Pod
from gpu.units import NodeName, ResourceName, TenantName, Units


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A launcher that the other pass lets through."""

    pod: Pod
    node: NodeName
    vm: ObjectKey
    raw: Mapping[ResourceName, Units] = field(default_factory=dict)
    """What it asks for beyond all its claims."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What another pass has planned, and perhaps stored."""

    claims: tuple[GPUClaim, ...] = ()
    """Those that it makes or places, as it leaves them."""
    seats: tuple[Seat, ...] = ()
    promised: tuple[tuple[Pod, NodeName], ...] = ()
    """Launchers of starts that it grants, each once."""
    touched: frozenset[ObjectKey] = frozenset()
    """Every claim that it writes to."""

    def __bool__(self) -> bool:
        """Say whether there is anything to count."""
        return bool(self.touched or self.seats)


def of(wanted: Iterable[Change]) -> Beside:
    """Return what changes come to for another pass."""
    claims: list[GPUClaim] = []
    seats: list[Seat] = []
    promised: dict[ObjectKey, foreseen.Seat] = {}
    touched: set[ObjectKey] = set()
    for change in wanted:
        target = changes.target_of(change)
        if target.kind == GPU_CLAIMS:
            touched.add(target.key)
        if isinstance(change, Placement):
            claims.append(results.after(change))
        elif isinstance(change, CreateClaim):
            claims.append(change.claim)
        elif isinstance(change, Pin) and change.node is not None:
            seats.append(Seat(pod=change.pod, node=change.node, vm=change.vmi, raw=change.raw))
        promise = _promise(change)
        if promise is not None:
            promised[promise[0].meta.key] = promise
    return Beside(
        claims=tuple(claims),
        seats=tuple(seats),
        promised=tuple(promised.values()),
        touched=frozenset(touched),
    )


def _promise(change: Change) -> foreseen.Seat | None:
    match change:
        case Place(answer=request):
            return foreseen.seat(change.claim, request, change.node)
        case Answer(request=request):
            return foreseen.seat(change.claim, request, change.claim.node)
        case _:
            return None


def count(scene: Scene, met: Beside) -> Scene:
    """Have the scene's draft count what another pass has planned; returns the scene that heeds it."""
    draft = scene.draft
    for claim in met.claims:
        _hold(draft, claim)
    for seat in met.seats:
        draft.seat(seat.pod, seat.node, seat.vm)
        booking.charge_raw(draft.ledger, TenantName(seat.vm.namespace), seat.raw, +1)
    own = {str(key) for key in met.touched}
    ids = {
        found.id for found in draft.sets if any(claim.key in met.touched for claim in found.claims)
    }
    return replace(
        scene,
        later=scene.later | own | ids,
        beside=scene.beside | met.touched,
        seats=(*scene.seats, *((seat.pod, seat.node) for seat in met.seats), *met.promised),
    )


def _hold(draft: Draft, claim: GPUClaim) -> None:
    """Count a claim where it goes; what it held before is held until the next pass looks."""
    known = draft.claim(claim.key)
    if known is None:
        known = replace(claim, phase=Phase.PENDING, node=None)
        draft.add(known)
    node, before = coverage.node_held(claim), coverage.node_held(known)
    offer = draft.snapshot.classes.get(claim.class_name)
    if node is None or node == before:
        return
    if before is None:
        draft.put(claim)
    elif offer is not None:
        draft.ledger.reserve(node, offer.resource, claim.count)
