"""Caches against a real API server: one that goes and comes back, a kind that appears later."""

import asyncio
from collections.abc import Callable

import pytest

from devcluster.plane import ControlPlane
from gpu.cluster import caches, errors
from gpu.objects import config_maps, kinds, tenants
from gpu.objects.meta import ObjectKey
from tests.contract import cases
from tests.real.test_contract import CRD

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

ROWS = (
    caches.Watched(kind=kinds.NAMESPACES, view=tenants.Namespace, decode=tenants.decode_namespace),
    # Any view will do for a kind of no meaning.
    caches.Watched(
        kind=cases.THING,
        view=config_maps.ConfigMap,
        decode=config_maps.decode,
        optional=True,
    ),
)


async def until(done: Callable[[], bool], seconds: float = 45) -> None:
    async with asyncio.timeout(seconds):
        while not done():  # noqa: ASYNC110 -- the other side is another process
            await asyncio.sleep(0.02)


async def test_caches_follow_an_api_server_that_restarts_and_a_kind_that_appears(
    fresh_plane: ControlPlane,
):
    async with fresh_plane.admin() as admin, asyncio.TaskGroup() as tasks:
        seen = caches.Caches(admin, ROWS)
        running = tasks.create_task(seen.run())
        await asyncio.wait_for(seen.wait_synced(), 45)
        assert not seen.served(config_maps.ConfigMap)
        namespaces = seen[kinds.NAMESPACES]

        await admin.create(kinds.NAMESPACES, {"metadata": {"name": "before"}})
        await until(lambda: namespaces.get(ObjectKey("", "before")) is not None)

        await fresh_plane.stop_api_server()
        await until(lambda: "namespaces" in seen.failing)
        with pytest.raises(errors.Unreachable):
            await admin.get(kinds.NAMESPACES, "before")
        assert namespaces.get(ObjectKey("", "before")) is not None
        await fresh_plane.start_api_server()
        await admin.create(kinds.NAMESPACES, {"metadata": {"name": "after"}})
        await until(lambda: namespaces.get(ObjectKey("", "after")) is not None)
        await until(lambda: not seen.failing)

        await admin.create(kinds.CRDS, CRD)
        await until(lambda: seen.served(config_maps.ConfigMap) and seen.synced)
        await admin.create(cases.THING, cases.thing("after", data=1))
        await until(lambda: len(seen.items(config_maps.ConfigMap)) == 1)

        lists = seen.reflectors[kinds.NAMESPACES].lists
        await asyncio.wait_for(seen.refresh(), 45)
        assert seen.reflectors[kinds.NAMESPACES].lists == lists + 1
        running.cancel()
