"""A judge of what nodes hold, by the API alone: sums of its own, nothing of the product's model.

look = await judge.look(admin)
look.over()                    # what is booked twice at this instant
look.node_for(want)            # a node that has room for all that a VM wants, by plain counting
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpu.cluster import errors
from gpu.cluster.client import Client
from gpu.objects import kinds

Json = dict[str, Any]
Place = tuple[str, str]
"""Node and resource."""
ENDED: Final = frozenset({"Succeeded", "Failed"})
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_EVERY: Final = 0.3


@dataclass(frozen=True, kw_only=True)
class Want:
    """What one VM of the story names."""

    name: str
    tenant: str
    held: tuple[str, ...] = ()
    units: Mapping[str, int] = field(default_factory=dict)
    """By class, without what is held."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """Claims at one instant, and the pods that lived at that instant for sure."""

    classes: Mapping[str, str]
    """Resource by name of class."""
    allocatable: Mapping[Place, int]
    claims: tuple[Json, ...]
    pods: tuple[Json, ...]

    def used(self) -> Counter[Place]:
        """Return units in use: of each VM what its claims hold or its pods ask for, whichever is more."""
        claims: dict[tuple[str, Place], int] = Counter()
        pods: dict[tuple[str, Place], int] = Counter()
        for claim in self.claims:
            status = claim.get("status") or {}
            if status.get("phase") == "Bound":
                owner = (status.get("attachedTo") or {}).get("uid") or claim["metadata"]["uid"]
                claims[owner, self._place(claim)] += claim["spec"]["count"]
        for pod in self.pods:
            for resource, units in self.asked(pod).items():
                pods[_owner(pod), (node_of(pod), resource)] += units
        found: Counter[Place] = Counter()
        for key in claims.keys() | pods.keys():
            found[key[1]] += max(claims.get(key, 0), pods.get(key, 0))
        return found

    def over(self) -> dict[Place, tuple[int, int]]:
        """Return what is booked twice: units in use and units served, by place."""
        return {
            place: (units, self.allocatable.get(place, 0))
            for place, units in self.used().items()
            if units > self.allocatable.get(place, 0)
        }

    def asked(self, pod: Json) -> dict[str, int]:
        """Return how many units of each class's resource a pod asks for."""
        found: Counter[str] = Counter()
        for container in pod["spec"]["containers"]:
            for resource, units in (container["resources"].get("requests") or {}).items():
                if resource in self.classes.values():
                    found[resource] += int(units)
        return dict(found)

    def needs(self, want: Want) -> Counter[str]:
        """Return all that a VM needs on one node, by resource."""
        found = Counter({self.classes[name]: units for name, units in want.units.items()})
        for claim in self.held_by(want):
            found[self.classes[claim["spec"]["className"]]] += claim["spec"]["count"]
        return found

    def held_by(self, want: Want) -> list[Json]:
        """Return the claims that a VM names."""
        return [claim for claim in self.of(want.tenant) if claim["metadata"]["name"] in want.held]

    def of(self, tenant: str) -> list[Json]:
        """Return all claims of a tenant."""
        return [claim for claim in self.claims if claim["metadata"]["namespace"] == tenant]

    def node_for(self, want: Want) -> str | None:
        """Return a node with room for all of a VM, whose own claims may move there; None: there is none."""
        free = Counter(self.allocatable)
        free.subtract(self.used())
        for claim in self.held_by(want):
            free[self._place(claim)] += claim["spec"]["count"]
        needs = self.needs(want)
        return next(
            (
                node
                for node in sorted({node for node, _ in self.allocatable})
                if all(free[node, resource] >= units for resource, units in needs.items())
            ),
            None,
        )

    def _place(self, claim: Json) -> Place:
        return claim["status"]["nodeName"], self.classes[claim["spec"]["className"]]


async def look(admin: Client) -> Look:
    """Read the cluster: a pod that is listed before and after the claims lived when they were."""
    nodes = (await admin.list_all(kinds.NODES)).items
    classes = (await admin.list_all(kinds.GPU_CLASSES)).items
    before = {pod["metadata"]["uid"] for pod in await _living(admin)}
    claims = (await admin.list_all(kinds.GPU_CLAIMS)).items
    after = await _living(admin)
    return Look(
        classes={
            it["metadata"]["name"]: it["spec"]["source"]["devicePlugin"]["resourceName"]
            for it in classes
        },
        allocatable={
            (node["metadata"]["name"], resource): int(units)
            for node in nodes
            for resource, units in node["status"]["allocatable"].items()
            if resource.startswith("nvidia.com/")
        },
        claims=tuple(claims),
        pods=tuple(pod for pod in after if pod["metadata"]["uid"] in before),
    )


@dataclass
class Watched:
    """How often it was looked, and what was seen that must never be."""

    looks: int = 0
    most: int = 0
    """Units in use at most, over all nodes."""
    seen: list[dict[Place, tuple[int, int]]] = field(default_factory=list)


@contextlib.asynccontextmanager
async def watching(admin: Client) -> AsyncIterator[Watched]:
    """Look again and again for the length of the block; nothing may be booked twice at any look."""
    found = Watched()

    async def again() -> None:
        while True:
            # A look that gets no answer in time saw nothing, neither good nor bad.
            with contextlib.suppress(errors.Unreachable, errors.ServerFault, errors.Throttled):
                seen = await look(admin)
                found.looks += 1
                found.most = max(found.most, sum(seen.used().values()))
                if over := seen.over():
                    found.seen.append(over)
            await asyncio.sleep(_EVERY)

    task = asyncio.get_running_loop().create_task(again())
    try:
        yield found
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert found.looks
    assert found.seen == []


def node_of(pod: Json) -> str:
    """Return the node that a pod is bound or pinned to; empty where neither."""
    if name := pod["spec"].get("nodeName"):
        return str(name)
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    fields = [one for term in terms for one in term.get("matchFields", ())]
    return str(fields[0]["values"][0]) if fields else ""


def _owner(pod: Json) -> str:
    owners = pod["metadata"].get("ownerReferences") or []
    return next((str(one["uid"]) for one in owners if one.get("controller")), "")


async def _living(admin: Client) -> list[Json]:
    """Return the pods that may run: bound or pinned, and not ended."""
    found = (await admin.list_all(kinds.PODS)).items
    return [pod for pod in found if pod["status"].get("phase") not in ENDED and node_of(pod)]
