"""The independent checker: judges a plan from scratch, shares no arithmetic with the ledger.

What is judged is the state that a plan leads to; what stood wrong before it and was not touched by
it is no violation. The sums are those of `naive`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

from gpu import keys
from gpu.model import answering, naive, pinning
from gpu.model.naive import Amounts, Claims, Cluster, Place, Usage, vm_of
from gpu.model.pinning import Pinned
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.classes import GPUClass, Mode
from gpu.objects.meta import ObjectKey
from gpu.objects.nodes import Node
from gpu.units import NodeName, QuotaKey

_LEGAL: Final = frozenset(
    {
        (Phase.PENDING, Phase.BOUND),
        (Phase.BOUND, Phase.BOUND),
        (Phase.BOUND, Phase.LOST),
        (Phase.LOST, Phase.BOUND),
    }
)
_NO_ROOM_FOR: Final = frozenset({"NoSchedule", "NoExecute"})


class Rule(StrEnum):
    """What a plan can break."""

    BOOKED_TWICE = "BookedTwice"
    SET_SPLIT = "SetSplit"
    OVER_BUDGET = "OverBudget"
    WRONG_NODE = "WrongNode"
    WRONG_CLASS = "WrongClass"
    WRONG_STEP = "WrongStep"
    PIN_ASTRAY = "PinAstray"
    ANSWER_ASTRAY = "AnswerAstray"
    BLIND = "Blind"
    """Something was placed while a claim could not be read."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that a plan breaks, and where; `words` are the hoster's, with names and numbers."""

    rule: Rule
    words: str

    def __str__(self) -> str:
        return f"{self.rule.value}: {self.words}"


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What a plan makes of the claims it touches."""

    cluster: Cluster
    after: Claims
    """The claims it changes, as it leaves them."""
    pins: tuple[Pinned, ...] = ()
    """Launchers that it lets through onto a node."""

    @cached_property
    def seated(self) -> Cluster:
        """The cluster with its launchers where the plan lets them through to."""
        seats = {(pin.vm.namespace, pin.pod): pin.node for pin in self.pins if pin.node}
        if not seats:
            return self.cluster
        return replace(self.cluster, pinned={**self.cluster.pinned, **seats})

    @cached_property
    def touched(self) -> list[GPUClaim]:
        """Claims whose phase or node it changes."""
        return [
            claim
            for key, claim in self.after.items()
            if _stand(claim) != _stand(self.cluster.claims.get(key))
        ]

    @cached_property
    def come(self) -> list[GPUClaim]:
        """Claims that hold units where they held none before."""
        return [claim for claim in self.touched if claim.phase is Phase.BOUND]

    @cached_property
    def left(self) -> list[GPUClaim]:
        """Claims that hold units on another node than before, or none: as they were before."""
        before = (self.cluster.claims.get(claim.key) for claim in self.touched)
        return [
            old
            for old in before
            if old is not None
            and old.phase is Phase.BOUND
            and (self.after[old.key].phase, self.after[old.key].node) != (old.phase, old.node)
        ]

    @cached_property
    def new(self) -> list[GPUClaim]:
        """Orders that become holds."""
        before = self.cluster.claims
        return [
            claim
            for claim in self.come
            if claim.key not in before or before[claim.key].phase is Phase.PENDING
        ]


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
    plan = _Plan(cluster=cluster, after=after, pins=tuple(pins))
    if plan.touched:
        found += _splits(plan)
    astray = pinning.astray(cluster, {**cluster.changed, **after}, plan.pins)
    found += (Violation(Rule.PIN_ASTRAY, words) for words in astray)
    found += (Violation(Rule.ANSWER_ASTRAY, words) for words in answering.astray(cluster, after))
    if plan.come or plan.pins:
        found += _nodes(plan)
        found += _classes(plan)
        found += _booked_twice(plan)
        found += _budgets(plan)
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
    if _stand(before) == _stand(claim):
        return
    if (before.phase, claim.phase) not in _LEGAL or (claim.phase is Phase.BOUND and not claim.node):
        steps = f"from {before.phase.value} to {claim.phase.value} on {claim.node}"
        yield Violation(Rule.WRONG_STEP, f"claim {claim.key} goes {steps}")


def _splits(plan: _Plan) -> Iterator[Violation]:
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


def _nodes(plan: _Plan) -> Iterator[Violation]:
    """Yield claims that come to a node that may not take them, or while being deleted.

    Where its VM runs, or holds units already, the node need only be there and serve the class.
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


def _classes(plan: _Plan) -> Iterator[Violation]:
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


