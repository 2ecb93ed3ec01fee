"""Bind requests (`binding: request`): answer whole sets, change nothing on a refusal.

A webhook waits for the answer and admits the VMI pinned to the node, or not at all. A request is answered
in one plan: all its claims on one node, each with the result in the same write, or refused as a whole.
Requests come behind Lost sets and older orders, as starts at the gate do; one that is begun is finished.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gpu.binder import confirms
from gpu.binder.answer_changes import Answer
from gpu.binder.changes import Change, How, Place
from gpu.binder.phase import Scene
from gpu.model import (
    answers,
    bind_requests,
    coverage,
    fit_facts,
    foreseen,
    gate_reasons,
    reach,
)
from gpu.model.ahead import Ahead
from gpu.model.answers import Case, Granted, Refused
from gpu.model.fit_facts import Facts
from gpu.model.foreseen import Launchers
from gpu.model.reach import Reach, Reaches
from gpu.objects.claims import BindRequest, BindResult, Displaced, GPUClaim, Phase
from gpu.units import ClassName


def changes_of(scene: Scene) -> Iterator[Change]:
    """Yield the answers to requests that are whole, with what places their claims.

    Nothing is placed while a claim cannot be read: it may hold units, nobody knows where.
    """
    draft = scene.draft
    if not draft.requested:
        return
    asked = bind_requests.find(draft.requested, scene.now, scene.config.grace.attachment)
    found = [
        case
        for case in answers.cases_of(draft, asked)
        if not (scene.leaves_alone(case.found.id) or scene.is_unguarded(_new(case)))
    ]
    if not found:
        return
    if scene.world.unreadable_claims:
        for case in found:
            yield from _refused(scene, case, Refused((gate_reasons.ClaimsUnreadable(),)))
        return
    reaches = reach.by_evidence(scene.witness())
    ahead = Ahead(draft, reaches, {case.found.id for case in found} | scene.skip)
    launchers = foreseen.launchers(draft, _facts(scene, found), scene.seats)
    for case in found:
        yield from _answer(scene, case, _Turn(ahead, reaches, launchers))
    ahead.give_back()


def _new(case: Case) -> Iterator[ClassName]:
    """Yield the classes of which units would be held that are not yet."""
    return (claim.class_name for claim in case.claims if claim.phase is not Phase.BOUND)


@dataclass(frozen=True, slots=True)
class _Turn:
    """What the starts of one pass are judged by."""

    ahead: Ahead
    reaches: Reaches
    launchers: Launchers


def _facts(scene: Scene, found: Iterable[Case]) -> Facts:
    """Look at pods and volumes, if any start tells of a launcher that is to stand beside them."""
    if not any(case.asked.request.launcher for case in found):
        return fit_facts.of(nodes=scene.draft.snapshot.nodes, pods=())
    return scene.fit_facts()


def _answer(scene: Scene, case: Case, turn: _Turn) -> Iterator[Change]:
    draft, reaches, ahead = scene.draft, turn.reaches, turn.ahead
    if case.has_lost or case.asked.is_begun:
        draft.count_older(case.age)
    else:
        ahead.of(case.age)
    where = reaches(case.found)
    without = where.without | scene.sightings.rejections.of(case.asked.vm)
    decided = answers.decide(turn.launchers, case, where, without)
    if isinstance(decided, Refused):
        yield from _refused(scene, case, decided)
    else:
        turn.launchers.grant(case.asked, decided.node)
        yield from _granted(scene, case, decided, where)


def _refused(scene: Scene, case: Case, found: Refused) -> Iterator[Change]:
    """Yield the refusal on each claim; a part that was granted before the rest is refused with it."""
    told = _told(case, BindResult.REFUSED, answers.refused(case, found))
    for claim in case.asked.claims:
        yield scene.plan(Answer(claim=claim, request=told, at=scene.now, set_id=case.found.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grant:
    """What a granted start does with each of its claims."""

    case: Case
    seat: Granted
    where: Reach
    told: BindRequest


def _granted(scene: Scene, case: Case, seat: Granted, where: Reach) -> Iterator[Change]:
    """Yield the writes, those that place first: a claim that stays says so once the others are there."""
    told = _told(case, BindResult.SUCCEEDED, answers.granted(case, seat))
    grant = _Grant(case=case, seat=seat, where=where, told=told)
    moves = [claim for claim in case.claims if coverage.node_held(claim) != seat.node]
    own = {claim.key for claim in case.asked.claims}
    for claim in moves:
        yield scene.plan(_place(scene, claim, grant, told if claim.key in own else None))
    for claim in case.asked.claims:
        if claim not in moves and claim.bind_request != told:
            yield scene.plan(
                Answer(
                    claim=claim,
                    request=told,
                    awaits_uncordon=seat.is_cordoned,
                    at=scene.now,
                    set_id=case.found.id,
                )
            )


def _place(scene: Scene, claim: GPUClaim, grant: _Grant, told: BindRequest | None) -> Place:
    left = coverage.node_held(claim)
    is_torn = len(set(filter(None, map(coverage.node_held, grant.case.claims)))) > 1
    how = How.REBOUND if claim.phase is Phase.LOST else How.PLACED
    if left:
        how = How.GATHERED if is_torn else How.MOVED
    cause = answers.cause_of(scene.draft, claim)
    return Place(
        claim=claim,
        node=grant.seat.node,
        at=scene.now,
        set_id=grant.case.found.id,
        how=how,
        displaced=Displaced(at=scene.now, node=left, cause=cause) if left else None,
        answer=told,
        confirm=confirms.of(grant.where.proof) if grant.where.proof else (),
    )


def _told(case: Case, result: BindResult, message: str) -> BindRequest:
    return replace(case.asked.request, result=result, message=message)
