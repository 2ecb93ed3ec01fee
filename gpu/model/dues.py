"""Dues: when something that is borne or waited for is over next, so that a pass looks at it in that second.

Of what changes by time alone, and only what a pass acts upon then. Left out: the window of the guard, at
whose end nothing is let through (domain contract 6, Blast-radius guard). Rejections and demotions that a leader remembers know their own ends.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from gpu.config import Grace
from gpu.model import attaching, evidence, keeping, pod_ends
from gpu.model.draft import Draft
from gpu.model.sightings import Sightings
from gpu.objects import meta
from gpu.objects.claims import AttachedPod, Cause, GPUClaim
from gpu.units import NodeName

_BORNE: Final = frozenset({Cause.UNITS_MISSING.value, Cause.NODE_TAINTED.value})
"""Causes that are borne for a while, with no clock but the condition of the claims."""


def first_end(draft: Draft, seen: Sightings, grace: Grace, now: datetime) -> datetime | None:
    """Return the first end after `now`, in whole seconds and never early; None when nothing ends.

    `draft` shows what the pass left behind. Ends within one second are one: they cost one pass.
    """
    ends = (
        *_settled(draft, seen, grace),
        *_never_came(draft, grace),
        *_nodes_given_up(draft, grace),
        *_unobserved(draft, grace),
        *(one.until for claim in draft.rejected for one in claim.rejected_nodes),
    )
    first = min((end for end in ends if end > now), default=None)
    if first is None or not first.microsecond:
        return first
    return first.replace(microsecond=0) + timedelta(seconds=1)


def _settled(draft: Draft, seen: Sightings, grace: Grace) -> Iterator[datetime]:
    """Yield when nodes will have been Ready for long enough since pods vanished that claims note."""
    if not seen.absent:
        return
    for claim in draft.attached:
        for pod in claim.attached_to.pods if claim.attached_to else ():
            since = None if pod.ended else seen.absent.get(pod.uid)
            if since is not None:
                yield from _of_nodes(draft, _where(claim, pod), since, grace)


def _where(claim: GPUClaim, pod: AttachedPod) -> Iterable[NodeName]:
    found = pod.node or claim.node
    return (found,) if found else ()


def _of_nodes(
    draft: Draft, names: Iterable[NodeName], since: datetime, grace: Grace
) -> Iterator[datetime]:
    for name in names:
        node = draft.snapshot.nodes.get(name)
        began = pod_ends.settles_from(node, since) if node is not None else None
        if began is not None:
            yield began + timedelta(seconds=grace.release_settle)


def _never_came(draft: Draft, grace: Grace) -> Iterator[datetime]:
    """Yield when VMIs that have not come are not waited for any more, nor what was made or asked for them.

    And when one that came is noted at the latest.
    """
    waits = timedelta(seconds=grace.attachment)
    for claim in draft.unadopted:
        if claim.attached_to is None:
            continue
        if evidence.vmi_of(draft.snapshot, claim) is None:
            yield (claim.attached_to.since or meta.EPOCH) + waits
        else:
            yield attaching.adopted_by(claim.attached_to)
    for claim in draft.strays:
        yield claim.meta.created + waits
    for claim in draft.requested:
        request, found = claim.bind_request, claim.attached_to
        if request is not None and (found is None or found.vmi != request.vmi):
            yield request.requested_at + waits


def _nodes_given_up(draft: Draft, grace: Grace) -> Iterator[datetime]:
    """Yield when what holds units on nodes that are unwell is not left there any longer."""
    not_ready, degraded = timedelta(seconds=grace.not_ready), timedelta(seconds=grace.degraded)
    on = draft.indexed().by_node
    for name, node in draft.snapshot.nodes.items():
        if not node.ready and node.ready_since is not None and name in on:
            yield node.ready_since + not_ready
    for claim in draft.degraded:
        told = meta.condition(claim.conditions, keeping.DEGRADED)
        if told is None or told.since is None:
            continue
        if told.reason in _BORNE:
            yield told.since + degraded
        elif told.reason == Cause.NODE_NOT_READY.value and not _tells_since(draft, claim.node):
            yield told.since + not_ready


def _tells_since(draft: Draft, name: NodeName | None) -> bool:
    node = draft.snapshot.nodes.get(name) if name is not None else None
    return node is not None and node.ready_since is not None


def _unobserved(draft: Draft, grace: Grace) -> Iterator[datetime]:
    """Yield when what agents saw is stale, and unknown from then on; a heartbeat is no change that a store tells of."""
    for seen in draft.snapshot.inventory.values():
        if seen.devices and seen.observed_at is not None:
            yield seen.observed_at + timedelta(seconds=grace.inventory_stale, microseconds=1)
