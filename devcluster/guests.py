"""What no laptop runs: VMs with their VMIs and launcher pods, as KubeVirt would leave them.

Only the objects are made, in the order KubeVirt makes them; no KubeVirt runs. The attachment and
the pin, which the webhook and the binder will write for a real start, are written here too.

    vm = guests.Guests(admin, "tenant-a")
    await vm.define("web", claims=["c1", "c2"])     # a VM that is off and names two held claims
    start = await vm.start("web", node="n1")        # VMI, launcher, attachment; the guest runs
    await vm.stop(start)                            # the pod Succeeds, VMI and pod go
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from devcluster import clock
from gpu import keys
from gpu.cluster import client, errors
from gpu.objects import kinds, kubevirt
from gpu.units import ClaimName

KUBEVIRT: Final = "system:serviceaccount:cozy-kubevirt:kubevirt-controller"


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a VM: its VMI and its launcher pod."""

    name: str
    uid: str
    pod: str
    pod_uid: str
    node: str


class Guests:
    """VMs of one namespace. It acts with KubeVirt's name and an administrator's rights."""

    def __init__(
        self, admin: client.Client, namespace: str, labels: Mapping[str, str] | None = None
    ) -> None:
        self._api = admin.acting_as(KUBEVIRT, ["system:masters"])
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
        units: dict[str, int] | None = None,
        phase: str = "Running",
    ) -> Start:
        """Start a VM with held claims on a node; `units` are its pod's requests by resource name."""
        admission = uuid.uuid4().hex[:16]
        for claim in claims:
            await self._attach(claim, name, admission)
        meta = {
            "name": name,
            "namespace": self._namespace,
            "labels": self._labels,
            "annotations": {
                keys.RESOLVED_CLAIMS_ANNOTATION: kubevirt.format_admissions(
                    {ClaimName(claim): admission for claim in claims}
                )
            },
        }
        vmi = await self._api.create(kinds.VMIS, {"metadata": meta, "spec": {"domain": {}}})
        uid = vmi["metadata"]["uid"]
        pod = await self._launch(name, uid, node, units or {})
        start = Start(name, uid, pod["metadata"]["name"], pod["metadata"]["uid"], node)
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

    async def _attach(self, claim: str, name: str, admission: str) -> None:
        attached = {
            "name": name,
            "admission": admission,
            "since": clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            "uid": None,
            "pods": None,
        }
        await self._api.patch(
            kinds.GPU_CLAIMS,
            claim,
            {"status": {"attachedTo": attached}},
            self._namespace,
            subresource="status",
            field_manager=keys.WEBHOOK_MANAGER,
        )

    async def _launch(
        self, name: str, uid: str, node: str, units: dict[str, int]
    ) -> dict[str, Any]:
        amounts = {resource: str(count) for resource, count in units.items()}
        resources = {"requests": amounts, "limits": amounts} if amounts else {}
        owner = {
            "apiVersion": kinds.VMIS.api_version,
            "kind": kinds.VMIS.kind,
            "name": name,
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        labels = {
            **self._labels,
            "kubevirt.io": "virt-launcher",
            "kubevirt.io/created-by": uid,
        }
        pod = await self._api.create(
            kinds.PODS,
            {
                "metadata": {
                    "generateName": f"virt-launcher-{name}-",
                    "namespace": self._namespace,
                    "labels": labels,
                    "ownerReferences": [owner],
                },
                "spec": {
                    "nodeName": node,
                    "automountServiceAccountToken": False,
                    "containers": [
                        {"name": "compute", "image": "none.invalid/none", "resources": resources}
                    ],
                },
            },
        )
        await self._api.patch(
            kinds.PODS,
            pod["metadata"]["name"],
            {"status": {"phase": "Running"}},
            self._namespace,
            subresource="status",
        )
        return pod

    async def _gone(self, kind: kinds.Kind, name: str) -> None:
        try:
            await self._api.delete(kind, name, self._namespace, grace_period=0)
        except errors.NotFound:
            return
