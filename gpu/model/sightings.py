"""What the leader itself saw of pods that use claims; kept in its memory from pass to pass.

A new leader begins with nothing and sees everything anew, so each clock here starts again: that can
only delay a release, never bring one forward.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from gpu.config import Grace
from gpu.model import demotions, rejections
from gpu.model.demotions import Demotions
from gpu.model.rejections import Rejections
from gpu.model.snapshot import Snapshot
from gpu.model.usage import Memory
from gpu.objects.claims import GPUClaim
from gpu.objects.pods import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Sightings:
    """Of the pods recorded in attachments and not known to have ended, by uid; of records and starts."""

    absent: Mapping[str, datetime] = field(default_factory=dict)
    """Since when the pod object is not there."""
    unplaced: frozenset[str] = frozenset()
    """Seen by this leader, and when last seen a scheduling gate kept them from any node."""
    records: Memory = field(default_factory=Memory)
    """What became of usage records; `observe` leaves it as it is."""
    rejections: Rejections = field(default_factory=Rejections)
    """Which nodes refused launchers; `observe` leaves it as it is, as the next."""
    demotions: Demotions = field(default_factory=Demotions)
    """Whose starts fail."""


def observe(
    old: Sightings,
    claims: Iterable[GPUClaim],
    pods: Mapping[tuple[str, str], Pod],
    now: datetime,
) -> Sightings:
    """Return what is known after one more look; `pods` by namespace and uid.

    A pod without a node that no gate holds may be bound and deleted before the next look.
    """
    absent: dict[str, datetime] = {}
    unplaced: set[str] = set()
    for claim in claims:
        attachment = claim.attached_to
        for pod in attachment.pods if attachment else ():
            if pod.ended:
                continue
            seen = pods.get((claim.meta.namespace, pod.uid))
            if seen is None:
                absent[pod.uid] = old.absent.get(pod.uid, now)
                if pod.uid in old.unplaced:
                    unplaced.add(pod.uid)
            elif seen.node is None and seen.gates:
                unplaced.add(pod.uid)
    return replace(old, absent=absent, unplaced=frozenset(unplaced))


def is_told_of(claim: GPUClaim, pods: Mapping[tuple[str, str], Pod]) -> bool:
    """Say whether `observe` has anything to say of a claim's pods; of most it has not."""
    attachment, namespace = claim.attached_to, claim.meta.namespace
    for pod in attachment.pods if attachment else ():
        seen = None if pod.ended else pods.get((namespace, pod.uid))
        if not pod.ended and (seen is None or (seen.node is None and bool(seen.gates))):
            return True
    return False


def look(old: Sightings, snapshot: Snapshot, grace: Grace, now: datetime) -> Sightings:
    """Return what is known after one more look: at pods of claims where something changed, at all starts."""
    pods, given = snapshot.pods, snapshot.given
    told = snapshot.memo.unseen.follow(
        snapshot.attached, given.vmis, given.pods, lambda claim: is_told_of(claim, pods)
    )
    seen = observe(old, [snapshot.claims[key] for key in sorted(told)], pods, now)
    refused = rejections.observe(old.rejections, snapshot, grace, now)
    by_node = frozenset(one.vmi for one in refused.kept)
    return replace(
        seen,
        rejections=refused,
        demotions=demotions.observe(old.demotions, snapshot, by_node, now),
    )
