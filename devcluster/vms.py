"""VMs without disks, as their owner makes, starts and stops them; and what a story waits for of them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from devcluster import errors
from gpu import keys
from gpu.cluster import client
from gpu.cluster import errors as api
from gpu.objects import kinds
from gpu.objects.kinds import Kind

T = TypeVar("T")

_POLL: Final = 0.1
_WITHIN: Final = 60.0


def claim(name: str) -> str:
    """Return the device name of a held claim."""
    return f"{keys.CLAIM_DEVICE_PREFIX}{name}"


def unit(class_name: str) -> str:
    """Return the device name of one unit of a class."""
    return f"{keys.CLASS_DEVICE_PREFIX}{class_name}"


def body(
    namespace: str,
    name: str,
    devices: Sequence[str],
    *,
    running: bool,
    labels: Mapping[str, str],
) -> dict[str, Any]:
    """Return a VM whose template names devices."""
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "runStrategy": _strategy(running=running),
            # KubeVirt copies these labels to the instance and its launcher.
            "template": {"metadata": {"labels": dict(labels)}, "spec": _guest(devices)},
        },
    }


def instance(namespace: str, name: str, devices: Sequence[str]) -> dict[str, Any]:
    """Return an instance that names devices, as KubeVirt would make it of such a VM."""
    return {"metadata": {"name": name, "namespace": namespace}, "spec": _guest(devices)}


def _guest(devices: Sequence[str]) -> dict[str, Any]:
    gpus = [
        {"name": f"gpu{number}", "deviceName": device}
        for number, device in enumerate(devices, start=1)
    ]
    domain = {"devices": {"gpus": gpus}, "memory": {"guest": "64Mi"}}
    return {"domain": domain, "terminationGracePeriodSeconds": 5}


async def switch(person: client.Client, namespace: str, name: str, *, running: bool) -> None:
    """Have a VM started or stopped, in a person's name; KubeVirt does it a moment later."""
    patch = {"spec": {"runStrategy": _strategy(running=running)}}
    await person.patch(kinds.VMS, name, patch, namespace)


async def are_served(admin: client.Client) -> bool:
    """Tell whether a cluster has KubeVirt's kinds."""
    try:
        await admin.list(kinds.VMIS)
        await admin.list(kinds.VMS)
    except api.NotFound:
        return False
    return True


async def runs(admin: client.Client, namespace: str, name: str) -> str:
    """Wait until a VM's guest runs; return its node. The error carries what the VM says instead."""

    async def node() -> str:
        status = (await _found(admin, kinds.VMIS, namespace, name)).get("status", {})
        return str(status["nodeName"]) if status.get("phase") == "Running" else ""

    return await _until(admin, namespace, name, "running", node)


async def stopped(admin: client.Client, namespace: str, name: str) -> None:
    """Wait until nothing of a VM's instance is left, its launcher included."""

    async def absent() -> bool:
        return not await _found(admin, kinds.VMIS, namespace, name)

    await _until(admin, namespace, name, "stopped", absent)


async def waits(person: client.Client, namespace: str, name: str) -> tuple[str, str]:
    """Wait until a VM's instance is told why it waits; return reason and words of that Event."""

    async def told() -> tuple[str, str] | None:
        page = await person.list(_CORE_EVENTS, namespace)
        about = [
            (item["reason"], item.get("message", ""))
            for item in page.items
            if item["involvedObject"].get("kind") == kinds.VMIS.kind
            and item["involvedObject"]["name"] == name
            and item.get("type") == "Warning"
        ]
        return about[-1] if about else None

    found = await _until(person, namespace, name, "told why it waits", told)
    assert found is not None
    return found


_CORE_EVENTS: Final = Kind("", "v1", "events", "Event")
"""As a tenant's role grants them; the same objects as in events.k8s.io."""


def _strategy(*, running: bool) -> str:
    return "Always" if running else "Halted"


async def _found(who: client.Client, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
    try:
        return await who.get(kind, name, namespace)
    except api.NotFound:
        return {}


async def _until(
    who: client.Client,
    namespace: str,
    name: str,
    what: str,
    holds: Callable[[], Awaitable[T]],
) -> T:
    try:
        async with asyncio.timeout(_WITHIN):
            while not (found := await holds()):  # noqa: ASYNC110 - one cannot await it
                await asyncio.sleep(_POLL)
            return found
    except TimeoutError as error:
        vm = await _found(who, kinds.VMS, namespace, name)
        raise errors.NotReadyError(
            f"VM {name} of {namespace} is not {what} after {_WITHIN:.0f} s; it says: {_says(vm)}."
        ) from error


def _says(vm: Mapping[str, Any]) -> str:
    status = vm.get("status", {})
    words = [
        f"{item['type']}: {item['message']}"
        for item in status.get("conditions", [])
        if item.get("message")
    ]
    return "; ".join([status.get("printableStatus", "nothing"), *words])
