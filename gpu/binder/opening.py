"""What a pass begins with: the world without stale inventory, a draft of it, and what was seen of it."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Final

from gpu.config import Config, Grace
from gpu.model import sightings, usage
from gpu.model.draft import Draft
from gpu.model.sightings import Sightings
from gpu.model.snapshot import Snapshot
from gpu.objects.nodes import GPUNode
from gpu.world import World

_OWNER: Final = itemgetter(1)
"""Of a record as `Records.there` has it."""


def observe(old: Sightings, world: World, grace: Grace, now: datetime) -> Sightings:
    """Take one more look at pods, starts and usage records. Runs in the thread."""
    pods = sightings.look(old, world.snapshot, grace, now)
    if "workloads" in world.unserved:
        return replace(pods, records=replace(old.records, stored=frozenset(), missed={}))
    known = world.snapshot.memo.records
    known.follow(world.workloads, usage.owner_of, usage.is_ours)
    records = usage.remember(
        old.records,
        alive=known.living(
            world.claims,
            frozenset(item.meta.name for item in world.namespaces if item.meta.deleting),
        ),
        owners=map(_OWNER, known.there.values()),
        now=now,
    )
    if records.remade:
        going = {claim.meta.uid for claim in world.snapshot.deleting}
        records = replace(records, remade=records.remade & going)
    return replace(pods, records=records)


def stored(old: Sightings, uids: Iterable[str], remade: Iterable[str]) -> Sightings:
    """Remember records stored in this pass: one may be gone again before the watch shows it."""
    records = old.records
    stored, again = records.stored.union(uids), records.remade.union(remade)
    return replace(old, records=replace(records, stored=stored, remade=again))


def draft(
    seen: World, before: Snapshot | None, config: Config, now: datetime
) -> tuple[World, Draft]:
    """Forget inventory that is stale, build the snapshot, and open a draft of it.

    Stale inventory is unknown, as is one without devices (domain contract 2); what the leader
    publishes on it is kept. Runs in the thread: building takes long.
    """
    oldest = now - timedelta(seconds=config.grace.inventory_stale)
    inventory = tuple(_current(node, oldest) for node in seen.inventory)
    world = replace(seen, inventory=inventory).follow(before)
    return world, Draft.of(world.snapshot)


def _current(node: GPUNode, oldest: datetime) -> GPUNode:
    if not node.devices or (node.observed_at is not None and node.observed_at >= oldest):
        return node
    return replace(node, devices=())
