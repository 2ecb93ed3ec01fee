"""kill -9 of the product between any two writes of a VM's start, stop or refusal, on the real KubeVirt.

Each story is told once undisturbed, which gives its end and its number of writes; then once for each
write, the process killed before it is sent or after it was executed. Whoever comes next ends it alike.
"""

import asyncio
import contextlib
import random
import sys
from dataclasses import dataclass

import pytest
import pytest_asyncio

from devcluster import machines, product, simulator
from gpu.objects import kinds
from tests.real import crowd_judge as judge
from tests.real import site as sites
from tests.real import vm_site as vms
from tests.real.cutting_proxy import When, between
from tests.real.vm_site import ACME, GLOBEX, H100, L40S, gates, held, unit

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1800)]

POINTS = 2
"""Kill points of a sampled run for each story; `--full` takes every write, before and after."""
COUNTED = ("gpuclaims", "workloads", "pods", "virtualmachineinstances")
LATE = 120.0
SETTLED = 1.0
"""Seconds without a change of what is told and without a write, after which a story is over."""


def of_vms(_method, path):
    """Count writes of claims, records, launchers and instances."""
    return any(part in COUNTED for part in path.split("/"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(binaries_built, tmp_path_factory):
    async with vms.opened(tmp_path_factory.mktemp("vm-crashes")) as opened:
        both = simulator.Simulated(name="gpu-4", resources={H100: 2, L40S: 1})
        await opened.sim.add(both)
        await opened.class_has("h100", 8)
        await opened.class_has("l40s", 5)
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(plane):
    async with between(plane, of_vms) as opened:
        await again(plane, opened)
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def site(plane, proxy):
    yield plane
    if not plane.cp.is_running(product.FIRST):
        await again(plane, proxy)
    await clear(plane)


async def again(site, proxy):
    """Start the product behind the proxy, whatever became of the one before."""
    await site.product.stop()
    await site.product.start(flags=vms.FLAGS, login=proxy.login)


# The stories: what stands before, and what people do. Web is the VM that each is about.


async def nothing(_site):
    """Nothing stands before."""


async def by_class(site):
    await site.make("web", [unit(entry="a"), unit(entry="b"), unit("l40s", "c")])


async def a_claim(site):
    assert await site.hold("c", "h100", 2) == "gpu-1"


async def by_claim(site):
    await site.make("web", [held("c"), unit("l40s", "more")])


async def one_runs_and_one_waits(site):
    await a_claim(site)
    await by_claim(site)
    await site.runs("web")
    await site.make("next", [unit(entry="a"), unit("l40s", "b")], tenant=GLOBEX)
    await site.gated("next", GLOBEX)


async def stop(site):
    await site.strategy("web", "Halted")
    await site.person(ACME).delete(kinds.GPU_CLAIMS, "c", ACME)


async def a_claim_that_its_node_refuses(site):
    await a_claim(site)
    no = machines.out_of(H100, requested=2, used=1, capacity=2)
    site.sim.refuse("gpu-1", no, count=1000)


async def refused(site):
    await site.make("web", [held("c")])


async def insist(site):
    """Start web again as its owner would: KubeVirt itself waits ever longer."""
    vm = await site.found(kinds.VMS, "web")
    if vm["spec"]["runStrategy"] == "Halted" and not await site.found(kinds.VMIS, "web"):
        await site.start("web")
    elif (vm.get("status") or {}).get("printableStatus") == "CrashLoopBackOff":
        await site.strategy("web", "Halted")


@dataclass(frozen=True)
class Story:
    """One story: what stands before, what is done, what is done again and again, where guests run then."""

    ready: object
    act: object
    guests: dict
    again: object = nothing
    forgets: bool = False
    """A new leader begins it: this one would remember from the telling before who refused whom."""


STORIES = {
    "start by class": Story(nothing, by_class, {"web": "gpu-4"}),
    "start by held claim": Story(a_claim, by_claim, {"web": "gpu-4"}),
    "stop and give back": Story(one_runs_and_one_waits, stop, {"next": "gpu-4"}),
    "rejected and started elsewhere": Story(
        a_claim_that_its_node_refuses, refused, {"web": "gpu-4"}, insist, forgets=True
    ),
}


# How things stand, without what differs between two tellings: uids, times, generated names.


async def standing(site):
    admin = site.admin
    found = [tuple(_claim(it) for it in await site.claims())]
    found.append(tuple(_pod(it) for it in (await admin.list_all(kinds.PODS)).items))
    found.append(tuple(_vmi(it) for it in (await admin.list_all(kinds.VMIS)).items))
    found.append(tuple(_record(it) for it in (await admin.list_all(kinds.WORKLOADS)).items))
    return [sorted(some, key=repr) for some in found]


def _plain(name):
    return "template" if "tpl-" in name else name


def _claim(claim):
    meta, status = claim["metadata"], claim.get("status") or {}
    used = status.get("attachedTo") or {}
    return {
        "name": _plain(meta["name"]),
        "asks": (claim["spec"]["className"], claim["spec"]["count"]),
        "going": "deletionTimestamp" in meta,
        "held": (status.get("phase"), status.get("nodeName")),
        "user": (
            used.get("name"),
            [it.get("node") for it in used.get("pods") or [] if not it.get("ended")],
        ),
        "refused by": [it["node"] for it in status.get("rejectedNodes") or []],
        "says": sorted(
            it["type"] for it in status.get("conditions") or [] if it["status"] == "True"
        ),
    }


def _pod(pod):
    name = pod["metadata"]["labels"].get("vm.kubevirt.io/name")
    return name, pod["spec"].get("nodeName"), pod["status"]["phase"], gates(pod)


def _vmi(vmi):
    status = vmi.get("status") or {}
    return vmi["metadata"]["name"], status.get("phase"), status.get("nodeName")


def _record(workload):
    return _plain(workload["metadata"]["name"]), (workload.get("status") or {}).get("operational")


def sure(end):
    """What the next leader finds out in any case: not who refused whom, seen and not noted yet (decision 23)."""
    claims, *others = end
    return [[{**it, "refused by": []} for it in claims], *others]


def is_over(story, claims, pods, vmis, _records):
    """Say whether guests run where the story says, and all that is to follow from it has."""
    running = {name: node for name, phase, node in vmis if phase == "Running"}
    noted = all(nodes for name, nodes in (it["user"] for it in claims) if name)
    held = all(it["held"][0] == "Bound" and not it["going"] for it in claims)
    return running == story.guests and held and noted and all(not pod[3] for pod in pods)


async def ends(site, story, what, like=None):
    """Wait until a story is over, as it was told before, and all stands still; return how it stands."""
    last, since = None, 0.0
    clock = asyncio.get_running_loop().time
    # Nobody is to be taken for done who only stood still: this is what every other telling ends like.
    settled = SETTLED if like else 2 * SETTLED

    async def still():
        nonlocal last, since
        await story.again(site)
        now = await standing(site)
        if now != last:
            last, since = now, clock()
        alike = like is None or sure(now) == sure(like)
        return clock() - since > settled and is_over(story, *now) and alike

    def how():
        return f"{what}: the end of the story, {like or 'whichever'}; it stands so: {last}"

    await sites.until(still, LATE, how)
    return last


async def begin(site, proxy, story):
    """Put in place what stands before a story, with all that is written of it."""
    if story.forgets:
        await again(site, proxy)
    await story.ready(site)
    last, since = None, 0.0
    clock = asyncio.get_running_loop().time

    async def still():
        nonlocal last, since
        now = (len(proxy.seen), await standing(site))
        if now != last:
            last, since = now, clock()
        return clock() - since > SETTLED

    await sites.until(still, LATE, lambda: f"what stands before, written: {last}")


async def told(site, proxy, story):
    """Tell a story undisturbed; return its end and its writes."""
    await begin(site, proxy, story)
    before = len(proxy.seen)
    await story.act(site)
    end = await ends(site, story, "undisturbed")
    return end, proxy.seen[before:]


async def killed(site, proxy, story, *, at, when, like):
    """Tell a story, the product killed at its `at`-th write; return its end, and whether it was."""
    dead = asyncio.Event()

    async def kill():
        site.product.kill()
        dead.set()

    await begin(site, proxy, story)
    index = len(proxy.seen) + at - 1
    proxy.cut(at, when, kill)
    await story.act(site)
    over = asyncio.ensure_future(ends(site, story, f"until write {at}", like))
    death = asyncio.ensure_future(dead.wait())
    await asyncio.wait({over, death}, return_when=asyncio.FIRST_COMPLETED)
    proxy.cut_at = None
    for task in (over, death):
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, AssertionError):
            await task
    if dead.is_set():
        await again(site, proxy)
    where = proxy.seen[index] if dead.is_set() else "no write"
    what = f"killed {when} write {at} ({where})"
    return await ends(site, story, what, like), dead.is_set()


@pytest.mark.parametrize("name", STORIES)
async def test_killed_at_each_write_in_turn_the_story_ends_as_undisturbed(
    site, proxy, *, seed, full, name, capsys
):
    story = STORIES[name]
    async with judge.watching(site.admin):
        end, writes = await told(site, proxy, story)
        noted = [it["refused by"] for it in end[0] if it["refused by"]]
        assert noted == ([["gpu-1"]] if story.forgets else [])
        await clear(site)
        points = [(at, when) for at in range(1, len(writes) + 1) for when in When]
        wanted = len(points) // 2 if full else POINTS  # how many writes there are differs by a few
        points = points if full else random.Random(seed).sample(points, len(points))
        reached = tried = 0
        for at, when in points:
            if reached == wanted and not full:
                break
            tried += 1
            found, was = await killed(site, proxy, story, at=at, when=when, like=end)
            assert sure(found) == sure(end), f"killed {when} write {at} of {writes}"
            reached += was
            await clear(site)
    with capsys.disabled():
        sys.stdout.write(f"\n{name}: {len(writes)} writes, killed at {reached} of {tried}\n")
    assert reached >= wanted


async def clear(site):
    site.sim.machine("gpu-1").refusals.clear()
    await site.clear()
