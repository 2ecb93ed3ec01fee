"""How the kinds are served: defaults, columns, selectable fields, two writers of one status."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from devcluster.plane import ControlPlane
from gpu import keys
from gpu.cluster import client, errors
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from tests.real import site
from tests.real.crd_rows import BASES, BOUND, CONDITION, WHEN, Json, merged
from tests.real.crd_rows_nodes import DEVICE, LARGEST
from tests.real.installed import installed

pytestmark = pytest.mark.asyncio(loop_scope="module")

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(fresh_plane: ControlPlane) -> AsyncIterator[client.Client]:
    async with installed(fresh_plane) as found:
        yield found


async def made(api: client.Client, kind: Kind, name: str, given: Json, status: Json | None = None):
    body = merged(merged(BASES[kind], given), {"metadata": {"name": name}})
    stored = await api.create(kind, body)
    if status is None:
        return stored
    namespace = stored["metadata"].get("namespace")
    return await api.patch(kind, name, {"status": status}, namespace, subresource="status")


async def columns(api: client.Client, path: str) -> tuple[list[str], dict[str, list[Any]]]:
    """Return the names of the columns, Age left out, and the cells of each object by its name."""
    answer = await api.raw("GET", path, headers={"Accept": TABLE})
    table = msgspec.json.decode(answer.body)
    names = [(column["name"], column["priority"]) for column in table["columnDefinitions"]]
    assert names[-1] == ("Age", 0)
    rows = {row["cells"][0]: row["cells"][1:-1] for row in table["rows"]}
    return [f"{name}*" if wide else name for name, wide in names[1:-1]], rows


async def test_a_class_is_stored_with_its_defaults_and_no_others(api: client.Client):
    stored = await made(
        api, kinds.GPU_CLASSES, "defaults", {"spec": {"tolerations": [{"key": "a"}]}}
    )
    assert stored["spec"] == {
        **BASES[kinds.GPU_CLASSES]["spec"],
        "onCordon": "Move",
        "retired": False,
        "tolerations": [{"key": "a"}],
    }


async def test_what_the_schema_does_not_know_is_dropped(api: client.Client):
    given = {"spec": {"nodeName": "n1"}, "status": BOUND}
    stored = await made(api, kinds.GPU_CLAIMS, "unknown", given)
    assert stored["spec"] == {"className": "h100", "count": 1}
    assert "status" not in stored


async def test_a_status_write_leaves_the_spec(api: client.Client):
    await made(api, kinds.GPU_CLAIMS, "status-only", {})
    patch = {"spec": {"count": 8}, "status": BOUND}
    stored = await api.patch(
        kinds.GPU_CLAIMS, "status-only", patch, "default", subresource="status"
    )
    assert (stored["spec"]["count"], stored["status"]) == (1, BOUND)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("status.nodeName=sel-n1", ["sel-a", "sel-b"]),
        ("status.nodeName=sel-n1,status.phase=Lost", ["sel-b"]),
        ("status.nodeName=sel-n2", ["sel-c"]),
        ("spec.className=sel-other", ["sel-d"]),
        ("spec.className=sel,status.phase!=Bound", ["sel-b"]),
        ("status.nodeName=", ["sel-d"]),
    ],
)
async def test_claims_are_found_by_node_phase_and_class(
    api: client.Client, selector: str, found: list[str]
):
    if not (await api.list(kinds.GPU_CLAIMS, label_selector="sel")).items:
        for name, class_name, node, phases in (
            ("sel-a", "sel", "sel-n1", ("Bound",)),
            ("sel-b", "sel", "sel-n1", ("Bound", "Lost")),
            ("sel-c", "sel", "sel-n2", ("Bound",)),
            ("sel-d", "sel-other", None, ()),
        ):
            given = {"metadata": {"labels": {"sel": ""}}, "spec": {"className": class_name}}
            await made(api, kinds.GPU_CLAIMS, name, given)
            for phase in phases:
                status = {**BOUND, "phase": phase, "nodeName": node}
                await api.patch(
                    kinds.GPU_CLAIMS, name, {"status": status}, "default", subresource="status"
                )
    page = await api.list(kinds.GPU_CLAIMS, field_selector=selector, label_selector="sel")
    assert [item["metadata"]["name"] for item in page.items] == found


async def test_no_other_field_selects_claims(api: client.Client):
    with pytest.raises(errors.ApiError, match=r"field label not supported: spec\.count"):
        await api.list(kinds.GPU_CLAIMS, field_selector="spec.count=1")


async def test_claims_are_shown_with_what_a_tenant_asks_first(api: client.Client):
    waiting = {**CONDITION, "type": "Waiting", "reason": "NoFreeUnits", "message": "0 of 8 free"}
    await made(
        api,
        kinds.GPU_CLAIMS,
        "shown-pending",
        {"metadata": {"namespace": "kube-public"}},
        {"phase": "Pending", "conditions": [waiting]},
    )
    await made(
        api,
        kinds.GPU_CLAIMS,
        "shown-bound",
        {"metadata": {"namespace": "kube-public"}, "spec": {"count": 4}},
        {**BOUND, "attachedTo": {"name": "vm-instance-a"}},
    )
    degraded = {**CONDITION, "type": "Degraded", "reason": "NodeCordoned"}
    await api.patch(
        kinds.GPU_CLAIMS,
        "shown-bound",
        {"status": {"conditions": [degraded]}},
        "kube-public",
        subresource="status",
    )
    await made(
        api, kinds.GPU_CLAIMS, "shown-lost", {"metadata": {"namespace": "kube-public"}}, BOUND
    )
    lost = {**CONDITION, "type": "Lost", "reason": "NodeGone"}
    await api.patch(
        kinds.GPU_CLAIMS,
        "shown-lost",
        {"status": {"phase": "Lost", "conditions": [lost, waiting]}},
        "kube-public",
        subresource="status",
    )
    names, rows = await columns(
        api, "/apis/gpu.cozystack.io/v1alpha1/namespaces/kube-public/gpuclaims"
    )
    assert names == [
        "Class", "Count", "Phase", "Node", "VM", "Waiting", "Lost", "Degraded", "Message*",
    ]  # fmt: skip
    no_room = ("NoFreeUnits", None, None, "0 of 8 free")
    assert rows == {
        "shown-pending": ["h100", 1, "Pending", None, None, *no_room],
        "shown-bound": [
            "h100",
            4,
            "Bound",
            "n1",
            "vm-instance-a",
            None,
            None,
            "NodeCordoned",
            None,
        ],
        "shown-lost": [
            "h100",
            1,
            "Lost",
            "n1",
            None,
            "NoFreeUnits",
            "NodeGone",
            None,
            "0 of 8 free",
        ],
    }


async def test_classes_are_shown_with_mode_resource_and_units(api: client.Client):
    await made(
        api,
        kinds.GPU_CLASSES,
        "shown",
        {"spec": {"displayName": "H100"}},
        {"allocatable": 8, "held": 3, "free": 5, "nodeCount": 2, "conditions": [CONDITION]},
    )
    names, rows = await columns(api, "/apis/gpu.cozystack.io/v1alpha1/gpuclasses")
    assert names == [
        "Mode", "Resource", "Units", "Held", "Free", "Nodes", "Ready", "Retired", "Title*", "Reason*",
    ]  # fmt: skip
    assert rows["shown"] == [
        "passthrough", "nvidia.com/GH100_H100", 8, 3, 5, 2, "True", False, "H100", "Served",
    ]  # fmt: skip


async def test_nodes_and_the_binder_are_shown_with_what_a_hoster_asks_first(api: client.Client):
    node = {"devices": [DEVICE], "deviceCount": 1, "held": 0, "free": 1}
    await made(api, kinds.GPU_NODES, "shown", {}, node)
    names, rows = await columns(api, "/apis/gpu.cozystack.io/v1alpha1/gpunodes")
    assert names == ["Devices", "Held", "Free", "Observed", "Model*"]
    assert rows["shown"] == [1, 0, 1, None, "GH100 [H100 PCIe]"]

    conditions = [
        {**CONDITION, "type": kind, "status": status}
        for kind, status in (
            ("Leading", "True"),
            ("PoliciesCurrent", "Unknown"),
            ("LossesHeldBack", "False"),
            ("PlansChecked", "True"),
        )
    ]
    conditions.append({**CONDITION, "type": "RecordsKept", "reason": "NoMonitor"})
    status = {"term": 7, "holder": "a", "settings": {"rawResourceNames": "denied"}}
    await made(api, kinds.GPU_BINDERS, "binder", {}, {**status, "conditions": conditions})
    names, rows = await columns(api, "/apis/gpu.cozystack.io/v1alpha1/gpubinders")
    assert names == [
        "Leading", "Holder", "Since", "Term", "Policies", "HeldBack", "Plans*", "Records*", "RawNames*",
    ]  # fmt: skip
    assert rows == {
        "binder": ["True", "a", None, 7, "Unknown", "False", "True", "NoMonitor", "denied"]
    }


async def test_people_find_the_kinds_by_short_name_and_category(api: client.Client):
    both = ["cozystack", "gpu"]
    wanted = {
        "gpubinders": ("GPUBinder", ["gpubinder"], both),
        "gpuclaims": ("GPUClaim", ["gpuclaim"], both),
        "gpuclasses": ("GPUClass", ["gpuclass"], both),
        "gpunodes": ("GPUNode", ["gpunode"], both),
    }
    found: dict[str, Any] = {}

    async def discovered() -> bool:
        answer = await api.raw("GET", "/apis/gpu.cozystack.io/v1alpha1")
        listed = msgspec.json.decode(answer.body)["resources"] if answer.status == 200 else ()
        found.update(
            (one["name"], (one["kind"], one["shortNames"], one["categories"]))
            for one in listed
            if "/" not in one["name"]
        )
        return found == wanted

    # A kind is served before discovery tells of it.
    await site.until(discovered, site.LATE, lambda: f"{wanted} discovered, there are {found}")


async def test_agent_and_binder_each_own_their_part_of_a_node(api: client.Client):
    await made(api, kinds.GPU_NODES, "two-writers", {})
    resources = [{"name": "a.b/c", "held": 1, "free": 7}]

    async def apply(manager: str, status: Json) -> Json:
        stored = await api.apply(
            kinds.GPU_NODES,
            "two-writers",
            {"metadata": {"name": "two-writers"}, "status": status},
            field_manager=manager,
            subresource="status",
        )
        found: Json = stored["status"]
        return found

    await apply(keys.AGENT_MANAGER, {"devices": [DEVICE], "observedAt": WHEN})
    both = await apply(keys.BINDER_MANAGER, {"resources": resources, "held": 1, "free": 7})
    assert both == {
        "devices": [DEVICE],
        "observedAt": WHEN,
        "resources": resources,
        "held": 1,
        "free": 7,
    }
    other = {**DEVICE, "id": "0000:65:00.0"}
    changed = await apply(keys.AGENT_MANAGER, {"devices": [other], "observedAt": WHEN})
    assert changed == {**both, "devices": [other]}
    fewer = await apply(keys.BINDER_MANAGER, {"held": 0, "free": 8})
    assert fewer == {"devices": [other], "observedAt": WHEN, "held": 0, "free": 8}


async def test_the_largest_inventory_can_be_applied(api: client.Client):
    await made(api, kinds.GPU_NODES, "largest", {})
    devices = [{**LARGEST, "id": f"{i:064d}"} for i in range(384)]
    stored = await api.apply(
        kinds.GPU_NODES,
        "largest",
        {"metadata": {"name": "largest"}, "status": {"devices": devices}},
        field_manager=keys.AGENT_MANAGER,
        subresource="status",
    )
    assert stored["status"]["devices"] == devices
