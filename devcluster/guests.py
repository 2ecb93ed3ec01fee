"""What no laptop runs: VMs with their VMIs and launcher pods, as KubeVirt would leave them.

Only the objects are made, in the order KubeVirt makes them; no KubeVirt runs. The attachment and
the pin, which the webhook and the binder will write for a real start, are written here too.

    vm = guests.Guests(admin, "tenant-a")
    await vm.define("web", claims=["c1", "c2"])     # a VM that is off and names two held claims
    start = await vm.start("web", node="n1")        # VMI, launcher, attachment; the guest runs
    await vm.stop(start)                            # the pod Succeeds, VMI and pod go
"""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from devcluster import clock
from gpu import keys
from gpu.cluster import client, errors
from gpu.config import Config
from gpu.objects import kinds, kubevirt
from gpu.units import ClaimName

KUBEVIRT: Final = "system:serviceaccount:cozy-kubevirt:kubevirt-controller"

_AGAIN: Final = 0.02
_TRIES: Final = 50


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a VM: its VMI and its launcher pod."""

    name: str
    uid: str
    pod: str
    pod_uid: str
    node: str


class Guests:
    """VMs of one namespace. It acts with KubeVirt's name and an administrator's rights.

    A launcher is let past its gate in the controller's name, as the policies want it.
    """

    def __init__(
        self, admin: client.Client, namespace: str, labels: Mapping[str, str] | None = None
    ) -> None:
        self._api = admin.acting_as(KUBEVIRT, ["system:masters"])
        self._controller = admin.acting_as(Config().controller_user, ["system:masters"])
        self._namespace = namespace
        self._labels = dict(labels or {})

    async def define(self, name: str, claims: Sequence[str] = ()) -> None:
        """Make or change a VM that is off; its template names held claims by device name."""
        gpus = [
            {"name": f"gpu{number}", "deviceName": f"{keys.CLAIM_DEVICE_PREFIX}{claim}"}
            for number, claim in enumerate(claims, start=1)
        ]
        body = {
            "apiVersion": kinds.VMS.api_version,
            "kind": kinds.VMS.kind,
            "metadata": {"name": name, "namespace": self._namespace, "labels": self._labels},
            "spec": {
                "runStrategy": "Halted",
                "template": {"spec": {"domain": {"devices": {"gpus": gpus}}}},
            },
        }
        await self._api.apply(kinds.VMS, name, body, self._namespace, field_manager="devcluster")

    async def start(
        self,
        name: str,
        *,
        node: str,
        claims: Sequence[str] = (),
        units: Mapping[str, int] | None = None,
        phase: str = "Running",
    ) -> Start:
        """Start a VM with held claims on a node; `units` are its pod's requests by resource name.

        The order is the real one: attach, VMI, gated launcher, its pod noted on each claim, and only
        then the gate goes. Conflict when a claim was changed meanwhile: nothing of it runs then.
        """
        gated = await self.begin(name, claims=claims, units=units)
        return await self.run(gated, node=node, claims=claims, phase=phase)

    async def begin(
        self, name: str, *, claims: Sequence[str] = (), units: Mapping[str, int] | None = None
    ) -> Start:
        """Make the VMI and its launcher, which waits at the gate; the claims are attached."""
        admission = uuid.uuid4().hex[:16]
        attached = {
            "name": name,
            "admission": admission,
            "since": clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            "uid": None,
            "pods": None,
        }
        for claim in claims:
            await self._attach(claim, attached)
        admissions = kubevirt.format_resolved({ClaimName(claim): admission for claim in claims})
        meta = {
            "name": name,
            "namespace": self._namespace,
            "labels": self._labels,
            "annotations": {keys.RESOLVED_CLAIMS_ANNOTATION: admissions},
        }
        vmi = await self._api.create(kinds.VMIS, {"metadata": meta, "spec": {"domain": {}}})
        uid = vmi["metadata"]["uid"]
        body = self._launcher(name, uid, units or {})
        pod = (await self._api.create(kinds.PODS, body))["metadata"]
        start = Start(name, uid, pod["name"], pod["uid"], "")
        await self.report(start, "Scheduling")
        return start

    async def run(
        self, gated: Start, *, node: str, claims: Sequence[str] = (), phase: str = "Running"
    ) -> Start:
        """Let a launcher past its gate onto a node, as the pin does, and its guest come up."""
        for claim in claims:
            await self._note(claim, gated, node)
        await self._ungate(gated)
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        meta = {"name": gated.pod, "namespace": self._namespace}
        await self._api.create_subresource(
            kinds.PODS, gated.pod, "binding", {"metadata": meta, "target": target}, self._namespace
        )
        start = replace(gated, node=node)
        await self._pod_phase(start, "Running")
        await self.report(start, phase)
        return start

    async def report(self, start: Start, phase: str) -> None:
        """Have the VMI say its phase, node and pods, as virt-controller and virt-handler do."""
        status: dict[str, Any] = {"phase": phase, "activePods": {start.pod_uid: start.node}}
        if phase not in kubevirt.NOT_STARTED:
            status["nodeName"] = start.node
        await self._api.patch(kinds.VMIS, start.name, {"status": status}, self._namespace)

    async def end_pod(self, start: Start, phase: str = "Succeeded") -> None:
        """Have the launcher end on its node, as kubelet reports it."""
        await self._api.patch(
            kinds.PODS,
            start.pod,
            {"status": {"phase": phase}},
            self._namespace,
            subresource="status",
        )

    async def remove_pod(self, start: Start) -> None:
        """Delete the pod object at once, as `kubectl delete --force` does: nobody asks the node."""
        await self._gone(kinds.PODS, start.pod)

    async def remove_vmi(self, start: Start) -> None:
        """Delete the VMI object."""
        await self._gone(kinds.VMIS, start.name)

    async def stop(self, start: Start) -> None:
        """Stop a VM as a healthy node does: the pod Succeeds, then pod and VMI are removed."""
        await self.end_pod(start)
        await self.report(start, "Succeeded")
        await self.remove_pod(start)
        await self.remove_vmi(start)

    async def _note(self, claim: str, gated: Start, node: str) -> None:
        """Write the pod on a claim that is held on the node; others write its status meanwhile."""
        while True:
            found = await self._api.get(kinds.GPU_CLAIMS, claim, self._namespace)
            status = found["status"]
            if status.get("phase") != "Bound" or status.get("nodeName") != node:
                words = f"claim {claim} is not held on {node} any more"
                raise errors.Conflict(409, "Conflict", words)
            pods = [{"uid": gated.pod_uid, "node": node}]
            version = found["metadata"]["resourceVersion"]
            try:
                return await self._attach(claim, {"uid": gated.uid, "pods": pods}, version)
            except errors.Conflict:
                await asyncio.sleep(_AGAIN)

    async def _ungate(self, gated: Start) -> None:
        """Take the gate off under the term that leads; a leader may change in between."""
        for attempt in range(_TRIES):
            binder = await self._api.get(kinds.GPU_BINDERS, keys.BINDER_NAME)
            term = str(binder.get("status", {}).get("term", 0))
            patch = {
                "metadata": {"annotations": {keys.TERM_ANNOTATION: term}},
                "spec": {"schedulingGates": None},
            }
            try:
                await self._controller.patch(kinds.PODS, gated.pod, patch, self._namespace)
            except errors.Forbidden:
                if attempt == _TRIES - 1:
                    raise
                await asyncio.sleep(_AGAIN)
            else:
                return

    async def _pod_phase(self, start: Start, phase: str) -> None:
        status = {"status": {"phase": phase}}
        await self._api.patch(kinds.PODS, start.pod, status, self._namespace, subresource="status")

    async def _attach(
        self, claim: str, attached: Mapping[str, Any], version: str | None = None
    ) -> None:
        meta = {"metadata": {"resourceVersion": version}} if version else {}
        await self._api.patch(
            kinds.GPU_CLAIMS,
            claim,
            {**meta, "status": {"attachedTo": attached}},
            self._namespace,
            subresource="status",
            field_manager=keys.WEBHOOK_MANAGER,
        )

    def _launcher(self, name: str, uid: str, units: Mapping[str, int]) -> dict[str, Any]:
        amounts = {resource: str(count) for resource, count in units.items()}
        owner = {
            "apiVersion": kinds.VMIS.api_version,
            "kind": kinds.VMIS.kind,
            "name": name,
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        compute = {
            "name": "compute",
            "image": "none.invalid/none",
            "resources": {"requests": amounts, "limits": amounts},
        }
        return {
            "metadata": {
                "generateName": f"virt-launcher-{name}-",
                "namespace": self._namespace,
                "labels": {
                    **self._labels,
                    "kubevirt.io": "virt-launcher",
                    "kubevirt.io/created-by": uid,
                },
                "ownerReferences": [owner],
            },
            "spec": {
                "schedulerName": "none",  # whoever plays KubeVirt binds it
                "schedulingGates": [{"name": keys.PLACEMENT_GATE}],
                "automountServiceAccountToken": False,
                "containers": [compute],
            },
        }

    async def _gone(self, kind: kinds.Kind, name: str) -> None:
        try:
            await self._api.delete(kind, name, self._namespace, grace_period=0)
        except errors.NotFound:
            return
