"""Witness: what a judgement of ends looks at: a snapshot, what agents and the leader saw, and when."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from gpu.config import Grace
from gpu.model.sightings import Sightings
from gpu.model.snapshot import Snapshot
from gpu.objects.nodes import GPUNode
from gpu.units import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """What a judgement looks at. Build it with `of`."""

    snapshot: Snapshot
    inventory: Mapping[NodeName, GPUNode]
    sightings: Sightings
    grace: Grace
    now: datetime


def of(
    snapshot: Snapshot,
    inventory: Iterable[GPUNode],
    sightings: Sightings,
    grace: Grace,
    now: datetime,
) -> Witness:
    """Return what the judgements of one pass look at."""
    return Witness(
        snapshot=snapshot,
        inventory={item.name: item for item in inventory},
        sightings=sightings,
        grace=grace,
        now=now,
    )
