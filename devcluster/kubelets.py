"""kubelet's part of simulated nodes: takes or refuses pods, has them run, ends and removes them.

    bound            taken (its units given) or refused: Failed, OutOf<resource>, an event
    taken            Pending with containers in the making, then Running with all conditions
    gates change     condition Ready follows the pod's readiness gates; KubeVirt writes those
    guest ended      the launcher's containers end as its guest did
    deleted          the guest has its grace, then containers end; the object is removed with grace 0

A pod that no scheduler has bound is not touched. CPU, memory and the number of pods are not counted
again: the real scheduler has. It acts in the name of the node, with a node's rights.
"""

import enum
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

import structlog

from devcluster import clock, pod_statuses
from devcluster.machines import Machine, Refusal, Units
from devcluster.watching import Seen, Watch
from gpu.cluster import client, errors
from gpu.objects import kinds, nodes, pods
from gpu.objects.kinds import Kind
from gpu.objects.meta import ObjectKey

log: Final = structlog.get_logger(__name__)

CORE_EVENTS: Final = Kind("", "v1", "events", "Event")
"""Where kubelet writes its events; the same ones are read as events.k8s.io."""

_TEMPORARY: Final = "kubevirt.io/ephemeral-provisioning"
_VM_NAME: Final = "vm.kubevirt.io/name"
_USUAL_GRACE: Final = 30
_SOON: Final = 0.05
"""Seconds until a node is looked for again that a pod is on and no event has shown yet."""


class Guest(enum.Enum):
    """What became of the guest of a pod."""

    NONE = "none"
    """It has none, or none that is up."""
    RUNS = "runs"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def is_over(self) -> bool:
        """Whether it was up and has ended; the value then is its pod's last phase."""
        return self in {Guest.SUCCEEDED, Guest.FAILED}


class Guests(Protocol):
    """Who knows of guests: virt-handler."""

    def of(self, pod: Seen) -> Guest:
        """Say what became of a pod's guest."""

    def leaves(self, pod: Seen) -> None:
        """Hear that a pod was told to end or has ended."""