def _booked_twice(plan: _Plan) -> Iterator[Violation]:
    """Where a plan adds units, all that is in use then fits what the node has.

    A VM's claims and pods on a node are in use as the larger of both sums: claims that come back
    under their own running pod add nothing. Sets are written each for itself, and any of them may
    fail: what another set leaves counts as long as the plan is not written.
    """
    cluster = plan.cluster
    comers = _comers(plan)
    asked_before = naive.asked(cluster, comers.keys())
    pods = naive.asked(plan.seated, comers.keys())
    before = naive.held(cluster, {}, comers.keys())
    after = naive.held(cluster, plan.after, comers.keys())
    for claim in plan.left:
        resource = cluster.resource(claim)
        if claim.node is not None and resource is not None and (claim.node, resource) in after:
            after[claim.node, resource][vm_of(claim)] += claim.count
    for place in sorted(comers):
        asked, held = pods[place], after[place]
        had = {vm: _in_use(vm, before[place], asked_before[place]) for vm in comers[place]}
        more = {vm for vm in comers[place] if vm is None or _in_use(vm, held, asked) > had[vm]}
        used = sum(_in_use(vm, held, asked) for vm in held.keys() | asked.keys())
        node, resource = place
        if not more or used <= (fits := naive.serves(cluster, node, resource)):
            continue
        if any(
            vm is None or _in_use(vm, held, asked) > _of_gone_pods(cluster, place, vm)
            for vm in more
        ):
            words = f"{used} units of {resource} in use, it has {fits}"
            yield Violation(Rule.BOOKED_TWICE, f"node {node}: {words}")


def _comers(plan: _Plan) -> dict[Place, set[ObjectKey | None]]:
    """Return who takes units where by the plan; None is a claim that nothing uses."""
    cluster = plan.cluster
    comers: dict[Place, set[ObjectKey | None]] = defaultdict(set)
    for claim in plan.come:
        resource = cluster.resource(claim)
        if claim.node is not None and resource is not None:
            comers[claim.node, resource].add(vm_of(claim))
    for pin in plan.pins:
        pod = cluster.pod(pin.vm.namespace, pin.pod)
        for resource in pod.requests if pod and pin.node else ():
            if resource in cluster.counted and pin.node is not None:
                comers[pin.node, resource].add(pin.vm)
    return comers


def _of_gone_pods(cluster: Cluster, place: Place, vm: ObjectKey) -> int:
    """Return what a VM has in use on a place by a pod that is gone and not known to have ended: all of its claims.

    Claims that follow it there take nothing that it has not already.
    """
    node, resource = place
    there = cluster.found.in_namespace.get(vm.namespace, {}).values()
    own = [
        (claim, claim.attached_to.pods)
        for claim in there
        if claim.attached_to and vm_of(claim) == vm
    ]
    noted = [pod for _, pods in own for pod in pods]
    ended = {pod.uid for pod in noted if pod.ended}
    is_there = any(
        pod.node == node and pod.uid not in ended and cluster.pod(vm.namespace, pod.uid) is None
        for pod in noted
    )
    units = (claim.count for claim, _ in own if cluster.resource(claim) == resource)
    return sum(units) if is_there else 0


def _in_use(vm: ObjectKey | None, held: Amounts, asked: Amounts) -> int:
    return held[vm] + asked[vm] if vm is None else max(held[vm], asked[vm])


def _budgets(plan: _Plan) -> Iterator[Violation]:
    """After an order was bound, nobody above it uses more of its keys than he declares.

    Nor after a launcher was let through that asks for more than its VM's claims hold.
    """
    cluster = plan.seated
    wanted = {
        (claim.tenant, key) for claim in plan.new for key in cluster.quota_keys(claim.class_name)
    }
    came = {(pin.vm.namespace, pin.pod): pin.node for pin in plan.pins if pin.node}
    bare = naive.let_through(replace(cluster, pinned=came), plan.after) if came else {}
    for tenant, units in bare.items():
        for resource in units:
            wanted |= {(tenant, QuotaKey(resource)), (tenant, QuotaKey(keys.QUOTA_TOTAL))}
    asked = {
        (above, key)
        for tenant, key in wanted
        for above in naive.line(tenant)
        if key in cluster.declared.get(above, {})
    }
    if not asked:
        return
    usage = Usage(cluster, plan.after)
    for tenant, key in sorted(asked):
        used, hard = usage.of(tenant, key), cluster.declared[tenant][key]
        if used > hard:
            words = f"{used} of {key} used or promised, {hard} declared"
            yield Violation(Rule.OVER_BUDGET, f"tenant {tenant}: {words}")


def _stand(claim: GPUClaim | None) -> tuple[Phase, NodeName | None] | None:
    return (claim.phase, claim.node) if claim else None
