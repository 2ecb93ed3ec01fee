"""Usage records: one Workload per claim that holds something, feature on or off (domain contract 6).

Missing ones are made, differing ones changed, those of claims that are no more dropped. Where records
are kept under a monitor of ours, the monitor comes first: hosts delete a record whose monitor is not
there. One that somebody deletes again and again is made anew at growing distances, never in a fight.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpu import keys
from gpu.binder import changes, standing
from gpu.binder.changes import Change, DropRecord, WriteMonitor, WriteRecord
from gpu.binder.phase import Scene
from gpu.model import usage
from gpu.model.records import Records
from gpu.model.usage import Kept, Standing
from gpu.objects import meta
from gpu.objects.claims import GPUClaim
from gpu.objects.kinds import WORKLOAD_MONITORS, WORKLOADS
from gpu.objects.meta import ObjectKey
from gpu.objects.workloads import Monitor, Workload
from gpu.units import ClaimName

_TOLD: Final = 10
"""Names of Workloads in our way that are told of."""


def changes_of(scene: Scene) -> Iterator[Change]:
    """Yield what makes the records in the cluster those that claims should have."""
    if "workloads" in scene.world.unserved:
        scene.findings.records = Standing(kept=Kept.NOT_SERVED)
        return
    plan = _plan(scene)
    scene.findings.records = _standing(scene, plan)
    yield from _monitors(scene, plan)
    yield from _records(scene, plan)
    yield from _strays(scene, plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What one pass does about records."""

    anchored: bool
    holders: tuple[GPUClaim, ...]
    """Claims that shall have a record, outside namespaces that are being deleted."""
    known: Records
    monitors: dict[str, Monitor]
    """By namespace."""


def _plan(scene: Scene) -> _Plan:
    world = scene.world
    ending = {item.meta.name for item in world.namespaces if item.meta.deleting}
    anchored = "monitors" not in world.unserved and usage.is_anchored(
        scene.config.usage_record_monitor,
        marked=bool(world.monitors) or _is_marked(scene),
        memory=scene.sightings.records,
    )
    holders = scene.draft.holders
    stored = scene.draft.snapshot.claims
    if ending or any(key not in stored for key in scene.draft.changed):
        # A claim made in this pass has no uid to own a record by: the next pass makes it.
        holders = tuple(
            claim for claim in holders if claim.meta.uid and claim.meta.namespace not in ending
        )
    known = scene.draft.snapshot.memo.records
    known.follow(world.workloads, usage.owner_of, usage.is_ours)
    known.hold(holders, anchored=anchored)
    return _Plan(
        anchored=anchored,
        holders=holders,
        known=known,
        monitors={item.meta.namespace: item for item in world.monitors},
    )


def _is_marked(scene: Scene) -> bool:
    """Say whether a leader has seen the host delete records, and said so."""
    told = (
        meta.condition(binder.conditions, standing.RECORDS_KEPT)
        for binder in scene.world.binders
        if binder.meta.name == keys.BINDER_NAME
    )
    return any(found is not None and found.reason == Kept.HOST_DELETES for found in told)


def _standing(scene: Scene, plan: _Plan) -> Standing:
    memory = scene.sightings.records
    fought_over = usage.fought_over(memory)
    unowned = {
        key for key, found, owner in plan.known.others() if not owner and not usage.is_orphan(found)
    }
    taken = tuple(
        str(key) for key in (_key(claim) for claim in plan.holders if unowned) if key in unowned
    )
    is_seen = bool(memory.deletions) or (_is_marked(scene) and plan.anchored)
    if taken:
        kept = Kept.NAME_TAKEN
    elif fought_over or (is_seen and plan.anchored):
        kept = Kept.HOST_DELETES
    else:
        kept = Kept.UNDER_MONITOR if plan.anchored else Kept.PLAIN
    return Standing(kept=kept, anchored=plan.anchored, fought_over=fought_over, taken=taken[:_TOLD])


def _monitors(scene: Scene, plan: _Plan) -> Iterator[WriteMonitor]:
    """Yield monitors that are missing, and heal each whose selector would match pods."""
    wanted = {claim.meta.namespace for claim in plan.holders} if plan.anchored else set[str]()
    for namespace in sorted(wanted | plan.monitors.keys()):
        found = plan.monitors.get(namespace)
        key = ObjectKey(namespace, keys.USAGE_MONITOR_NAME)
        if scene.leaves_alone(changes.object_set(WORKLOAD_MONITORS, key)):
            continue
        if found is None or (not found.meta.deleting and not usage.selects_no_pod(found)):
            yield WriteMonitor(
                namespace=namespace,
                uid=found.meta.uid if found else "",
                selector=usage.SELECTOR,
            )


def _records(scene: Scene, plan: _Plan) -> Iterator[WriteRecord]:
    known = plan.known
    for claim in known.unsure():
        key = _key(claim)
        if claim.key in scene.beside or scene.leaves_alone(changes.object_set(WORKLOADS, key)):
            continue
        if plan.anchored and claim.meta.namespace not in plan.monitors:
            continue
        record = usage.record_of(claim, anchored=plan.anchored)
        there, owner = known.there.get(key, (None, ""))
        if there is None:
            if _may_make(scene, claim):
                yield WriteRecord(claim=claim, record=record, uid="")
        elif owner == claim.meta.uid:
            if usage.says(there, record):
                known.agreed[owner] = key
            else:
                yield WriteRecord(claim=claim, record=record, uid=there.meta.uid)
        elif usage.is_orphan(there) and usage.can_own(claim, there):
            yield WriteRecord(claim=claim, record=record, uid=there.meta.uid)


def _may_make(scene: Scene, claim: GPUClaim) -> bool:
    """Say whether a missing record is made now: not in a fight, and for a claim that goes once."""
    memory = scene.sightings.records
    uid = claim.meta.uid
    if claim.meta.deleting:
        return usage.is_held_on(claim) and uid not in memory.remade
    deletion = memory.deletions.get(uid)
    return uid not in memory.missed and (deletion is None or scene.now >= deletion.again_at)


def _strays(scene: Scene, plan: _Plan) -> Iterator[DropRecord]:
    """Yield records whose claim is no more, or which are not the one record of their claim."""
    doubted = [other for other in plan.known.others() if other[2] or usage.is_orphan(other[1])]
    if not doubted:
        return
    claims = {_key(claim): claim for claim in scene.draft.claims()}
    uids = {claim.meta.uid for claim in claims.values()}
    for key, found, owner in doubted:
        if found.meta.deleting or _is_of(claims.get(key), found, owner):
            continue
        if owner not in uids and _is_unread(scene, found):
            continue
        if not scene.leaves_alone(changes.object_set(WORKLOADS, key)):
            yield DropRecord(key=key, uid=found.meta.uid)


def _is_of(claim: GPUClaim | None, record: Workload, owner: str) -> bool:
    """Say whether a record is that of the claim whose name it bears."""
    if claim is None:
        return False
    return claim.meta.uid == owner if owner else usage.can_own(claim, record)


def _is_unread(scene: Scene, record: Workload) -> bool:
    """Say whether its claim may be one that cannot be read."""
    home = record.meta.namespace
    if not record.meta.owners:
        return any(
            usage.name_of(ClaimName(key.name)) == record.meta.name
            for key in scene.world.unreadable_claims
            if key.namespace == home
        )
    return any(
        ObjectKey(home, owner.name) in scene.world.unreadable_claims for owner in record.meta.owners
    )


def _key(claim: GPUClaim) -> ObjectKey:
    return ObjectKey(claim.meta.namespace, usage.name_of(ClaimName(claim.meta.name)))