class Kubelets:
    """The kubelets of all machines of a table, over one watch of pods."""

    def __init__(
        self,
        admin: client.Client,
        machines: Mapping[str, Machine],
        node: Callable[[str], Seen | None],
        guests: Guests,
    ) -> None:
        """`node` gives a node as the API server has it: what it reports allocatable counts."""
        self.watch = Watch(admin, kinds.PODS, self._look)
        self.held: set[ObjectKey] = set()
        """Pods left as they are, by their own name or by that of their VM."""
        self._admin = admin
        self._machines = machines
        self._node = node
        self._guests = guests
        self._refused: dict[str, Refusal] = {}
        """Of pods that are not yet seen Failed: a repeated write must not judge anew."""

    def pods_on(self, machine: str) -> tuple[Seen, ...]:
        """Return the pods that are bound to a machine and have not ended."""
        return tuple(
            pod
            for pod in self.watch.store.items()
            if pod.raw["spec"].get("nodeName") == machine and pod.phase not in pod_statuses.DONE
        )

    def units_on(self, machine: str) -> dict[str, Mapping[str, tuple[str, ...]]]:
        """Return who has which units of a machine: by pod UID and resource, the ids."""
        units = self._tidied(self._machines[machine])
        return {uid: units.of(uid) for uid in units.holders}

    def look_again_at(self, machine: str) -> None:
        """Look at all pods of a machine: something about it has changed."""
        for pod in self.watch.store.items():
            if pod.raw["spec"].get("nodeName") == machine:
                self.watch.again(pod.meta.key)

    async def report_not_ready(self, machine: str) -> None:
        """Report a machine's pods not ready, as node-lifecycle does when it is not heard of."""
        for pod in self.pods_on(machine):
            with suppress(errors.Conflict, errors.NotFound):
                await self._patch(self._admin, pod, pod_statuses.not_ready(pod.raw, clock.now()))

    async def _look(self, key: ObjectKey) -> float | None:
        pod = self.watch.store.get(key)
        machine = None if pod is None else self._serving(pod)
        if pod is None or machine is None:
            return None
        if pod.phase in pod_statuses.DONE:
            machine.units.take_back(pod.meta.uid)
            machine.lost.discard(pod.meta.uid)
            self._refused.pop(pod.meta.uid, None)
            self._guests.leaves(pod)
            return await self._remove(pod, machine) if pod.meta.deleting else None
        if pod.meta.uid in machine.lost:
            return await self._end(pod, "Failed", code=pod_statuses.REBOOTED)
        if pod.meta.deleting:
            return await self._stop(pod, machine)
        return await self._live(pod, machine)

    async def _live(self, pod: Seen, machine: Machine) -> float | None:
        if pod.meta.uid not in machine.units.holders:
            node = self._node(machine.name)
            if node is None:
                return _SOON
            refusal = self._refusal(pod, machine, node)
            if refusal is not None:
                await self._refuse(pod, refusal)
                return None
        if pod.phase == "Running":
            return await self._keep(pod, machine)
        return await self._start(pod, machine)

    def _serving(self, pod: Seen) -> Machine | None:
        machine = self._machines.get(pod.raw["spec"].get("nodeName") or "")
        if machine is None or not machine.alive or machine.holding:
            return None
        vm = ObjectKey(pod.meta.namespace, pod.labels.get(_VM_NAME, ""))
        return None if self.held & {pod.meta.key, vm} else machine

    def _refusal(self, pod: Seen, machine: Machine, node: Seen) -> Refusal | None:
        """Judge a pod that is new here; one that is taken has its units when this returns."""
        known = self._refused.get(pod.meta.uid)
        if known is not None:
            return known
        requests = {str(name): int(n) for name, n in pods.decode(pod.raw).requests.items()}
        allocatable = nodes.extended(node.status.get("allocatable") or {})
        units = self._tidied(machine)
        refusal = machine.refuses(requests, {str(name): int(n) for name, n in allocatable.items()})
        if refusal is None:
            units.give(pod.meta.uid, requests)
        else:
            self._refused[pod.meta.uid] = refusal
        return refusal

    def _tidied(self, machine: Machine) -> Units:
        machine.units.keep(pod.meta.uid for pod in self.pods_on(machine.name))
        return machine.units

    async def _refuse(self, pod: Seen, refusal: Refusal) -> None:
        await self._write(pod, pod_statuses.refused(refusal))
        log.info("pod refused", pod=str(pod.meta.key), reason=refusal.reason)
        await self._as_node(pod).create(
            CORE_EVENTS, pod_statuses.event(pod.raw, refusal, clock.now())
        )

    async def _start(self, pod: Seen, machine: Machine) -> float | None:
        left = self.watch.left(pod, "start", machine.pace.start)
        if left <= 0:
            await self._write(pod, pod_statuses.running(pod.raw, clock.now()))
        elif not pod.status.get("containerStatuses"):
            await self._write(pod, pod_statuses.admitted(pod.raw, clock.now()))
        return left if left > 0 else None

    async def _keep(self, pod: Seen, machine: Machine) -> float | None:
        """Follow a running pod: its guest's end, its readiness gates."""
        guest = self._guests.of(pod)
        if guest.is_over:
            return await self._end(pod, guest.value, after=machine.pace.exit)
        if pod.meta.annotations.get(_TEMPORARY) == "true":
            return await self._end(pod, "Succeeded", after=machine.pace.exit)
        change = pod_statuses.reready(pod.raw, clock.now())
        if change is not None:
            await self._write(pod, change)
        return None

    async def _stop(self, pod: Seen, machine: Machine) -> float | None:
        """End a deleted pod: after its guest, at the latest after its grace."""
        guest = self._guests.of(pod)
        if guest.is_over:
            return await self._end(pod, guest.value, after=machine.pace.exit)
        if pod.phase != "Running":
            return await self._end(pod, "Failed")
        if guest is Guest.NONE:
            return await self._end(pod, "Succeeded", after=machine.pace.stop)
        self._guests.leaves(pod)
        grace = pod.raw["metadata"].get("deletionGracePeriodSeconds", _USUAL_GRACE)
        return await self._end(pod, "Failed", after=grace, code=pod_statuses.KILLED)

    async def _end(
        self, pod: Seen, phase: str, *, after: float = 0.0, code: int | None = None
    ) -> float | None:
        """Report the end of a pod's containers, once it is that long since first asked for."""
        left = self.watch.left(pod, f"end {phase} {after}", after)
        if left <= 0:
            await self._write(pod, pod_statuses.ended(pod.raw, phase, clock.now(), code=code))
        return left if left > 0 else None

    async def _remove(self, pod: Seen, machine: Machine) -> float | None:
        left = self.watch.left(pod, "remove", machine.pace.remove)
        if left > 0:
            return left
        with suppress(errors.NotFound):
            await self._as_node(pod).delete(
                kinds.PODS, pod.meta.name, pod.meta.namespace, uid=pod.meta.uid, grace_period=0
            )
        return None

    async def _write(self, pod: Seen, status: Mapping[str, Any]) -> None:
        await self._patch(self._as_node(pod), pod, status)

    async def _patch(self, api: client.Client, pod: Seen, status: Mapping[str, Any]) -> None:
        # With its version: the conditions are a list that KubeVirt and the scheduler write too.
        version = {"resourceVersion": pod.meta.resource_version, "uid": pod.meta.uid}
        await api.patch(
            kinds.PODS,
            pod.meta.name,
            {"metadata": version, "status": status},
            pod.meta.namespace,
            subresource="status",
        )

    def _as_node(self, pod: Seen) -> client.Client:
        return as_node(self._admin, pod.raw["spec"]["nodeName"])


def as_node(admin: client.Client, name: str) -> client.Client:
    """Return a client with the name and rights of a node's kubelet."""
    return admin.acting_as(f"system:node:{name}", ("system:nodes", "system:authenticated"))
