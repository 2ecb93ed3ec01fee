"""A site for whole lives of VMs: the real KubeVirt, the product with its webhooks, simulated kubelets.

The hoster's catalogue and the tenants are those of examples/. Whatever a VM's owner does here is done
with the rights that the host gives a super-admin of the tenant.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from devcluster import (
    control_plane,
    errors,
    examples,
    kubevirt,
    product,
    simulated,
    simulator,
    story,
    tenants,
)
from gpu import keys
from gpu.cluster import errors as api
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from tests.real import site as sites
from tests.real import start_site as starts
from tests.real.threat_site import said

Json = dict[str, Any]

ACME: Final = "tenant-acme"
GLOBEX: Final = "tenant-globex"
H100: Final = "nvidia.com/GH100_H100_PCIE"
L40S: Final = "nvidia.com/AD102GL_L40S"
NODES: Final[Mapping[str, Mapping[str, int]]] = {
    "gpu-1": {H100: 2},
    "gpu-2": {H100: 4},
    "gpu-3": {L40S: 4},
}
FLAGS: Final = (*sites.FAST, "--release-settle=2", "--not-ready-grace=2", "--attachment-grace=5")
LATE: Final = 90.0
"""Seconds, reached by failures alone: KubeVirt may wait as long again before its next try as it tried already."""


@dataclass
class VmSite(sites.Site):
    """What a story of VMs works with."""

    kv: kubevirt.KubeVirt
    sim: simulated.Simulation

    def owner(self, tenant: str = ACME) -> Any:
        """Return a client of somebody who may make VMs for the tenant."""
        return self.person(tenant, "super-admin")

    async def make(
        self, name: str, gpus: Sequence[Json], *, tenant: str = ACME, **template: Any
    ) -> Json:
        """Make a VM that is to run, as its owner; `template` is more of its guest's spec."""
        body = a_vm(name, gpus, tenant=tenant, **template)
        return await self.owner(tenant).create(kinds.VMS, body)

    async def strategy(self, name: str, strategy: str, tenant: str = ACME) -> None:
        """Change what becomes of a VM, as its owner: Always, Halted."""
        patch = {"spec": {"runStrategy": strategy}}
        await self.owner(tenant).patch(kinds.VMS, name, patch, tenant)

    async def start(self, name: str, tenant: str = ACME) -> None:
        """Start a VM as its owner."""
        await self.strategy(name, "Always", tenant)

    async def stop(self, name: str, tenant: str = ACME) -> None:
        """Stop a VM as its owner; wait until neither instance nor launcher is there."""
        await self.strategy(name, "Halted", tenant)
        await self.ended(name, tenant)

    async def delete(self, name: str, tenant: str = ACME) -> None:
        """Delete a VM as its owner; wait until nothing of it is there."""
        await self.owner(tenant).delete(kinds.VMS, name, tenant)
        await self.ended(name, tenant)

        async def absent() -> bool:
            return not await self.found(kinds.VMS, name, tenant)

        await sites.until(absent, LATE, f"VM {name} gone")

    async def found(self, kind: Kind, name: str, tenant: str = ACME) -> Json:
        """Return an object, empty where there is none."""
        try:
            return await self.admin.get(kind, name, tenant)
        except api.NotFound:
            return {}

    async def pods(self, name: str, tenant: str = ACME) -> list[Json]:
        """Return all launchers of a VM."""
        selector = f"vm.kubevirt.io/name={name}"
        return list((await self.admin.list(kinds.PODS, tenant, label_selector=selector)).items)

    async def ended(self, name: str, tenant: str = ACME) -> None:
        """Wait until a VM has neither instance nor launcher."""

        async def absent() -> bool:
            return not await self.found(kinds.VMIS, name, tenant) and not await self.pods(
                name, tenant
            )

        await sites.until(absent, LATE, f"instance and launchers of {name} gone")

    async def runs(self, name: str, tenant: str = ACME, *, but: str = "") -> Json:
        """Wait until a VM's instance, not the one of uid `but`, runs; return it."""
        last: Json = {}

        async def there() -> Json:
            vmi = await self.found(kinds.VMIS, name, tenant)
            last.clear()
            last.update(vmi.get("status") or {})
            right = last.get("phase") == "Running" and vmi["metadata"]["uid"] != but
            return vmi if right else {}

        return dict(await sites.until(there, LATE, lambda: f"VM {name} Running: {last}"))

    async def launcher(self, name: str, tenant: str = ACME) -> Json:
        """Wait until a VM has one launcher that has not ended; return it."""

        async def one() -> Json:
            ended = {"Succeeded", "Failed"}
            live = [p for p in await self.pods(name, tenant) if p["status"]["phase"] not in ended]
            return live[0] if len(live) == 1 else {}

        return dict(await sites.until(one, LATE, f"one launcher of {name}"))

    async def gated(self, name: str, tenant: str = ACME) -> Json:
        """Wait until a VM's launcher is at our gate; return it."""

        async def there() -> Json:
            return next((p for p in await self.pods(name, tenant) if gates(p)), {})

        return dict(await sites.until(there, LATE, f"launcher of {name} at the gate"))

    async def told(self, name: str, reason: str, tenant: str = ACME) -> str:
        """Wait until an Event of the VM's living instance has a reason; return its words."""
        seen: set[str] = set()

        async def note() -> str:
            vmi = await self.found(kinds.VMIS, name, tenant)
            uid = vmi["metadata"]["uid"] if vmi else ""
            listing = await self.admin.list(kinds.EVENTS, tenant)
            about = [it for it in listing.items if it["regarding"].get("uid") == uid]
            seen.update(f"{it['reason']}: {it.get('note')}" for it in about)
            return next((it["note"] for it in about if it["reason"] == reason), "")

        return str(await sites.until(note, LATE, lambda: f"Event {reason} on {name}: {seen}"))

    async def refused(self, name: str, saying: str = "", tenant: str = ACME) -> str:
        """Wait until a VM says that its start is refused, in words with these among them; return them.

        KubeVirt says there whatever its last try met, an error that passes as well.
        """
        last = ""

        async def words() -> str:
            nonlocal last
            vm = await self.found(kinds.VMS, name, tenant)
            found = (vm.get("status") or {}).get("conditions") or []
            last = next((it["message"] for it in found if it["type"] == "Failure"), "")
            return last if saying in last else ""

        what = f"{saying!r} in the refusal on VM {name}"
        return str(await sites.until(words, LATE, lambda: f"{what}, it says {last!r}"))

    async def user(self, claim: str, tenant: str = ACME) -> str:
        """Return the name of the VM that a claim is attached to; empty where none is."""
        status = (await self.claim(tenant, claim)).get("status") or {}
        return str((status.get("attachedTo") or {}).get("name", ""))

    async def of_templates(self, tenant: str = ACME) -> list[Json]:
        """Return the claims made for templates of a tenant's VMs."""
        found = await self.admin.list(kinds.GPU_CLAIMS, tenant)
        label = keys.TEMPLATE_CLAIM_LABEL
        return [it for it in found.items if label in (it["metadata"].get("labels") or {})]

    async def hold(self, name: str, class_name: str, count: int, tenant: str = ACME) -> str:
        """Order a claim as a person of the tenant, again while units are free soon; return its node.

        What a guest gives back is free once its pod is seen to end, and by the replica that is asked.
        """

        async def taken() -> bool:
            try:
                await self.order(tenant, name, class_name, count)
            except api.Forbidden as refusal:
                if "free to order" in refusal.message:
                    return False
                raise
            return True

        await sites.until(taken, LATE, f"{count} of {class_name} free to order")
        return await self.bound(tenant, name, LATE)

    async def no_order(self, name: str, class_name: str, count: int, tenant: str = ACME) -> None:
        """Wait until so many units are refused for want of free ones: the webhook has seen why then.

        An order that is taken by an older view waits: it is given back, and asked again.
        """

        async def refused() -> bool:
            try:
                await self.order(tenant, name, class_name, count)
            except api.Forbidden as refusal:
                return "free" in refusal.message
            status = (await self.claim(tenant, name)).get("status") or {}
            assert status.get("phase") != "Bound", status
            await self.give_back(name, tenant)
            return False

        await sites.until(refused, LATE, f"{count} of {class_name} refused")

    async def give_back(self, name: str, tenant: str = ACME) -> None:
        """Delete a claim as a person of the tenant; wait until it is gone."""
        await self.person(tenant).delete(kinds.GPU_CLAIMS, name, tenant)
        await self.gone(tenant, name, LATE)

    async def clear(self) -> None:
        """Delete all VMs, instances and claims of both tenants; wait until they are gone."""
        await sites.until(self._no_guests, LATE, "no VM, instance or launcher left")
        for claim in await self.claims():
            meta = claim["metadata"]
            with contextlib.suppress(api.NotFound):
                await self.admin.delete(kinds.GPU_CLAIMS, meta["name"], meta["namespace"])
        for claim in await self.claims():
            meta = claim["metadata"]
            await self.gone(meta["namespace"], meta["name"], LATE)

    async def _no_guests(self) -> bool:
        """Delete what is there of VMs; say whether nothing was.

        Again and again: a controller that has not seen yet that the owner goes makes another instance.
        """
        found = []
        for tenant in (ACME, GLOBEX):
            for kind in (kinds.VMS, REPLICA_SETS, kinds.VMIS):
                for item in (await self.admin.list(kind, tenant)).items:
                    found.append(item)
                    if "deletionTimestamp" not in item["metadata"]:
                        with contextlib.suppress(api.NotFound):
                            await self.admin.delete(kind, item["metadata"]["name"], tenant)
            found += (await self.admin.list(kinds.PODS, tenant)).items
        return not found


