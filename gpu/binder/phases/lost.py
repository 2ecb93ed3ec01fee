"""Bind Lost sets anew, oldest first, before any new order; budgets count them already.

A set whose guest may still run is bound on the very node where that is, as soon as the node can
hold it; any other where there is room for all of it. What stays Lost says why, and units are set
aside for it, so that nothing younger takes what it could take.
"""

from collections.abc import Iterator

from gpu.binder import conditions, confirms
from gpu.binder.changes import Change, Explain, How, Place
from gpu.binder.phase import Scene
from gpu.model import reach, turns
from gpu.model.turns import Turn


def changes_of(scene: Scene) -> Iterator[Change]:
    """Yield a placement for each claim of a set that can be bound, and what the others shall say.

    Nothing is placed while a claim cannot be read: it may hold units, nobody knows where.
    """
    if scene.world.unreadable_claims:
        return
    reaches = reach.by_evidence(scene.witness())
    for turn in turns.turns(scene.draft, reaches, scene.skip):
        names = (claim.class_name for claim in turn.claims)
        if scene.leaves_alone(turn.found.id) or scene.is_unguarded(names):
            continue  # its turn is kept: the next pass tries again
        yield from _rebound(scene, turn) if turn.node else _told(scene, turn)


def _rebound(scene: Scene, turn: Turn) -> Iterator[Change]:
    assert turn.node is not None
    for claim in turn.claims:
        yield scene.plan(
            Place(
                claim=claim,
                node=turn.node,
                at=scene.now,
                set_id=turn.found.id,
                how=How.REBOUND,
                confirm=confirms.of(turn.reach.proof) if turn.reach.proof else (),
            )
        )


def _told(scene: Scene, turn: Turn) -> Iterator[Change]:
    for claim in turn.claims:
        why = conditions.steady(claim, turn.refusals)
        if not conditions.is_told(claim, why):
            yield scene.plan(Explain(claim=claim, refusals=why, at=scene.now, set_id=turn.found.id))
