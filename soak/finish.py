"""What must be so in the end, long after the last fault: judged by trying every node, naively."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from gpu import keys
from gpu.objects import kinds
from soak import launchers, strangers
from soak.site import Raw, Site

Place = tuple[str, str]


def unbound(site: Site, in_use: Counter[Place]) -> list[str]:
    """Return orders that fit and are not Bound; none is judged while a Lost set waits."""
    claims = site.claims()
    if is_in_doubt(site):
        return []
    named = {name for vm in site.api.all(kinds.VMS) for name in named_by(vm)}
    waiting = [
        it
        for it in claims
        if _phase(it) == "Pending" and not _is_deleted(it) and not launchers.is_template(it)
    ]
    waiting.sort(key=lambda it: (it["metadata"]["creationTimestamp"], it["metadata"]["uid"]))
    older: list[Raw] = []
    wrong = []
    for claim in waiting:
        is_judged = _is_order(claim) and _key(claim) not in named
        if is_judged and _fits(site, claim, in_use) and not any(overdrawn(site, claim, older)):
            wrong.append(
                f"left Pending: {_key(claim)}, {claim['spec']['count']} of "
                f"{claim['spec']['className']}, which fits: {claim.get('status')}"
            )
        older.append(claim)
    return wrong


def named_by(vm: Raw) -> Iterator[str]:
    """Yield the claims a VM's template names: they are placed together."""
    for device in vm["spec"]["template"]["spec"]["domain"]["devices"]["gpus"]:
        domain, _, name = device["deviceName"].partition("/")
        if domain.startswith("claim."):
            yield f"{vm['metadata']['namespace']}/{name}"


def is_in_doubt(site: Site) -> bool:
    """Say whether room may be kept for a Lost set, or for one that leaves a node."""
    if any(_phase(claim) == "Lost" for claim in site.claims()):
        return True
    return any(
        node["spec"].get("unschedulable") or node["spec"].get("taints")
        for node in site.api.all(kinds.NODES)
    ) or any(not machine.works for machine in site.machines.values())


def kept(site: Site, built: frozenset[str]) -> list[str]:
    """Return deleted claims that nothing uses any more and that are still there."""
    wrong = []
    running = {uid for guest in site.guests for uid in guest.claims}
    for claim in site.claims():
        meta, attached = claim["metadata"], (claim.get("status") or {}).get("attachedTo")
        if "deletionTimestamp" not in meta or (attached and "attachments" not in built):
            continue
        home = (claim.get("status") or {}).get("nodeName") or ""
        if meta["uid"] not in running and not _may_run(site, attached or {}, home):
            wrong.append(f"kept for ever: {_key(claim)} is deleted and nothing uses it: {attached}")
    return wrong


def _may_run(site: Site, attached: Raw, home: str) -> bool:
    """Say whether the binder cannot know: a recorded pod on a machine that stays silent, or a VMI.

    One whose node nobody saw may have been where its claim is: the webhook had pinned it there.
    """
    if not attached:
        return False
    for pod in attached.get("pods") or []:
        machine = site.machines.get(pod.get("node") or home)
        if not pod.get("ended") and machine is not None and not machine.works:
            return True
    return any(
        vmi["metadata"]["name"] == attached["name"] and "deletionTimestamp" not in vmi["metadata"]
        for vmi in site.api.all(kinds.VMIS)
    )


def _fits(site: Site, claim: Raw, in_use: Counter[Place]) -> bool:
    offer = next(
        (
            it
            for it in site.api.all(kinds.GPU_CLASSES)
            if it["metadata"]["name"] == claim["spec"]["className"]
        ),
        None,
    )
    if offer is None or "deletionTimestamp" in offer["metadata"] or offer["spec"].get("retired"):
        return False
    resource = offer["spec"]["source"]["devicePlugin"]["resourceName"]
    return any(
        takes(node, offer)
        and int(node["status"]["allocatable"].get(resource, "0"))
        - in_use[node["metadata"]["name"], resource]
        >= claim["spec"]["count"]
        for node in site.api.all(kinds.NODES)
    )


