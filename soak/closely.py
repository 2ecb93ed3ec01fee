"""What an undisturbed pass must have kept to: it saw everything, and nothing of it failed.

Like the judge, by its own sums, from the objects as stored.
"""

from collections.abc import Iterable

from gpu import keys
from gpu.binder.report import PassReport
from gpu.config import RunningGuests
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from soak import finish, launchers, migrations, strangers
from soak import kubevirt as virt
from soak.judge import Judge, Stand
from soak.site import SKEWS, Raw, Site

Place = tuple[str, str]
Stands = dict[str, Stand]
_LOSSES = {"NodeGone", "NodeNotReady"}
_WINDOW = 600.0 - 2 * SKEWS


def look(
    site: Site, judge: Judge, before: Stands, report: PassReport, *, is_full: bool = True
) -> list[str]:
    """Judge what a pass changed; `before` is how claims stood when it began. Not full: it only answered."""
    now = judge.stands
    bound = {
        uid: stand
        for uid, stand in now.items()
        if stand.phase == "Bound" and (uid not in before or before[uid].phase == "Pending")
    }
    let_go = _let_go(now, before)
    wrong = _over_budget(site, bound, let_go)
    wrong += _nodes(site, judge, bound)
    wrong += _pins(site, judge, let_go) + _loose(site, judge)
    wrong += _sent_back(judge, before)
    if not report.failed and not report.quarantined:
        found = _lost_first(site, judge, bound, before)
        # What is Lost has its turn in a full pass: till then its room is kept.
        is_kept = found and not is_full and _has_room(site, judge)
        wrong += [] if is_kept else found
    return wrong + _guard(site, judge)


def guests(site: Site, ended: list[str]) -> list[str]:
    """Judge the VMIs that a pass deleted: by `runningGuests`, and never for a cordon alone."""
    wrong = []
    for name in ended:
        namespace, _, short = name.partition("/")
        vmi = site.api.find(kinds.VMIS, ObjectKey(namespace, short))
        runs = [guest for guest in site.guests if guest.vm == name]
        if vmi is None or not runs or vmi["status"]["phase"] != "Running":
            continue
        node = site.api.find(kinds.NODES, ObjectKey("", runs[0].node))
        if node is not None and site.config.running_guests is RunningGuests.KEEP:
            wrong.append(f"ended a guest that is to be kept: {name} on {runs[0].node}")
        if node is not None and _is_only_cordoned(node, runs[0].units):
            wrong.append(f"ended a running guest for a cordon: {name} on {runs[0].node}")
    return wrong


def _is_only_cordoned(node: Raw, units: dict[str, int]) -> bool:
    return (
        bool(node["spec"].get("unschedulable"))
        and not node["spec"].get("taints")
        and node["status"]["conditions"][0]["status"] == "True"
        and all(
            int(node["status"]["allocatable"].get(name, "0")) >= amount
            for name, amount in units.items()
        )
    )


def _let_go(now: Stands, before: Stands) -> set[str]:
    """Return claims that waited and were let go in this pass: they count until they are gone, from then on."""
    return {
        uid
        for uid, stand in now.items()
        if stand.phase == "Pending"
        and stand.deleting
        and uid in before
        and not before[uid].deleting
    }


def _over_budget(site: Site, bound: Stands, let_go: set[str]) -> list[str]:
    """No order was bound over a budget of its tenant or of one above it."""
    wrong = []
    for stand in bound.values():
        claim = site.claim(*stand.name.split("/"))
        assert claim is not None
        for key, tenant, used, hard in finish.overdrawn(site, claim, but=let_go):
            wrong.append(
                f"over budget: {stand.name} was bound with {used} of {hard} {key} of {tenant} used"
            )
    return wrong


def _nodes(site: Site, judge: Judge, bound: Stands) -> list[str]:
    """New orders went to nodes that take them, and fit into what those serve now."""
    wrong = []
    in_use = judge.in_use(judge.stands, whole=True)
    for stand in bound.values():
        offer = site.api.find(kinds.GPU_CLASSES, ObjectKey("", stand.class_name))
        node = site.api.find(kinds.NODES, ObjectKey("", stand.node))
        if offer is None or node is None or not finish.takes(node, offer):
            wrong.append(
                f"wrong node: {stand.name} was bound to {stand.node}, which takes no order"
            )
            continue
        resource = judge.resources[stand.class_name]
        serves = int(node["status"]["allocatable"].get(resource, "0"))
        if in_use[stand.node, resource] > serves:
            wrong.append(
                f"booked twice: {stand.name} was bound to {stand.node}, which serves {serves} of "
                f"{resource} now; {in_use[stand.node, resource]} are spoken for"
            )
    return wrong


