"""What the leader itself saw of pods that use claims; kept in its memory from pass to pass.

A new leader begins with nothing and sees everything anew, so each clock here starts again: that can
only delay a release, never bring one forward.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from gpu.config import Grace
from gpu.model import coverage, demotions, rejections
from gpu.model.demotions import Demotions
from gpu.model.rejections import Rejections
from gpu.model.snapshot import Snapshot
from gpu.model.usage import Memory
from gpu.objects.claims import AttachedPod, GPUClaim
from gpu.objects.meta import ObjectKey
from gpu.objects.pods import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Sightings:
    """Of the pods recorded in attachments and not known to have ended, by uid; of records and starts."""

    absent: Mapping[str, datetime] = field(default_factory=dict)
    """Since when the pod object is not there."""
    unplaced: frozenset[str] = frozenset()
    """Seen by this leader, and when last seen our gate kept them from any node."""
    records: Memory = field(default_factory=Memory)
    """What became of usage records; `observe` leaves it as it is."""
    rejections: Rejections = field(default_factory=Rejections)
    """Which nodes refused launchers; `observe` leaves it as it is, as the next."""
    demotions: Demotions = field(default_factory=Demotions)
    """Whose starts fail."""
    prepared: frozenset[tuple[str, str]] = frozenset()
    """Launchers at the gate, by namespace and uid, that this leader was the first to note with a node; it sent no pin of them."""
    came: Mapping[str, str] = field(default_factory=dict)
    """Uids of VMIs that came for attachments which do not note them yet, by admission id."""


def observe(
    old: Sightings,
    claims: Iterable[GPUClaim],
    pods: Mapping[tuple[str, str], Pod],
    now: datetime,
) -> Sightings:
    """Return what is known after one more look; `pods` by namespace and uid.

    A pod without a node that our gate does not hold may be bound and deleted before the next look.
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
            elif coverage.is_at_gate(seen):
                unplaced.add(pod.uid)
    kept = frozenset(key for key in old.prepared if _may_be_gated(pods.get(key), key[1], absent))
    return replace(old, absent=absent, unplaced=frozenset(unplaced), prepared=kept)


def _may_be_gated(pod: Pod | None, uid: str, absent: Container[str]) -> bool:
    """Say whether a pod is shown as it waits at our gate, or was when it was shown last."""
    return uid in absent if pod is None else coverage.is_at_gate(pod)


def prepare(old: Sightings, launchers: Iterable[Pod], pinned: Iterable[Pod]) -> Sightings:
    """Return what is known once notes of these launchers, and pins of those, may be on their way."""
    noted = {(pod.meta.namespace, pod.meta.uid) for pod in launchers}
    sent = {(pod.meta.namespace, pod.meta.uid) for pod in pinned}
    return replace(old, prepared=(old.prepared | noted) - sent) if noted or sent else old


def never_placed(seen: Sightings, namespace: str, pod: AttachedPod) -> bool:
    """Say whether no node had a pod that is gone: our gate held it when it was last seen, and nobody let it through.

    A leader notes the node before it lets one through. So that a node is noted proves nothing where this leader was the
    first to note one, and has sent no pin since; a view that lags, of an earlier leader's pod, is none of that.
    """
    if pod.uid not in seen.unplaced:
        return False
    return not pod.node or (namespace, pod.uid) in seen.prepared


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
    came = dict(_came(old, snapshot))
    by_node = frozenset(one.vmi for one in refused.kept)
    return replace(
        seen,
        rejections=refused,
        demotions=demotions.observe(old.demotions, snapshot, by_node, now),
        came=came,
    )


def _came(old: Sightings, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    for claim in snapshot.unadopted:
        found = claim.attached_to
        if found is None or not found.admission:
            continue
        vmi = snapshot.vmis.get(ObjectKey(claim.meta.namespace, found.vmi))
        if vmi is not None and coverage.is_user(claim, vmi):
            yield found.admission, vmi.meta.uid
        elif found.admission in old.came:
            yield found.admission, old.came[found.admission]


def known(seen: Sightings, claim: GPUClaim) -> GPUClaim:
    """Return a claim with the VMI that its attachment does not note, if this leader has seen that come."""
    found = claim.attached_to
    uid = "" if found is None or found.uid else seen.came.get(found.admission, "")
    return replace(claim, attached_to=replace(found, uid=uid)) if found and uid else claim
