"""Starts in the end, long after the last fault: none waits at the gate that fits, and no template claim is left.

Judged by trying every node, naively, like `finish`.
"""

from collections import Counter
from collections.abc import Iterator

from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from soak import finish, launchers, strangers
from soak import kubevirt as virt
from soak.site import Raw, Site

Place = tuple[str, str]


def left_over(site: Site) -> list[str]:
    """Return template claims that hold nothing, or whose VMI is gone and that nobody has deleted."""
    alive = {vmi["metadata"]["uid"] for vmi in site.api.all(kinds.VMIS)}
    wrong = []
    for claim in filter(launchers.is_template, site.claims()):
        if "deletionTimestamp" in claim["metadata"]:
            continue  # `finish.kept` looks at those
        name = f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
        owners = {owner["uid"] for owner in claim["metadata"].get("ownerReferences") or []}
        if not owners & alive:
            wrong.append(f"template claim for ever: {name}, its VMI is gone")
        elif (claim.get("status") or {}).get("phase", "Pending") == "Pending":
            wrong.append(f"template claim for ever: {name} holds nothing")
    return wrong


def gated(site: Site, in_use: Counter[Place]) -> list[str]:
    """Return launchers at the gate for whose whole set one node has room; see `finish.unbound`."""
    if finish.is_in_doubt(site):
        return []
    wrong = []
    for vmi in site.api.all(kinds.VMIS):
        pods = virt.pods_of(site, vmi)
        if len(pods) != 1 or len(vmi["status"]["activePods"]) != 1 or _is_over(vmi):
            continue
        if not pods[0]["spec"].get("schedulingGates") or "deletionTimestamp" in pods[0]["metadata"]:
            continue
        nodes = list(_fitting(site, vmi, pods[0], in_use))
        if nodes:
            name = pods[0]["metadata"]["name"]
            wrong.append(f"left at the gate: {name}, which fits on {nodes[0]}")
    return wrong


def _is_over(vmi: Raw) -> bool:
    return "deletionTimestamp" in vmi["metadata"] or vmi["status"]["phase"] in {
        "Succeeded",
        "Failed",
    }


def _fitting(site: Site, vmi: Raw, pod: Raw, in_use: Counter[Place]) -> Iterator[str]:
    claims = _whole(site, vmi, pod)
    _, units = virt.resolved(vmi)
    if claims is None:
        return
    wanted, offered = virt.wants(pod), strangers.offered_by(site)
    raw = {name: amount - _of(site, name, claims, units) for name, amount in wanted.items()}
    offers = _offers(site, claims, units)
    if offers is None or not all(name in offered for name, amount in raw.items() if amount):
        return
    if any(_overdrawn(site, vmi, units, raw)):
        return
    for node in site.api.all(kinds.NODES):
        name = node["metadata"]["name"]
        if virt.pinned_to(pod) not in {"", name}:
            continue  # the VMI was admitted with that pin
        takes = all(finish.takes(node, offer) for offer in (*offers, pod))
        if not takes or _is_refused(site, claims, name):
            continue
        held = Counter(dict.fromkeys(wanted, 0))
        for claim in claims:
            if claim["status"].get("nodeName") == name:
                held[site.resource_of(claim["spec"]["className"]) or ""] += claim["spec"]["count"]
        if all(
            int(node["status"]["allocatable"].get(resource, "0")) - in_use[name, resource]
            >= amount - held[resource]
            for resource, amount in wanted.items()
        ):
            yield name


def _offers(site: Site, claims: list[Raw], units: dict[str, int]) -> list[Raw] | None:
    """Return the classes of a start; None where one is gone, or gives no units any more."""
    classes = {claim["spec"]["className"] for claim in claims} | units.keys()
    found = [site.api.find(kinds.GPU_CLASSES, ObjectKey("", name)) for name in classes]
    offers = [offer for offer in found if offer is not None]
    is_short = any(
        "deletionTimestamp" in it["metadata"] or it["spec"].get("retired") for it in offers
    )
    return None if len(offers) < len(classes) or (units and is_short) else offers