def _pins(site: Site, judge: Judge, let_go: set[str]) -> list[str]:
    """Launchers were let through to nodes that take them, and fit into what those serve now."""
    wrong = []
    in_use = judge.in_use(judge.stands, whole=True)
    for seat in judge.launchers.fresh:
        node = site.api.find(kinds.NODES, ObjectKey("", seat.node))
        pod = next(it for it in site.api.all(kinds.PODS) if it["metadata"]["uid"] == seat.pod)
        if node is None or not (finish.takes(node, pod) or _waits_for_uncordon(node, pod)):
            wrong.append(f"wrong node: {seat.name} was pinned to {seat.node}, which takes no pod")
            continue
        for resource in seat.units:
            serves = int(node["status"]["allocatable"].get(resource, "0"))
            tenant = seat.vm.partition("/")[0]
            order = finish.raw_order(tenant, resource, 0)  # what it asks for counts already
            is_raw = virt.resolved(pod) == ({}, {})
            if is_raw and (over := next(finish.overdrawn(site, order, but=let_go), None)):
                wrong.append(f"over budget: {seat.name} was let through: {over}")
            if in_use[seat.node, resource] > serves and judge.takes(seat, resource):
                wrong.append(
                    f"booked twice: {seat.name} was pinned to {seat.node}, which serves {serves} "
                    f"of {resource} now; {in_use[seat.node, resource]} are spoken for"
                )
    return wrong


def _waits_for_uncordon(node: Raw, pod: Raw) -> bool:
    """Say whether a webhook pinned it by an answer: held on a cordoned node, it starts once that is lifted."""
    return not _is_leaders(pod) and bool(node["spec"].get("unschedulable"))


def _is_leaders(pod: Raw) -> bool:
    return keys.TERM_ANNOTATION in (pod["metadata"].get("annotations") or {})


def _loose(site: Site, judge: Judge) -> list[str]:
    """No launcher that asks for what a class offers was let through to no node."""
    offered = strangers.offered_by(site)
    pods = (it for it in site.api.all(kinds.PODS) if it["metadata"]["uid"] in judge.launchers.came)
    return [
        f"let through to no node: {pod['metadata']['name']}"
        for pod in pods
        if offered & virt.wants(pod).keys()
    ]


def _sent_back(judge: Judge, before: Stands) -> list[str]:
    """No launcher and no set went to a node that had refused it lately and is as it was."""
    wrong = []
    for seat in judge.launchers.fresh:
        uids = frozenset(uid for uid, stand in judge.stands.items() if stand.vm == seat.vm)
        wrong.append(judge.refusals.wrong(seat.vm, seat.node, uids))
    for uid, stand in judge.stands.items():
        came = uid not in before or (before[uid].phase, before[uid].node) != ("Bound", stand.node)
        if stand.phase == "Bound" and stand.vm and came:
            # Where KubeVirt went the claim follows; one that was Lost comes there by the leader's choice.
            was_held = uid in before and before[uid].phase == "Bound"
            if not (was_held and (uid, stand.node) in migrations.arrived(judge.site)):
                wrong.append(judge.refusals.wrong(stand.vm, stand.node, frozenset({uid})))
    return [words for words in wrong if words]


