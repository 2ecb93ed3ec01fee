"""Events and saved passes on a real control plane: told once a reason, replayed byte for byte."""

import asyncio
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
import pytest_asyncio

from devcluster import chart, processes, product, tenants
from gpu import keys
from gpu.objects import kinds
from tests.real import site as sites

_UNJUDGED = {**chart.ORDERS_WAIT, "quotaGate": {"enabled": False}}
"""Orders wait, and quotas are stored that the gate would refuse."""

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replays(tmp_path_factory):
    return tmp_path_factory.mktemp("replays") / "of-the-leader"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory, replays):
    flags = (*sites.STEADY, f"--replay-dir={replays}")
    async with sites.opened(
        tmp_path_factory.mktemp("events"), flags=flags, values=_UNJUDGED
    ) as opened:
        await opened.node("gpu-1", 4)
        await opened.offer("h100")
        await opened.tenant("tenant-a")
        # An order that came before any of these was known would be told of that too.
        await opened.shown("tenant-a", "h100")
        await opened.class_has("h100", 4)
        yield opened


async def told(site, name, namespace="tenant-a"):
    """Reasons of the Events about an object, with how many there are of each."""
    listing = await site.admin.list_all(kinds.EVENTS, namespace)
    return Counter(item["reason"] for item in listing.items if item["regarding"]["name"] == name)


async def heard(site, name, reason, namespace="tenant-a"):
    async def is_told():
        return (await told(site, name, namespace))[reason] > 0

    await sites.until(is_told, sites.BEFORE_RESYNC, f"an Event {reason} about {name}")


async def test_an_order_that_is_placed_waits_and_is_released_is_told_once_of_each(site):
    await site.order("tenant-a", "first", "h100", 4)
    await site.bound("tenant-a", "first")
    await heard(site, "first", "Placed")
    await site.order("tenant-a", "second", "h100", 2)
    await site.waits("tenant-a", "second", "NoFreeUnits")
    await heard(site, "second", "NoFreeUnits")
    await site.admin.delete(kinds.GPU_CLAIMS, "first", "tenant-a")
    await site.bound("tenant-a", "second")
    await heard(site, "second", "Placed")
    await heard(site, "first", "Released")
    # Two passes more, which must add nothing.
    await site.node("gpu-2", 1)
    await site.class_has("h100", 5)
    await site.nodes.remove("gpu-2")
    await site.class_has("h100", 4)
    assert await told(site, "first") == {"Placed": 1, "Released": 1}
    assert await told(site, "second") == {"NoFreeUnits": 1, "Placed": 1}


async def test_an_event_is_of_our_controller_about_the_very_object_and_says_why(site):
    listing = await site.admin.list_all(kinds.EVENTS, "tenant-a")
    (found,) = [
        item
        for item in listing.items
        if (item["regarding"]["name"], item["reason"]) == ("second", "Placed")
    ]
    claim = await site.claim("tenant-a", "second")
    assert found["reportingController"] == "gpu.cozystack.io/binder"
    assert found["regarding"]["uid"] == claim["metadata"]["uid"]
    assert (found["type"], found["note"]) == ("Normal", "2 units of h100 held on node gpu-1")


async def test_a_quota_that_is_no_number_is_told_where_it_is_declared_and_shown_to_the_tenant(site):
    key = "gpu.cozystack.io/total"
    await tenants.add(site.admin, "tenant-odd", {key: "1500m"})
    await heard(site, "tenant-odd", "QuotaUnreadable", keys.TENANT_ROOT)

    async def shown():
        gate = await site.served("tenant-odd", "quotagates/total")
        return gate["status"] if gate["status"]["reason"] == "Unreadable" else None

    status = await sites.until(shown, sites.BEFORE_RESYNC, "a gate that says Unreadable")
    assert (status["gate"], status["remaining"]) == ("Closed", 0)
    assert "'1500m' is a fraction: units are whole" in status["message"]
    await tenants.set_quotas(site.admin, "tenant-odd", {key: 1})
    await heard(site, "tenant-odd", "QuotaReadable", keys.TENANT_ROOT)
    assert await told(site, "tenant-odd", keys.TENANT_ROOT) == {
        "QuotaUnreadable": 1,
        "QuotaReadable": 1,
    }


async def test_a_class_that_stops_taking_orders_is_told(site):
    await heard(site, "h100", "Served", "default")
    await site.admin.patch(kinds.GPU_CLASSES, "h100", {"spec": {"retired": True}})
    await heard(site, "h100", "Retired", "default")


async def test_sigusr1_saves_the_next_pass_which_is_decided_alike_by_the_command(site, replays):
    assert not await asyncio.to_thread(replays.exists), "nobody has asked yet"

    async def decided(seen: set[str], name: str) -> str:
        """Order and ask; the pass saved may come just before or after the one about the order."""
        await site.order("tenant-a", name, "h100", 9)
        processes.kill(site.cp.record(product.FIRST), signal.SIGUSR1)

        async def saved() -> set[str]:
            return await asyncio.to_thread(lambda: set(map(str, replays.glob("*.json")))) - seen

        (path,) = await sites.until(saved, sites.BEFORE_RESYNC, f"a saved pass in {replays}")
        seen.add(path)
        code, out, err = await replay(path)
        assert code == 0, err
        text = await asyncio.to_thread(Path(path).read_text, "utf-8")
        return out if f'"name":"{name}"' in text else ""

    seen: set[str] = set()
    for number in range(8):
        if await decided(seen, f"asked-{number}"):
            break
    else:
        pytest.fail("none of the passes saved is one that decided something")
    await sites.until(
        lambda: told_by_log(site, "pass saved"), sites.BEFORE_RESYNC, "the log tells of it"
    )


async def told_by_log(site, words):
    log = site.product.replicas[product.FIRST].log
    return words in await asyncio.to_thread(log.read_text, "utf-8")


async def replay(path):
    """Run the command on a file: exit status, what it printed, what it told."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "apiserver",
        "replay",
        path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()
