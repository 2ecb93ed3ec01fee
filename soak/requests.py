"""What the judge asks of starts that ask first: let in whole and pinned, answered in time, nothing left behind.

By its own reading of claims and VMIs as stored, like all of the judge.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from gpu import keys
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from soak import finish, launchers
from soak import kubevirt as virt
from soak.site import SKEWS, Raw, Site
from soak.webhooks import Admitted

Claims = dict[str, Raw]
"""As stored, by uid."""
GRACE = 60.0
"""Seconds in which the VMI of a start has to come."""
OVER = GRACE + 3 * SKEWS
"""Seconds after which every leader has to know that it did not."""
FRESH = GRACE - 3 * SKEWS
"""Seconds in which every leader has to answer."""


def admitted(found: Admitted) -> list[str]:
    """Return what was lacking when a start was let in: by the claims as they stood just then."""
    vmi = found.vmi
    meta = vmi["metadata"]
    if keys.RESOLVED_CLAIMS_ANNOTATION not in (meta.get("annotations") or {}):
        return []  # it asks for no class's resource
    held, units = virt.resolved(vmi)
    if not held and not units:
        return []
    name, pin = f"{meta['namespace']}/{meta['name']}", virt.pinned_to(vmi)
    if not pin:
        return [f"admitted to no node: {name}"]
    mine = {one: found.claims.get(one) for one in held}
    wrong = [
        f"admitted in part: {name} to {pin}, {why} {one}"
        for one, claim in mine.items()
        for why in _against(claim, meta["name"], held[one], pin)
    ]
    there = [claim for claim in mine.values() if claim is not None]
    if len({_request(claim).get("id") for claim in there}) > 1:
        wrong.append(f"admitted in part: {name} to {pin}, by several requests")
    made: Counter[str] = Counter()
    for claim in filter(launchers.is_template, there):
        made[claim["spec"]["className"]] += claim["spec"]["count"]
    if made != Counter(units):
        wrong.append(f"admitted in part: {name} to {pin}, with {dict(made)} of {units}")
    return wrong


def _against(claim: Raw | None, vm: str, admission: str, pin: str) -> Iterator[str]:
    if claim is None:
        yield "there is no claim"
        return
    status = claim.get("status") or {}
    attached = status.get("attachedTo") or {}
    if (attached.get("name"), attached.get("admission")) != (vm, admission):
        yield "it is not attached to claim"
    if (_request(claim).get("vmi"), _request(claim).get("result")) != (vm, "Succeeded"):
        yield "nobody has granted claim"
    # It may have been lost since; never may it be elsewhere.
    left = (status.get("displaced") or {}).get("node") if status.get("phase") == "Lost" else ""
    node = status.get("nodeName") if status.get("phase") == "Bound" else left
    if node != pin:
        yield f"on {node} is claim"


def whole(site: Site) -> frozenset[str]:
    """Return ids of requests that are to be answered: on each claim they name, and not all answered yet."""
    groups: dict[tuple[str, str], list[Raw]] = {}
    for claim in site.claims():
        if _request(claim):
            groups.setdefault((claim["metadata"]["namespace"], _request(claim)["id"]), []).append(
                claim
            )
    return frozenset(one for (_, one), group in groups.items() if _is_due(site, group))


def _is_due(site: Site, group: list[Raw]) -> bool:
    request = _request(group[0])
    names = {claim["metadata"]["name"] for claim in group}
    attached = [(claim.get("status") or {}).get("attachedTo") or {} for claim in group]
    return (
        names == set(request["claims"])
        and any("result" not in _request(claim) for claim in group)
        and _age(site, request["requestedAt"]) < FRESH
        and all(it.get("name") == request["vmi"] and not it.get("uid") for it in attached)
    )


def unguarded(site: Site) -> frozenset[str]:
    """Return ids of requests that only a full pass answers: of a class without our finalizer more is to be held.

    Until it has one nothing is held of it: deleted then it is gone at once. A full pass gives it first.
    What the VM names goes along with its start.
    """
    bare = {
        offer["metadata"]["name"]
        for offer in site.api.all(kinds.GPU_CLASSES)
        if keys.CLASS_FINALIZER not in (offer["metadata"].get("finalizers") or ())
    }
    claims = site.claims()
    wanted = {_name(it) for it in claims if not _place(it) and it["spec"]["className"] in bare}
    along = {
        (vm["metadata"]["namespace"], vm["metadata"]["name"])
        for vm in site.api.all(kinds.VMS)
        if not wanted.isdisjoint(finish.named_by(vm))
    }
    return frozenset(
        _request(it)["id"]
        for it in claims
        if _request(it)
        and (_name(it) in wanted or (it["metadata"]["namespace"], _request(it)["vmi"]) in along)
    )


def unanswered(site: Site, due: frozenset[str]) -> list[str]:
    """Return requests that a pass had to answer, and has not."""
    return [f"unanswered: request {one}" for one in sorted(due & whole(site))]


def answered(site: Site, before: Claims) -> list[str]:
    """Judge a pass that only answers: whole sets on one node, and nothing else; refused ones as they were."""
    now = by_uid(site)
    wrong = []
    granted: dict[str, set[str]] = {}
    sets: set[tuple[str, str]] = set()
    for uid, claim in now.items():
        if _request(claim).get("result") == "Succeeded":
            sets.add(_set(claim))
            if _request(before.get(uid, {})).get("result") != "Succeeded":
                granted.setdefault(_request(claim)["id"], set()).add(_place(claim))
    wrong += [
        f"granted in part: request {one} on {sorted(places)}"
        for one, places in granted.items()
        if len(places) != 1 or "" in places
    ]
    for uid, claim in now.items():
        if uid not in before or _place(claim) == _place(before[uid]):
            continue
        if _request(claim).get("result") == "Refused":
            wrong.append(f"refused and moved: {_name(claim)}")
        elif _set(claim) not in sets:
            wrong.append(f"moved by an answer to somebody else: {_name(claim)}")
    return wrong


def stuck(site: Site) -> list[str]:
    """Return what starts have left behind that every leader has to clear by now."""
    wrong = []
    for claim in site.claims():
        meta, status = claim["metadata"], claim.get("status") or {}
        if "deletionTimestamp" in meta:
            continue  # `finish.kept` looks at those
        attached = status.get("attachedTo")
        if attached:
            if _never_came(site, meta["namespace"], attached):
                wrong.append(f"half attached for ever: {_name(claim)}")
        elif _request(claim) and _age(site, _request(claim)["requestedAt"]) > OVER:
            wrong.append(f"a request for ever: {_name(claim)}")
        elif (
            launchers.is_template(claim)
            and not meta.get("ownerReferences")
            and _age(site, meta["creationTimestamp"]) > OVER
        ):
            wrong.append(f"template claim for ever: {_name(claim)}, no start has it")
    return wrong


def left(site: Site) -> list[str]:
    """Return requests that nobody has answered when all has been calm for long."""
    return [
        f"unanswered for ever: {_name(claim)}"
        for claim in site.claims()
        if _request(claim) and "result" not in _request(claim)
    ]


def _never_came(site: Site, namespace: str, attached: Raw) -> bool:
    """Say whether nothing has come of an attachment, and nothing before it may run."""
    vmi = site.api.find(kinds.VMIS, ObjectKey(namespace, attached["name"]))
    if attached.get("uid") or vmi is not None or not attached.get("since"):
        return False
    pods: Iterable[Raw] = attached.get("pods") or []
    return all(pod.get("ended") for pod in pods) and _age(site, attached["since"]) > OVER


def by_uid(site: Site) -> Claims:
    """All claims as they are stored now."""
    return {claim["metadata"]["uid"]: claim for claim in site.claims()}


def _request(claim: Raw) -> Raw:
    found: Raw = (claim.get("status") or {}).get("bindRequest") or {}
    return found


def _place(claim: Raw) -> str:
    status = claim.get("status") or {}
    return status.get("nodeName") or "" if status.get("phase") == "Bound" else ""


def _set(claim: Raw) -> tuple[str, str]:
    attached = (claim.get("status") or {}).get("attachedTo") or {}
    return (claim["metadata"]["namespace"], attached.get("name") or claim["metadata"]["uid"])


def _name(claim: Raw) -> str:
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"


def _age(site: Site, at: str) -> float:
    return (site.clock.now() - finish.instant(at)).total_seconds()
