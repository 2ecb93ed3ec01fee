"""Caches: the table of kinds read from a cluster, and how far they are to be trusted."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from gpu import keys
from gpu.cluster import caches
from gpu.objects import kinds
from gpu.objects.classes import GPUClass
from gpu.objects.kubevirt import VMI
from gpu.objects.meta import ObjectKey
from gpu.objects.nodes import Node
from gpu.objects.tenants import Namespace, TenantQuota, TenantRelease
from tests.fakes.cluster import FakeCluster

pytestmark = pytest.mark.looptime


@asynccontextmanager
async def caching(api):
    made = caches.Caches(api, jitter=lambda: 0.5)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(made.run())
        try:
            yield made
        finally:
            task.cancel()


def named(name, namespace="", **labels):
    meta = {"name": name, "labels": labels}
    return {"metadata": meta | ({"namespace": namespace} if namespace else {})}


async def test_every_view_is_one_kind():
    views = [row.view for row in caches.WATCHED]
    assert len(set(views)) == len({row.kind for row in caches.WATCHED}) == len(views)


async def test_views_are_read_from_their_kinds_within_their_scope():
    api = FakeCluster()
    tenant = {keys.APPLICATION_KIND_LABEL: "Tenant"}
    api.put(kinds.NODES, named("n1"))
    api.put(kinds.HELM_RELEASES, {"metadata": named("tenant-a", "tenant-root")["metadata"]})
    api.put(
        kinds.HELM_RELEASES,
        {"metadata": {"name": "tenant-b", "namespace": "tenant-root", "labels": tenant}},
    )
    for name in ("tenant-quota", "other"):
        api.put(kinds.RESOURCE_QUOTAS, named(name, "tenant-a"))
    for name, namespace in ((keys.SETTINGS_NAME, "other"), (keys.SETTINGS_NAME, "cozy-system")):
        api.put(kinds.CONFIG_MAPS, named(name, namespace))
    async with caching(api) as made:
        await asyncio.wait_for(made.wait_synced(), 5)
        assert [item.meta.name for item in made.items(Node)] == ["n1"]
        assert [item.meta.name for item in made.items(TenantRelease)] == ["tenant-b"]
        assert [item.meta.name for item in made.items(TenantQuota)] == ["tenant-quota"]
        assert [item.meta.namespace for item in made[kinds.CONFIG_MAPS].items()] == ["cozy-system"]


async def test_an_optional_kind_that_is_not_served_is_not_waited_for_and_read_once_it_is():
    api = FakeCluster()
    api.unserve(kinds.VMIS)
    async with caching(api) as made:
        await asyncio.wait_for(made.wait_synced(), 5)
        assert not made.served(VMI)
        api.serve(kinds.VMIS)
        await asyncio.sleep(10)
        assert made.served(VMI)
        assert made.synced


async def test_whoever_asks_is_told_when_a_kind_begins_and_ceases_to_be_served():
    api = FakeCluster()
    api.unserve(kinds.VMIS)
    async with caching(api) as made:
        await asyncio.wait_for(made.wait_synced(), 5)
        told = []
        end = made.subscribe_served(lambda: told.append(made.served(VMI)))
        api.put(kinds.NAMESPACES, named("tenant-a"))
        await asyncio.sleep(10)
        assert told == []
        api.serve(kinds.VMIS)
        await asyncio.sleep(6)
        assert told == [True]
        api.unserve(kinds.VMIS)
        await asyncio.sleep(60)
        assert told == [True, False]
        end()
        api.serve(kinds.VMIS)
        await asyncio.sleep(10)
        assert told == [True, False]


async def test_a_kind_of_ours_that_is_not_served_is_waited_for():
    api = FakeCluster()
    api.unserve(kinds.GPU_CLAIMS)
    async with caching(api) as made:
        await asyncio.sleep(10)
        assert made.waiting_for == ("gpuclaims.gpu.cozystack.io",)
        assert not made.synced


async def test_one_signal_for_a_change_of_any_kind():
    api = FakeCluster()
    async with caching(api) as made:
        await asyncio.wait_for(made.wait_synced(), 5)
        seen = []
        end = made.subscribe(lambda: seen.append(1))
        api.put(kinds.NAMESPACES, named("tenant-a"))
        api.put(kinds.NODES, named("n1"))
        await asyncio.sleep(1)
        assert len(seen) == 2
        end()
        api.put(kinds.NODES, named("n2"))
        await asyncio.sleep(1)
        assert len(seen) == 2
        assert [item.meta.name for item in made.items(Namespace)] == ["tenant-a"]


async def test_a_malformed_object_is_told_with_its_reason():
    api = FakeCluster()
    api.put(kinds.GPU_CLASSES, named("bad") | {"spec": {"mode": 3}})
    async with caching(api) as made:
        await asyncio.wait_for(made.wait_synced(), 5)
        assert made.items(GPUClass) == ()
        assert list(made.malformed(GPUClass)) == [ObjectKey("", "bad")]


async def test_an_api_server_that_is_away_is_told_until_it_is_back():
    api = FakeCluster()
    async with caching(api) as made:
        await asyncio.wait_for(made.wait_synced(), 5)
        assert made.failing == {}
        api.down = True
        api.cut_watches()
        await asyncio.sleep(20)
        assert len(made.failing) == len(caches.WATCHED)
        assert made.synced, "what was read stays readable"
        api.down = False
        await asyncio.sleep(6)
        assert made.failing == {}


async def test_refresh_sees_what_was_written_before_it():
    api = FakeCluster()
    api.unserve(kinds.VMIS)
    async with caching(api) as made:
        await asyncio.wait_for(made.wait_synced(), 5)
        api.put(kinds.NODES, named("n1"))
        await asyncio.wait_for(made.refresh(Node, VMI), 5)
        assert [item.meta.name for item in made.items(Node)] == ["n1"]
        await asyncio.wait_for(made.refresh(), 5)
        assert made[kinds.NODES].resource_version == api.version
