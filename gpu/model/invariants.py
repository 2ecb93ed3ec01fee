"""The independent checker: judges a plan from scratch, shares no arithmetic with the ledger.

What is judged is the state that a plan leads to; what stood wrong before it and was not touched by
it is no violation. The sums are those of `naive`.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from gpu import keys
from gpu.model import answering, naive, overdrawn, pinning
from gpu.model.naive import Cluster, vm_of
from gpu.model.pinning import Pinned
from gpu.model.violations import Plan, Rule, Violation, stand
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.classes import GPUClass, Mode
from gpu.objects.meta import ObjectKey
from gpu.objects.nodes import Node

_LEGAL: Final = frozenset(
    {
        (Phase.PENDING, Phase.BOUND),
        (Phase.BOUND, Phase.BOUND),
        (Phase.BOUND, Phase.LOST),
        (Phase.LOST, Phase.BOUND),
    }
)
_NO_ROOM_FOR: Final = frozenset({"NoSchedule", "NoExecute"})


def judge(
    cluster: Cluster, planned: Iterable[GPUClaim], pins: Iterable[Pinned] = ()
) -> tuple[Violation, ...]:
    """Return what a plan breaks; `planned` is each claim it writes as the write leaves it, in order.

    A claim that it makes comes first as it is created. `pins` are launchers that it lets through.

    Costs a look at the claims and pods of the nodes and namespaces it touches, and at all tenants.
    """
    after: dict[ObjectKey, GPUClaim] = {}
    found: list[Violation] = []
    for claim in planned:
        before = after.get(claim.key) or cluster.claims.get(claim.key)
        found += _steps(cluster, before, claim)
        after[claim.key] = claim
    plan = Plan(cluster=cluster, after=after, pins=tuple(pins))
    if plan.touched:
        found += _splits(plan)
    astray = pinning.astray(cluster, {**cluster.changed, **after}, plan.pins)
    found += (Violation(Rule.PIN_ASTRAY, words) for words in astray)
    found += (Violation(Rule.ANSWER_ASTRAY, words) for words in answering.astray(cluster, after))
    if plan.come or plan.pins:
        found += _nodes(plan)
        found += _classes(plan)
        found += overdrawn.nodes(plan)
        found += overdrawn.budgets(plan)
        if cluster.unreadable:
            key = min(cluster.unreadable)
            found.append(Violation(Rule.BLIND, f"claim {key} cannot be read: it may hold anything"))
    return tuple(dict.fromkeys(found))


def _steps(cluster: Cluster, before: GPUClaim | None, claim: GPUClaim) -> Iterator[Violation]:
    if before is None and pinning.is_made_for_a_start(cluster, claim):
        return
    if before is None or before.meta.uid != claim.meta.uid:
        yield Violation(Rule.WRONG_STEP, f"claim {claim.key} is not the one that is stored")
        return
    if (before.class_name, before.count) != (claim.class_name, claim.count):
        yield Violation(Rule.WRONG_STEP, f"claim {claim.key} orders something else")
    if stand(before) == stand(claim):
        return
    if (before.phase, claim.phase) not in _LEGAL or (claim.phase is Phase.BOUND and not claim.node):
        steps = f"from {before.phase.value} to {claim.phase.value} on {claim.node}"
        yield Violation(Rule.WRONG_STEP, f"claim {claim.key} goes {steps}")


def _splits(plan: Plan) -> Iterator[Violation]:
    """Yield sets that are touched and end neither on one node nor with nothing Bound.

    Orders of it that wait, and members that are being deleted and are left alone, do not count.
    """
    cluster = plan.cluster
    names = {name for claim in plan.touched if (name := cluster.set_of(claim)) is not None}
    if not names:
        return
    moved = {claim.key for claim in plan.touched}
    standing: dict[ObjectKey, set[str]] = {name: set() for name in names}
    namespaces = {name.namespace for name in names}
    for claim in cluster.living(namespaces, plan.after):
        if claim.meta.namespace not in namespaces or claim.phase is Phase.PENDING:
            continue
        name = cluster.set_of(claim)
        if name not in standing:
            continue
        if not claim.meta.deleting or claim.key in moved:
            where = f"on {claim.node}" if claim.phase is Phase.BOUND else "Lost"
            standing[name].add(where)
    for name, places in standing.items():
        if len(places) > 1:
            told = ", ".join(sorted(places))
            yield Violation(Rule.SET_SPLIT, f"the claims of VM {name} would stand {told}")


def _nodes(plan: Plan) -> Iterator[Violation]:
    """Yield claims that come to a node that may not take them, or while being deleted.

    Where its VM runs, seen or not, or holds units already, the node need only be there and serve the class.
    """
    cluster = plan.cluster
    nodes = {claim.node for claim in plan.come if claim.node is not None}
    guests = {(cluster.owner(pod), pod.node) for pod in cluster.gpu_pods(nodes)}
    held = {
        (cluster.set_of(claim), claim.node)
        for claim in cluster.standing(nodes, {})
        if claim.node in nodes and claim.phase is Phase.BOUND
    }
    for claim in plan.come:
        runs_there = (vm_of(claim), claim.node) in guests and vm_of(claim) is not None
        runs_there = runs_there or _is_listed_there(cluster, claim)
        if claim.meta.deleting and not runs_there:
            yield Violation(Rule.WRONG_STEP, f"claim {claim.key} is placed while being deleted")
        offer = cluster.by_class.get(claim.class_name)
        node = cluster.by_node.get(claim.node) if claim.node else None
        if offer is None or claim.node is None:
            continue
        name = cluster.set_of(claim)
        at_home = runs_there or (name is not None and (name, claim.node) in held)
        if why := _unfit(node, offer, at_home=at_home):
            yield Violation(Rule.WRONG_NODE, f"claim {claim.key} on node {claim.node}: {why}")


def _is_listed_there(cluster: Cluster, claim: GPUClaim) -> bool:
    """Say whether a claim's VMI lists a pod on its node that is not known to have ended.

    Of a pod that was forced away there is no object, and its guest runs on.
    """
    vm, attached = vm_of(claim), claim.attached_to
    if vm is None or attached is None:
        return False
    vmi = cluster.found.vmis_in.get(vm.namespace, {}).get(vm)
    if vmi is None or vmi.ended or vmi.meta.uid != attached.uid:
        return False
    ended = {pod.uid for pod in attached.pods if pod.ended}
    return any(node == claim.node for uid, node in vmi.active_pods.items() if uid not in ended)


def _unfit(node: Node | None, offer: GPUClass, *, at_home: bool) -> str:
    if node is None:
        return "there is no such node"
    if not node.allocatable.get(offer.resource):
        return f"it has no {offer.resource}"
    if at_home:
        return ""
    if node.meta.deleting or not node.ready or node.cordoned:
        return "it is going, not Ready or cordoned"
    for taint in node.taints:
        if taint.effect in _NO_ROOM_FOR and not any(
            one.effect in {"", taint.effect}
            and (
                one.key in {"", taint.key}
                if one.operator == "Exists"
                else (one.key, one.value) == (taint.key, taint.value)
            )
            for one in offer.tolerations
        ):
            return f"class {offer.name} does not tolerate its taint {taint.key}"
    return ""


def _classes(plan: Plan) -> Iterator[Violation]:
    cluster = plan.cluster
    entitled = {item.meta.name for item in cluster.namespaces if item.entitled}
    new = {claim.key for claim in plan.new}
    for claim in plan.come:
        offer = cluster.by_class.get(claim.class_name)
        if offer is None:
            yield Violation(Rule.WRONG_CLASS, f"claim {claim.key}: no class {claim.class_name}")
        elif claim.key in new and (why := _barred(cluster, offer, claim, entitled)):
            yield Violation(Rule.WRONG_CLASS, f"claim {claim.key} of class {offer.name}: {why}")


def _barred(cluster: Cluster, offer: GPUClass, claim: GPUClaim, entitled: set[str]) -> str:
    if offer.retired or offer.meta.deleting:
        return "the class takes no orders"
    if cluster.permitted is not None and offer.resource not in cluster.permitted:
        return f"KubeVirt does not permit {offer.resource}"
    most = offer.max_count or (1 if offer.mode is Mode.VGPU else claim.count)
    if not 1 <= claim.count <= most:
        return f"{claim.count} units in one claim"
    if not claim.tenant.startswith(keys.TENANT_NAMESPACE_PREFIX):
        return "its namespace is no tenant's"
    if offer.mode is Mode.VGPU and entitled.isdisjoint(naive.line(claim.tenant)):
        return "its tenant is not entitled"
    return ""
