"""Networks of a start under `binding: request`: their definitions are read, and what they ask for is foreseen."""

import asyncio
import json

import pytest

from gpu.admission import networks
from gpu.cluster import errors
from gpu.objects.kinds import NETWORK_DEFINITIONS
from tests.admission import starts
from tests.admission.attaching_site import Site
from tests.admission.requesting_site import RequestSite
from tests.admission.starts import unit
from tests.fakes.cluster import FakeCluster

pytestmark = pytest.mark.looptime

RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
NIC = "example.com/nic"


def define(api, name, resource=NIC, *, namespace="tenant-a"):
    notes = {"annotations": {RESOURCE: resource}} if resource else {}
    api.put(NETWORK_DEFINITIONS, {"metadata": {"name": name, "namespace": namespace, **notes}})


def named(*definitions):
    """Networks of a VMI: the pod's own, and one for each definition."""
    own = {"name": "default", "pod": {}}
    return [
        own,
        *({"name": f"n-{i}", "multus": {"networkName": it}} for i, it in enumerate(definitions)),
    ]


async def amounts(api, *definitions, **spec):
    body = starts.a_vmi("vm", gpus=[unit()])
    body["spec"] |= {"networks": named(*definitions)} | spec
    return dict(await networks.amounts(api, starts.asked(body)))


@pytest.fixture
def api():
    return FakeCluster()


@pytest.fixture
def reads(monkeypatch):
    """What was read past the cache, one by one."""
    found, get = [], FakeCluster.get

    async def noted(self, kind, name, namespace=None, **how):
        found.append((kind, namespace, name))
        return await get(self, kind, name, namespace, **how)

    monkeypatch.setattr(FakeCluster, "get", noted)
    return found


async def test_each_network_asks_for_one_unit_of_the_resource_of_its_definition(api):
    define(api, "blue")
    define(api, "red", "example.com/other")
    define(api, "plain", "")
    define(api, "nic", namespace="shared")
    assert await amounts(api, "blue") == {NIC: 1}
    assert await amounts(api, "blue", "red", "blue") == {NIC: 2, "example.com/other": 1}
    assert await amounts(api, "plain") == {}
    assert await amounts(api, "shared/nic", "blue") == {NIC: 2}
    assert await amounts(api, "nic") == {}  # there is none of that name in its own namespace
    default = [{"name": "n", "multus": {"networkName": "blue", "default": True}}]
    assert await amounts(api, networks=default) == {NIC: 1}


async def test_a_definition_that_several_networks_name_is_read_once(api, reads):
    define(api, "blue")
    await amounts(api, "blue", "tenant-a/blue", "shared/nic")
    assert reads == [
        (NETWORK_DEFINITIONS, "tenant-a", "blue"),
        (NETWORK_DEFINITIONS, "shared", "nic"),
    ]


NOTHING_TO_READ = {
    "the pod's own network": [{"name": "default", "pod": {}}],
    "none": None,
    "a name of no object": named("", "/", "a/", "/b", "a/b/c", "..", "../x", "A", "x?y=z", "é"),
    "a broken one": [{"name": "n", "multus": {"networkName": 1}}],
    "no list": "x",
}


@pytest.mark.parametrize("given", NOTHING_TO_READ.values(), ids=NOTHING_TO_READ)
async def test_nothing_is_read_for(api, reads, given):
    assert await amounts(api, networks=given) == {}
    assert reads == []


@pytest.mark.parametrize("name", ["nic", "cpu", "a b/c", "x/" + "y" * 64, "/nic", "a/b/c"])
async def test_a_resource_that_no_node_can_have_is_none(api, name):
    define(api, "blue", name)
    assert await amounts(api, "blue") == {}


async def test_a_kind_that_is_not_served_asks_for_nothing(api):
    api.unserve(NETWORK_DEFINITIONS)
    assert await amounts(api, "blue") == {}


async def test_so_many_are_read_and_so_many_at_once(api, monkeypatch):
    under_way, most, count = 0, 0, 0

    async def slow(kind, name, namespace=None, **how):
        nonlocal under_way, most, count
        under_way, count = under_way + 1, count + 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        return {"metadata": {"annotations": {RESOURCE: NIC}}}

    monkeypatch.setattr(api, "get", slow)
    assert await amounts(api, *(f"n{number}" for number in range(500))) == {NIC: 32}
    assert (count, most) == (32, 8)


