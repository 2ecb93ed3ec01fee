"""CachesSource: how far every kind has come, and how one kind is had to catch up."""

import asyncio
from dataclasses import dataclass

import pytest

from apiserver import source as sources
from apiserver.source import CachesSource
from gpu.cluster.caches import Caches
from gpu.objects import kinds
from gpu.objects.classes import GPUClass
from gpu.objects.kubevirt import VMI
from gpu.objects.nodes import Node
from gpu.objects.tenants import TenantRelease
from tests.builders import raw_class


@dataclass
class Page:
    resource_version: str


class Lists:
    """Answers every list with one version, and does something before it does."""

    def __init__(self, version):
        self.version = version
        self.asked = []
        self.before = lambda: None
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


@pytest.fixture
def caches():
    """Every kind listed at version 10 but VMIs, which are not served."""
    made = Caches(None)
    for kind in made.reflectors:
        if kind != kinds.VMIS:
            made[kind].listing().finish("10")
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
    raw = raw_class("late")
    raw["metadata"]["resourceVersion"] = str(version)
    loop = asyncio.get_running_loop()
    loop.call_later(after, caches[kinds.GPU_CLASSES].put, raw)


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