def _of(site: Site, resource: str, claims: list[Raw], units: dict[str, int]) -> int:
    """Units of a resource that its held claims and its template stand for."""
    held = [it["spec"] for it in claims if not launchers.is_template(it)]
    named = (*((it["className"], it["count"]) for it in held), *units.items())
    return sum(count for name, count in named if site.resource_of(name) == resource)


def _whole(site: Site, vmi: Raw, pod: Raw) -> list[Raw] | None:
    """Return the claims it was started with, all Bound and its own; None when something is not so."""
    held, units = virt.resolved(vmi)
    namespace = vmi["metadata"]["namespace"]
    found = [site.claim(namespace, name) for name in held]
    claims = [claim for claim in found if claim is not None]
    made = [it for it in site.claims() if launchers.is_made_for(it, vmi["metadata"]["uid"])]
    along = [it for it in site.claims() if _is_of(it, vmi) and it not in (*claims, *made)]
    if len(claims) < len(held) or along or _names_more(site, vmi, held):
        return None
    for claim in (*claims, *made):
        status = claim.get("status") or {}
        attached = status.get("attachedTo") or {}
        others = [it for it in attached.get("pods") or [] if it["uid"] != pod["metadata"]["uid"]]
        if "deletionTimestamp" in claim["metadata"] or status.get("phase") != "Bound":
            return None
        if any(not one.get("ended") for one in others):
            return None
        name = claim["metadata"]["name"]
        if name in held and attached.get("admission") != held[name]:
            return None
    names = {claim["spec"]["className"] for claim in made}
    whole = {claim["metadata"]["uid"]: claim for claim in (*claims, *made)}
    return list(whole.values()) if names <= units.keys() else None


def _is_of(claim: Raw, vmi: Raw) -> bool:
    attached = (claim.get("status") or {}).get("attachedTo") or {}
    return (claim["metadata"]["namespace"], attached.get("name")) == (
        vmi["metadata"]["namespace"],
        vmi["metadata"]["name"],
    )


def _names_more(site: Site, vmi: Raw, held: dict[str, str]) -> bool:
    """Say whether its VM names claims it was not started with, or another VM names one of these."""
    meta = vmi["metadata"]
    mine = {f"{meta['namespace']}/{name}" for name in held}
    for vm in site.api.all(kinds.VMS):
        named = set(finish.named_by(vm))
        is_own = (vm["metadata"]["namespace"], vm["metadata"]["name"]) == (
            meta["namespace"],
            meta["name"],
        )
        if (is_own and named != mine) or (not is_own and named & mine):
            return True
    return False


def _is_refused(site: Site, claims: list[Raw], node: str) -> bool:
    """Say whether a claim notes that the node refused the launcher a while ago."""
    return any(
        one["node"] == node and one["until"] > site.now()
        for claim in claims
        for one in claim["status"].get("rejectedNodes") or []
    )


def _overdrawn(site: Site, vmi: Raw, units: dict[str, int], raw: dict[str, int]) -> Iterator[bool]:
    """Yield True for a budget that what it asks for anew would overdraw, with older orders counted."""
    meta = vmi["metadata"]
    made = {
        claim["spec"]["className"]
        for claim in site.claims()
        if launchers.is_made_for(claim, meta["uid"])
    }
    wanted = [
        {
            "metadata": {"namespace": meta["namespace"], "name": name, "uid": f"wanted-{name}"},
            "spec": {"className": name, "count": count},
        }
        for name, count in units.items()
        if name not in made
    ]
    wanted += [finish.raw_order(meta["namespace"], *it) for it in raw.items() if it[1]]
    age = (meta["creationTimestamp"], meta["uid"])
    older = [
        claim
        for claim in site.claims()
        if (claim.get("status") or {}).get("phase", "Pending") == "Pending"
        and "deletionTimestamp" not in claim["metadata"]
        and (claim["metadata"]["creationTimestamp"], claim["metadata"]["uid"]) < age
    ]
    for one in wanted:
        others = [it for it in wanted if it is not one]
        yield from (True for _ in finish.overdrawn(site, one, [*older, *others]))
