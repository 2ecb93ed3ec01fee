"""Beats: what simulated nodes send without being asked: kubelet's Lease, virt-handler's heartbeat."""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import structlog

from devcluster import clock, vmi_statuses
from devcluster.kubelets import as_node
from devcluster.machines import Machine
from devcluster.watching import Seen
from gpu.cluster import client, errors
from gpu.objects import kinds

log: Final = structlog.get_logger(__name__)

LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_SECONDS: Final = 40
RENEW_EVERY: Final = 10.0
"""Seconds between two renewals of a Lease; kubelet's own."""
BEAT_EVERY: Final = 60.0
"""Seconds between two heartbeats of a virt-handler; after 5 min without, virt-controller acts."""
_SOON: Final = 1.0
_EARLY: Final = 0.01


class Beats:
    """Leases and heartbeats of all machines that are alive; `run()` never returns."""

    def __init__(
        self,
        admin: client.Client,
        handler: client.Client,
        machines: Mapping[str, Machine],
        *,
        renew_every: float = RENEW_EVERY,
        beat_every: float = BEAT_EVERY,
    ) -> None:
        self._admin = admin
        self._handler = handler
        self._machines = machines
        self._renew_every = renew_every
        self._beat_every = beat_every
        self._renewed: dict[str, float] = {}
        self._beaten: dict[str, float] = {}
        self._nudged = asyncio.Event()

    async def run(self) -> None:
        """Send what is due until cancelled."""
        while True:
            self._nudged.clear()  # who asks while others are served is not waited out
            wait = min(self._renew_every, self._beat_every)
            for machine in tuple(self._machines.values()):
                wait = min(wait, await self._due(machine))
            try:
                async with asyncio.timeout(max(wait, 0.01)):
                    await self._nudged.wait()
            except TimeoutError:
                continue

    def at_once(self, names: Iterable[str]) -> None:
        """Have these machines send all now."""
        for name in names:
            self._forget(name)
        self._nudged.set()

    async def renew(self, name: str) -> None:
        """Renew a node's Lease as its kubelet does; the first time it is made, owned by the node."""
        api = as_node(self._admin, name)
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        try:
            await api.patch(kinds.LEASES, name, {"spec": spec}, LEASE_NAMESPACE)
        except errors.NotFound:
            node = await api.get(kinds.NODES, name)
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": _uid(node)}
            meta = {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
            await api.create(kinds.LEASES, {"metadata": meta, "spec": spec})

    async def beat(self, name: str, *, age: timedelta = timedelta()) -> None:
        """Send a node's heartbeat in virt-handler's name, or one of some time ago."""
        when: datetime = clock.now() - age
        await self._handler.patch(kinds.NODES, name, vmi_statuses.heartbeat(when))

    async def _due(self, machine: Machine) -> float:
        """Send what is due of one machine; return the seconds until the next is."""
        if not machine.alive:
            return self._renew_every
        name, now = machine.name, asyncio.get_running_loop().time()
        try:
            if self._left(self._renewed, name, self._renew_every, now) <= _EARLY:
                self._renewed[name] = now
                await self.renew(name)
            if machine.beating and self._left(self._beaten, name, self._beat_every, now) <= _EARLY:
                self._beaten[name] = now
                await self.beat(name)
        except errors.ApiError as error:
            self._forget(name)
            log.warning("a beat failed", node=name, error=str(error))
            return _SOON
        left = self._left(self._renewed, name, self._renew_every, now)
        if machine.beating:
            left = min(left, self._left(self._beaten, name, self._beat_every, now))
        return left

    @staticmethod
    def _left(sent: Mapping[str, float], name: str, every: float, now: float) -> float:
        """Return the seconds until the next one is due; none where it was asked for meanwhile."""
        return sent[name] + every - now if name in sent else 0.0

    def _forget(self, name: str) -> None:
        self._renewed.pop(name, None)
        self._beaten.pop(name, None)


def seen_ready(node: Seen, now: datetime, *, status: str) -> dict[str, Any]:
    """Return a patch of a node's condition Ready, as kubelet or, for Unknown, node-lifecycle writes it."""
    known = status != "Unknown"
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {
        "type": "Ready",
        "status": status,
        "reason": "KubeletReady" if known else "NodeStatusUnknown",
        "message": "simulated" if known else "Kubelet stopped posting node status.",
        "lastHeartbeatTime": stamp,
        "lastTransitionTime": stamp,
    }
    others = [c for c in node.status.get("conditions") or [] if c["type"] != "Ready"]
    return {
        "metadata": {"resourceVersion": node.meta.resource_version},
        "status": {"conditions": [*others, ready]},
    }


def _uid(node: Mapping[str, Any]) -> str:
    return str(node["metadata"]["uid"])
