"""CachesSource: how far every kind has come, and how one kind is had to catch up."""

import asyncio
from dataclasses import dataclass

import pytest

from apiserver import source as sources
from apiserver.source import CachesSource
from gpu.cluster import errors
from gpu.cluster.caches import Caches
from gpu.objects import kinds
from gpu.objects.classes import GPUClass
from gpu.objects.kubevirt import VMI
from gpu.objects.meta import ObjectKey
from gpu.objects.nodes import Node
from gpu.objects.tenants import TenantRelease
from tests.builders import raw_class


@dataclass
class Page:
    resource_version: str


class Lists:
    """Answers every list with one version, and every get; does something before it does."""

    def __init__(self, version):
        self.version = version
        self.asked = []
        self.before = lambda: None
        self.found = None
        """What a get finds; None is nothing."""
        self.got = []
        self.pending = 0
        self.most = 0

    async def list(self, kind, namespace=None, **which):
        assert which["limit"] == 1
        self.asked.append((kind, namespace, which["label_selector"], which["field_selector"]))
        self.pending += 1
        self.most = max(self.most, self.pending)
        await asyncio.sleep(0.001)
        self.pending -= 1
        self.before()
        return Page(str(self.version))

    async def get(self, kind, name, namespace=None):
        self.got.append((kind, name, namespace))
        await asyncio.sleep(0.001)
        self.before()
        if self.found is None:
            raise errors.NotFound(404, "NotFound", f"no {name}")
        return self.found


@pytest.fixture
def caches():
    """Every kind listed at version 10 and watched but VMIs, which are not served."""
    made = Caches(None)
    for kind in made.reflectors:
        if kind != kinds.VMIS:
            made[kind].listing().finish("10")
        made.reflectors[kind].is_watching = True
    made[kinds.VMIS].not_served()
    return made


@pytest.fixture
def lists():
    return Lists(20)


@pytest.fixture
def source(caches, lists):
    return CachesSource(caches, lists, in_flight=4)


def put_later(caches, *, version, after):
    """Have a class arrive by watch some time after now."""
    asyncio.get_running_loop().call_later(after, caches[kinds.GPU_CLASSES].put, stored(version))


def stored(version, uid="u", **spec):
    raw = raw_class("late", **spec)
    raw["metadata"] |= {"resourceVersion": str(version), "uid": uid}
    return raw


@pytest.mark.looptime
async def test_a_proof_asks_for_that_kind_alone_where_it_is_looked_at(source, lists):
    await source.prove(TenantRelease)
    assert lists.asked == [
        (kinds.HELM_RELEASES, None, "apps.cozystack.io/application.kind=Tenant", None)
    ]


@pytest.mark.looptime
async def test_a_kind_that_is_not_served_costs_nothing(source, lists, looptime):
    await source.prove(VMI)
    assert (lists.asked, looptime) == ([], 0)


@pytest.mark.looptime
async def test_what_is_on_its_way_when_the_list_is_answered_has_arrived_after_a_proof(
    caches, lists, source
):
    lists.before = lambda: put_later(caches, version=15, after=sources.SILENCE / 2)
    await source.prove(GPUClass)
    assert [offer.name for offer in caches.items(GPUClass)] == ["late"]


@pytest.mark.looptime
async def test_a_proof_waits_for_nothing_once_the_cache_has_come_as_far_as_the_list(
    caches, lists, source, looptime
):
    lists.before = lambda: put_later(caches, version=20, after=0.0)
    lists.version = 10
    await source.prove(GPUClass)
    assert looptime < sources.SILENCE


@pytest.mark.looptime
async def test_events_of_other_kinds_do_not_prolong_a_proof(caches, source, looptime):
    async def busy():
        while True:
            at = caches[kinds.GPU_CLASSES].resource_version + 1
            caches[kinds.GPU_CLASSES].bookmark({"metadata": {"resourceVersion": str(at)}})
            await asyncio.sleep(0.001)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(busy())
        await source.prove(Node)
        task.cancel()
    assert looptime < 2 * sources.SILENCE


@pytest.mark.looptime
async def test_progress_asks_every_kind_that_lags_a_few_at_a_time(caches, lists, source):
    caches[kinds.NODES].bookmark({"metadata": {"resourceVersion": "20"}})
    await source.progress()
    assert {kind for kind, *_ in lists.asked} == set(caches.reflectors) - {kinds.NODES, kinds.VMIS}
    assert (lists.most, source.resource_version) == (4, 20)


async def settled(source, *views, after=0.0):
    loop = asyncio.get_running_loop()
    await source.settle(views, loop.time() + after)
    return loop.time()


@pytest.mark.looptime
@pytest.mark.parametrize("after", [0.0, 0.004, 0.02])
async def test_kinds_settle_for_the_time_they_are_given_and_for_silence(source, lists, after):
    assert await settled(source, Node, after=after) == pytest.approx(max(after, sources.SILENCE))
    assert (lists.asked, lists.got) == ([], [])


@pytest.mark.looptime
async def test_what_lags_by_no_more_than_the_time_to_settle_is_there_then(caches, source):
    put_later(caches, version=15, after=0.0199)
    await settled(source, GPUClass, after=0.02)
    assert [offer.name for offer in caches.items(GPUClass)] == ["late"]


