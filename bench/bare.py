"""What the machine gives bare: status writes of the same client, and kube-scheduler binding pods.

The writes go to a copy of the GPUClaim CRD under another group, so that schema and CEL rules cost the
same while neither our binder nor our policies see them.
"""

import asyncio
import copy
import functools
from typing import Any, Final

from bench import catalogue, watching
from bench.flight import in_flight
from gpu.cluster import client, errors, urls
from gpu.objects import kinds
from gpu.objects.kinds import Kind

GROUP: Final = "bench.example.com"
COPIES: Final = Kind(GROUP, "v1alpha1", "gpuclaims", "GPUClaim")
NAMESPACE: Final = "default"
WIDTH: Final = 8
"""Writes in flight, as many as the binder has."""
CREATORS: Final = 32
"""Orders or pods sent at a time when they come 'at once'."""
_BOUND_AT: Final = "2026-01-01T00:00:00Z"


async def install_copy(api: client.Client) -> None:
    """Create the copied CRD and wait until it is served."""
    original = await api.get(kinds.CRDS, f"gpuclaims.{kinds.GPU_CLAIMS.group}")
    spec = copy.deepcopy(original["spec"])
    spec["group"] = GROUP
    spec["names"].pop("categories", None)
    spec["names"].pop("shortNames", None)
    await api.create(kinds.CRDS, {"metadata": {"name": f"gpuclaims.{GROUP}"}, "spec": spec})
    async with asyncio.timeout(10):
        while True:
            try:
                await api.list(COPIES, "default", limit=1)
            except errors.ApiError:
                await asyncio.sleep(0.05)
            else:
                return


def placement(version: str, node: str) -> dict[str, Any]:
    """Return a status patch like the one that binds a claim."""
    condition = {
        "type": "Bound",
        "status": "True",
        "reason": "Placed",
        "message": f"holds its units on {node}",
        "lastTransitionTime": _BOUND_AT,
        "observedGeneration": 1,
    }
    return {
        "metadata": {"resourceVersion": version},
        "status": {
            "phase": "Bound",
            "nodeName": node,
            "boundAt": _BOUND_AT,
            "term": 1,
            "conditions": [condition],
        },
    }


async def status_writes(api: client.Client, namespace: str, count: int) -> float:
    """Return status writes per second over `count` distinct objects, WIDTH in flight."""
    made: list[tuple[str, str]] = []

    async def make(name: str) -> None:
        body = _copy(name, namespace)
        made.append((name, (await api.create(COPIES, body))["metadata"]["resourceVersion"]))

    async def bind(name: str, version: str) -> None:
        patch = placement(version, "node-1")
        await api.patch(COPIES, name, patch, namespace, subresource="status")

    names = [f"bare-{index:05d}" for index in range(count)]
    await in_flight(WIDTH, (functools.partial(make, name) for name in names))
    loop = asyncio.get_running_loop()
    started = loop.time()
    await in_flight(WIDTH, (functools.partial(bind, *pair) for pair in made))
    took = loop.time() - started
    await delete_all(api, COPIES, namespace)
    return count / took


async def claims(api: client.Client, namespace: str, count: int) -> float:
    """Return per second the bare writes that one claim needs, WIDTH claims in flight.

    They are a status patch (placement) and a create (its record, for which another copy stands in),
    one after another as a claim needs them; its finalizer comes with its own create.
    """

    made: dict[str, str] = {}

    async def make(name: str) -> None:
        stored = await api.create(COPIES, _copy(name, namespace))
        made[name] = stored["metadata"]["resourceVersion"]

    async def serve(name: str) -> None:
        patch = placement(made[name], "node-1")
        await api.patch(COPIES, name, patch, namespace, subresource="status")
        await api.create(COPIES, _copy(f"record-{name}", namespace))

    names = [f"bare-{index:05d}" for index in range(count)]
    await in_flight(WIDTH, (functools.partial(make, name) for name in names))
    loop = asyncio.get_running_loop()
    started = loop.time()
    await in_flight(WIDTH, (functools.partial(serve, name) for name in names))
    took = loop.time() - started
    await delete_all(api, COPIES, namespace)
    return count / took


def _copy(name: str, namespace: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"className": "bench", "count": 1},
    }


async def scheduled_pods(api: client.Client, namespace: str, count: int) -> float:
    """Return pods bound per second by kube-scheduler: `count` one-GPU pods created at once."""
    names = [f"pod-{index:05d}" for index in range(count)]
    loop = asyncio.get_running_loop()
    async with watching.watching(api, kinds.PODS, namespace, watching.is_scheduled) as seen:
        started = loop.time()
        jobs = (functools.partial(api.create, kinds.PODS, _pod(name, namespace)) for name in names)
        await in_flight(CREATORS, jobs)
        at = await seen.all_of(names, within=120)
    await delete_all(api, kinds.PODS, namespace)
    return count / (max(at.values()) - started)


async def delete_all(
    api: client.Client, kind: Kind, namespace: str, *, within: float = 120
) -> None:
    """Delete every object of a kind in a namespace and wait until the last is gone."""
    body = b'{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0}'
    answer = await api.raw(
        "DELETE",
        urls.path(kind, namespace),
        body=body,
        headers={"Content-Type": "application/json"},
        deadline=60,
    )
    if answer.status >= 300:
        raise RuntimeError(f"deleting all {kind.resource}: {answer.status} {answer.body[:300]!r}")
    async with asyncio.timeout(within):
        while (await api.list(kind, namespace, limit=1)).items:  # noqa: ASYNC110 -- asks a server
            await asyncio.sleep(0.1)


def _pod(name: str, namespace: str) -> dict[str, Any]:
    amount = {catalogue.POD_RESOURCE: "1"}
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "main",
                    "image": "none.invalid/none",
                    "resources": {"requests": amount, "limits": amount},
                }
            ],
        },
    }
