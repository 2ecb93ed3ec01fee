"""What an API server lets be changed of a pod at a scheduling gate: gates go, node terms narrow."""

from typing import Any

import pytest

from gpu import ports
from gpu.cluster import errors
from gpu.objects import kinds
from tests.contract.cases import CASES, case

__all__ = ["CASES"]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GATE = {"name": "example.org/gate"}
HERE = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
TERM: dict[str, Any] = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}


def a_pod(namespace: str, *terms: dict[str, Any], gates: bool = True) -> dict[str, Any]:
    containers = [{"name": "one", "image": "none.invalid/none"}]
    spec: dict[str, Any] = {"containers": containers, "automountServiceAccountToken": False}
    spec |= {"schedulingGates": [GATE]} if gates else {}
    spec |= {"affinity": affinity(*terms)} if terms else {}
    return {"metadata": {"name": "one", "namespace": namespace}, "spec": spec}


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


async def patched(api: Any, ns: str, **spec: Any) -> dict[str, Any]:
    found = await api.patch(kinds.PODS, "one", {"spec": spec}, ns)
    return dict(found["spec"])


@case
async def gate_and_pin_of_a_pod_change_in_one_update(api: Any, ns: str) -> None:
    made = await api.create(kinds.PODS, a_pod(ns, TERM, TERM))
    pinned = {**TERM, "matchFields": [HERE]}
    patch = {
        "metadata": {"resourceVersion": made["metadata"]["resourceVersion"]},
        "spec": {"schedulingGates": None, "affinity": affinity(pinned, pinned)},
    }
    done = await api.patch(kinds.PODS, "one", patch, ns)
    assert "schedulingGates" not in done["spec"]
    assert done["spec"]["affinity"] == affinity(pinned, pinned)
    with pytest.raises(errors.Conflict):
        await api.patch(kinds.PODS, "one", patch, ns)


@case
async def one_gate_of_a_pod_goes_by_name_and_its_node_terms_are_replaced(api: Any, ns: str) -> None:
    """By the strategic merge patch that a launcher is pinned with; the version it was decided on counts."""
    body = a_pod(ns, TERM, TERM)
    body["spec"]["schedulingGates"] = [{"name": "example.org/other"}, GATE]
    made = await api.create(kinds.PODS, body)
    pinned = {**TERM, "matchFields": [HERE]}
    patch = {
        "metadata": {
            "uid": made["metadata"]["uid"],
            "resourceVersion": made["metadata"]["resourceVersion"],
            "annotations": {"example.org/term": "7"},
        },
        "spec": {
            "schedulingGates": [{"$patch": "delete", **GATE}],
            "affinity": affinity(pinned, pinned),
        },
    }
    done = await api.patch(kinds.PODS, "one", patch, ns, content_type=ports.STRATEGIC_PATCH)
    assert done["spec"]["schedulingGates"] == [{"name": "example.org/other"}]
    assert done["spec"]["affinity"] == affinity(pinned, pinned)
    assert done["metadata"]["annotations"] == {"example.org/term": "7"}
    with pytest.raises(errors.Conflict):
        await api.patch(kinds.PODS, "one", patch, ns, content_type=ports.STRATEGIC_PATCH)
    version = {"resourceVersion": done["metadata"]["resourceVersion"]}
    last = {"schedulingGates": [{"$patch": "delete", "name": "example.org/other"}]}
    rest = {"metadata": version, "spec": last}
    done = await api.patch(kinds.PODS, "one", rest, ns, content_type=ports.STRATEGIC_PATCH)
    assert not done["spec"].get("schedulingGates")


@case
async def a_pin_of_a_pod_that_was_made_anew_is_a_conflict(api: Any, ns: str) -> None:
    made = await api.create(kinds.PODS, a_pod(ns, TERM))
    await api.delete(kinds.PODS, "one", ns)
    await api.create(kinds.PODS, a_pod(ns, TERM))
    decided_on = {name: made["metadata"][name] for name in ("uid", "resourceVersion")}
    patch = {
        "metadata": decided_on,
        "spec": {"schedulingGates": [{"$patch": "delete", **GATE}]},
    }
    with pytest.raises(errors.Conflict):
        await api.patch(kinds.PODS, "one", patch, ns, content_type=ports.STRATEGIC_PATCH)


@case
async def pod_without_node_terms_is_given_one(api: Any, ns: str) -> None:
    await api.create(kinds.PODS, a_pod(ns))
    found = await patched(api, ns, affinity=affinity({"matchFields": [HERE]}))
    assert found["affinity"] == affinity({"matchFields": [HERE]})


@case
async def node_terms_of_a_gated_pod_are_neither_more_nor_wider(api: Any, ns: str) -> None:
    await api.create(kinds.PODS, a_pod(ns, TERM))
    for terms in ((TERM, {"matchFields": [HERE]}), ({"matchFields": [HERE]},)):
        with pytest.raises(errors.Invalid):
            await patched(api, ns, affinity=affinity(*terms))


@case
async def pod_past_its_gates_is_neither_pinned_nor_gated(api: Any, ns: str) -> None:
    await api.create(kinds.PODS, a_pod(ns, gates=False))
    with pytest.raises(errors.Invalid):
        await patched(api, ns, affinity=affinity({"matchFields": [HERE]}))
    with pytest.raises(errors.Invalid):
        await patched(api, ns, schedulingGates=[GATE])
