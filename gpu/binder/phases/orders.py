"""Bind new orders, oldest first: the fullest node with room, budget and entitlement asked again.

An order that cannot be met stays Pending and says why, and the younger ones are judged behind it.
Template claims and claims attached to a VM are placed with their VM, never here.
"""

from collections.abc import Iterator

from gpu.binder import changes, conditions
from gpu.binder.changes import Change, Explain, Place
from gpu.binder.phase import Scene
from gpu.model import orders, turns
from gpu.model.orders import Accepted, Verdict
from gpu.model.refusals import Refusal
from gpu.objects.claims import GPUClaim
from gpu.objects.kinds import GPU_CLAIMS


def changes_of(scene: Scene) -> Iterator[Change]:
    """Yield a placement for each order that can be met, and what the others shall say.

    Nothing is placed while a claim cannot be read: it may hold units, nobody knows where.
    """
    if scene.world.unreadable_claims:
        return
    turns.keep_turns(scene.draft, scene.later)
    for claim in orders.waiting(scene.draft):
        set_id = changes.object_set(GPU_CLAIMS, claim.key)
        if set_id in scene.skip:
            continue
        verdict = orders.check(scene.draft, orders.of(claim))
        if set_id in scene.later:
            _keep_turn(scene, claim, verdict)
        elif isinstance(verdict, Accepted):
            yield scene.plan(Place(claim=claim, node=verdict.node, at=scene.now, set_id=set_id))
        else:
            yield from _told(scene, claim, verdict.refusals)


def _keep_turn(scene: Scene, claim: GPUClaim, verdict: Verdict) -> None:
    """Reserve what an order could take that the next pass places, or a younger one takes it."""
    if isinstance(verdict, Accepted):
        resource = scene.draft.snapshot.classes[claim.class_name].resource
        scene.draft.ledger.reserve(verdict.node, resource, claim.count)


def _told(scene: Scene, claim: GPUClaim, refusals: tuple[Refusal, ...]) -> Iterator[Change]:
    why = conditions.steady(claim, refusals)
    if not conditions.is_told(claim, why):
        set_id = changes.object_set(GPU_CLAIMS, claim.key)
        yield scene.plan(Explain(claim=claim, refusals=why, at=scene.now, set_id=set_id))