@pytest.mark.looptime
async def test_what_comes_is_waited_on_until_there_is_silence(caches, source):
    for version, after in ((15, 0.018), (16, 0.024), (17, 0.028)):
        put_later(caches, version=version, after=after)
    assert await settled(source, GPUClass, after=0.02) == pytest.approx(0.035)
    assert caches[kinds.GPU_CLASSES].resource_version == 17


@pytest.mark.looptime
async def test_a_kind_that_is_never_silent_is_waited_for_no_longer_than_a_moment(caches, source):
    for number in range(100):
        put_later(caches, version=11 + number, after=number / 1000)
    assert await settled(source, GPUClass, after=0.02) == pytest.approx(0.035)


async def test_a_busy_loop_does_not_count_its_own_delay_as_silence(caches, source):
    """What came meanwhile is read some turns of the loop later than the look that it made late."""
    loop = asyncio.get_running_loop()

    def later(turns):
        if turns:
            loop.call_soon(later, turns - 1)
        else:
            caches[kinds.GPU_CLASSES].put(stored(15))

    def busy():
        until = loop.time() + 0.03
        while loop.time() < until:
            pass
        later(5)

    loop.call_later(0.001, busy)
    await settled(source, GPUClass)
    assert [offer.name for offer in caches.items(GPUClass)] == ["late"]


def not_open(caches):
    caches.reflectors[kinds.GPU_CLASSES].is_watching = False


def failing(caches):
    caches.reflectors[kinds.GPU_CLASSES].failing_since = 0.0


def not_listed(caches):
    caches[kinds.GPU_CLASSES].has_synced = False


def not_served(caches):
    caches[kinds.GPU_CLASSES].not_served()


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        pytest.param(lambda _: None, True, id="watched"),
        pytest.param(not_open, False, id="no watch is open"),
        pytest.param(failing, False, id="it fails"),
        pytest.param(not_listed, False, id="not listed yet"),
        pytest.param(not_served, True, id="not served"),
    ],
)
def test_a_kind_is_live_while_its_watch_is_known_to_be_well(caches, source, changed, wanted):
    changed(caches)
    assert source.is_live(GPUClass) is wanted


LATE = ObjectKey("", "late")


@pytest.mark.looptime
@pytest.mark.parametrize(
    "case",
    [
        pytest.param((None, None, None, 0.001), id="there is none"),
        pytest.param((15, 15, None, 0.001), id="shown as it is"),
        pytest.param((15, 12, None, 0.001), id="shown newer than it was when read"),
        pytest.param((None, 15, 15, 0.01), id="made a moment ago"),
        pytest.param((12, 15, 15, 0.01), id="changed a moment ago"),
        pytest.param((12, 15, 20, 0.01), id="changed twice"),
        pytest.param((12, None, "gone", 0.01), id="deleted a moment ago"),
        pytest.param((12, None, "another", 0.01), id="deleted and made again"),
        pytest.param(("malformed", 15, 15, 0.01), id="mended a moment ago"),
        pytest.param(("malformed", 12, None, 0.001), id="malformed as it is shown"),
    ],
)
async def test_an_object_that_was_read_is_waited_for(caches, lists, source, case):
    """A case: the version held, the one that is read, what comes 9.5 ms later, and when it is done."""
    held, found, comes, wanted = case
    store = caches[kinds.GPU_CLASSES]
    if held is not None:
        store.put(stored(12) | {"spec": 5} if held == "malformed" else stored(held))
    lists.found = None if found is None else stored(found)
    loop = asyncio.get_running_loop()
    if comes == "gone":
        loop.call_later(0.0095, store.remove, stored(14))
    elif comes is not None:
        new = stored(20, uid="other") if comes == "another" else stored(comes)
        loop.call_later(0.0095, store.put, new)
    await source.read(GPUClass, LATE)
    assert loop.time() == pytest.approx(wanted)
    assert lists.got == [(kinds.GPU_CLASSES, "late", None)]


@pytest.mark.looptime
async def test_an_object_that_comes_while_it_is_looked_for_in_vain_is_not_waited_for(
    caches, lists, source, looptime
):
    lists.before = lambda: caches[kinds.GPU_CLASSES].put(stored(15))
    await source.read(GPUClass, LATE)
    assert looptime == pytest.approx(0.001)


@pytest.mark.looptime
async def test_a_kind_is_not_live_until_it_has_come_to_what_was_read(caches, lists, source):
    lists.found = stored(15)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await source.read(GPUClass, LATE)
    assert (source.is_live(GPUClass), source.is_live(Node)) == (False, True)
    caches[kinds.GPU_CLASSES].put(stored(15))
    assert source.is_live(GPUClass)


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_what_cannot_be_a_name_is_not_read(lists, source, name):
    await source.read(GPUClass, ObjectKey("", name))
    assert lists.got == []


@pytest.mark.looptime
async def test_silence_of_a_watch_that_is_not_open_proves_nothing(caches, source):
    reflector = caches.reflectors[kinds.GPU_CLASSES]
    reflector.is_watching = False

    def open_it():
        reflector.is_watching = True

    asyncio.get_running_loop().call_later(0.1, open_it)
    put_later(caches, version=15, after=0.102)
    await source.prove(GPUClass)
    assert [offer.name for offer in caches.items(GPUClass)] == ["late"]
