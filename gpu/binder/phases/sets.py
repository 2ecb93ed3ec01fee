"""Make torn sets whole before anything is placed: gathered on one node, or Lost as a whole.

Torn is partly Lost, or Bound on more than one node: a write that failed half way, or claims that
one VM names since a while. A set whose guest runs, or may, is gathered where that guest is and
nowhere else. Where no node has room, a partly Lost set goes Lost whole; one that is all Bound keeps
what it holds and says so, since naming two claims in one VM must cost nobody their holds.
"""

import itertools
import operator
from collections.abc import Iterator
from typing import Final

from gpu.binder import conditions, confirms
from gpu.binder.changes import Change, Degrade, How, Lose, Place
from gpu.binder.phase import Scene
from gpu.model import bind_requests, coverage, placement, reach, refusals, sets
from gpu.model.reach import Reach
from gpu.model.refusals import Refusal
from gpu.model.sets import ClaimSet
from gpu.objects.claims import Cause, Displaced, GPUClaim, Phase
from gpu.objects.meta import ObjectKey
from gpu.units import NodeName

_IS_TORN: Final = operator.attrgetter("is_torn")


def changes_of(scene: Scene) -> Iterator[Change]:
    """Yield what makes torn sets whole, and take the word back from those that are.

    Nothing is placed while a claim cannot be read: it may hold units, nobody knows where.
    """
    if scene.world.unreadable_claims:
        return
    found_sets = scene.draft.sets
    torn = tuple(itertools.compress(found_sets, map(_IS_TORN, found_sets)))
    if torn and scene.draft.requested:
        torn = _without_asked(scene, torn)
    reaches = reach.by_evidence(scene.witness()) if torn else None
    for found in torn:
        if reaches is not None and not scene.leaves_alone(found.id):
            yield from _repair(scene, found, reaches(found))
    yield from _healed(scene, {claim.key for item in torn for claim in item.kept})


def _without_asked(scene: Scene, torn: tuple[ClaimSet, ...]) -> tuple[ClaimSet, ...]:
    """Leave out sets whose request is answered in this pass: that gathers them, or changes nothing."""
    grace = scene.config.grace.attachment
    asked = bind_requests.find(scene.draft.requested, scene.now, grace)
    names = {claim.key for one in asked for claim in one.claims}
    return tuple(item for item in torn if names.isdisjoint(claim.key for claim in item.claims))


def _repair(scene: Scene, found: ClaimSet, where: Reach) -> Iterator[Change]:
    node, why = _gathers(scene, found, where)
    if node is not None:
        for claim in found.kept:
            if coverage.node_held(claim) != node:
                yield scene.plan(_gather(scene, claim, node, found, where))
            elif _says_torn(claim):
                yield scene.plan(_degrade(scene, claim, "", found.id))
    elif found.is_lost:
        for claim in found.kept:
            if claim.phase is Phase.BOUND:
                yield scene.plan(_lose(scene, claim, why, found))
    else:
        words = _words(found)
        for claim in found.kept:
            told = conditions.reason_of(claim, conditions.DEGRADED)
            if not told or (told == Cause.SET_TORN and not _says(claim, words)):
                yield scene.plan(_degrade(scene, claim, words, found.id))


def _gathers(
    scene: Scene, found: ClaimSet, where: Reach
) -> tuple[NodeName | None, tuple[Refusal, ...]]:
    """Return the node that takes all of a set, else why none does."""
    draft, kept = scene.draft, found.kept
    if where.is_tied:
        home = where.home
        is_room = home is not None and placement.stays(draft, kept, home, holding=where.is_seen)
        return (home, ()) if is_room else (None, (refusals.GuestMayRun(),))
    with draft.savepoint():
        for claim in kept:
            draft.lift(claim)
        node = placement.choose(draft, sets.wants(kept), where.without, _by_units(kept))
        return (node, ()) if node else (None, placement.why_not_set(draft, kept))


def _by_units(kept: tuple[GPUClaim, ...]) -> list[NodeName]:
    """Return the nodes that hold some of a set, the one with most units first."""
    held: dict[NodeName, int] = {}
    for claim in kept:
        node = coverage.node_held(claim)
        if node is not None:
            held[node] = held.get(node, 0) + claim.count
    return sorted(held, key=lambda node: (-held[node], node))


def _gather(scene: Scene, claim: GPUClaim, node: NodeName, found: ClaimSet, where: Reach) -> Place:
    left = coverage.node_held(claim)
    return Place(
        claim=claim,
        node=node,
        at=scene.now,
        set_id=found.id,
        how=How.GATHERED,
        displaced=Displaced(at=scene.now, node=left, cause=Cause.SET_TORN) if left else None,
        confirm=confirms.of(where.proof) if where.proof else (),
    )


def _lose(scene: Scene, claim: GPUClaim, why: tuple[Refusal, ...], found: ClaimSet) -> Lose:
    assert claim.node is not None
    return Lose(
        claim=claim,
        displaced=Displaced(at=scene.now, node=claim.node, cause=Cause.SET_TORN),
        at=scene.now,
        set_id=found.id,
        refusals=why,
    )


def _words(found: ClaimSet) -> str:
    units = sum(claim.count for claim in found.kept)
    return (
        f"{len(found.kept)} claims of VM {found.vm.name if found.vm else ''} are held on several "
        f"nodes, none has room for all {refusals.plural(units)}: the VM cannot use them together "
        "until one has; wait, or name fewer claims in it"
    )


def _healed(scene: Scene, torn: set[ObjectKey]) -> Iterator[Change]:
    """Take back what claims say whose set is not torn any more without having been gathered."""
    said = {claim.key for claim in scene.draft.degraded}
    for found in scene.draft.sets if said else ():
        for claim in found.claims:
            if not claim.conditions or not _says_torn(claim) or claim.key in torn:
                continue
            if not scene.leaves_alone(found.id):
                yield scene.plan(_degrade(scene, claim, "", found.id))


def _degrade(scene: Scene, claim: GPUClaim, words: str, set_id: str) -> Degrade:
    cause = Cause.SET_TORN if words else None
    return Degrade(claim=claim, cause=cause, words=words, at=scene.now, set_id=set_id)


def _says_torn(claim: GPUClaim) -> bool:
    return conditions.reason_of(claim, conditions.DEGRADED) == Cause.SET_TORN


def _says(claim: GPUClaim, words: str) -> bool:
    story = conditions.degraded(claim, Cause.SET_TORN, words, claim.meta.created)
    return conditions.says(claim, story)
