"""The usage record each claim should have, under which monitor, and what became of records so far.

A record is a Workload of the host, one per claim that holds something, owned by the claim. Hosts of
today delete a Workload without a monitor at once; where that is seen, records are kept under a
WorkloadMonitor of ours that selects no pod (decision 0011).
"""

import hashlib
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from gpu import keys
from gpu.config import UsageRecordMonitor
from gpu.model import spent
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.kinds import GPU_CLAIMS
from gpu.objects.workloads import Monitor, Workload
from gpu.units import ClaimName

KIND: Final = "gpuclaim"
"""What a hoster tells our records from those of pods by."""
SELECTOR: Final = ((keys.USAGE_MONITOR_SELECTOR_LABEL, "true"),)
"""Never empty: an empty selector matches every pod of the namespace."""
STUBBORN: Final = 3
"""Deletions of one record after which whoever deletes it is said to go on doing so."""

_FOREGROUND: Final = "foregroundDeletion"
"""Kubernetes' own finalizer, while garbage collection deletes what an object owns."""
_NAME_MOST: Final = 253
_HASH: Final = 16
_RESERVED_LABELS: Final = "workloads.cozystack.io/"
_SETTLES: Final = timedelta(seconds=1)
"""Watches of several kinds are not in step: the end of a claim may be shown after its record's."""
_CALM: Final = timedelta(minutes=10)
"""A record that may be there again for so long, and is, is no longer thought to be fought over."""
_RETRY_FIRST: Final = 5.0
_RETRY_GROWS: Final = 4
_RETRY_MOST: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A usage record as it should be: a Workload owned by its claim (domain contract 6)."""

    name: str
    kind: str
    type: str
    resources: tuple[tuple[str, int], ...]
    operational: bool
    labels: tuple[tuple[str, str], ...] = ()


class Kept(StrEnum):
    """How records are kept; the reason of GPUBinder's condition RecordsKept."""

    PLAIN = "NoMonitor"
    UNDER_MONITOR = "UnderMonitor"
    HOST_DELETES = "HostDeletesRecords"
    """Seen once it stays said, so that the next leader need not see it again."""
    NAME_TAKEN = "NameTaken"
    NOT_SERVED = "KindNotServed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the leader tells of its records on GPUBinder."""

    kept: Kept
    anchored: bool = False
    """They are kept under our monitor."""
    fought_over: int = 0
    """Records that somebody deletes again and again."""
    taken: tuple[str, ...] = ()
    """`namespace/name` of Workloads that bear a record's name and are not ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """How often the record of a living claim was deleted by somebody else, and when last."""

    times: int
    at: datetime

    @property
    def again_at(self) -> datetime:
        """When it may be made anew: at once the first time, then at growing distances."""
        if self.times == 1:
            return self.at
        wait = _RETRY_FIRST * _RETRY_GROWS ** min(self.times - 2, 16)
        return self.at + timedelta(seconds=min(wait, _RETRY_MOST))


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What this leader knows of its records besides what is there; all by uid of the claim."""

    stored: frozenset[str] = frozenset()
    """There when last looked, or stored since."""
    missed: Mapping[str, datetime] = field(default_factory=dict)
    """Stored, and gone since that instant; no deletion yet: the claim may be going too."""
    deletions: Mapping[str, Deletion] = field(default_factory=dict)
    seen: int = 0
    """Deletions by others that this leader has seen."""
    remade: frozenset[str] = frozenset()
    """Made anew once while the claim was being deleted: never in a fight with a host that deletes."""


def holds(claim: GPUClaim) -> bool:
    """Say whether a claim has a record: Bound and Lost ones do, which count for budgets too."""
    return claim.phase is not Phase.PENDING


def is_held_on(claim: GPUClaim) -> bool:
    """Say whether a claim that is being deleted is kept by a use of it, with nothing left to cascade.

    A deletion in the foreground takes the record before the claim, though a VM may run on for long.
    """
    finalizers = claim.meta.finalizers
    return (
        claim.attached_to is not None
        and keys.CLAIM_FINALIZER in finalizers
        and _FOREGROUND not in finalizers
    )


def name_of(claim: ClaimName) -> str:
    """Return the name of a claim's record; no two claims of a namespace share one.

    A name too long is cut and hashed to exactly the longest length, which no other reaches.
    """
    whole = f"{keys.USAGE_RECORD_PREFIX}{claim}"
    if len(whole) < _NAME_MOST:
        return whole
    digest = hashlib.sha256(claim.encode()).hexdigest()[:_HASH]
    return f"{whole[: _NAME_MOST - _HASH - 1]}x{digest}"