def _lost_first(site: Site, judge: Judge, bound: Stands, before: Stands) -> list[str]:
    """No order was bound where the only Lost set would have fitted.

    Starts are judged before sets move: they come after what was Lost already when the pass began.
    """
    sets: dict[str, list[Stand]] = {}
    for uid, stand in judge.stands.items():
        if stand.phase == "Lost" and not _is_deleted(site, stand):
            sets.setdefault(stand.vm or uid, []).append(stand)
    if len(sets) != 1 or not bound:
        return []
    (lost,) = sets.values()
    if any(stand.vm for stand in lost) or _named_by_a_vm(site, lost[0]):
        return []
    was_lost = any(
        stand.name == lost[0].name and stand.phase == "Lost" for stand in before.values()
    )
    others = {uid: it for uid, it in judge.stands.items() if uid not in bound}
    in_use = judge.in_use(others, whole=True)
    for stand in bound.values():
        offer = site.api.find(kinds.GPU_CLASSES, ObjectKey("", lost[0].class_name))
        node = site.api.find(kinds.NODES, ObjectKey("", stand.node))
        resource = judge.resources[lost[0].class_name]
        if offer is None or node is None or resource != judge.resources[stand.class_name]:
            continue
        if not was_lost and launchers.is_template(site.claim(*stand.name.split("/")) or {}):
            continue
        serves = _serves(site, node, resource)
        if finish.takes(node, offer) and serves - in_use[stand.node, resource] >= lost[0].units:
            return [f"an order before a Lost set: {stand.name} before {lost[0].name}"]
    return []


def _has_room(site: Site, judge: Judge) -> bool:
    """Say whether some node still has room for the only Lost set."""
    in_use = judge.in_use(judge.stands, whole=True)
    found = (stand for stand in judge.stands.values() if stand.phase == "Lost")
    lost = next(stand for stand in found if not _is_deleted(site, stand))
    offer = site.api.find(kinds.GPU_CLASSES, ObjectKey("", lost.class_name))
    resource = judge.resources[lost.class_name]
    return offer is not None and any(
        finish.takes(node, offer)
        and _serves(site, node, resource) - in_use[node["metadata"]["name"], resource] >= lost.units
        for node in site.api.all(kinds.NODES)
    )


def _serves(site: Site, node: Raw, resource: str) -> int:
    amount = int(node["status"]["allocatable"].get(resource, "0"))
    found = site.api.find(kinds.GPU_NODES, ObjectKey("", node["metadata"]["name"]))
    devices = ((found or {}).get("status") or {}).get("devices") or []
    mine = [device for device in devices if device["resourceName"] == resource]
    return min(amount, sum(bool(device["healthy"]) for device in mine)) if mine else amount


def _guard(site: Site, judge: Judge) -> list[str]:
    """No more sets were displaced in the window than the guard lets through.

    The guard counts sets as they are when it looks, so claims that were one set when they left a node,
    or are one now, count once here.
    """
    now = site.clock.monotonic()
    if now - site.acknowledged <= (_WINDOW + 4 * SKEWS) * 2:
        return []
    held: set[str] = set()
    lost: set[tuple[str, str]] = set()
    counted: list[tuple[str, set[str]]] = []
    for uid, stand in judge.stands.items():
        if stand.phase in {"Bound", "Lost"}:
            held.add(judge.set_of(uid))
        left = judge.left.get(uid)
        if not left or left.asked or left.told["cause"] == "SetTorn":
            continue
        if _age(site, left.told["at"]) >= _WINDOW:
            continue  # a leader whose clock is ahead forgets sooner what another noted
        if left.told["cause"] in _LOSSES:
            lost.add((left.told["at"], left.told["node"]))
        counted.append((left.told["node"], {judge.set_of(uid), left.set_name}))
    began = min(lost)[0] if lost else ""
    firsts = {node for at, node in lost if at == began} or {""}  # several: nobody says which it was
    beyond = min(
        (_joined(names for node, names in counted if node != first) for first in firsts), key=len
    )
    guard = site.config.guard
    most = max(guard.at_least, int(guard.share * (len(held) + len(counted))) + 1)
    if len(beyond) > most:
        return [f"the guard let too many through: {len(beyond)} sets, {most} at most"]
    return []


def _joined(several: Iterable[set[str]]) -> list[set[str]]:
    """Join the sets that share a name."""
    found: list[set[str]] = []
    for names in several:
        apart = [one for one in found if one.isdisjoint(names)]
        found = [*apart, names.union(*(one for one in found if not one.isdisjoint(names)))]
    return found


def _age(site: Site, at: str) -> float:
    return (site.clock.now() - finish.instant(at)).total_seconds()


def _is_deleted(site: Site, stand: Stand) -> bool:
    claim = site.claim(*stand.name.split("/"))
    return claim is None or "deletionTimestamp" in claim["metadata"]


def _named_by_a_vm(site: Site, stand: Stand) -> bool:
    return any(stand.name in finish.named_by(vm) for vm in site.api.all(kinds.VMS))
