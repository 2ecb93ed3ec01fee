"""Objects at their largest are judged by every policy and refused by none for what judging costs."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from devcluster.plane import ControlPlane
from gpu import keys
from gpu.objects import kinds
from gpu.settings import RawNames
from tests.real import policy_site
from tests.real.policy_rows_pods import node_affinity
from tests.real.policy_site import CONFIG, TENANT, Site, eventually, refused

pytestmark = pytest.mark.asyncio(loop_scope="module")

AT = "2026-01-01T00:00:00Z"
TERM = 7
NAMES = [f"{'d' * 60}.{'e' * 60}.{'f' * 60}.example.com/{number:060}" for number in range(100)]
"""Of the greatest length, and more than any cluster has models of GPUs."""
CONTAINERS = 2000
"""A pod of these is stored as about 0.6 MB; etcd takes 1.5 MB."""
Json = dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(fresh_plane: ControlPlane) -> AsyncIterator[Site]:
    async with policy_site.prepared(fresh_plane) as found:
        await found.raise_term(TERM)
        await policy_site.in_force(found)
        await found.write_settings(RawNames.DENIED, NAMES)
        last = policy_site.pod(NAMES[-1])
        await eventually(lambda: refused(found.admin.create(kinds.PODS, last, dry_run=True)))
        yield found


def containers(count: int, prefix: str = "c", **resources: str) -> list[Json]:
    asks = {"resources": {"limits": resources}} if resources else {}
    return [{"name": f"{prefix}{number}", "image": "i", **asks} for number in range(count)]


def pod(spec: Json, **meta: Any) -> Json:
    return {"metadata": {"name": "large", "namespace": TENANT, **meta}, "spec": spec}


NIC = {"vendor.com/nic": "1"}
WIDE = {f"vendor.com/nic-{number}": "1" for number in range(100)}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"containers": containers(CONTAINERS)}, id="containers"),
        pytest.param({"containers": containers(CONTAINERS, **NIC)}, id="each asks for a device"),
        pytest.param({"containers": containers(40, **WIDE)}, id="each asks for 100 devices"),
        pytest.param(
            {
                "containers": containers(1000, **NIC),
                "initContainers": containers(1000, "i", **NIC),
            },
            id="half of them init containers",
        ),
    ],
)
async def test_a_pod_of_many_containers_passes(site: Site, spec: Json):
    assert await refused(site.admin.create(kinds.PODS, pod(spec), dry_run=True)) is None


async def test_a_pod_of_many_containers_is_refused_for_the_one_that_names_a_gpu(site: Site):
    """With so many the names that it asked for cost too much to tell; that it did does not."""
    few = containers(20)
    few[-1]["resources"] = {"limits": {NAMES[-1]: "1"}}
    many = containers(CONTAINERS)
    many[-1]["resources"] = {"limits": {NAMES[-1]: "1"}}
    said = await refused(site.admin.create(kinds.PODS, pod({"containers": few}), dry_run=True))
    assert f"names {NAMES[-1]} directly" in (said or "")
    said = await refused(site.admin.create(kinds.PODS, pod({"containers": many}), dry_run=True))
    assert (said or "").endswith("raw GPU resource names are denied here; order a class instead")


async def test_with_ten_times_as_many_names_a_usual_pod_still_passes(site: Site):
    """A whole ConfigMap of names: an expression may cost a million, a look among them a thousand."""
    names = [name.replace("example", "example-more") for name in NAMES]
    many = [*NAMES, *(f"{name}-{number}"[-120:] for name in names for number in range(9))]
    await site.write_settings(RawNames.DENIED, many)
    last = policy_site.pod(many[-1])
    await eventually(lambda: refused(site.admin.create(kinds.PODS, last, dry_run=True)))
    asking = pod({"containers": containers(500, **NIC)})
    assert await refused(site.admin.create(kinds.PODS, asking, dry_run=True)) is None
    await site.write_settings(RawNames.DENIED, NAMES)

    async def few_again() -> bool:
        return await refused(site.admin.create(kinds.PODS, last, dry_run=True)) is None

    await eventually(few_again)


async def test_a_vmi_of_many_devices_passes_and_is_refused_for_the_one_that_is_a_gpu(site: Site):
    devices = [{"name": f"g{number}", "deviceName": "vendor.com/nic"} for number in range(1000)]
    spec = {"domain": {"devices": {"gpus": devices, "hostDevices": devices}}}
    body = {"metadata": {"name": "large", "namespace": TENANT}, "spec": spec}
    assert await refused(site.admin.create(kinds.VMIS, body, dry_run=True)) is None
    devices[-1]["deviceName"] = NAMES[-1]
    said = await refused(site.admin.create(kinds.VMIS, body, dry_run=True))
    assert "cozystack-gpu-vmi-raw-names-policy" in (said or "")
    assert "directly" in (said or "") or "denied here" in (said or "")


async def test_a_large_pod_at_the_gate_is_changed_and_pinned(site: Site):
    gates = [{"name": f"other.example.com/gate-{number}"} for number in range(200)]
    labels = {f"l{number}": "v" for number in range(2000)}
    annotations = {f"a{number}": "v" * 60 for number in range(2000)}
    kubevirt = site.as_user(CONFIG.kubevirt_controller_user)
    spec = {
        "containers": containers(1000),
        "schedulingGates": [*gates, {"name": keys.PLACEMENT_GATE}],
        "nodeSelector": {f"n{number}": "v" for number in range(200)},
    }
    body = pod(spec, labels=labels, annotations=annotations)
    await kubevirt.create(kinds.PODS, body)
    change = {"metadata": {"labels": {"a": "b"}}}
    await kubevirt.patch(kinds.PODS, "large", change, TENANT, dry_run=True)
    pin = {
        "metadata": {"annotations": {keys.TERM_ANNOTATION: str(TERM)}},
        "spec": {"schedulingGates": None, **node_affinity()},
    }
    said = await refused(kubevirt.patch(kinds.PODS, "large", pin, TENANT, dry_run=True))
    assert "waits at gate" in (said or "")
    late = {**pin, "metadata": {"annotations": {keys.TERM_ANNOTATION: str(TERM - 1)}}}
    said = await refused(site.controller.patch(kinds.PODS, "large", late, TENANT, dry_run=True))
    assert "term 6" in (said or "")
    await site.controller.patch(kinds.PODS, "large", pin, TENANT, dry_run=True)


async def test_the_largest_claim_is_ordered_marked_and_placed(site: Site):
    meta = {
        "name": "c" * 253,
        "namespace": TENANT,
        "labels": {f"l{number}": "v" for number in range(2000)},
        "annotations": {"a": "v" * 250_000},
        "finalizers": [*(f"other.example.com/f{n}" for n in range(2000)), keys.CLAIM_FINALIZER],
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": f"n{number}", "uid": f"u{number}"}
            for number in range(500)
        ],
    }
    body = {"metadata": meta, "spec": {"className": "c" * 63, "count": 1}}
    them = site.as_user("alice", ("tenant-a-super-admin", "system:authenticated"))
    await them.create(kinds.GPU_CLAIMS, body, dry_run=True)
    meta["labels"][keys.TEMPLATE_CLAIM_LABEL] = "true"
    assert "is set by the GPU controller" in (
        await refused(them.create(kinds.GPU_CLAIMS, body, dry_run=True)) or ""
    )
    stored = await site.admin.create(
        kinds.GPU_CLAIMS, {**body, "metadata": {**meta, "labels": {}, "ownerReferences": []}}
    )
    name = stored["metadata"]["name"]
    off = {"metadata": {"finalizers": meta["finalizers"][:-1]}}
    said = await refused(site.admin.patch(kinds.GPU_CLAIMS, name, off, TENANT, dry_run=True))
    assert "is taken off by the GPU controller" in (said or "")
    rejected = [{"node": f"n{n}", "until": AT, "fingerprint": "f" * 64} for n in range(16)]
    message = {"lastTransitionTime": AT, "reason": "R", "message": "m" * 30_000}
    conditions = [{"type": f"T{n}", "status": "True", **message} for n in range(8)]
    placed = {"phase": "Bound", "nodeName": "n1", "boundAt": AT, "term": TERM}
    status = {**placed, "rejectedNodes": rejected, "conditions": conditions}
    patch = {"status": status}
    await site.controller.patch(kinds.GPU_CLAIMS, name, patch, TENANT, subresource="status")


async def test_the_largest_record_and_settings_are_judged(site: Site):
    claim = kinds.GPU_CLAIMS
    others = [
        {"apiVersion": "v1", "kind": "Node", "name": f"n{number}", "uid": f"u{number}"}
        for number in range(2000)
    ]
    owner = {"apiVersion": claim.api_version, "kind": claim.kind, "name": "c", "uid": "u"}
    meta = {"name": "gpuclaim-large", "namespace": TENANT, "ownerReferences": [*others, owner]}
    resources = {f"vendor.com/r{number}": "1" for number in range(2000)}
    body = {"metadata": meta, "status": {"kind": "gpuclaim", "resources": resources}}
    assert await refused(site.controller.create(kinds.WORKLOADS, body, dry_run=True)) is None
    said = await refused(site.admin.create(kinds.WORKLOADS, body, dry_run=True))
    assert "the record of a gpuclaim's usage" in (said or "")
    full = {"data": {"large": "x" * 700_000}}
    settings = (keys.SETTINGS_NAME, full, keys.SETTINGS_NAMESPACE)
    await site.controller.patch(kinds.CONFIG_MAPS, *settings, dry_run=True)
    said = await refused(site.admin.patch(kinds.CONFIG_MAPS, *settings, dry_run=True))
    assert "only the GPU controller" in (said or "")