def record_of(claim: GPUClaim, *, anchored: bool) -> Record:
    """Return the record of a claim that holds something.

    Its units stand under the quota key of the class and not under the resource's raw name: that is
    what the host already records of the launcher pod while a VM runs, and both would be billed.
    """
    copied = {
        name: value
        for name, value in claim.meta.labels.items()
        if not name.startswith(_RESERVED_LABELS)
    }
    copied[keys.CLASS_LABEL] = claim.class_name
    if anchored:
        copied[keys.WORKLOAD_MONITOR_LABEL] = keys.USAGE_MONITOR_NAME
    return Record(
        name=name_of(ClaimName(claim.meta.name)),
        kind=KIND,
        type=claim.class_name,
        resources=((keys.quota_key_of_class(claim.class_name), claim.count),),
        operational=claim.phase is Phase.BOUND and not spent.is_degraded(claim),
        labels=tuple(sorted(copied.items())),
    )


def is_ours(workload: Workload) -> bool:
    """Say whether a Workload is named as records are."""
    return workload.meta.name.startswith(keys.USAGE_RECORD_PREFIX)


def owner_of(workload: Workload) -> str:
    """Return the uid of the claim whose record it is; empty when it is none of ours."""
    if not is_ours(workload):
        return ""
    group = f"{keys.GROUP}/"
    return next(
        (
            owner.uid
            for owner in workload.meta.owners
            if owner.kind == GPU_CLAIMS.kind and owner.api_version.startswith(group)
        ),
        "",
    )


def is_orphan(workload: Workload) -> bool:
    """Say whether it is a record from which its owner was taken: its claim was deleted that way.

    Only records say that they are a gpuclaim's, and nobody but the controller makes one.
    """
    return is_ours(workload) and workload.kind == KIND and not workload.meta.owners


def can_own(claim: GPUClaim, orphan: Workload) -> bool:
    """Say whether an orphan is a claim's and not that of an earlier claim of its name."""
    return name_of(ClaimName(claim.meta.name)) == orphan.meta.name and (
        claim.meta.created <= orphan.meta.created
    )


def says(workload: Workload, record: Record) -> bool:
    """Tell whether a stored record is as it should be; more labels than wanted are let be."""
    return (
        workload.kind == record.kind
        and workload.type == record.type
        and workload.operational == record.operational
        and dict(workload.resources) == {name: str(units) for name, units in record.resources}
        and set(record.labels) <= set(workload.meta.labels.items())
    )


def selects_no_pod(monitor: Monitor) -> bool:
    """Say whether a monitor of ours selects as it should."""
    return set(SELECTOR) <= set(monitor.selector.items())


def is_anchored(mode: UsageRecordMonitor, *, marked: bool, memory: Memory) -> bool:
    """Decide whether records are kept under a monitor; `marked`: an earlier leader did so."""
    match mode:
        case UsageRecordMonitor.NONE:
            return False
        case UsageRecordMonitor.ANCHOR:
            return True
        case UsageRecordMonitor.AUTO:
            return marked or bool(memory.deletions)


def fought_over(memory: Memory) -> int:
    """Count the records that somebody deletes again and again."""
    return sum(deletion.times >= STUBBORN for deletion in memory.deletions.values())


def next_look(memory: Memory, now: datetime) -> datetime | None:
    """Return when a record that is not there is to be thought of again; None when none is missing."""
    again = [
        deletion.again_at for uid, deletion in memory.deletions.items() if uid not in memory.stored
    ]
    later = [at for at in again if at > now]
    return min([*later, *(since + _SETTLES for since in memory.missed.values())], default=None)


def remember(
    old: Memory,
    *,
    alive: AbstractSet[str],
    owners: Iterable[str],
    now: datetime,
) -> Memory:
    """Return what is known after one more look.

    `owners` are uids of the claims whose records are there; `alive` those of claims that are not
    being deleted, nor their namespaces.

    A record that was stored, and whose claim lives on for a second without it, was deleted by
    somebody else: we never delete one of a living claim.
    """
    there = frozenset(owners).intersection(alive)
    missing = ((old.stored - there) | (old.missed.keys() - there)) & alive
    missed = {uid: old.missed.get(uid, now) for uid in sorted(missing)}
    gone = {uid for uid, since in missed.items() if now - since >= _SETTLES}
    deletions = {
        uid: deletion
        for uid, deletion in old.deletions.items()
        if uid in alive and not (uid in there and now - deletion.again_at >= _CALM)
    }
    for uid in sorted(gone):
        before = deletions[uid].times if uid in deletions else 0
        deletions[uid] = Deletion(times=before + 1, at=now)
    return Memory(
        stored=old.stored if there == old.stored else there,
        missed={uid: since for uid, since in missed.items() if uid not in gone},
        deletions=deletions,
        seen=old.seen + len(gone),
        remade=old.remade,
    )
