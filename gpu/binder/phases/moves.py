"""Moves: sets whose node cannot keep them go to another node, or Lost; each as a whole.

Until the grace is over a set says Degraded and nothing else happens to it; what is well again by
then stays. Nothing is placed elsewhere while its guest may still run: a running guest is ended first
where that is allowed and useful, and its set moves once there is evidence for its pods.
"""

from collections.abc import Iterable, Iterator

from gpu.binder import confirms, degradation
from gpu.binder.changes import Change, Degrade, EndGuest, How, Lose, Place
from gpu.binder.degradation import Stage
from gpu.binder.phase import Scene
from gpu.model import departures, guard, guests, keeping, placement, refusals
from gpu.model.departures import Deed, Departure
from gpu.model.guard import Tally
from gpu.model.guests import Guest
from gpu.model.keeping import Trouble
from gpu.model.refusals import Refusal
from gpu.model.sets import ClaimSet
from gpu.objects.claims import Cause, Displaced, GPUClaim
from gpu.units import NodeName


def changes_of(scene: Scene) -> Iterator[Change]:
    """Yield moves, losses, guests to be ended, and what Degraded claims say.

    Nothing is done while a claim cannot be read: it may belong to any set.
    """
    if scene.world.unreadable_claims:
        return
    found = scene.draft.sets
    troubles = keeping.troubles(scene.draft, scene.now, scene.config.grace)
    cases = departures.in_order(scene.witness(), found, troubles) if troubles else []
    tally = _tally(scene, found, cases)
    due = {case.item.id for case in cases}
    for case in cases:
        if not scene.leaves_alone(case.item.id):
            yield from _act(scene, case, tally)
    said = {claim.key for claim in scene.draft.degraded}
    for item in found if troubles or said else ():
        if item.id not in troubles and said.isdisjoint(claim.key for claim in item.claims):
            continue
        if item.id not in due and not scene.leaves_alone(item.id):
            yield from _mark(scene, item, troubles.get(item.id), Stage.GRACE)
    _tell(scene, tally)


def _tell(scene: Scene, tally: Tally) -> None:
    found = scene.findings
    found.guard_looked = True
    found.held_back |= {
        node: ",".join(sorted(ids)) for node, ids in sorted(tally.held_back.items())
    }
    known = {item.name for item in scene.world.inventory}
    found.without_inventory = frozenset(found.held_back) - known
    found.sets_held_back = len(tally.sets)
    found.guard_limit = tally.limit


def _tally(scene: Scene, found: Iterable[ClaimSet], cases: Iterable[Departure]) -> Tally:
    leaving = [case.leaving for case in cases]
    world = scene.world
    return guard.tally(
        found,
        leaving,
        now=scene.now,
        guard=scene.config.guard,
        acknowledged=guard.acknowledged(
            world.binders, world.inventory, {going.node for going in leaving}
        ),
        shown=guard.told(world.binders),
    )


def _act(scene: Scene, case: Departure, tally: Tally) -> Iterator[Change]:
    """Yield what becomes of one set, if the guard lets it."""
    node = departures.elsewhere(scene.draft, case, scene.sightings.rejections, scene.now)
    does = case.does(scene.config.running_guests, room=node is not None)
    stage = Stage.KEPT if does is Deed.KEEP else Stage.LEAVES
    if does not in {Deed.KEEP, Deed.WAIT} and not tally.admits(case.leaving):
        does, stage = Deed.KEEP, Stage.HELD_BACK
    match does:
        case Deed.MOVE:
            assert node is not None
            yield from _move(scene, case, node)
        case Deed.LOSE:
            yield from _lose(scene, case)
        case Deed.KEEP | Deed.WAIT | Deed.END_GUEST:
            yield from _mark(scene, case.item, case.trouble, stage)
    if does in {Deed.WAIT, Deed.END_GUEST} and node is not None:
        departures.reserve(scene.draft, case, node)
    if does is Deed.END_GUEST:
        yield from _end(scene, case)


def _move(scene: Scene, case: Departure, node: NodeName) -> Iterator[Change]:
    confirm = confirms.of(case.proof) if case.proof is not None else ()
    for claim in case.claims:
        yield scene.plan(
            Place(
                claim=claim,
                node=node,
                at=scene.now,
                set_id=case.item.id,
                how=How.MOVED,
                displaced=_displaced(scene, case, claim),
                confirm=confirm,
            )
        )


def _lose(scene: Scene, case: Departure) -> Iterator[Change]:
    why: tuple[Refusal, ...] = (
        (refusals.GuestMayRun(),)
        if case.guest is Guest.RUNNING
        else placement.why_not_set(scene.draft, case.claims)
    )
    for claim in case.claims:
        yield scene.plan(
            Lose(
                claim=claim,
                displaced=_displaced(scene, case, claim),
                at=scene.now,
                set_id=case.item.id,
                refusals=why,
            )
        )


def _displaced(scene: Scene, case: Departure, claim: GPUClaim) -> Displaced:
    """Return what a member says of where it was: the trouble is that of one node alone.

    A member held elsewhere only goes along. Its node stands, and must not seem to be lost: the guard
    reads here which node was lost first.
    """
    node = claim.node or case.trouble.node
    cause = case.trouble.cause if node == case.trouble.node else Cause.SET_TORN
    return Displaced(at=scene.now, node=node, cause=cause)


def _end(scene: Scene, case: Departure) -> Iterator[Change]:
    snapshot = scene.draft.snapshot
    vmi = guests.vmi_of(snapshot, case.item)
    if vmi is not None:
        # KubeVirt counts a VMI that goes with its launcher at the gate as a failed start, and a launcher
        # that the watch has not shown yet may be there.
        unseen = frozenset(
            uid for uid in vmi.active_pods if (vmi.meta.namespace, uid) not in snapshot.pods
        )
        is_unsure = bool(unseen) and not vmi.started
        yield EndGuest(
            vmi=vmi.meta.key,
            uid=vmi.meta.uid,
            version=vmi.meta.resource_version,
            node=case.trouble.node,
            cause=case.trouble.cause,
            set_id=case.item.id,
            confirm=(confirms.NoneGated(namespace=vmi.meta.namespace, uids=unseen),)
            if is_unsure
            else (),
        )


def _mark(scene: Scene, item: ClaimSet, trouble: Trouble | None, stage: Stage) -> Iterator[Change]:
    """Have the members say what they suffer from, or take it back; a cordon is nothing to say.

    A torn set has its own word for what is wrong, which is not ours to change.
    """
    if trouble is not None and trouble.cause is Cause.NODE_CORDONED:
        trouble = None
    members = keeping.placed(item)
    if trouble is not None and len({claim.node for claim in members}) > 1:
        return
    for claim in members:
        words = degradation.words(trouble, stage, scene.config.grace) if trouble else ""
        cause = trouble.cause if trouble else None
        if not degradation.is_told(claim, cause, words):
            yield scene.plan(
                Degrade(claim=claim, cause=cause, words=words, at=scene.now, set_id=item.id)
            )
