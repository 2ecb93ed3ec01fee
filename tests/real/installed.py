"""The chart on a plane of the test's own, without the process: kinds, roles, Service, APIService."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

from devcluster import chart
from devcluster.plane import ControlPlane
from gpu.cluster import client, credentials, errors
from gpu.objects import kinds

KINDS: Final = (kinds.GPU_BINDERS, kinds.GPU_CLAIMS, kinds.GPU_CLASSES, kinds.GPU_NODES)


@contextlib.asynccontextmanager
async def installed(cp: ControlPlane) -> AsyncIterator[client.Client]:
    """Install the chart; yields a client of the administrator once our kinds are served.

    Claims come without a finalizer: there is no process to take it off.
    """
    async with client.Client(await credentials.load(cp.kubeconfig)) as api:
        await install(cp, api, claimFinalizerPolicy={"enabled": False})
        yield api


async def install(cp: ControlPlane, api: client.Client, **values: Any) -> None:
    """Install the chart, nobody listening where it points, and wait until our kinds are served."""
    merged = {**chart.ORDERS_WAIT, **chart.STARTS_UNJUDGED, **values}
    await chart.install(cp, port=8443, values=merged)
    async with asyncio.timeout(60):
        for kind in KINDS:
            await _served(api, kind)


async def _served(api: client.Client, kind: kinds.Kind) -> None:
    while True:
        try:
            await api.list(kind, limit=1)
        except (errors.NotFound, errors.Throttled):  # "storage is (re)initializing"
            await asyncio.sleep(0.02)
        else:
            return
