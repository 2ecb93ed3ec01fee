"""More VMs than there is room for, started at once: nobody double booked, who fits runs, the rest waits and says why.

60 VMs on 8 nodes, drawn by the seed; with `--full` 200 on 20. The judge reads only the API.
"""

import asyncio
import random
import sys
import time
from collections import Counter

import pytest
import pytest_asyncio

from devcluster import simulator
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import crowd_judge as judge
from tests.real import site as sites
from tests.real import vm_site as vms
from tests.real.crowd_judge import Want
from tests.real.vm_site import H100, L40S, gates, held, unit

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

DAILY, WHOLE = (60, 8, 6), (200, 20, 20)
"""VMs, nodes, and the units of all classes that the tight tenant may have."""
LOOSE, TIGHT = ("tenant-east", "tenant-west"), "tenant-tight"
NODES = ({H100: 4, L40S: 4}, {H100: 4}, {L40S: 4}, {H100: 2, L40S: 2})
"""What the nodes beside those of the site serve, in turn."""
SETS = (
    *({"h100": units} for units in (1, 2, 4)),
    *({"l40s": units} for units in (1, 2, 4)),
    {"h100": 1, "l40s": 1},
    {"h100": 2, "l40s": 1},
)
CLAIMS = (
    ({"h100": 2}, {}),
    ({"l40s": 1}, {}),
    ({"h100": 1}, {"l40s": 1}),
    ({"l40s": 1}, {"l40s": 1}),
    ({"h100": 1, "l40s": 1}, {}),
)
"""What is held, and what is asked by class beside it."""
WAITS = {"NoFreeUnits", "NoNodeAccepts", "NoNodeForSet", "OverBudget"}
LATE = 240.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with vms.opened(tmp_path_factory.mktemp("vm-crowd")) as opened:
        for tenant in LOOSE:
            await opened.tenant(tenant)
        yield opened


async def furnish(site, count):
    """Add nodes until there are so many."""
    for number in range(len(vms.NODES), count):
        name, resources = f"gpu-{number + 1:02}", NODES[number % len(NODES)]
        await site.sim.add(simulator.Simulated(name=name, resources=resources))


async def a_crowd(site, count, dice):
    """Draw what so many VMs name, and order the claims among it; a fifth of them names claims."""
    wanted = []
    for number in range(count):
        name = f"vm-{number:03}"
        tenant = TIGHT if number % 6 == 5 else dice.choice(LOOSE)
        if number % 5:
            wanted.append(Want(name=name, tenant=tenant, units=dice.choice(SETS)))
            continue
        asked, more = dice.choice(CLAIMS)
        if tenant == TIGHT:
            asked, more = {"h100": 1}, {}
        for class_name, units in asked.items():
            await site.hold(f"{name}-{class_name}", class_name, units, tenant)
        names = tuple(f"{name}-{class_name}" for class_name in asked)
        wanted.append(Want(name=name, tenant=tenant, held=names, units=more))
    return wanted


async def start(site, want):
    """Make a VM; again where KubeVirt's webhooks, which all are put to at once, took too long over it."""
    entries = [held(name, name) for name in want.held]
    for name, units in want.units.items():
        entries += [unit(name, f"{name}-{number}") for number in range(units)]

    async def made():
        try:
            return await site.make(want.name, entries, tenant=want.tenant)
        except errors.AlreadyExists:  # only the answer was late
            return await site.found(kinds.VMS, want.name, want.tenant)

    await sites.until(made, LATE, f"VM {want.name} made")


async def release(site, want):
    """Stop a VM and give back what it held."""
    await site.strategy(want.name, "Halted", want.tenant)
    for name in want.held:
        await site.person(want.tenant).delete(kinds.GPU_CLAIMS, name, want.tenant)