def answering(monkeypatch, api, *answers):
    """Have reads answered by these in turn: an error, or an object."""
    left = list(answers)

    async def get(*_, **__):
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(api, "get", get)


FOUND = {"metadata": {"annotations": {RESOURCE: NIC}}}
READS = {
    "not allowed": ([errors.Forbidden(403, "Forbidden", "no")], {}),
    "our token renewed": ([errors.Unauthorized(401, "Unauthorized", "no"), FOUND], {NIC: 1}),
    "answered the second time": ([errors.ServerFault(500, "InternalError", "x"), FOUND], {NIC: 1}),
    "too busy first": ([errors.Throttled(429, "TooManyRequests", "x"), FOUND], {NIC: 1}),
    "the line cut first": ([errors.Unreachable("cut", sent=True), FOUND], {NIC: 1}),
    "no object": ([{"metadata": {"annotations": 1}}], {}),
    "no annotations": ([{"metadata": {}}], {}),
}


@pytest.mark.parametrize(("answers", "wanted"), READS.values(), ids=READS)
async def test_a_read_that_fails_is_nobodys_refusal(api, monkeypatch, answers, wanted):
    answering(monkeypatch, api, *answers)
    assert await amounts(api, "blue") == wanted


async def test_a_bug_is_not_taken_for_an_answer(api, monkeypatch):
    answering(monkeypatch, api, KeyError("bug"))
    with pytest.raises(ExceptionGroup):
        await amounts(api, "blue")


async def test_what_does_not_answer_is_waited_for_a_second_and_the_rest_is_foreseen(
    api, monkeypatch
):
    define(api, "blue")
    define(api, "stuck", "example.com/other")
    get = api.get

    async def stuck(kind, name, namespace=None, **how):
        if name == "stuck":
            await asyncio.Event().wait()
        return await get(kind, name, namespace, **how)

    monkeypatch.setattr(api, "get", stuck)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    assert await amounts(api, "stuck", "blue") == {NIC: 1}
    assert loop.time() - begun == pytest.approx(networks.PATIENCE)


# In a start.


def asked_for(site, name):
    """Amounts of the launcher that the request on a claim tells of."""
    launcher = json.loads(site.asked_for(name)["launcher"])
    (container,) = launcher["spec"]["containers"]
    return container["resources"]["requests"]


@pytest.fixture
def site():
    found = RequestSite()
    found.claim()
    return found


async def test_the_request_of_a_start_says_what_its_networks_ask_for(site):
    define(site.api, "blue")
    async with site.binder():
        assert (await site.begin("vm", [starts.claim("c")], networks=named("blue", "gone")))[
            "allowed"
        ]
    assert asked_for(site, "c")[NIC] == "1"


async def test_it_comes_beside_what_the_vmi_asks_for_itself(site):
    define(site.api, "blue")
    domain = {
        "devices": {"gpus": [starts.claim("c")]},
        "resources": {"requests": {NIC: "2"}, "limits": {NIC: "2"}},
    }
    async with site.binder():
        assert (await site.begin("vm", networks=named("blue"), domain=domain))["allowed"]
    assert asked_for(site, "c")[NIC] == "3"


async def test_a_start_without_such_networks_reads_none(site, reads):
    async with site.binder():
        assert (await site.begin("vm", [starts.claim("c")], networks=named()))["allowed"]
    assert NETWORK_DEFINITIONS not in {kind for kind, _, _ in reads}


async def test_at_the_gate_none_is_read(reads):
    """KubeVirt has rendered the launcher that is judged there."""
    site = Site()
    site.claim()
    define(site.api, "blue")
    body = starts.a_vmi("vm", gpus=[starts.claim("c")])
    body["spec"]["networks"] = named("blue")
    assert (await site.webhook()(starts.request(body)))["allowed"]
    assert NETWORK_DEFINITIONS not in {kind for kind, _, _ in reads}
