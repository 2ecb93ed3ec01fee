"""Our options beside the host's recorded ones: same requests, same answers, but for the listed differences."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

import pytest
from yarl import URL

from apiserver.resources import RESOURCES
from gpu.model import names
from gpu.objects import kubevirt
from tests.apiserver import fakes
from tests.clients import host_options
from tests.clients.host_options import INSTEAD, RECORDED, WORDS, Answer
from tests.stories.test_stories import Cluster

L40S, A100, H100, SLICE = (
    f"nvidia.com/{name}"
    for name in ("AD102GL_L40S", "GA100_A100_PCIE_80GB", "GH100_H100_SXM5_80GB", "NVIDIA_L40S-12Q")
)
RESOURCES_OF: Final = {"l40s": L40S, "h100": H100, "slice": SLICE}
STATEFUL: Final = frozenset(case for case in RECORDED if case.startswith("get-gpu-"))
"""Recorded with the cluster changed; each has its own below."""
ON_A_PLANE: Final = frozenset(case for case in RECORDED if case.startswith("access-"))
"""Need kube-apiserver in front: tests/real/test_option_contract.py."""
EMPTY: Final = "get-list-every-provider-forbidden"


def node(name: str, **units: Any) -> dict[str, Any]:
    spec = {"unschedulable": True} if units.pop("cordoned", False) else {}
    taints = [{"key": "gpu", "effect": "NoSchedule"}] if units.pop("tainted", False) else []
    allocatable = {RESOURCES_OF[key]: v for key, v in units.items()}
    return {
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {**spec, "taints": taints},
        "status": {
            "allocatable": {key: str(value) for key, value in allocatable.items()},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def kubevirts(*tables: tuple[str, ...]) -> list[dict[str, Any]]:
    """KubeVirt objects, each with its table of devices, a USB entry among them."""
    return [
        {
            "kind": "KubeVirt",
            "metadata": {"name": f"kubevirt-{at}", "namespace": "cozy-kubevirt"},
            "spec": {
                "configuration": {
                    "permittedHostDevices": {
                        "pciHostDevices": [{"resourceName": name} for name in table],
                        "usb": [{"resourceName": "example.com/stick"}],
                    }
                }
            },
        }
        for at, table in enumerate(tables)
    ]


NODES: Final = (node("node-4", l40s=8, slice=4), node("node-8", h100=8), node("node-12", l40s=8))
TABLE: Final = kubevirts((L40S, A100, H100, SLICE))
HOLDER: Final = {
    "kind": "Pod",
    "metadata": {"name": "holder", "namespace": "tenant-a"},
    "spec": {
        "nodeName": "node-8",
        "containers": [{"name": "main", "resources": {"limits": {H100: "8"}}}],
    },
    "status": {"phase": "Running"},
}
CHANGED: Final[Mapping[str, list[dict[str, Any]]]] = {
    "get-gpu-cordoned-and-used": [
        *TABLE, node("node-4", l40s=8, slice=4, cordoned=True), node("node-8", h100=8),
        node("node-12", l40s=8, tainted=True), HOLDER,
    ],
    "get-gpu-duplicate-selectors": [*kubevirts((L40S, L40S, L40S)), *NODES],
    "get-gpu-empty-permitted": [*kubevirts(()), *NODES],
    "get-gpu-no-kubevirt-cr": [*NODES],
    "get-gpu-suffix": [*TABLE, NODES[0], node("node-8", h100="1k"), NODES[2]],
    "get-gpu-zero": [*TABLE, NODES[0], node("node-8", h100=0), NODES[2]],
    "get-gpu-crd-missing": [*NODES],
    "get-gpu-provider-forbidden": [*NODES],
}  # fmt: skip


def cluster(*objects: dict[str, Any]) -> Cluster:
    """A tenant beside the objects; names count as the leader has them in the settings."""
    found = [kubevirt.decode_kubevirt(one) for one in objects if one["kind"] == "KubeVirt"]
    known = names.effective((), found)
    return Cluster(
        {
            "settings": {"resourceNames": ",".join(known), "rawResourceNames": "allowed"},
            "cluster": [{"kind": "Namespace", "metadata": {"name": "tenant-a"}}, *objects],
        }
    )


@pytest.fixture
async def client(serve):
    world = await asyncio.to_thread(cluster(*TABLE, *NODES).world)
    return await serve(fakes.a_face(world), resources=RESOURCES)


async def answer(client, case: str) -> Answer:
    request = host_options.asked(case)
    found = await client.request(
        request["method"],
        URL(request["path"], encoded=True),
        headers=request.get("headers"),
        json=request.get("body"),
    )
    kind = found.headers["Content-Type"].partition(";")[0]
    return Answer(found.status, kind, await found.text(), dict(found.headers))


async def test_what_was_recorded_is_answered_but_for_the_listed_differences(client):
    cases = [one for one in RECORDED if one not in STATEFUL | ON_A_PLANE | {EMPTY}]
    wrong: dict[str, list[str]] = {}
    # Watches last a second and versions that never come are waited for: all at once.
    answers = await asyncio.gather(*(answer(client, case) for case in cases))
    for case, found in zip(cases, answers, strict=True):
        lines = host_options.differences(case, found)
        if RECORDED[case].get("contentType") == "application/json" and case not in WORDS:
            sent = found.headers["Cache-Control"]
            lines += [] if sent == "no-cache, private" else [f"Cache-Control: {sent}"]
        if lines:
            wrong[case] = lines
    assert wrong == {}


@pytest.mark.parametrize("case", sorted(CHANGED))
async def test_the_gpu_source_follows_the_cluster_as_the_hosts_does(serve, case):
    world = await asyncio.to_thread(cluster(*CHANGED[case]).world)
    client = await serve(fakes.a_face(world), resources=RESOURCES)
    assert host_options.differences(case, await answer(client, case)) == []


async def test_every_kubevirt_counts_where_the_host_reads_the_first(serve):
    """What may be chosen is what policies let through, and those know of every table."""
    world = await asyncio.to_thread(cluster(*kubevirts((L40S,), (H100,)), *NODES).world)
    client = await serve(fakes.a_face(world), resources=RESOURCES)
    found = (await answer(client, "get-gpu-two-kubevirt-crs")).body
    shown = [one["value"] for one in found["spec"]["items"]]
    recorded = RECORDED["get-gpu-two-kubevirt-crs"]["body"]["spec"]["items"]
    assert ([one["value"] for one in recorded], shown) == ([L40S], [L40S, H100])


async def test_a_list_of_nothing_is_a_list(client):
    """Of null, namespaces could not be deleted; the host has one with every provider failing."""
    found = await client.get(host_options.asked("query-list-unknown-namespace")["path"])
    mine, theirs = host_options.settled(await found.json()), RECORDED[EMPTY]["body"]
    assert (
        (mine["items"], mine["metadata"])
        == (theirs["items"], theirs["metadata"])
        == (
            [],
            {"resourceVersion": "0"},
        )
    )


def test_every_listed_difference_is_of_a_recorded_case():
    assert {*INSTEAD, *WORDS} <= set(RECORDED)
    assert set(CHANGED) | {"get-gpu-two-kubevirt-crs"} == STATEFUL


def test_a_difference_is_seen():
    """The judge itself must be able to fail."""
    said = {"kind": "Option", "apiVersion": "catalog.gpu.cozystack.io/v1alpha1"}
    meta = {"name": "gpu", "namespace": "tenant-a", "resourceVersion": "7"}
    whole = {**meta, "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z"}
    whole["labels"] = {"gpu.cozystack.io/source": "gpu"}
    items = RECORDED["get-gpu-duplicate-selectors"]["body"]["spec"]["items"]
    named = {**said, "metadata": whole, "spec": {"items": items}}
    case = "get-gpu-duplicate-selectors"

    def judge(body: Any) -> list[str]:
        return host_options.differences(case, Answer(200, "application/json", json.dumps(body)))

    assert judge(named) == [
        ".spec.items[0].description: '16 available on node-12, node-4' instead of '16 available'"
    ]
    own = [{"value": L40S, "description": "16 available"}]
    assert judge({**named, "spec": {"items": own}}) == []
    assert judge({**named, "metadata": meta, "spec": {"items": own}}) != []
    assert judge({**named, "spec": {"items": [{**own[0], "default": True}]}}) != []