def takes(node: Raw, offer: Raw) -> bool:
    """Say whether a node takes new sets of a class at all."""
    tainted = bool(node["spec"].get("taints")) and not offer["spec"].get("tolerations")
    ready = node["status"]["conditions"][0]["status"] == "True"
    return ready and not node["spec"].get("unschedulable") and not tainted


def _is_order(claim: Raw) -> bool:
    attached = (claim.get("status") or {}).get("attachedTo")
    return attached is None and "deletionTimestamp" not in claim["metadata"]


def overdrawn(
    site: Site, order: Raw, older: Iterable[Raw] = (), *, but: Collection[str] = ()
) -> Iterator[tuple[str, str, int, int]]:
    """Yield key, tenant, usage and budget where settled claims, older orders and it use too much.

    `but` are uids of claims that did not count when the order was judged.
    """
    left_out = {order["metadata"]["uid"], *but}
    settled = [it for it in site.claims() if _phase(it) != "Pending" or _is_deleted(it)]
    counted = [*(it for it in settled if it["metadata"]["uid"] not in left_out), *older, order]
    declared = {_tenant_of(it): _quotas(it) for it in site.api.all(kinds.HELM_RELEASES)}
    book = _Book(site, counted, strangers.raw_units(site), declared)
    for one in line(order["metadata"]["namespace"]):
        for key in sorted(keys_of(site, order) & declared.get(one, {}).keys()):
            amount = book.used(one, key)
            if amount > declared[one][key]:
                yield key, one, amount, declared[one][key]


@dataclass(frozen=True)
class _Book:
    """What budgets are judged by."""

    site: Site
    claims: list[Raw]
    raw: Counter[tuple[str, str]]
    """Units of pods beyond claims, by tenant and resource."""
    declared: dict[str, dict[str, int]]

    def used(self, tenant: str, key: str) -> int:
        """Sum a key up over a tenant and those below it, by recursion."""
        own: int = sum(
            it["spec"]["count"]
            for it in self.claims
            if it["metadata"]["namespace"] == tenant and key in keys_of(self.site, it)
        )
        own += sum(
            units
            for (namespace, resource), units in self.raw.items()
            if namespace == tenant and key in {resource, keys.QUOTA_TOTAL}
        )
        for child in {*self.site.tenants, *self.declared}:
            if next(iter(list(line(child))[1:]), None) == tenant:
                own += max(self.used(child, key), self.declared.get(child, {}).get(key, 0))
        return own


def line(tenant: str) -> Iterable[str]:
    """A tenant and those above it."""
    yield tenant
    while tenant != keys.TENANT_ROOT:
        above = tenant.rpartition("-")[0]
        tenant = keys.TENANT_ROOT if above == "tenant" else above
        yield tenant


def instant(text: str) -> datetime:
    """Read an instant as the API writes it."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def raw_order(tenant: str, resource: str, units: int) -> Raw:
    """Units asked for by the name of their resource, as an order for `overdrawn`."""
    meta = {"namespace": tenant, "name": resource, "uid": f"raw-{resource}"}
    return {"metadata": meta, "spec": {"className": "", "resource": resource, "count": units}}


def keys_of(site: Site, claim: Raw) -> set[str]:
    """The budgets that units of a claim count under."""
    name = claim["spec"]["className"]
    resource = claim["spec"].get("resource") or site.resource_of(name)
    found = {keys.quota_key_of_class(name), keys.QUOTA_TOTAL}
    return found | {resource} if resource else found


def _quotas(release: Raw) -> dict[str, int]:
    return {key: int(units) for key, units in release["spec"]["values"]["resourceQuotas"].items()}


def _tenant_of(release: Raw) -> str:
    meta = release["metadata"]
    if meta["namespace"] == keys.TENANT_ROOT:
        return str(meta["name"])
    return f"{meta['namespace']}-{meta['name'].removeprefix('tenant-')}"


def _phase(claim: Raw) -> str:
    return str((claim.get("status") or {}).get("phase", "Pending"))


def _is_deleted(claim: Raw) -> bool:
    return "deletionTimestamp" in claim["metadata"]


def _key(claim: Raw) -> str:
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
