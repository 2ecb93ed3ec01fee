"""Moves: sets whose node cannot keep them go to another node, or Lost; each as a whole.

Until the grace is over a set says Degraded and nothing else happens to it; what is well again by
then stays. Nothing is placed elsewhere while its guest may still run: a running guest is ended first
where that is allowed and useful, and its set moves once there is evidence for its pods.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from gpu import keys
from gpu.binder import confirms, degradation, standing
from gpu.binder.changes import Change, Degrade, EndGuest, How, Lose, Place
from gpu.binder.degradation import Stage
from gpu.binder.phase import Scene
from gpu.config import RunningGuests
from gpu.model import guard, guests, keeping, placement, reach, refusals, sets
from gpu.model.guard import Leaving, Tally
from gpu.model.guests import Guest
from gpu.model.keeping import Trouble
from gpu.model.refusals import Refusal
from gpu.model.sets import ClaimSet
from gpu.model.signs import Proof
from gpu.objects.claims import Cause, Displaced, GPUClaim
from gpu.objects.meta import ObjectMeta
from gpu.units import NodeName

_FIRST: Final = {
    Guest.ENDING: 0,
    Guest.OFF: 1,
    Guest.GATED: 1,
    Guest.PROVISIONING: 1,
    Guest.STARTING: 2,
    Guest.RUNNING: 3,
}
"""Who is served first: sets on their way keep what was found for them, running guests come last,
since they run on when nothing is left."""


class Deed(StrEnum):
    """What is done with a set that its node cannot keep."""

    MOVE = "Move"
    END_GUEST = "EndGuest"
    LOSE = "Lose"
    WAIT = "Wait"
    """Its pods must be known to have ended first."""
    KEEP = "Keep"
    """It stays where it is until something changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A set that its node cannot keep any more, grace and all."""

    item: ClaimSet
    claims: tuple[GPUClaim, ...]
    """Its members as they are moved: those that hold units and are not being deleted."""
    trouble: Trouble
    guest: Guest
    proof: Proof | None
    """That no pod of it may run; None while that is not known."""

    @property
    def is_on_its_way(self) -> bool:
        """Say whether nothing lives any more that would have to be ended, and that is not proven."""
        return self.guest not in {Guest.STARTING, Guest.RUNNING} and self.proof is None

    @property
    def leaving(self) -> Leaving:
        """What the guard judges."""
        trouble = self.trouble
        return Leaving(
            set_id=self.item.id,
            node=trouble.node,
            cause=trouble.cause,
            id=guard.id_of(trouble.node, trouble.cause, trouble.since),
            since=min(
                filter(None, (keeping.degraded_since(self.claims), trouble.since)), default=None
            ),
            is_on_its_way=self.is_on_its_way,
        )


def changes_of(scene: Scene) -> Iterator[Change]:
    """Yield moves, losses, guests to be ended, and what Degraded claims say.

    Nothing is done while a claim cannot be read: it may belong to any set.
    """
    if scene.world.unreadable_claims:
        return
    found = scene.draft.sets
    troubles = keeping.troubles(scene.draft, scene.now, scene.config.grace)
    cases = _cases(scene, found, troubles)
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


def deed(trouble: Cause, guest: Guest, running: RunningGuests, *, proven: bool, room: bool) -> Deed:
    """Return what is done with a set: the table of docs/binding.md, "When a node cannot keep a set".

    `proven`: no pod of it may run; `room`: another node has room for all of it.
    """
    is_cordon = trouble is Cause.NODE_CORDONED
    match guest:
        case Guest.RUNNING:
            return _of_running(trouble, running, room=room)
        case Guest.STARTING:
            return Deed.END_GUEST if room or not is_cordon else Deed.KEEP
        case Guest.PROVISIONING if is_cordon:
            return Deed.KEEP  # its volumes are there, or will be: a cordon passes
        case Guest.PROVISIONING if not proven:
            return Deed.END_GUEST
        case Guest.OFF | Guest.GATED | Guest.ENDING if not proven:
            return Deed.WAIT
        case Guest.OFF | Guest.GATED | Guest.ENDING | Guest.PROVISIONING:
            without_room = Deed.KEEP if is_cordon else Deed.LOSE
            return Deed.MOVE if room else without_room
        case _:
            assert_never(guest)


def _of_running(trouble: Cause, running: RunningGuests, *, room: bool) -> Deed:
    if trouble is Cause.NODE_CORDONED:
        return Deed.KEEP
    is_gone = trouble is Cause.NODE_GONE
    if running is RunningGuests.KEEP:
        return Deed.LOSE if is_gone else Deed.KEEP
    return Deed.END_GUEST if room or is_gone else Deed.LOSE


def _cases(scene: Scene, found: Iterable[ClaimSet], troubles: dict[str, Trouble]) -> list[_Case]:
    """Return the sets to be acted on, in the order they are served."""
    if not troubles:
        return []
    snapshot = scene.draft.snapshot
    looking = scene.witness()
    cases = [
        _Case(
            item=item,
            claims=keeping.placed(item),
            trouble=troubles[item.id],
            guest=guests.of(snapshot, item),
            proof=guests.proof(looking, item),
        )
        for item in found
        if item.id in troubles and troubles[item.id].is_due(scene.now)
    ]
    return sorted(
        cases,
        key=lambda case: (
            case.trouble.cause is Cause.NODE_CORDONED,
            _FIRST[case.guest],
            case.item.age,
        ),
    )


def _tally(scene: Scene, found: Iterable[ClaimSet], cases: Iterable[_Case]) -> Tally:
    binders = scene.world.binders
    everywhere = frozenset[str]().union(*(_acknowledged(binder.meta) for binder in binders))
    shown = [
        guard.shown(condition.message)
        for binder in binders
        for condition in binder.conditions
        if condition.type == standing.LOSSES_HELD_BACK and condition.status == "True"
    ]
    leaving = [case.leaving for case in cases]
    left = {going.node for going in leaving}
    told = {
        item.name: _acknowledged(item.meta) for item in scene.world.inventory if item.name in left
    }
    return guard.tally(
        found,
        leaving,
        now=scene.now,
        guard=scene.config.guard,
        acknowledged={
            going.node: told.get(going.node, frozenset()) | everywhere for going in leaving
        },
        shown=frozenset[str]().union(*shown),
    )


def _acknowledged(found: ObjectMeta) -> frozenset[str]:
    return guard.ids(found.annotations.get(keys.ACKNOWLEDGE_LOST_ANNOTATION, ""))


def _act(scene: Scene, case: _Case, tally: Tally) -> Iterator[Change]:
    """Yield what becomes of one set, if the guard lets it."""
    node = _elsewhere(scene, case)
    does = deed(
        case.trouble.cause,
        case.guest,
        scene.config.running_guests,
        proven=case.proof is not None,
        room=node is not None,
    )
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
        _reserve(scene, case, node)
    if does is Deed.END_GUEST:
        yield from _end(scene, case)


def _elsewhere(scene: Scene, case: _Case) -> NodeName | None:
    """Return the node that has room for the whole set, of those that have not refused it lately."""
    memory, now = scene.sightings.rejections, scene.now
    without = reach.rejected(case.item, scene.draft.snapshot, memory, now) | {case.trouble.node}
    return placement.choose(scene.draft, sets.wants(case.claims), without)


def _reserve(scene: Scene, case: _Case, node: NodeName) -> None:
    """Keep the room that a set was promised: no two guests are ended for one place."""
    wants = placement.by_resource(scene.draft, sets.wants(case.claims))
    for resource, units in wants.items():
        scene.draft.ledger.reserve(node, resource, units)


def _move(scene: Scene, case: _Case, node: NodeName) -> Iterator[Change]:
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


def _lose(scene: Scene, case: _Case) -> Iterator[Change]:
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


def _displaced(scene: Scene, case: _Case, claim: GPUClaim) -> Displaced:
    """Return what a member says of where it was: the trouble is that of one node alone.

    A member held elsewhere only goes along. Its node stands, and must not seem to be lost: the guard
    reads here which node was lost first.
    """
    node = claim.node or case.trouble.node
    cause = case.trouble.cause if node == case.trouble.node else Cause.SET_TORN
    return Displaced(at=scene.now, node=node, cause=cause)


def _end(scene: Scene, case: _Case) -> Iterator[Change]:
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
