"""Fit says of each row what the real kube-scheduler does with it: a pod pinned as the leader pins it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from devcluster.plane import ControlPlane
from gpu.cluster import errors
from gpu.cluster.client import Client
from gpu.model import fit, fit_facts
from gpu.objects import kinds, nodes, pods, tenants
from gpu.objects.meta import ObjectKey
from tests.model.fit_rows import ROWS, VOLUMES, Row
from tests.model.fit_rows_volumes import VOLUME_ROWS
from tests.real import site as sites
from tests.starting import REQUIRED, storage_of

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

Raw = dict[str, Any]
TABLE = ROWS + VOLUME_ROWS
CHOSEN = "volume.kubernetes.io/selected-node"
"""By which kube-scheduler has a volume made on a node; the pod is bound once that is there."""
KINDS = {
    "claims": kinds.VOLUME_CLAIMS,
    "volumes": kinds.VOLUMES,
    "classes": kinds.STORAGE_CLASSES,
    "csi_nodes": kinds.CSI_NODES,
}
AT_ONCE = 8
STRATEGIC = "application/strategic-merge-patch+json"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def verdicts(fresh_plane: ControlPlane) -> AsyncIterator[dict[str, tuple[bool, bool]]]:
    """By row: does the scheduler place its pod, and do we say that it fits?"""
    limit = asyncio.Semaphore(AT_ONCE)
    async with fresh_plane.admin() as api:

        async def asked(row: Row) -> tuple[str, tuple[bool, bool]]:
            async with limit:
                return row.id, await verdict(api, row)

        async with asyncio.TaskGroup() as tasks:
            found = [tasks.create_task(asked(row)) for row in TABLE]
        yield dict(task.result() for task in found)


async def verdict(api: Client, row: Row) -> tuple[bool, bool]:
    objects = row.objects(row.id)
    target = objects["nodes"][0]["metadata"]["name"]
    asked = pinned(objects["asked"], target)
    await stored(api, objects)
    about = await facts(api, objects)
    key = await run(api, asked)
    verdict = await sites.until(lambda: judged(api, key, objects), sites.LATE, f"{row.id} judged")
    if row.cause is None and verdict != target:
        verdict = await looked_again(api, key, objects)
    pod = pods.decode(await api.get(kinds.PODS, key.name, key.namespace))
    ours = fit.why_not(fit.asked(pod), about.nodes[target], about)
    return verdict == target, ours is None


async def looked_again(api: Client, key: ObjectKey, objects: dict[str, list[Raw]]) -> str:
    """Return what is said once the scheduler knows what was made just before: it looks by several watches."""

    async def placed() -> str:
        said = await judged(api, key, objects)
        return said if said != "Unschedulable" else ""

    with contextlib.suppress(AssertionError):
        return str(await sites.until(placed, 15, f"{key} placed"))
    return "Unschedulable"


async def judged(api: Client, key: ObjectKey, objects: dict[str, list[Raw]]) -> str:
    """Return the node a pod is bound to or its volume is made for, what keeps it from all; or nothing yet."""
    pod = pods.decode(await api.get(kinds.PODS, key.name, key.namespace))
    if pod.node is not None:
        return pod.node
    for raw in objects["claims"]:
        claim = await api.get(kinds.VOLUME_CLAIMS, raw["metadata"]["name"], key.namespace)
        node = claim["metadata"].get("annotations", {}).get(CHOSEN, "")
        if node and CHOSEN not in raw["metadata"].get("annotations", {}):
            return str(node)
    is_refused = pod.scheduled is not None and pod.scheduled.reason == "Unschedulable"
    return "Unschedulable" if is_refused else ""


def pinned(asked: Raw, node: str) -> Raw:
    """Append the node to every term, as a pin does; make a term where there is none."""
    affinity = asked["spec"]["affinity"].setdefault("nodeAffinity", {}).setdefault(REQUIRED, {})
    terms = affinity.setdefault("nodeSelectorTerms", [{}])
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    for term in terms:
        term["matchFields"] = [field]
    return asked


# Objects as a cluster takes them.


async def stored(api: Client, objects: dict[str, list[Raw]]) -> None:
    for raw in objects["namespaces"]:
        await api.create(kinds.NAMESPACES, fresh(raw))
        account = ObjectKey(raw["metadata"]["name"], "default")
        await sites.until(lambda: has_account(api, account), sites.LATE, f"{account}")  # noqa: B023 -- awaited here
    for raw in objects["nodes"]:
        made = fresh(raw)
        taints = made["spec"].pop("taints", None)
        cordoned = made["spec"].pop("unschedulable", None)
        made["status"]["capacity"] = made["status"]["allocatable"]
        await api.create(kinds.NODES, made)
        # Admission gives every new node a not-ready taint, whatever its conditions say.
        spec = {"taints": taints, "unschedulable": cordoned}
        await api.patch(kinds.NODES, raw["metadata"]["name"], {"spec": spec})
    for raw in objects["volumes"]:
        await api.create(kinds.VOLUMES, volume(raw))
    for raw in objects["claims"]:
        await api.create(kinds.VOLUME_CLAIMS, volume_claim(raw))
    for part in ("classes", "csi_nodes"):
        for raw in objects[part]:
            await api.create(KINDS[part], fresh(raw))
    for raw in objects["pods"]:
        key = await run(api, raw)
        await api.patch(
            kinds.PODS,
            key.name,
            {"status": {"phase": raw["status"]["phase"]}},
            key.namespace,
            subresource="status",
            content_type=STRATEGIC,
        )


async def has_account(api: Client, key: ObjectKey) -> bool:
    try:
        await api.get(ACCOUNTS, key.name, key.namespace)
    except errors.NotFound:
        return False
    return True


ACCOUNTS = kinds.Kind("", "v1", "serviceaccounts", "ServiceAccount")


async def run(api: Client, raw: Raw) -> ObjectKey:
    made = fresh(raw)
    for container in [*made["spec"]["containers"], *made["spec"].get("initContainers", [])]:
        container |= {"image": "x"}
    made["spec"]["automountServiceAccountToken"] = False
    await api.create(kinds.PODS, made)
    return ObjectKey(made["metadata"]["namespace"], made["metadata"]["name"])


def fresh(raw: Raw) -> Raw:
    meta = raw["metadata"]
    kept = {key: meta[key] for key in ("name", "namespace", "labels", "annotations") if key in meta}
    return {**raw, "metadata": kept}


def volume(raw: Raw) -> Raw:
    made = fresh(raw)
    made["spec"] |= {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
    }
    if not made["spec"].keys() & {"csi", "awsElasticBlockStore"}:
        name = raw["metadata"]["name"]
        made["spec"]["csi"] = {"driver": "none.example.com", "volumeHandle": name}
    return made


def volume_claim(raw: Raw) -> Raw:
    made = fresh(raw)
    usual = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    made["spec"] = usual | made["spec"] | {"resources": {"requests": {"storage": "1Gi"}}}
    return made


async def facts(api: Client, objects: dict[str, list[Raw]]) -> fit_facts.Facts:
    """Look at the row's objects as they are stored now."""

    async def read(kind: kinds.Kind, part: str) -> list[Raw]:
        return [
            await api.get(kind, raw["metadata"]["name"], raw["metadata"].get("namespace"))
            for raw in objects[part]
        ]

    found = [nodes.decode(raw) for raw in await read(kinds.NODES, "nodes")]
    return fit_facts.of(
        nodes={node.name: node for node in found},
        pods=[pods.decode(raw) for raw in await read(kinds.PODS, "pods")],
        namespaces=[
            tenants.decode_namespace(raw) for raw in await read(kinds.NAMESPACES, "namespaces")
        ],
        storage=storage_of(*[await read(KINDS[part], part) for part in VOLUMES]),
    )


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.id)
async def test_a_pod_that_is_let_through_to_a_node_is_run_there_and_no_other_would_be(
    verdicts, row
):
    scheduler, ours = verdicts[row.id]
    assert (scheduler, ours) == (row.cause is None, row.cause is None)
