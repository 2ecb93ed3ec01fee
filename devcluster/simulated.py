"""What no laptop has under KubeVirt: nodes whose kubelet and virt-handler do what they are asked to.

    async with simulated.simulated(admin, nodes) as sim:    # nodes: simulator.Simulated
        sim.machine("n1").refusals.append(...)              # and everything else a Machine may do
        sim.hold("tenant-a", "web")                         # kubelet leaves the VM's pods alone
        sim.end_guest("tenant-a", "web", crashed=True)
        await sim.kill("n1")                                # no status, no Lease; NotReady
        await sim.lose_units("n1", resource)                # allocatable drops to 0

It drives what virt-controller and the scheduler bind to these nodes and touches nothing else. Events
drive it; simulating.py is the same as a process.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final

from devcluster import beats, clock, kubelets, kubevirt, machines, simulator
from devcluster.handlers import Handlers
from devcluster.kubelets import Kubelets
from devcluster.machines import Machine, Pace
from devcluster.watching import Seen, Watch
from gpu.cluster import client, errors
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey

STALE: Final = timedelta(minutes=10)
"""An age of a heartbeat at which virt-controller gives a node up."""
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_NODE_RESOURCES: Final[Mapping[str, int]] = {
    **kubevirt.NODE_RESOURCES,
    "hugepages-2Mi": 0,
    "hugepages-1Gi": 0,
}


class Simulation:
    """kubelet and virt-handler of a set of nodes, and the commands to have them misbehave."""

    def __init__(
        self,
        admin: client.Client,
        *,
        pace: Pace | None = None,
        adopting: bool = False,
        renew_every: float = beats.RENEW_EVERY,
    ) -> None:
        """`adopting`: every node that carries the simulator's label is served, too."""
        handler = kubevirt.handler(admin)
        self.nodes = simulator.Simulator(admin)
        self.ended = asyncio.Event()
        self._admin = admin
        self._pace = pace or Pace()
        self._adopting = adopting
        self._machines: dict[str, Machine] = {}
        self._node_watch = Watch(admin, kinds.NODES, self._look_at_node)
        self._handlers = Handlers(admin, handler, self._machines)
        self.kubelets = Kubelets(admin, self._machines, self._node, self._handlers)
        self._handlers.follow(self.kubelets.watch.store, self.kubelets.watch.again)
        self._beats = beats.Beats(admin, handler, self._machines, renew_every=renew_every)

    async def run(self) -> None:
        """Serve until cancelled; an error of its own ends it, which `ended` tells."""
        try:
            async with asyncio.TaskGroup() as group:
                for each in (
                    self._node_watch,
                    self.kubelets.watch,
                    self._handlers.watch,
                    self._beats,
                ):
                    group.create_task(each.run())
        finally:
            self.ended.set()

    async def synced(self) -> None:
        """Wait until all nodes and pods that are there have been read."""
        for each in (self._node_watch, self.kubelets.watch):
            await each.store.wait_synced()

    async def add(self, node: simulator.Simulated) -> Machine:
        """Make a node that launcher pods fit on, and serve it."""
        machine = self._serve(node.name)
        made = replace(
            node,
            resources={**_NODE_RESOURCES, **node.resources},
            labels={**kubevirt.NODE_LABELS, **node.labels},
        )
        await self.nodes.add(made)
        self._beats.at_once([node.name])
        return machine

    def machine(self, name: str) -> Machine:
        """Return a machine's state to read or set; `look_again` when pods wait for the change."""
        return self._machines[name]

    def look_again(self, name: str) -> None:
        """Have a machine's pods and guests looked at under what its Machine says now."""
        self.kubelets.look_again_at(name)
        self._handlers.look_again_at(name)

    def hold(self, namespace: str, name: str) -> None:
        """Leave a pod, or all of a VM's, exactly as it is, until `let_go`."""
        self.kubelets.held.add(ObjectKey(namespace, name))

    def let_go(self, namespace: str, name: str) -> None:
        """Go on with what was held."""
        self.kubelets.held.discard(ObjectKey(namespace, name))
        self.kubelets.watch.all_again()

    def refuse(self, name: str, refusal: machines.Refusal, *, count: int = 1) -> None:
        """Refuse the next pods on a machine that ask for an extended resource."""
        self._machines[name].refusals.extend([refusal] * count)

    def end_guest(self, namespace: str, name: str, *, crashed: bool = False) -> None:
        """Have a guest end by itself; LookupError when its VMI is not there."""
        self._handlers.end(ObjectKey(namespace, name), "Failed" if crashed else "Succeeded")

    async def lose_units(self, name: str, *resources: str) -> None:
        """Report nothing allocatable of these resources, as when a device plugin is gone."""
        await self._allocatable(name, dict.fromkeys(resources, "0"))

    async def find_units(self, name: str, *resources: str) -> None:
        """Report these resources allocatable again, as much as there is."""
        capacity = self._must(name).status["capacity"]
        await self._allocatable(name, {each: capacity[each] for each in resources})

    async def mute(self, name: str, *, stale: bool = False) -> None:
        """Send no more heartbeats of a virt-handler; `stale`: the last one was long ago."""
        self._machines[name].beating = False
        if stale:
            await self._beats.beat(name, age=STALE)

    async def unmute(self, name: str) -> None:
        """Send heartbeats again, the first one now."""
        self._machines[name].beating = True
        await self._beats.beat(name)

    async def kill(self, name: str) -> None:
        """Have a machine die: nothing of it is heard; node and pods are told not ready.

        On a plane with node-lifecycle the controller says so too, some 50 s later.
        """
        self._machines[name].alive = False
        await self._ready(name, "Unknown")
        effects = ("NoSchedule", "NoExecute")
        await self._taint(name, [{"key": UNREACHABLE, "effect": effect} for effect in effects])
        await self.kubelets.report_not_ready(name)

    async def revive(self, name: str, *, rebooted: bool = False) -> None:
        """Bring a machine back: as it was after a cut line, or without its containers."""
        machine = self._machines[name]
        if rebooted:
            machine.lost |= {pod.meta.uid for pod in self.kubelets.pods_on(name)}
        machine.alive = True
        await self._taint(name, [])
        await self._ready(name, "True")
        self._beats.at_once([name])
        self.look_again(name)

    async def reboot(self, name: str) -> None:
        """Reboot a machine: all its containers are gone when it is back, which is at once."""
        await self.kill(name)
        await self.revive(name, rebooted=True)

    def restart_kubelet(self, name: str) -> None:
        """Restart kubelet: it judges every pod of the node anew, by what is allocatable now."""
        self._machines[name].units = machines.Units()
        self.look_again(name)

    def _serve(self, name: str) -> Machine:
        return self._machines.setdefault(name, Machine(name=name, pace=self._pace))

    async def _look_at_node(self, key: ObjectKey) -> None:
        node = self._node(key.name)
        if node is None:
            self._machines.pop(key.name, None)
        elif self._adopting and simulator.LABEL in node.labels and key.name not in self._machines:
            self._serve(key.name)
            self._beats.at_once([key.name])
            self.look_again(key.name)

    def _node(self, name: str) -> Seen | None:
        return self._node_watch.store.get(ObjectKey("", name))

    def _must(self, name: str) -> Seen:
        node = self._node(name)
        if node is None:
            raise LookupError(f"node {name} is not there: add it to the simulation first")
        return node

    async def _allocatable(self, name: str, amounts: Mapping[str, str]) -> None:
        api = kubelets.as_node(self._admin, name)
        patch = {"status": {"allocatable": amounts}}
        await api.patch(kinds.NODES, name, patch, subresource="status")

    async def _ready(self, name: str, status: str) -> None:
        while True:
            patch = beats.seen_ready(self._must(name), clock.now(), status=status)
            try:
                await self._admin.patch(kinds.NODES, name, patch, subresource="status")
            except errors.Conflict:
                await asyncio.sleep(0.02)  # a newer one is on the way
            else:
                return

    async def _taint(self, name: str, added: Iterable[Mapping[str, str]]) -> None:
        taints = (await self._admin.get(kinds.NODES, name))["spec"].get("taints") or []
        others = [taint for taint in taints if taint["key"] != UNREACHABLE]
        patch = {"spec": {"taints": [*others, *added] or None}}
        await self._admin.patch(kinds.NODES, name, patch)


@contextlib.asynccontextmanager
async def simulated(
    admin: client.Client,
    nodes: Iterable[simulator.Simulated] = (),
    *,
    pace: Pace | None = None,
    adopting: bool = False,
    renew_every: float = beats.RENEW_EVERY,
) -> AsyncIterator[Simulation]:
    """Make nodes and play their kubelets and virt-handlers for the length of the block.

    The nodes stay, and nobody serves them any more. When the simulation itself broke, the end of the
    block says why.
    """
    sim = Simulation(admin, pace=pace, adopting=adopting, renew_every=renew_every)
    running = asyncio.get_running_loop().create_task(sim.run())
    try:
        await sim.synced()
        async with asyncio.TaskGroup() as group:
            for node in nodes:
                group.create_task(sim.add(node))
        yield sim
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
