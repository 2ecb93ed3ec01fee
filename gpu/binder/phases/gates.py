"""Launchers at the gate: make template claims, gather the set, pin and ungate; oldest first.

The whole set stands on one node that takes the pod too, or nothing is made. Every write of a start is
stored before the next is sent, the pin last: cut off anywhere, the next pass goes on from what is
stored. A pod that has to wait stays at the gate, which costs nothing; it is never deleted.
All but the pin is written as soon as the pod is there, if it fits: KubeVirt takes a while to list it.
"""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from gpu import keys
from gpu.binder import conditions, confirms
from gpu.binder.changes import Attach, Change, DeleteClaim, How, Place, SetId
from gpu.binder.confirms import ClaimsHeld, Confirm
from gpu.binder.phase import Scene, Waits
from gpu.binder.start_changes import CreateClaim, ExplainGated, Pin
from gpu.config import PolicyMode, RawPlacement
from gpu.model import (
    attaching,
    bind_requests,
    booking,
    coverage,
    fit,
    foreseen,
    guests,
    reach,
    refusals,
    seats,
    starts,
    template_claims,
    template_units,
)
from gpu.model.ahead import Ahead
from gpu.model.draft import Age
from gpu.model.fit_facts import Facts
from gpu.model.gate_reasons import GateReason, NodesRefused, StartsFail
from gpu.model.misfits import Misfit
from gpu.model.reach import Reach, Reaches
from gpu.model.starts import Start
from gpu.objects.claims import AttachedPod, Attachment, Cause, Displaced, GPUClaim, Phase
from gpu.objects.kinds import VMIS
from gpu.objects.meta import ObjectKey, ObjectMeta, OwnerRef
from gpu.units import ClassName, NodeName, Units

Reasons = tuple[GateReason, ...]
_LISTED_WITHIN: Final = timedelta(seconds=5)
"""Of its creation: a launcher that KubeVirt has not listed by then may be one that it never does."""


def changes_of(scene: Scene) -> Iterator[Change]:
    """Yield what lets launchers through that can be, and what the claims of the others shall say.

    Nothing is placed while a claim cannot be read: it may hold units, nobody knows where.
    """
    if scene.world.unreadable_claims:
        return
    waiting: dict[str, Waits] = {}
    scene.findings.waiting = waiting
    told: Container[ObjectKey] = ()
    found = _in_turn(scene, _starts(scene))
    if found:
        gate = _gate(scene, found, waiting)
        for start in found:
            if not (scene.leaves_alone(start.set_id) or scene.is_unguarded(_new(start))):
                yield from _of(gate, start)
        gate.ahead.give_back()
        told = gate.told
    yield from _quiet(scene, told)


def _starts(scene: Scene) -> tuple[Start, ...]:
    """Return the starts to be looked at; nothing is prepared where no policy says who puts our gate on a pod."""
    is_kept = scene.config.policies is not PolicyMode.OFF
    return starts.with_coming(scene.draft) if is_kept else starts.waiting(scene.draft)


def _new(start: Start) -> Iterator[ClassName]:
    """Yield the classes of which units would be held that are not yet."""
    yield from start.missing
    yield from (claim.class_name for claim in start.claims if claim.phase is not Phase.BOUND)


@dataclass(slots=True, kw_only=True)
class _Gate:
    """What the starts of one pass are judged by."""

    scene: Scene
    reaches: Reaches
    ahead: Ahead
    facts: Facts
    waiting: dict[str, Waits]
    told: set[ObjectKey] = field(default_factory=set)
    """Claims that say why."""


def _gate(scene: Scene, found: tuple[Start, ...], waiting: dict[str, Waits]) -> _Gate:
    reaches = reach.by_evidence(scene.witness())
    own = {start.set_id for start in found}
    return _Gate(
        scene=scene,
        reaches=reaches,
        ahead=Ahead(scene.draft, reaches, own | scene.skip),
        waiting=waiting,
        facts=foreseen.beside(scene.draft, scene.fit_facts(), {start.key for start in found}),
    )


def _of(gate: _Gate, start: Start) -> Iterator[Change]:
    scene = gate.scene
    is_schedulers = start.is_raw and scene.config.raw_placement is RawPlacement.SCHEDULER
    if start.is_plain or is_schedulers:
        yield _pin(start, None)
        return
    where = gate.reaches(start.found) if start.found else Reach()
    later = _later(scene, start)
    seat = (later,) if later else _seat(gate, start, where)
    if isinstance(seat, tuple):
        if start.is_listed:  # or it is told once it is
            yield from _waits(gate, start, seat)
    else:
        yield from _seated(gate, start, seat, where)


# When, whether and where.


