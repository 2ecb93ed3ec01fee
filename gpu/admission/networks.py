"""What the networks of a VMI ask of a node: their definitions, read past the cache (`binding: request`).

KubeVirt's controller reads the same when it renders the launcher. A definition that is not there, or cannot be
read, makes KubeVirt fail the start or ask for less: nothing is foreseen for it, and nobody is refused for it.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping
from typing import Final

from gpu.admission import unanswered
from gpu.admission.review import Review
from gpu.errors import DecodeError
from gpu.objects import networks
from gpu.objects.decode import Fields
from gpu.objects.kinds import NETWORK_DEFINITIONS
from gpu.objects.meta import ObjectKey
from gpu.ports import Writer

MOST: Final = 32
"""Definitions of one VMI that are read: a tenant may name as many as it likes, its guest has no such number of slots."""
AT_ONCE: Final = 8
PATIENCE: Final = 1.0
"""Seconds for all of them: what has not answered by then is not foreseen."""


async def amounts(writer: Writer, asked: Review) -> Mapping[str, int]:
    """Return how many units of each resource the networks of a VMI ask for. Reads nothing where it has none.

    Raises what is no answer of the API server's at all.
    """
    named = _named(asked)
    found: Counter[str] = Counter()
    if not named:
        return found
    turns = asyncio.Semaphore(AT_ONCE)

    async def read(key: ObjectKey) -> None:
        async with turns:
            name = await _resource(writer, key)
        if name:
            found[name] += named[key]

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            for key in list(named)[:MOST]:
                group.create_task(read(key))
    return found


def _named(asked: Review) -> Counter[ObjectKey]:
    try:
        spec = Fields(asked.object).child("spec")
        return Counter(networks.definitions(spec, asked.namespace))
    except DecodeError:
        return Counter()  # KubeVirt refuses it


async def _resource(writer: Writer, key: ObjectKey) -> str:
    """Return the resource of one definition; empty where there is none, or none to be read."""
    try:
        raw = await unanswered.again(
            writer, lambda: writer.get(NETWORK_DEFINITIONS, key.name, key.namespace)
        )
        return networks.resource(raw)
    except DecodeError:
        return ""
    except Exception as error:
        if writer.outcome(error) is None:
            raise
        return ""
