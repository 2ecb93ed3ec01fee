"""What no laptop has: nodes with GPUs, as kubelet and its device plugins would report them."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from devcluster import clock
from gpu.cluster import client, errors
from gpu.objects import kinds

LEASE_NAMESPACE: Final = "kube-node-lease"
LABEL: Final = "devcluster.cozystack.io/simulated"
_SECONDS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """One taint of a node; `effect` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def body(self) -> dict[str, str]:
        """Return it as the API has it."""
        return {"key": self.key, "value": self.value, "effect": self.effect}


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """A node to make: units of each extended resource it serves, by name."""

    name: str
    resources: Mapping[str, int] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    ready: bool = True
    cpu: int = 64
    memory_gib: int = 512
    pods: int = 250


class Simulator:
    """Makes and changes nodes through the API, as an administrator."""

    def __init__(self, admin: client.Client) -> None:
        self._admin = admin
        self._alive: set[str] = set()

    async def add(self, node: Simulated) -> None:
        """Make a node. Without node-lifecycle it stays as made; with it, run `heartbeat` too."""
        amounts = _amounts(node)
        body = {
            "metadata": {"name": node.name, "labels": {**_labels(node), **node.labels}},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [_ready(ready=node.ready)],
                "addresses": [{"type": "Hostname", "address": node.name}],
            },
        }
        await self._admin.create(kinds.NODES, body)
        # Admission gives every new node a not-ready taint, whatever its conditions say.
        await self.set_taints(node.name, node.taints)
        self._alive.add(node.name)

    async def set_taints(self, name: str, taints: Sequence[Taint]) -> None:
        """Give a node exactly these taints."""
        await self._spec(name, {"taints": [taint.body() for taint in taints] or None})

    async def cordon(self, name: str) -> None:
        """Mark a node unschedulable, as `kubectl cordon` does."""
        await self._spec(name, {"unschedulable": True})

    async def uncordon(self, name: str) -> None:
        """Take the mark back."""
        await self._spec(name, {"unschedulable": None})

    async def set_ready(self, name: str, *, ready: bool) -> None:
        """Report a node ready or not, as its kubelet would."""
        await self._status(name, {"conditions": [_ready(ready=ready)]})

    async def set_allocatable(self, name: str, resources: Mapping[str, int]) -> None:
        """Report how many units of these resources a node serves now; others stay as they are."""
        amounts = {resource: str(units) for resource, units in resources.items()}
        await self._status(name, {"capacity": amounts, "allocatable": amounts})

    async def remove(self, name: str) -> None:
        """Delete a node, as when a machine leaves the cluster for good."""
        self._alive.discard(name)
        await self._admin.delete(kinds.NODES, name)

    async def heartbeat(self, *, every: float = 3.0) -> None:
        """Renew the Lease of every node made here, for ever; only needed with node-lifecycle."""
        while True:
            for name in sorted(self._alive):
                await self._renew(name)
            await asyncio.sleep(every)

    async def _renew(self, name: str) -> None:
        stamp = clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": name, "leaseDurationSeconds": _SECONDS, "renewTime": stamp}
        try:
            await self._admin.patch(kinds.LEASES, name, {"spec": spec}, LEASE_NAMESPACE)
        except errors.NotFound:
            meta = {"name": name, "namespace": LEASE_NAMESPACE}
            await self._admin.create(kinds.LEASES, {"metadata": meta, "spec": spec})

    async def _spec(self, name: str, spec: Mapping[str, Any]) -> None:
        await self._admin.patch(kinds.NODES, name, {"spec": spec})

    async def _status(self, name: str, status: Mapping[str, Any]) -> None:
        patch = {"status": status}
        await self._admin.patch(
            kinds.NODES, name, patch, subresource="status", content_type=_STRATEGIC
        )


_STRATEGIC = "application/strategic-merge-patch+json"
"""Merges conditions by type; a plain merge patch would replace the list."""


def names(prefix: str, count: int) -> Iterator[str]:
    """Yield `prefix-1` to `prefix-<count>`."""
    return (f"{prefix}-{number}" for number in range(1, count + 1))


def _labels(node: Simulated) -> dict[str, str]:
    return {LABEL: "true", "kubernetes.io/hostname": node.name, "kubernetes.io/os": "linux"}


def _amounts(node: Simulated) -> dict[str, str]:
    return {
        "cpu": str(node.cpu),
        "memory": f"{node.memory_gib}Gi",
        "pods": str(node.pods),
        **{resource: str(units) for resource, units in node.resources.items()},
    }


def _ready(*, ready: bool) -> dict[str, str]:
    now = clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": "Ready",
        "status": "True" if ready else "False",
        "reason": "KubeletReady" if ready else "KubeletNotReady",
        "message": "simulated",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
