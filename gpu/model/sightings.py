"""What the leader itself saw of pods that use claims; kept in its memory from pass to pass.

A new leader begins with nothing and sees everything anew, so each clock here starts again: that can
only delay a release, never bring one forward.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gpu.model import usage
from gpu.objects.claims import GPUClaim
from gpu.objects.pods import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Sightings:
    """Of the pods recorded in attachments, by uid."""

    absent: Mapping[str, datetime] = field(default_factory=dict)
    """Since when the pod object is not there."""
    unplaced: frozenset[str] = frozenset()
    """Seen by this leader, and when last seen it had no node."""
    records: usage.Memory = field(default_factory=usage.Memory)
    """What became of usage records; kept by the pass, not by `observe`."""


def observe(
    old: Sightings, claims: Iterable[GPUClaim], pods: Iterable[Pod], now: datetime
) -> Sightings:
    """Return what is known after one more look."""
    recorded = {
        pod.uid
        for claim in claims
        if claim.attached_to is not None
        for pod in claim.attached_to.pods
        if not pod.ended
    }
    if not recorded:
        return Sightings()
    there = {pod.meta.uid: pod for pod in pods if pod.meta.uid in recorded}
    missing = recorded - there.keys()
    unplaced = {uid for uid, pod in there.items() if pod.node is None}
    return Sightings(
        absent={uid: old.absent.get(uid, now) for uid in missing},
        unplaced=frozenset(unplaced | (old.unplaced & missing)),
    )