class Crowd:
    """The VMs that are on, and how the cluster stands when it has come to rest."""

    def __init__(self, site, wanted, budget):
        self.site, self.budget = site, budget
        self.on = {(want.tenant, want.name): want for want in wanted}
        self.problems = {}

    async def rest(self):
        """Wait until every VM runs or waits at the gate, nobody who waits would fit, and it stays so."""
        last = None

        async def settled():
            nonlocal last
            now = await self._standing()
            before, last = last, now
            return not self.problems and now == before

        await sites.until(settled, LATE, lambda: f"a crowd at rest: {self.problems}")
        return last

    async def _standing(self):
        """Return who runs and who waits; `problems` says why that is no rest."""
        await asyncio.sleep(1)
        vmis = {key(it): it for it in (await self.site.admin.list_all(kinds.VMIS)).items}
        pods = {of_vm(it): it for it in (await self.site.admin.list_all(kinds.PODS)).items}
        look = await judge.look(self.site.admin)
        phases = {each: (vmis.get(each) or {}).get("status", {}).get("phase") for each in self.on}
        running = {each for each, phase in phases.items() if phase == "Running"}
        waiting = {each for each in self.on if gates(pods.get(each) or {"spec": {}})}
        fits = {each for each in waiting if self._fits(look, self.on[each])}
        self.problems = {
            "neither": {each: phases[each] for each in self.on.keys() - running - waiting},
            "both": running & waiting,
            "would fit": {each: look.node_for(self.on[each]) for each in fits},
            "off and there": vmis.keys() - self.on.keys(),
            "not given back": self._left_over(look),
        }
        self.problems = {what: found for what, found in self.problems.items() if found}
        return running, waiting

    def _left_over(self, look):
        """Return the claims of VMs that are off: nobody else fits where they still hold units."""
        held_now = {(want.tenant, name) for want in self.on.values() for name in want.held}
        users = {
            key(it): ((it.get("status") or {}).get("attachedTo") or {}).get("name")
            for it in look.claims
        }
        return {
            claim
            for claim, user in users.items()
            if claim not in held_now and (claim[0], user) not in self.on
        }

    def _fits(self, look, want):
        used = sum(claim["spec"]["count"] for claim in look.of(want.tenant))
        within = want.tenant != TIGHT or used + sum(want.units.values()) <= self.budget
        return within and look.node_for(want) is not None

    async def judge_running(self, running):
        """All of a VM that runs is held on its node, and its launcher asks for exactly that."""
        look = await judge.look(self.site.admin)
        pods = {of_vm(pod): pod for pod in look.pods}
        for each in running:
            want, pod = self.on[each], pods[each]
            uid = pod["metadata"]["ownerReferences"][0]["uid"]
            used = [
                claim
                for claim in look.claims
                if ((claim.get("status") or {}).get("attachedTo") or {}).get("uid") == uid
            ]
            assert {claim["status"]["nodeName"] for claim in used} == {judge.node_of(pod)}, each
            held_now = Counter()
            for claim in used:
                held_now[look.classes[claim["spec"]["className"]]] += claim["spec"]["count"]
            assert held_now == look.needs(want) == look.asked(pod), each

    async def judge_waiting(self, waiting):
        """Every VM that waits has been told why; so have the claims that are held for it."""
        why = {}

        async def all_told():
            why.update(await self._reasons())
            return all(why.get(each, set()) & WAITS for each in waiting)

        await sites.until(all_told, vms.LATE, lambda: f"{waiting} told why they wait: {why}")
        for each in waiting:
            assert each[0] == TIGHT or "OverBudget" not in why[each], (each, why[each])
            for name in self.on[each].held:
                await self._waits(each[0], name)
        return Counter(reason for each in waiting for reason in why[each])

    async def _waits(self, tenant, name):
        """Wait until a held claim says that its VM waits."""
        status = {}

        async def says():
            status.update((await self.site.claim(tenant, name))["status"])
            said = {it["type"]: it["status"] for it in status["conditions"]}
            return (status["phase"], said.get("Waiting")) == ("Bound", "True")

        await sites.until(says, vms.LATE, lambda: f"{name} Bound and Waiting: {status}")

    async def _reasons(self):
        """Return the reasons of Warnings about instances that are there, by VM."""
        found = (await self.site.admin.list_all(kinds.VMIS)).items
        names = {it["metadata"]["uid"]: key(it) for it in found}
        told = {}
        for event in (await self.site.admin.list_all(kinds.EVENTS)).items:
            about = names.get(event["regarding"].get("uid"))
            if about and event["type"] == "Warning":
                told.setdefault(about, set()).add(event["reason"])
        return told

    async def release(self, some):
        """Stop VMs at once and give back what they held."""
        await asyncio.gather(*(release(self.site, self.on.pop(each)) for each in some))


def key(item):
    return item["metadata"]["namespace"], item["metadata"]["name"]


def of_vm(pod):
    return pod["metadata"]["namespace"], pod["metadata"]["labels"].get("vm.kubevirt.io/name", "")


async def test_of_a_crowd_who_fits_runs_and_the_others_as_units_are_released(
    site, seed, full, capsys
):
    dice = random.Random(seed)
    count, nodes, budget = WHOLE if full else DAILY
    await furnish(site, nodes)
    await site.tenant(TIGHT, total=budget)
    for tenant in (*LOOSE, TIGHT):
        await site.shown(tenant, "h100", "l40s")
    await site.shown(TIGHT, total=budget)
    wanted = await a_crowd(site, count, dice)
    crowd = Crowd(site, wanted, budget)
    rounds = []
    async with judge.watching(site.admin) as watched:
        began = time.monotonic()
        await asyncio.gather(*(start(site, want) for want in wanted))
        made = time.monotonic() - began
        while crowd.on:
            running, waiting = await crowd.rest()
            assert running
            await crowd.judge_running(running)
            why = await crowd.judge_waiting(waiting)
            rounds.append(
                (round(time.monotonic() - began, 1), len(running), len(waiting), dict(why))
            )
            began = time.monotonic()
            first = len(rounds) == 1
            some = dice.sample(sorted(running), len(running) // 3) if first else running
            await crowd.release(some)

        async def empty():
            return not await site.claims() and not (await site.admin.list_all(kinds.VMIS)).items

        await sites.until(empty, LATE, "every claim given back")
    events = (await site.admin.list_all(kinds.EVENTS)).items
    assert [it for it in events if it["reason"].startswith(("LauncherRefused", "OutOf"))] == []
    with capsys.disabled():
        sys.stdout.write(
            f"\n{count} VMs on {nodes} nodes, made in {made:.1f} s; never more than {watched.most} units "
            f"in use at {watched.looks} looks. Rounds (seconds, running, waiting, why): {rounds}\n"
        )
