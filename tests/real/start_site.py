"""A site whose starts of VMs are judged: VMIs and launchers are made in KubeVirt's name, no KubeVirt runs."""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from gpu import keys
from gpu.cluster import errors
from gpu.cluster.client import Client
from gpu.config import Config
from gpu.objects import kinds
from tests.real import site as sites

Json = dict[str, Any]

A: Final = "tenant-a"
L40: Final = "nvidia.com/AD102GL_L40S"
ON: Final = {"vmWebhooks": {"enabled": True}}
FLAGS: Final = sites.FAST
VMIS_SAY: Final = 'admission webhook "vmis.gpu.cozystack.io" denied the request: '
KUBEVIRT: Final = Config().kubevirt_controller_user


@contextlib.asynccontextmanager
async def opened(directory: Path, **values: Any) -> AsyncIterator[sites.Site]:
    """Open a site with two classes, tenants a and b, and the policies in force."""
    async with sites.opened(directory, flags=FLAGS, values={**ON, **values}) as site:
        await site.node("gpu-1", 16)
        await site.node("gpu-2", 8, L40)
        taint = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule", "operator": "Equal"}
        await site.offer("h100", maxCount=4, tolerations=[taint])
        await site.offer("l40s", L40)
        await site.offer("old", "nvidia.com/OLD", retired=True)
        for tenant in (A, "tenant-b"):
            await site.tenant(tenant)
        await sites.until(lambda: in_force(site), 60, "the webhook and the policies in force")
        for tenant in (A, "tenant-b"):
            await site.shown(tenant, "h100", "l40s")
        await site.class_has("h100", 16)
        await site.class_has("l40s", 8)
        yield site


async def in_force(site: sites.Site) -> bool:
    """Say whether the webhook refuses what it should, and the policy on gates, which comes later."""
    gated = a_launcher(schedulingGates=[{"name": keys.PLACEMENT_GATE}])
    gated["spec"]["containers"][0].pop("resources")
    asks = (
        kubevirt(site).create(kinds.VMIS, a_vmi("probe", [claim("none")]), dry_run=True),
        site.admin.create(kinds.PODS, gated, dry_run=True),
    )
    said = []
    for ask in asks:
        try:
            await ask
        except errors.ApiError as error:
            said.append(error.message)
    return len(said) == len(asks) and VMIS_SAY in said[0] and "cozystack-gpu-gate-policy" in said[1]


def kubevirt(site: sites.Site) -> Client:
    """Return a client in the name of KubeVirt's controller."""
    return site.admin.acting_as(KUBEVIRT, ["system:masters"])


def gpu(device: str, name: str = "g", **more: Any) -> Json:
    """Return an entry of gpus or hostDevices."""
    return {"name": name, "deviceName": device, **more}


def claim(named: str, **more: Any) -> Json:
    """Return an entry that names a held claim."""
    return gpu(f"{keys.CLAIM_DEVICE_PREFIX}{named}", **more)


def unit(class_name: str = "h100", **more: Any) -> Json:
    """Return an entry that names a unit of a class."""
    return gpu(f"{keys.CLASS_DEVICE_PREFIX}{class_name}", **more)


def a_vmi(
    name: str,
    gpus: list[Json] | None = None,
    *,
    hosts: list[Json] | None = None,
    namespace: str = A,
    annotations: dict[str, str] | None = None,
    resources: Json | None = None,
) -> Json:
    """Return a VMI; one whose name ends in `-` gets it by generateName."""
    devices = {"gpus": gpus, "hostDevices": hosts}
    domain: Json = {"devices": {place: found for place, found in devices.items() if found}}
    if resources:
        domain["resources"] = resources
    named = {"generateName": name} if name.endswith("-") else {"name": name}
    meta = {**named, "namespace": namespace, "annotations": annotations or {}}
    return {"metadata": meta, "spec": {"domain": domain}}


async def created(site: sites.Site, body: Json, **how: Any) -> Json:
    """Create a VMI in KubeVirt's name; return it as stored."""
    return await kubevirt(site).create(kinds.VMIS, body, **how)


async def words(site: sites.Site, body: Json, **how: Any) -> str:
    """Return the words with which a VMI is refused."""
    try:
        await created(site, body, **how)
    except errors.ApiError as error:
        return error.message
    raise AssertionError(f"VMI {body['metadata']} was admitted")


async def stopped(site: sites.Site, *names: str, namespace: str = A) -> None:
    """Delete VMIs; no KubeVirt keeps them by a finalizer."""
    for name in names:
        await site.admin.delete(kinds.VMIS, name, namespace)


async def attached(site: sites.Site, name: str, namespace: str = A) -> Json | None:
    """Return a claim's attachment as stored."""
    status = (await site.claim(namespace, name)).get("status") or {}
    return status.get("attachedTo")


async def adopted(site: sites.Site, name: str, namespace: str = A) -> str:
    """Wait until the leader has adopted the VMI that a claim is attached to; return its uid."""

    async def uid() -> str:
        return str((await attached(site, name, namespace) or {}).get("uid", ""))

    return str(await sites.until(uid, 60, f"{namespace}/{name} adopted by its VMI"))


def devices(body: Json, place: str = "gpus") -> list[tuple[str, str]]:
    """Return names and device names of a VMI's entries."""
    found = body["spec"]["domain"]["devices"].get(place, [])
    return [(one["name"], one["deviceName"]) for one in found]


def record(body: Json) -> Any:
    """Return what the webhook recorded on an object; None where it recorded nothing."""
    text = (body["metadata"].get("annotations") or {}).get(keys.RESOLVED_CLAIMS_ANNOTATION)
    return None if text is None else json.loads(text)


def a_launcher(
    name: str = "virt-launcher-vm-",
    *,
    namespace: str = A,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Json:
    """Return a launcher pod as KubeVirt renders it, without a name."""
    limits = {sites.H100: "1"}
    compute = {"name": "compute", "image": "i", "resources": {"limits": limits}}
    return {
        "metadata": {
            "generateName": name,
            "namespace": namespace,
            "labels": {"kubevirt.io": "virt-launcher", **(labels or {})},
            "annotations": {keys.RESOLVED_CLAIMS_ANNOTATION: "[]"}
            if annotations is None
            else annotations,
        },
        "spec": {"containers": [compute], **spec},
    }
