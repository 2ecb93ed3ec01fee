"""The real API server, through the real client, does what tests/contract/cases.py says."""

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from devcluster.plane import ControlPlane
from gpu.cluster import client, errors
from gpu.objects import kinds
from tests.contract import cases, pod_cases

pytestmark = pytest.mark.asyncio(loop_scope="session")

NUMBERS = itertools.count(1)
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CONDITIONS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
    },
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {**ANYTHING, "properties": {"node": {"type": "string"}}},
        "status": {**ANYTHING, "properties": {"conditions": CONDITIONS}},
    },
}
CRD = {
    "metadata": {"name": cases.THING.resource},
    "spec": {
        "group": cases.THING.group,
        "scope": "Namespaced",
        "names": {"plural": cases.THING.plural, "singular": "thing", "kind": cases.THING.kind},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": SCHEMA},
                "subresources": {"status": {}},
                "selectableFields": [{"jsonPath": ".spec.node"}],
            }
        ],
    },
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def api(plane: ControlPlane) -> AsyncIterator[client.Client]:
    async with plane.admin() as admin:
        await admin.create(kinds.CRDS, CRD)
        async with asyncio.timeout(30):
            while True:
                try:
                    await admin.list(cases.THING)
                    break
                except (errors.NotFound, errors.Throttled):  # "storage is (re)initializing"
                    await asyncio.sleep(0.1)
        yield admin
        await admin.delete(kinds.CRDS, cases.THING.resource)


@pytest.mark.parametrize("case", pod_cases.CASES, ids=lambda case: case.__name__)
async def test_the_real_one(plane: ControlPlane, api: client.Client, case: cases.Case):
    namespace = f"contract-{next(NUMBERS)}"
    await api.create(kinds.NAMESPACES, {"metadata": {"name": namespace}})
    await plane.namespace_ready(namespace)
    await case(api, namespace)
