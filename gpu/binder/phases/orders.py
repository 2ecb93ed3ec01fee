"""Bind new orders, oldest first: the fullest node with room, budget and entitlement asked again.

An order that cannot be met stays Pending and says why, and the younger ones are judged behind it.
Template claims are placed with their VM, never here. An order that a VM names, or was started with, is
bound beside that VM's other claims, or together with them.
"""

from collections.abc import Iterable, Iterator

from gpu.binder import changes, conditions
from gpu.binder.changes import Change, Explain, How, Place, SetId
from gpu.binder.phase import Scene
from gpu.model import coverage, mates, orders, turns
from gpu.model.orders import Accepted, Reasons
from gpu.objects.claims import Cause, Displaced, GPUClaim
from gpu.objects.kinds import GPU_CLAIMS


def changes_of(scene: Scene) -> Iterator[Change]:
    """Yield a placement for each order that can be met, and what the others shall say.

    Nothing is placed while a claim cannot be read: it may hold units, nobody knows where.
    """
    if scene.world.unreadable_claims:
        return
    turns.keep_turns(scene.draft, scene.later)
    refused: list[tuple[GPUClaim, Reasons]] = []
    judged_before = 0
    for claim in orders.waiting(scene.draft):
        if scene.skip and _set_id(scene, claim) in scene.skip:
            continue
        if scene.is_unguarded((claim.class_name,)):
            continue
        verdict = _verdict(scene, claim)
        if scene.later and _set_id(scene, claim) in scene.later:
            _keep_turn(scene, claim, verdict)
        elif isinstance(verdict, Accepted):
            yield from _placed(scene, claim, verdict, _set_id(scene, claim))
            judged_before = len(refused)
        else:
            refused.append((claim, verdict))
    for claim, why in (*_anew(scene, refused[:judged_before]), *refused[judged_before:]):
        yield from _told(scene, claim, why)


def _verdict(scene: Scene, claim: GPUClaim) -> Accepted | Reasons:
    return orders.judge(scene.draft, orders.of(claim, mates.of(scene.draft, claim)))


def _set_id(scene: Scene, claim: GPUClaim) -> SetId:
    found = mates.set_of(scene.draft, claim)
    return found.id if found else changes.object_set(GPU_CLAIMS, claim.key)


def _anew(
    scene: Scene, refused: Iterable[tuple[GPUClaim, Reasons]]
) -> Iterator[tuple[GPUClaim, Reasons]]:
    """Yield what is wrong with orders now that younger ones were placed: what the next pass would say.

    One that could be placed after all, where a set was gathered elsewhere, is left to the next pass.
    """
    for claim, _ in refused:
        verdict = _verdict(scene, claim)
        if not isinstance(verdict, Accepted):
            yield claim, verdict


def _placed(scene: Scene, claim: GPUClaim, verdict: Accepted, set_id: SetId) -> Iterator[Change]:
    """Yield the placement, after those of the claims that make room for it beside them."""
    for mate in verdict.gathered:
        left = coverage.node_held(mate)
        assert left is not None
        yield scene.plan(
            Place(
                claim=mate,
                node=verdict.node,
                at=scene.now,
                set_id=set_id,
                how=How.GATHERED,
                displaced=Displaced(at=scene.now, node=left, cause=Cause.SET_TORN),
            )
        )
    yield scene.plan(Place(claim=claim, node=verdict.node, at=scene.now, set_id=set_id))


def _keep_turn(scene: Scene, claim: GPUClaim, verdict: Accepted | Reasons) -> None:
    """Reserve what an order could take that the next pass places, or a younger one takes it."""
    if isinstance(verdict, Accepted):
        resource = scene.draft.snapshot.classes[claim.class_name].resource
        scene.draft.ledger.reserve(verdict.node, resource, claim.count)


def _told(scene: Scene, claim: GPUClaim, reasons: Reasons) -> Iterator[Change]:
    why = conditions.steady(claim, reasons)
    if not conditions.is_told(claim, why):
        set_id = _set_id(scene, claim)
        yield scene.plan(Explain(claim=claim, refusals=why, at=scene.now, set_id=set_id))
