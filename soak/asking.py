"""Starts that ask the leader first (`binding: request`): how they begin, what becomes of them, how they end."""

from typing import Any, Final

from gpu import keys
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from soak.line import Fault, Line
from soak.site import Raw, Site

FAULTS: Final = (Fault.LOST_REPLY, Fault.TIMEOUT, Fault.LATE, Fault.CONFLICT, Fault.BUSY)
KEEPS: Final = "foregroundDeleteVirtualMachine"


def may_start(site: Site, vm: Raw) -> bool:
    """Say whether KubeVirt creates its VMI now; it mostly waits for the answer to the call before."""
    key = ObjectKey(vm["metadata"]["namespace"], vm["metadata"]["name"])
    if site.api.find(kinds.VMIS, key) is not None:
        return False
    devices = [
        it["deviceName"] for it in vm["spec"]["template"]["spec"]["domain"]["devices"]["gpus"]
    ]
    named = [it.removeprefix(keys.CLAIM_DEVICE_PREFIX) for it in devices]
    is_refused = any(
        site.claim(key.namespace, name) is None
        for name, device in zip(named, devices, strict=True)
        if name != device
    )
    is_asked = any(call.key == key for call in site.webhooks.calls)
    return not (is_refused or is_asked) or site.chance(0.1, f"again {key}")


def begin(site: Site, vm: Raw) -> None:
    """KubeVirt creates the VMI of a VM, and the webhook takes its call; its writes may fail."""
    meta = vm["metadata"]
    owner = {"apiVersion": kinds.VMS.api_version, "kind": kinds.VMS.kind, "controller": True}
    body = {
        "apiVersion": kinds.VMIS.api_version,
        "kind": kinds.VMIS.kind,
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "ownerReferences": [owner | {"name": meta["name"], "uid": meta["uid"]}],
        },
        "spec": vm["spec"]["template"]["spec"],
    }
    line = Line(site.api, tally=site.tally, ended=[])
    if site.rng.random() < 0.3:
        faults = [(site.rng.choice((1, 1, 2, 2, 3, 4, 5)), site.rng.choice(FAULTS))]
        if site.rng.random() < 0.1:
            faults.append((site.rng.choice((1, 2, 3)), Fault.REFUSED))
        line.begin(dict(faults), bad_reads=int(site.rng.random() < 0.2))
    is_stored = site.rng.random() >= 0.06  # else somebody else refuses it
    if site.rng.random() < 0.5:
        site.webhooks.show()
    id_ = site.name(f"adm-{meta['name']}-{len(site.webhooks.calls)}-")
    site.webhooks.begin(body, id_, line, lambda vmi: _store(site, vmi) if is_stored else None)
    site.tally["starts asked"] += 1


async def get_on(site: Site) -> list[str]:
    """Calls go on, and mostly their watch shows something new; returns what is wrong with the webhook."""
    webhooks = site.webhooks
    if webhooks.calls:
        if site.chance(0.6, "the webhook's watch"):
            webhooks.show()
        await webhooks.get_on()
    site.late += webhooks.late
    webhooks.late.clear()
    wrong = [f"the VMI webhook crashed: {error!r}" for error in webhooks.crashes]
    webhooks.crashes.clear()
    return wrong


async def die(site: Site) -> None:
    """The process of a call dies: what it has written stays."""
    call = site.pick(site.webhooks.calls)
    if call is not None:
        await site.webhooks.kill([call])
        site.tally["webhooks died"] += 1


def calm(site: Site) -> None:
    """Nothing disturbs calls any more."""
    for call in site.webhooks.calls:
        call.line.begin({})
    site.webhooks.show()


def _store(site: Site, body: Raw) -> None:
    """The API server stores it, if the name is free and its namespace and VM are there still."""
    meta: dict[str, Any] = body["metadata"]
    key = ObjectKey(meta["namespace"], meta["name"])
    vm = site.api.find(kinds.VMS, key)
    if site.api.find(kinds.VMIS, key) is not None:
        site.tally["VMIs whose name was taken"] += 1
        return
    if keys.RESOLVED_CLAIMS_ANNOTATION not in (meta.get("annotations") or {}):
        return  # it asks for no class's resource: nobody's business
    if vm is None or vm["metadata"]["uid"] != meta["ownerReferences"][0]["uid"]:
        return
    fresh = {"creationTimestamp": site.now(), "finalizers": [KEEPS]}
    site.api.put(kinds.VMIS, body | {"metadata": meta | fresh, "status": {"phase": "Pending"}})
