"""The rules of domain contract 5 once more, naively: sums over all objects, no index, no ledger.

Nothing here imports gpu.model. Objects are those of `strategies.clusters`.
"""

from gpu import keys
from gpu.objects.claims import Phase
from gpu.objects.tenants import parent_of

LIVE = {"Pending", "Running"}


def vm_of_pod(objects, pod):
    for vmi in objects["vmis"]:
        if vmi.meta.namespace == pod.meta.namespace and pod.meta.uid in vmi.active_pods:
            return vmi.meta.name
    for claim in sorted(objects["claims"], key=lambda item: item.key):
        if claim.meta.namespace == pod.meta.namespace and claim.attached_to is not None:
            for recorded in claim.attached_to.pods:
                if recorded.uid == pod.meta.uid:
                    return claim.attached_to.vmi
    return None


def asks(objects, pod, resource):
    """A pod's units by VM: one that took over a claim of it while it ends has that claim's units."""
    own = vm_of_pod(objects, pod)
    others = {}
    for claim in sorted(objects["claims"], key=lambda item: item.key):
        if claim.meta.namespace != pod.meta.namespace or claim.attached_to is None:
            continue
        open_pods = {noted.uid for noted in claim.attached_to.pods if not noted.ended}
        vm = claim.attached_to.vmi
        is_taken = pod.meta.uid in open_pods and vm != own
        if is_taken and resource_of(objects, claim) == resource:
            others[vm] = others.get(vm, 0) + claim.count
    left = pod.requests.get(resource, 0)
    shares = {}
    for vm, units in others.items():
        shares[vm] = min(left, units)
        left -= shares[vm]
    return shares | {own: left}


def resource_of(objects, claim):
    for offer in objects["classes"]:
        if offer.name == claim.class_name:
            return offer.resource
    return None


def gpu_names(objects):
    return {offer.resource for offer in objects["classes"]}


def serves(objects, node, resource):
    amount = node.allocatable.get(resource, 0)
    for inventory in objects["inventory"]:
        devices = [d for d in inventory.devices if d.resource == resource]
        if inventory.name == node.name and devices:
            amount = min(amount, sum(d.units for d in devices if d.healthy))
    return amount


def holder_of(claim):
    return (claim.meta.namespace, claim.attached_to.vmi)


def unseen(objects, holder, node_name):
    """Pods of a VM noted or listed on the node, gone, and not known to have ended: they may run on."""
    users = [
        claim
        for claim in objects["claims"]
        if claim.attached_to is not None and holder_of(claim) == holder
    ]
    records = [pod for claim in users for pod in claim.attached_to.pods]
    ended = {pod.uid for pod in records if pod.ended}
    there = {pod.meta.uid for pod in objects["pods"] if pod.meta.namespace == holder[0]}
    found = {pod.uid for pod in records if pod.node == node_name}
    for claim in users:
        noted = {pod.uid for pod in claim.attached_to.pods}
        for uid, node in listed(objects, claim).items():
            if node == node_name and uid not in noted:
                found.add(uid)
    return found - ended - there


def may_use(objects, holder, uid, resource):
    """What a pod of `unseen` asks for: the claims of its start, and those of nobody knows which."""
    users = [
        claim
        for claim in objects["claims"]
        if claim.attached_to is not None and holder_of(claim) == holder
    ]
    of = {
        start_of(objects, claim)
        for claim in users
        if uid in {pod.uid for pod in claim.attached_to.pods} | listed(objects, claim).keys()
    }
    return sum(
        claim.count
        for claim in users
        if resource_of(objects, claim) == resource
        and (of == {None} or start_of(objects, claim) in of | {None})
    )


def start_of(objects, claim):
    """The uid of the VMI that uses a claim, as it says or as the VMI does; None where neither says."""
    if claim.attached_to.uid:
        return claim.attached_to.uid
    for vmi in objects["vmis"]:
        mark = claim.attached_to.admission
        if (vmi.meta.namespace, vmi.meta.name) == holder_of(claim) and (
            not mark or vmi.admissions.get(claim.meta.name) == mark
        ):
            return vmi.meta.uid
    return None


def listed(objects, claim):
    """Pods that the VMI lists which uses a claim."""
    name, uid, mark = claim.meta.name, claim.attached_to.uid, claim.attached_to.admission
    for vmi in objects["vmis"]:
        if (vmi.meta.namespace, vmi.meta.name) == holder_of(claim) and (
            vmi.meta.uid == uid or (vmi.admissions.get(name) == mark if mark else not uid)
        ):
            return vmi.active_pods
    return {}


