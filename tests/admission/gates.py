"""A quota gate on a fake cluster, with caches of its own, and what it is asked."""

import asyncio
import json

from gpu.admission import reserved
from gpu.admission.reserving import Gate
from gpu.admission.sightings import Sightings
from gpu.model.premises import NOTHING
from gpu.objects import kinds, tenants
from gpu.objects.tenants import TenantRelease
from gpu.world import World
from tests.admission.test_tenants import a_release as a_stored_release
from tests.admission.test_tenants import a_tenant
from tests.builders import a_class, a_release, budget, raw_release
from tests.fakes.clock import LoopClock

KEY = "gpu.cozystack.io/h100"
PROOF = 0.1
"""Seconds until caches have caught up."""
A = a_release("tenant-a", budget(h100=4))


class Replica:
    """A gate with caches of its own, which show what a test has shown them."""

    def __init__(self, cluster, *releases, renews=None, skew=0.0):
        self.cluster = cluster
        self.releases = ()
        self.quotas = ()
        self.newer = renews
        self.renewed = 0
        self.renews_for = 0
        self.proofs = 0
        self.rested = []
        """What was to settle, each time."""
        self.behind = False
        self.changed = []
        self.asked = 0
        self.show(*releases)
        clock = LoopClock()
        clock.skip(skew)
        self.sightings = Sightings(self)
        self.gate = Gate(
            ask=self.ask,
            renew=self.renew,
            is_behind=lambda: self.behind,
            sightings=self.sightings,
            writer=cluster,
            clock=clock,
        )

    # The Reader port, as far as it is used.

    def items(self, view):
        assert view is TenantRelease
        return self.releases

    def subscribe(self, changed):
        self.changed.append(changed)
        return lambda: self.changed.remove(changed)

    async def ask(self, question, *, rests_on=lambda _: NOTHING, came=None):
        loop = asyncio.get_running_loop()
        began = loop.time() if came is None else came
        await asyncio.sleep(0)
        self.asked += 1
        answer = question(World(classes=(a_class(),), releases=self.releases, quotas=self.quotas))
        if found := rests_on(answer):
            self.rested.append(found)
            self.proofs += 1
            await asyncio.sleep(max(0, began + PROOF - loop.time()))
        return answer

    async def renew(self):
        self.renewed += 1
        await asyncio.sleep(self.renews_for)
        if self.newer is not None:
            self.show(*self.newer)

    def show(self, *releases):
        """Show what is stored, too; it stays stored when it is shown no more."""
        for one in releases:
            keep(self.cluster, one)
        self.see(*releases)

    def see(self, *releases):
        """Show just these, whatever is stored."""
        self.releases = tuple(sorted(releases, key=lambda one: one.meta.key))
        for changed in self.changed:
            changed()

    async def create(self, name, units, *, namespace="tenant-a", **more):
        return await self.gate(request(name, units, namespace=namespace, **more))


def request(name, units, *, namespace="tenant-a", old=None, dry_run=False, release=False):
    quotas = {} if units is None else {KEY: units}
    made = a_stored_release if release else a_tenant
    group, plural = ("apps.cozystack.io", "tenants")
    if release:
        group, plural = ("helm.toolkit.fluxcd.io", "helmreleases")
    return {
        "uid": "u",
        "operation": "CREATE" if old is None else "UPDATE",
        "kind": {"group": group, "kind": "HelmRelease" if release else "Tenant"},
        "resource": {"group": group, "resource": plural},
        "namespace": namespace,
        "name": f"tenant-{name}" if release else name,
        "object": made(quotas),
        "oldObject": None if old is None else made({KEY: old[0]}, resourceVersion=str(old[1])),
        "dryRun": dry_run,
    }


def seen(tenant, units, version=1):
    raw = raw_release(tenant, None if units is None else budget(h100=units))
    raw["metadata"]["resourceVersion"] = str(version)
    return tenants.decode_release(raw)


def keep(cluster, declaring):
    """Have an object stored just as it was decoded, with its version."""
    kind = kinds.HELM_RELEASES if isinstance(declaring, TenantRelease) else kinds.RESOURCE_QUOTAS
    cluster._objects.setdefault(kind, {})[declaring.meta.key] = declaring.raw


def stored(cluster, tenant="tenant-a"):
    found = cluster._objects.get(kinds.CONFIG_MAPS, {})
    bodies = {key.name: body.get("data", {}) for key, body in found.items()}
    data = bodies.get(reserved.name_of(tenant), {})
    return {child: json.loads(text)["units"] for child, text in data.items()}


def allowed(answers):
    return [answer["allowed"] for answer in answers]