REPLICA_SETS: Final = Kind(
    "kubevirt.io", "v1", "virtualmachineinstancereplicasets", "VirtualMachineInstanceReplicaSet"
)


def held(name: str, entry: str = "g") -> Json:
    """Return an entry of gpus that names a held claim."""
    return starts.claim(name, name=entry)


def unit(class_name: str = "h100", entry: str = "g") -> Json:
    """Return an entry of gpus that names one unit of a class."""
    return starts.unit(class_name, name=entry)


def guest(*gpus: Json, **domain: Any) -> Json:
    """Return the domain of a guest, for `make`."""
    return {"devices": {"gpus": list(gpus)}, "memory": {"guest": "64Mi"}, **domain}


def a_template(gpus: Sequence[Json], **more: Any) -> Json:
    """Return the template of a guest without disks."""
    return {"spec": {"domain": guest(*gpus), "terminationGracePeriodSeconds": 2, **more}}


def a_vm(name: str, gpus: Sequence[Json], *, tenant: str = ACME, **more: Any) -> Json:
    """Return a VM that is to run."""
    spec = {"runStrategy": "Always", "template": a_template(gpus, **more)}
    return {"metadata": {"name": name, "namespace": tenant}, "spec": spec}


def gates(pod: Json) -> list[str]:
    """Return the names of the gates that a pod waits at."""
    return [it["name"] for it in pod["spec"].get("schedulingGates") or []]


