"""Policies: how soon a change of the settings is in force in them, by dry-run pods asked one after another."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from bench import catalogue
from bench.stage import Stage
from devcluster import product
from gpu import keys, settings
from gpu.cluster import errors
from gpu.objects import kinds
from gpu.settings import RawNames

RESOURCE_PREFIX: Final = "nvidia.com/BENCH_NEW_"
_WITHIN: Final = 30.0
"""Seconds after which a change that is not in force is an error."""
_REFUSAL: Final = "raw GPU resource names are denied here"


async def new_classes(stage: Stage, count: int, first: int) -> tuple[float, ...]:
    """Publish classes of new resources; returns seconds from each POST to a pod of it refused.

    The whole way: watch, pass, settings written, policies. `first` numbers the resources, which
    must not have been named before. One more goes before them unmeasured: who has just been started
    places nothing for seconds.
    """
    await _ready(stage)
    await _new_class(stage, first)
    return tuple([await _new_class(stage, first + 1 + number) for number in range(count)])


async def _new_class(stage: Stage, number: int) -> float:
    name, resource = f"bench-new-{number}", f"{RESOURCE_PREFIX}{number}"
    spec = {
        "mode": "passthrough",
        "source": {"devicePlugin": {"resourceName": resource}},
        "displayName": "Bench",
    }
    began = _now()
    await stage.api.create(kinds.GPU_CLASSES, {"metadata": {"name": name}, "spec": spec})
    took = await _until(stage, resource, refused=True) - began
    await stage.api.delete(kinds.GPU_CLASSES, name)
    await _until(stage, resource, refused=False)
    return took


async def raw_names(stage: Stage, count: int) -> dict[RawNames, tuple[float, ...]]:
    """Allow and deny raw names in turn; returns seconds from each write to its being in force.

    Written as the controller, which is stopped meanwhile: it would put the settings back.
    """
    await _ready(stage)
    took: dict[RawNames, list[float]] = {RawNames.ALLOWED: [], RawNames.DENIED: []}
    async with _stopped(stage):
        await _until(stage, catalogue.RESOURCE, refused=True)
        for _ in range(count):
            for wanted, seconds in took.items():
                began = _now()
                await stage.controller.patch(
                    kinds.CONFIG_MAPS,
                    keys.SETTINGS_NAME,
                    {"data": {settings.RAW_RESOURCE_NAMES: wanted.value}},
                    keys.SETTINGS_NAMESPACE,
                )
                denied = wanted is RawNames.DENIED
                seconds.append(await _until(stage, catalogue.RESOURCE, refused=denied) - began)
    return {wanted: tuple(seconds) for wanted, seconds in took.items()}


@asynccontextmanager
async def _stopped(stage: Stage) -> AsyncIterator[None]:
    await stage.product.stop()
    try:
        yield
    finally:
        await stage.product.start(product.FIRST)
        await stage.product.available()


async def _ready(stage: Stage) -> None:
    """Wait until pods can be made at all, and the policies are in force."""
    await stage.cp.namespace_ready(catalogue.TENANT)
    await _until(stage, catalogue.RESOURCE, refused=True)


async def _until(stage: Stage, resource: str, *, refused: bool) -> float:
    """Ask until a pod that names a resource is refused, or is not; returns when that was answered."""
    async with asyncio.timeout(_WITHIN):
        while True:
            is_refused = await _is_refused(stage, resource)
            if is_refused is refused:
                return _now()


async def _is_refused(stage: Stage, resource: str) -> bool:
    body: dict[str, Any] = {
        "metadata": {"name": "asks", "namespace": catalogue.TENANT},
        "spec": {
            "containers": [
                {"name": "main", "image": "none", "resources": {"limits": {resource: "1"}}}
            ]
        },
    }
    try:
        await stage.api.create(kinds.PODS, body, dry_run=True)
    except errors.Forbidden as error:
        if _REFUSAL not in error.message:
            raise  # by something else: no proof
        return True
    return False


def _now() -> float:
    return asyncio.get_running_loop().time()