def _in_turn(scene: Scene, found: tuple[Start, ...]) -> tuple[Start, ...]:
    """Have those come last whose starts fail again and again."""
    demotions = scene.sightings.demotions
    demoted = {start.key for start in found if demotions.of(start.key)} if found else set()
    scene.findings.demoted = len(demoted)
    return tuple(sorted(found, key=lambda start: start.key in demoted)) if demoted else found


def _later(scene: Scene, start: Start) -> StartsFail | None:
    """Return why it is not the turn of a start yet, if it is not."""
    known = scene.sightings.demotions.of(start.key)
    if known is None or known.until <= scene.now:
        return None
    return StartsFail(known.failures, known.until)


def _age(scene: Scene, start: Start) -> Age:
    """Return what a start's turn goes by: one that is demoted is younger than anything that waits."""
    is_demoted = scene.sightings.demotions.of(start.key) is not None
    return (scene.now, start.vmi.meta.uid) if is_demoted else start.age


def _seat(gate: _Gate, start: Start, where: Reach) -> NodeName | Reasons:
    """Return the node for a start, or every reason why it waits."""
    tied: Reasons = ()
    if where.is_tied:
        # An end that mostly is on its way: stopping this VM would change nothing.
        tied = starts.still_used(gate.scene.draft, start) or (refusals.GuestMayRun(),)
    if start.barred or tied:
        return tuple(dict.fromkeys((*start.barred, *tied)))
    draft = gate.scene.draft
    if start.has_lost:
        draft.count_older(start.age)
    else:
        gate.ahead.of(_age(gate.scene, start))
    without = where.without | gate.scene.sightings.rejections.of(start.key)
    refused = template_units.of_start(draft, start)
    needs = fit.asked(start.pod)

    def why_not(name: NodeName) -> Misfit | None:
        return fit.why_not(needs, draft.snapshot.nodes[name], gate.facts)

    seat = seats.choose(draft, start, without, why_not)
    home = seats.home(start)
    if home not in {None, seat} and guests.has_just_ended(draft.snapshot, start.claims):
        return starts.in_use(start)  # the next pass comes at once, and may find room where they are
    if not isinstance(seat, tuple):
        return refused or seat
    skipped = len(without & draft.snapshot.nodes.keys())
    told = (*refused, *seat, *((NodesRefused(skipped),) if skipped else ()))
    return tuple(dict.fromkeys(told))


# What is written.


def _seated(gate: _Gate, start: Start, node: NodeName, where: Reach) -> Iterator[Change]:
    """Yield the writes of a start, in order: make claims, hold each on the node, pin."""
    scene, draft = gate.scene, gate.scene.draft
    made = [_template(start, name, units, scene) for name, units in start.missing.items()]
    for claim in made:
        draft.add(claim)
        yield CreateClaim(claim=claim, set_id=start.set_id)
    relied = confirms.of(where.proof) if where.proof else ()
    used = (*start.held, *start.templates, *made)
    for claim in (*used, *start.along):
        noted = None if claim in start.along else _attached(scene, start, claim, node)
        hold = _Hold(claim=claim, node=node, attachment=noted, relied=relied)
        yield from _held(scene, hold, start.set_id)
    draft.seat(start.pod, node, start.key)
    booking.charge_raw(draft.ledger, start.tenant, start.raw, +1)
    gate.facts.pin(start.pod, node)
    if start.is_listed:
        yield _pin(start, node, tuple((it.meta.name, it.meta.resource_version) for it in used))
    else:
        _prepared(scene, start, used)


def _prepared(scene: Scene, start: Start, used: Iterable[GPUClaim]) -> None:
    """Have it known that a launcher is not let through yet, and whether it is about to be listed."""
    noted = [it.attached_to.pods for it in used if it.attached_to]
    if not any(pod.uid == start.pod.meta.uid for pods in noted for pod in pods):
        scene.findings.prepared.append(start.pod)
    if scene.now < start.pod.meta.created + _LISTED_WITHIN:
        scene.findings.is_listed_soon = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hold:
    """A claim as a start needs it."""

    claim: GPUClaim
    node: NodeName
    attachment: Attachment | None
    """None: it is not used, it only goes where its VM's set goes."""
    relied: tuple[Confirm, ...]