def pins(pod: Json) -> list[Json]:
    """Return what each term of a pod's required node affinity says of the node's name."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = pod["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    return [field for term in terms for field in term.get("matchFields", ())]


def to_node(name: str) -> Json:
    """Return the pin to a node."""
    return {"key": "metadata.name", "operator": "In", "values": [name]}


@contextlib.asynccontextmanager
async def opened(
    directory: Path,
    *,
    flags: Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
    cdi: bool = False,
    late: bool = False,
) -> AsyncIterator[VmSite]:
    """Bring everything up on a plane of one's own; about 40 s. `late`: KubeVirt after the product."""
    async with (
        control_plane.control_plane(directory) as cp,
        cp.admin() as admin,
        contextlib.AsyncExitStack() as stack,
    ):
        virt = kubevirt.running(cp, permitted=examples.permitted(), cdi=cdi)
        early = None if late else await stack.enter_async_context(virt)
        made = await product.install(cp, admin, values=values, kubevirt=False)
        await made.start(flags=(*FLAGS, *flags))
        await made.available()
        kv = early or await stack.enter_async_context(virt)
        sim = await stack.enter_async_context(simulated.simulated(admin))
        site = VmSite(cp, made, admin, sim.nodes, kv, sim)
        for name, resources in NODES.items():
            await sim.add(simulator.Simulated(name=name, resources=resources))
        for body in examples.load("catalogue.yaml"):
            await story.hoster_of(admin).create(kinds.GPU_CLASSES, body)
        for name in ("root", "acme", "globex"):
            for body in examples.load(f"tenants/{name}.yaml"):
                await story.put(admin, body)
        await sites.until(lambda: _in_force(site), LATE, "the webhooks and the policies in force")
        await _known(site)
        try:
            yield site
        finally:
            if sim.ended.is_set():
                raise errors.DevclusterError("The simulation ended by itself.")


async def _in_force(site: VmSite) -> bool:
    """Say whether webhook and policies refuse what they should, and every class is offered."""
    vmi = starts.a_vmi("probe", [held("none")], namespace=ACME)
    vmi["spec"]["domain"]["memory"] = {"guest": "64Mi"}
    marked = {
        "metadata": {
            "name": "probe",
            "namespace": ACME,
            "labels": {keys.TEMPLATE_CLAIM_LABEL: "true"},
        },
        "spec": {"className": "h100", "count": 1},
    }
    guards = {
        "vmis.gpu.cozystack.io": starts.kubevirt(site).create(kinds.VMIS, vmi, dry_run=True),
        "ValidatingAdmissionPolicy": site.person(ACME).create(
            kinds.GPU_CLAIMS, marked, dry_run=True
        ),
    }
    refused = {name: name in await said(attempt) for name, attempt in guards.items()}
    offers = {it["metadata"]["name"] for it in (await site.served(ACME, "gpuoffers"))["items"]}
    return all(refused.values()) and offers >= {"h100", "l40s"}


async def _known(site: VmSite) -> None:
    """Wait until the product knows every node and tenant, and kube-apiserver what their people may."""
    await site.class_has("h100", sum(served.get(H100, 0) for served in NODES.values()))
    await site.class_has("l40s", sum(served.get(L40S, 0) for served in NODES.values()))
    for tenant in (ACME, GLOBEX):
        await site.shown(tenant, "h100", "l40s")
        groups = (tenants.group(tenant, "super-admin"),)
        right = {"verb": "create", "group": kinds.VMS.group, "resource": kinds.VMS.plural}
        await site.may(f"somebody@{tenant}", groups, at=tenant, **right)
