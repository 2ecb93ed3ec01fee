"""Overdrawn: nodes and budgets to which a plan adds more units than they have.

Part of `invariants`, and like it shares nothing with what plans. The sums are those of `naive`.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from gpu import keys
from gpu.model import naive, naive_usage
from gpu.model.naive import Amounts, Cluster, Place, vm_of
from gpu.model.naive_usage import Usage
from gpu.model.violations import Plan, Rule, Violation
from gpu.objects.claims import GPUClaim
from gpu.objects.kubevirt import VMI
from gpu.objects.meta import ObjectKey
from gpu.units import ClaimName, QuotaKey


def nodes(plan: Plan) -> Iterator[Violation]:
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
        there = asked_before[place]
        if any(
            vm is None or _in_use(vm, held, asked) > there[vm] + _of_gone_pods(cluster, place, vm)
            for vm in more
        ):
            words = f"{used} units of {resource} in use, it has {fits}"
            yield Violation(Rule.BOOKED_TWICE, f"node {node}: {words}")


def _comers(plan: Plan) -> dict[Place, set[ObjectKey | None]]:
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
    """Return what a VM has in use on a place by a pod that is not seen and not known to have ended.

    That is all of the claims of its start, where one of them noted it or its VMI lists it: claims that follow it
    there take nothing that it has not already.
    """
    node, resource = place
    there = cluster.found.in_namespace.get(vm.namespace, {}).values()
    own = {
        claim.key: (claim, claim.attached_to.pods)
        for claim in there
        if claim.attached_to and vm_of(claim) == vm
    }
    vmi = cluster.found.vmis_in.get(vm.namespace, {}).get(vm)
    ended = {pod.uid for _, pods in own.values() for pod in pods if pod.ended}
    starts = {key: _start(claim, vmi) for key, (claim, _) in own.items()}
    on_node = {
        starts[key]
        for key, (_, pods) in own.items()
        for uid, where in (
            *((pod.uid, pod.node) for pod in pods),
            *(vmi.active_pods.items() if vmi and starts[key] == vmi.meta.uid else ()),
        )
        if where == node and uid not in ended and cluster.pod(vm.namespace, uid) is None
    }
    return sum(
        claim.count
        for key, (claim, _) in own.items()
        if cluster.resource(claim) == resource
        and (starts[key] in on_node or (on_node and "" in {starts[key], *on_node}))
    )


def _start(claim: GPUClaim, vmi: VMI | None) -> str:
    """Return the uid of the VMI that uses a claim, as it says or as the VMI does; empty where neither says."""
    attached = claim.attached_to
    if attached is None or attached.uid:
        return attached.uid if attached and attached.uid else ""
    is_its = vmi and attached.admission in {"", vmi.admissions.get(ClaimName(claim.meta.name))}
    return vmi.meta.uid if vmi and is_its else ""


def _in_use(vm: ObjectKey | None, held: Amounts, asked: Amounts) -> int:
    return held[vm] + asked[vm] if vm is None else max(held[vm], asked[vm])


def budgets(plan: Plan) -> Iterator[Violation]:
    """After an order was bound, nobody above it uses more of its keys than he declares.

    Nor after a launcher was let through that asks for more than its VM's claims hold.
    """
    cluster = plan.seated
    wanted = {
        (claim.tenant, key) for claim in plan.new for key in cluster.quota_keys(claim.class_name)
    }
    came = {(pin.vm.namespace, pin.pod): pin.node for pin in plan.pins if pin.node}
    bare = naive_usage.let_through(replace(cluster, pinned=came), plan.after) if came else {}
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