def in_use(objects, claims, node_name, resource):
    """Units in use on a node, holder by holder."""
    holders = set()
    alone = 0
    for claim in claims:
        on_node = claim.phase is Phase.BOUND and claim.node == node_name
        if on_node and resource_of(objects, claim) == resource:
            if claim.attached_to is None:
                alone += claim.count
            else:
                holders.add((claim.meta.namespace, claim.attached_to.vmi))
    for pod in objects["pods"]:
        if pod.phase in LIVE and pod.node == node_name and pod.requests.get(resource):
            for vm, units in asks(objects, pod, resource).items():
                if vm is None:
                    alone += units
                else:
                    holders.add((pod.meta.namespace, vm))
    for claim in objects["claims"]:
        if claim.attached_to is not None and unseen(objects, holder_of(claim), node_name):
            holders.add(holder_of(claim))
    return alone + sum(
        max(
            sum(
                claim.count
                for claim in claims
                if claim.phase is Phase.BOUND
                and claim.node == node_name
                and claim.attached_to is not None
                and (claim.meta.namespace, claim.attached_to.vmi) == holder
                and resource_of(objects, claim) == resource
            ),
            sum(
                asks(objects, pod, resource).get(holder[1], 0)
                for pod in objects["pods"]
                if pod.phase in LIVE and pod.node == node_name and pod.meta.namespace == holder[0]
            )
            + sum(
                may_use(objects, holder, uid, resource)
                for uid in unseen(objects, holder, node_name)
            ),
        )
        for holder in holders
    )


def keys_of(objects, class_name):
    found = {keys.quota_key_of_class(class_name), keys.QUOTA_TOTAL}
    for offer in objects["classes"]:
        if offer.name == class_name:
            found.add(offer.resource)
    return found


def raw_units(objects, tenant, key):
    """Pod units in a namespace that attached claims of the pod's VM do not account for."""
    total = 0
    for resource in gpu_names(objects):
        if key not in {resource, keys.QUOTA_TOTAL}:
            continue
        for pod in objects["pods"]:
            if pod.phase in LIVE and pod.meta.namespace == tenant:
                vm = vm_of_pod(objects, pod)
                covered = sum(
                    claim.count
                    for claim in objects["claims"]
                    if vm is not None
                    and claim.meta.namespace == tenant
                    and claim.attached_to is not None
                    and claim.attached_to.vmi == vm
                    and resource_of(objects, claim) == resource
                )
                total += max(0, asks(objects, pod, resource)[vm] - covered)
    return total


def declared(objects, tenant, key):
    for release in objects["releases"]:
        if release.tenant == tenant:
            return release.declared.units.get(key)
    return None


def used(objects, claims, tenant, key, tenants):
    """Usage of a key in a tenant, children and all, by recursion."""
    total = raw_units(objects, tenant, key) + sum(
        claim.count
        for claim in claims
        if claim.tenant == tenant and key in keys_of(objects, claim.class_name)
    )
    for child in tenants:
        if parent_of(child) == tenant:
            hard = declared(objects, child, key)
            use = used(objects, claims, child, key, tenants)
            total += use if hard is None else max(hard, use)
    return total


def line(tenant):
    while tenant is not None:
        yield tenant
        tenant = parent_of(tenant)


def breaks_budget(objects, claims, order, tenants):
    """Say whether the claims with the order among them use more than somebody above declares."""
    return any(
        used(objects, [*claims, order], one, key, tenants) > hard
        for one in line(order.tenant)
        for key in keys_of(objects, order.class_name)
        if (hard := declared(objects, one, key)) is not None
    )


def entitled(objects, tenant):
    labelled = {item.meta.name for item in objects["namespaces"] if item.entitled}
    return any(one in labelled for one in line(tenant))


def tolerates_all(offer, node):
    wide = any(item.operator == "Exists" and not item.key for item in offer.tolerations)
    return wide or not node.taints


def nodes_for(objects, claims, offer, units):
    """Nodes that may take so many units, each with what is left there afterwards."""
    found = []
    for node in objects["nodes"]:
        if node.ready and not node.cordoned and tolerates_all(offer, node):
            left = serves(objects, node, offer.resource) - in_use(
                objects, claims, node.name, offer.resource
            )
            if serves(objects, node, offer.resource) > 0 and left >= units:
                found.append((left - units, node.name))
    return sorted(found)


def verdict(objects, claims, order, tenants):
    """Return the node an order is bound to, or None; `claims` are those that count against it."""
    offer = next((item for item in objects["classes"] if item.name == order.class_name), None)
    if offer is None or offer.retired:
        return None
    allowed = offer.max_count or (1 if offer.mode == "vgpu" else None)
    if allowed is not None and order.count > allowed:
        return None
    if offer.mode == "vgpu" and not entitled(objects, order.tenant):
        return None
    if breaks_budget(objects, claims, order, tenants):
        return None
    found = nodes_for(objects, claims, offer, order.count)
    return found[0][1] if found else None