def _held(scene: Scene, hold: _Hold, set_id: SetId) -> Iterator[Change]:
    """Yield what holds a claim on its node and notes the launcher there; nothing when it does."""
    claim, at = hold.claim, coverage.node_held(hold.claim)
    if at != hold.node:
        how = How.GATHERED if at else How.REBOUND if claim.phase is Phase.LOST else How.PLACED
        yield scene.plan(
            Place(
                claim=claim,
                node=hold.node,
                at=scene.now,
                set_id=set_id,
                how=how,
                displaced=Displaced(at=scene.now, node=at, cause=Cause.SET_TORN) if at else None,
                attachment=hold.attachment,
                confirm=hold.relied,
            )
        )
        return
    if hold.attachment is not None and hold.attachment != claim.attached_to:
        yield scene.plan(
            Attach(claim=claim, attachment=hold.attachment, at=scene.now, set_id=set_id)
        )
    if conditions.reason_of(claim, conditions.WAITING):
        yield scene.plan(_explain(scene, claim, (), set_id))


def _template(start: Start, name: ClassName, units: Units, scene: Scene) -> GPUClaim:
    vmi = start.vmi.meta
    owner = OwnerRef(
        api_version=VMIS.api_version, kind=VMIS.kind, name=vmi.name, uid=vmi.uid, controller=True
    )
    return GPUClaim(
        meta=ObjectMeta(
            name=template_claims.name_of(vmi.uid, name),
            namespace=vmi.namespace,
            created=scene.now,
            labels={keys.TEMPLATE_CLAIM_LABEL: "true"},
            finalizers=(keys.CLAIM_FINALIZER,),
            owners=(owner,),
        ),
        class_name=name,
        count=units,
        has_status=False,
    )


def _attached(scene: Scene, start: Start, claim: GPUClaim, node: NodeName) -> Attachment:
    """Return the attachment of a claim with the launcher noted on its node."""
    vmi, launcher = start.vmi.meta, start.pod.meta.uid
    found = claim.attached_to or Attachment(vmi=vmi.name, uid=vmi.uid, since=scene.now)
    here = AttachedPod(uid=launcher, node=node)
    pods = [here if pod.uid == launcher else pod for pod in found.pods]
    return replace(
        found,
        uid=vmi.uid,
        pods=tuple(pods) if here in pods else (*pods, here),
        launched=bind_requests.is_promised(claim) and attaching.has_launched(claim, start.vmi),
    )


def _pin(start: Start, node: NodeName | None, used: tuple[tuple[str, str], ...] = ()) -> Pin:
    vmi, pod = start.vmi.meta, start.pod
    held = ClaimsHeld(
        namespace=vmi.namespace,
        claims=used,
        node=node or NodeName(""),
        vmi_uid=vmi.uid,
        pod=pod.meta.uid,
    )
    return Pin(
        vmi=vmi.key,
        vmi_uid=vmi.uid,
        pod=pod,
        node=node,
        set_id=start.set_id,
        raw=start.raw if node else {},
        confirm=(held,) if used else (),
    )


# What is said.


def _waits(gate: _Gate, start: Start, reasons: Reasons) -> Iterator[Change]:
    """Say why a start waits; a template claim that holds nothing goes, or it would use up budget."""
    scene = gate.scene
    gate.waiting[start.vmi.meta.uid] = Waits(vmi=start.key, reasons=reasons)
    for claim in start.templates:
        if claim.phase is Phase.PENDING and not claim.meta.deleting:
            yield DeleteClaim(claim=claim, set_id=start.set_id)
    yield from _noted(scene, start)
    for claim in start.claims:
        if claim.phase is not Phase.BOUND or claim.attached_to is None:
            continue
        gate.told.add(claim.key)
        if not conditions.says(claim, conditions.gated(claim, reasons, scene.now)):
            yield scene.plan(_explain(scene, claim, reasons, start.set_id))


def _noted(scene: Scene, start: Start) -> Iterator[Change]:
    """Note the VMI and its launcher, which phase `attachments` has left to this one."""
    for claim in start.held:
        noted = attaching.noted(scene.draft.snapshot, claim, start.vmi)
        if noted is not None and noted != claim.attached_to and not claim.meta.deleting:
            yield scene.plan(
                Attach(claim=claim, attachment=noted, at=scene.now, set_id=start.set_id)
            )


def _quiet(scene: Scene, told: Container[ObjectKey]) -> Iterator[Change]:
    """Take back what Bound claims say whose VM does not wait any more."""
    left = [claim for claim in scene.draft.gated if claim.key not in told]
    if not left:
        return
    ids = {claim.key: found.id for found in scene.draft.sets for claim in found.claims}
    for claim in left:
        if not scene.leaves_alone(ids[claim.key]):
            yield scene.plan(_explain(scene, claim, (), ids[claim.key]))


def _explain(scene: Scene, claim: GPUClaim, reasons: Reasons, set_id: SetId) -> ExplainGated:
    return ExplainGated(
        claim=scene.draft.claim(claim.key) or claim, reasons=reasons, at=scene.now, set_id=set_id
    )
