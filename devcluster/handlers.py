"""virt-handler's part of simulated nodes: guests come up, end, crash and move.

    Scheduled                  Running, with what virt-handler finds out about the guest
    launcher ended under it    Failed
    VMI or launcher deleted    the guest shuts down: Succeeded; a stubborn one is killed: Failed
    `end` on command           Succeeded or Failed; its launcher follows
    migrationState written     both ends' steps up to the hand-over, and the source launcher ends

Everything is written by PUT in virt-handler's own name: a status by anybody else virt-api takes back.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import structlog

from devcluster import clock, pod_statuses, vmi_statuses
from devcluster.kubelets import Guest
from devcluster.machines import Machine
from devcluster.watching import Seen, Watch
from gpu.cluster import client
from gpu.cluster.store import Store
from gpu.objects import kinds, pods
from gpu.objects.meta import ObjectKey

log: Final = structlog.get_logger(__name__)

_USUAL_GRACE: Final = 30


class Handlers:
    """The virt-handlers of all machines of a table, over one watch of VMIs. Satisfies Guests."""

    def __init__(
        self, admin: client.Client, handler: client.Client, machines: Mapping[str, Machine]
    ) -> None:
        """Read as the administrator, write as `handler`, which has virt-handler's name."""
        self.watch = Watch(admin, kinds.VMIS, self._look)
        self._handler = handler
        self._machines = machines
        self._pods: Store[Seen] | None = None
        self._told: Callable[[ObjectKey], None] = _nobody
        self._ends: dict[str, str] = {}
        """Phases in which guests end on command, by the VMI's UID."""

    def follow(self, pods: Store[Seen], told: Callable[[ObjectKey], None]) -> None:
        """Know the pods, and tell of those whose guest has changed."""
        self._pods, self._told = pods, told

    def end(self, vmi: ObjectKey, phase: str) -> None:
        """Have a guest end by itself: Succeeded as a shutdown from within, Failed as a crash."""
        found = self.watch.store.get(vmi)
        if found is None:
            raise LookupError(f"VMI {vmi} is not there: no guest of that name can end")
        self._ends[found.meta.uid] = phase
        self.watch.again(vmi)

    def look_again_at(self, machine: str) -> None:
        """Look at all VMIs that have to do with a machine."""
        for vmi in self.watch.store.items():
            if machine in {vmi.status.get("nodeName"), self._target(vmi)}:
                self.watch.again(vmi.meta.key)

    # What kubelets ask.

    def of(self, pod: Seen) -> Guest:
        """Say what became of a pod's guest."""
        vmi = self._vmi_of(pod)
        if vmi is None:
            return Guest.NONE
        moved = vmi_statuses.migration(vmi.raw)
        if moved.get("completed"):
            loser = "targetPod" if moved.get("failed") else "sourcePod"
            if moved.get(loser) == pod.meta.name:
                return Guest.FAILED if moved.get("failed") else Guest.SUCCEEDED
        if vmi.phase in vmi_statuses.DONE:
            return Guest(vmi.phase)
        here = vmi.status.get("nodeName") == pod.raw["spec"].get("nodeName")
        return Guest.RUNS if here and vmi.phase in vmi_statuses.UP else Guest.NONE

    def leaves(self, pod: Seen) -> None:
        """Hear that a pod was told to end or has ended; its guest, if it runs, has to follow."""
        vmi = self._vmi_of(pod)
        if vmi is not None and self.of(pod) is Guest.RUNS:
            self.watch.again(vmi.meta.key)

    # One VMI.

    async def _look(self, key: ObjectKey) -> float | None:
        vmi = self.watch.store.get(key)
        if vmi is None:
            return None
        for pod in self._launchers(vmi):
            if pod.phase not in pod_statuses.DONE and self.of(pod).is_over:
                self._told(pod.meta.key)
        if vmi.phase in vmi_statuses.DONE:
            self._ends.pop(vmi.meta.uid, None)
        machine = self._alive(vmi.status.get("nodeName"))
        if machine is None or vmi.phase not in vmi_statuses.UP:
            return None
        return await self._serve(vmi, machine)

    async def _serve(self, vmi: Seen, machine: Machine) -> float | None:
        if self._is_lost(vmi):
            await self._finish(vmi, "Failed")
            return None
        if self._is_ending(vmi):
            return await self._stop(vmi, machine)
        if vmi.phase == "Scheduled":
            return await self._start(vmi, machine)
        return await self._migrate(vmi, machine)

    async def _start(self, vmi: Seen, machine: Machine) -> float | None:
        left = self.watch.left(vmi, "guest", machine.pace.guest)
        if left > 0:
            return left
        now = clock.now()
        await self._put(vmi_statuses.running(vmi.raw, now, migratable=machine.migratable))
        return None

    def _is_lost(self, vmi: Seen) -> bool:
        """Say whether the launcher has ended under the guest, as after a reboot or a kill."""
        node = vmi.status.get("nodeName")
        here = [pod for pod in self._launchers(vmi) if pod.raw["spec"].get("nodeName") == node]
        return bool(here) and all(pod.phase in pod_statuses.DONE for pod in here)

    def _is_ending(self, vmi: Seen) -> bool:
        node = vmi.status.get("nodeName")
        return (
            vmi.meta.deleting
            or vmi.meta.uid in self._ends
            or any(
                pod.meta.deleting and pod.raw["spec"].get("nodeName") == node
                for pod in self._launchers(vmi)
                if pod.phase not in pod_statuses.DONE
            )
        )

    async def _stop(self, vmi: Seen, machine: Machine) -> float | None:
        phase = self._ends.get(vmi.meta.uid)
        if phase is None:
            stubborn = machine.stubborn and vmi.phase == "Running"
            grace = vmi.raw["spec"].get("terminationGracePeriodSeconds", _USUAL_GRACE)
            left = self.watch.left(vmi, "stop", grace if stubborn else machine.pace.stop)
            if left > 0:
                return left
            phase = "Failed" if stubborn else "Succeeded"
        await self._finish(vmi, phase)
        return None

    async def _finish(self, vmi: Seen, phase: str) -> None:
        await self._put(vmi_statuses.ended(vmi.raw, phase, clock.now()))
        log.info("guest ended", vmi=str(vmi.meta.key), phase=phase)

    async def _migrate(self, vmi: Seen, source: Machine) -> float | None:
        """Take the next step of a migration; each write's own event asks for the one after it."""
        state = vmi_statuses.migration(vmi.raw)
        if not state or (state.get("failed") and not self._target(vmi)):
            return None
        if state.get("completed"):
            if self._target(vmi):
                await self._put(vmi_statuses.tidied(vmi.raw))
            return None
        if state.get("endTimestamp"):
            await self._put(vmi_statuses.completed(vmi.raw, clock.now()))
            return None
        target = self._alive(state.get("targetNode"))
        if target is None or self._target(vmi) != target.name:
            return None
        return await self._move(vmi, source, target)

    async def _move(self, vmi: Seen, source: Machine, target: Machine) -> float | None:
        state = vmi_statuses.migration(vmi.raw)
        now = clock.now()
        if not state.get("targetNodeAddress"):
            address = pod_statuses.host_address(target.name)
            await self._put(vmi_statuses.listening(vmi.raw, now, address=address))
        elif not state.get("startTimestamp"):
            await self._put(vmi_statuses.moving(vmi.raw, now))
        else:
            left = self.watch.left(vmi, f"move {state['migrationUid']}", source.pace.migrate)
            if left > 0:
                return left
            await self._hand_over(vmi, source, now)
        return None

    async def _hand_over(self, vmi: Seen, source: Machine, now: datetime) -> None:
        if source.migrations_fail:
            await self._put(vmi_statuses.failed(vmi.raw, now))
        else:
            await self._put(vmi_statuses.handed_over(vmi.raw, now))
            log.info("guest moved", vmi=str(vmi.meta.key))

    async def _put(self, vmi: Mapping[str, Any]) -> None:
        await self._handler.update(kinds.VMIS, vmi)

    def _alive(self, node: str | None) -> Machine | None:
        machine = self._machines.get(node or "")
        return machine if machine is not None and machine.alive else None

    @staticmethod
    def _target(vmi: Seen) -> str | None:
        return vmi.labels.get(vmi_statuses.TARGET_LABEL)

    def _launchers(self, vmi: Seen) -> list[Seen]:
        if self._pods is None:
            return []
        return [
            pod
            for pod in self._pods.in_namespace(vmi.meta.namespace)
            if pod.labels.get(pods.CREATED_BY_LABEL) == vmi.meta.uid
        ]

    def _vmi_of(self, pod: Seen) -> Seen | None:
        for owner in pod.meta.owners:
            if owner.kind == kinds.VMIS.kind and owner.controller:
                vmi = self.watch.store.get(ObjectKey(pod.meta.namespace, owner.name))
                return vmi if vmi is not None and vmi.meta.uid == owner.uid else None
        return None


def _nobody(_: ObjectKey) -> None:
    """Stand for the kubelets until they are known."""
