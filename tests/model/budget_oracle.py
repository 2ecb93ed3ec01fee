"""Budgets as the contract words them, by plain sums over all objects; nothing of gpu.model is asked.

A tenant is above another when its name is the other's without the last part; `tenant-x` is under
the root.
"""

import bisect
from dataclasses import dataclass
from functools import cache, cached_property

ROOT = "tenant-root"
TOTAL = "gpu.cozystack.io/total"
MOST = 60
"""More than any budget of these tests leaves."""


def above(tenant):
    """The tenant and all above it, the root last."""
    parts = tenant.split("-")
    line = ["-".join(parts[:end]) for end in range(len(parts), 1, -1)]
    return line if tenant == ROOT else [*line, ROOT]


@dataclass(eq=False)
class Oracle:
    """`objects` is a dict of lists of typed objects: classes, claims, pods, vmis, releases."""

    objects: dict
    tenants: tuple
    """All there are that may be asked about."""

    @cached_property
    def everybody(self):
        """Tenants that are asked about or that any object speaks of, and those above them."""
        spoken = {
            item.meta.namespace
            for kind in ("claims", "pods", "vmis")
            for item in self.objects[kind]
        }
        spoken |= {release.tenant for release in self.objects["releases"]}
        return {one for tenant in spoken.union(self.tenants) for one in above(tenant)}

    @cache  # noqa: B019 - lives as long as one example
    def keys_of(self, class_name):
        """A unit of a class counts under the class, in total, and as the resource, at once."""
        offers = [offer for offer in self.objects["classes"] if offer.name == class_name]
        return {f"gpu.cozystack.io/{class_name}", TOTAL, *(offer.resource for offer in offers)}

    @cache  # noqa: B019
    def declared(self, tenant, key):
        """None is unlimited; a value that cannot be read is 0."""
        for release in self.objects["releases"]:
            if release.tenant == tenant:
                return release.declared.units.get(key)
        return None

    @cache  # noqa: B019
    def own_claims(self, tenant, key):
        """Claims of every phase, whatever else is the matter with them."""
        return sum(
            claim.count
            for claim in self.objects["claims"]
            if claim.meta.namespace == tenant and key in self.keys_of(claim.class_name)
        )

    @cache  # noqa: B019
    def own_pods(self, tenant, key):
        """Units of live pods that no claim attached to the pod's VM covers."""
        gpus = {offer.resource for offer in self.objects["classes"]}
        return sum(
            max(0, units - self.covered(pod, resource))
            for pod in self.objects["pods"]
            if pod.meta.namespace == tenant and pod.phase not in {"Succeeded", "Failed"}
            for resource, units in pod.requests.items()
            if resource in gpus and key in {resource, TOTAL}
        )

    def covered(self, pod, resource):
        """Units of the resource that claims, in whatever phase, account for of this pod.

        Those attached to the pod's VM, and those another VM took over that have the pod on record.
        """
        vm = self.vm_of(pod)
        return sum(
            claim.count
            for claim in self.objects["claims"]
            if vm is not None
            and claim.attached_to is not None
            and claim.meta.namespace == pod.meta.namespace
            and (claim.attached_to.vmi == vm or self.notes(claim, pod))
            and resource in self.keys_of(claim.class_name)
        )

    @staticmethod
    def notes(claim, pod):
        """Whether the claim has recorded the pod and does not know it ended."""
        return any(one.uid == pod.meta.uid and not one.ended for one in claim.attached_to.pods)

    def vm_of(self, pod):
        """By the VMI that lists the pod, else by a claim that has recorded it."""
        listed = [
            vmi.meta.name
            for vmi in self.objects["vmis"]
            if vmi.meta.namespace == pod.meta.namespace and pod.meta.uid in vmi.active_pods
        ]
        recorded = [
            claim.attached_to.vmi
            for claim in sorted(self.objects["claims"], key=lambda claim: claim.meta.name)
            if claim.meta.namespace == pod.meta.namespace
            and claim.attached_to is not None
            and pod.meta.uid in {one.uid for one in claim.attached_to.pods}
        ]
        return next(iter([*listed, *recorded]), None)

    def parts(self, tenant, key, orderer=None, units=0):
        """Own claims and an order, own raw pods, and of each child what it promises or uses."""
        below = 0
        for child in self.everybody:
            if above(child)[1:2] == [tenant]:
                use = self.used(child, key, orderer, units)
                hard = self.declared(child, key)
                below += use if hard is None else max(hard, use)
        own = self.own_claims(tenant, key) + (units if tenant == orderer else 0)
        return own, self.own_pods(tenant, key), below

    def used(self, tenant, key, orderer=None, units=0):
        """What a tenant uses, with an order of so many units under the key if there is one."""
        return sum(self.parts(tenant, key, orderer, units))

    def broken(self, tenant, keys, units):
        """Tenant and key of every budget that is overdrawn once an order stands among the claims."""
        return {
            (one, key)
            for one in above(tenant)
            for key in keys
            if (hard := self.declared(one, key)) is not None
            and self.used(one, key, tenant, units) > hard
        }

    def left(self, tenant, keys):
        """The largest order that breaks nothing; None where any would pass."""
        if not self.broken(tenant, keys, MOST):
            return None
        return bisect.bisect_left(
            range(1, MOST + 1), 1, key=lambda units: bool(self.broken(tenant, keys, units))
        )
